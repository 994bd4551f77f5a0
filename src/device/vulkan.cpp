// SPDX-License-Identifier: Apache-2.0
#include "vulkan.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

namespace denizen::gpu {
namespace {

// Null where there is no such library, or it is none of Vulkan.
vk::GetInstanceProcAddr entry_of(const std::string& library)
{
    // Never closed: drivers register exit handlers and thread-local destructors.
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    if (void* negotiate = dlsym(handle, "vk_icdNegotiateLoaderICDInterfaceVersion")) {
        uint32_t version = 5;
        reinterpret_cast<vk::NegotiateInterface>(negotiate)(&version);
    }
    void* get = dlsym(handle, "vk_icdGetInstanceProcAddr");
    if (get == nullptr) get = dlsym(handle, "vkGetInstanceProcAddr");
    return reinterpret_cast<vk::GetInstanceProcAddr>(get);
}

// The loader, or a driver without the loader, in the order to be tried. Only NVIDIA's driver is
// loaded without the loader: another vendor's cannot hold the CUDA device.
std::vector<std::string> libraries()
{
    std::vector<std::string> all{"libvulkan.so.1"};
    std::vector<std::string> manifests;
    for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
        const char* value = std::getenv(variable);
        std::string rest = value != nullptr ? value : "";
        while (!rest.empty()) {
            const std::size_t colon = std::min(rest.find(':'), rest.size());
            manifests.push_back(rest.substr(0, colon));
            rest.erase(0, std::min(colon + 1, rest.size()));
        }
    }
    for (const char* folder :
         {"/usr/local/nvidia/share/vulkan", "/etc/vulkan", "/usr/share/vulkan"})
        manifests.push_back(std::string(folder) + "/icd.d/nvidia_icd.json");
    for (const std::string& manifest : manifests) {
        const std::string library = icd_library(manifest);
        if (library.find("nvidia") != std::string::npos) all.push_back(library);
    }
    all.emplace_back("libEGL_nvidia.so.0");
    all.emplace_back("libGLX_nvidia.so.0");
    return all;
}

} // namespace

std::shared_ptr<const VulkanDevice> VulkanDevice::of(const Uuid& uuid, std::string& why_not)
{
    using Open = std::map<decltype(uuid.bytes), std::weak_ptr<const VulkanDevice>>;
    // Never destroyed: owners with static storage may still ask at exit.
    static auto& mutex = *new std::mutex;
    static auto& open = *new Open;
    const std::lock_guard guard(mutex);
    if (auto there = open[uuid.bytes].lock()) return there;
    const std::shared_ptr<VulkanDevice> made(new VulkanDevice);
    std::string seen;
    for (const std::string& library : libraries()) {
        if (!made->find(library, uuid, seen)) continue;
        why_not = made->open();
        if (!why_not.empty()) return nullptr;
        open[uuid.bytes] = made;
        return made;
    }
    if (seen.empty()) {
        why_not = "no Vulkan loader or driver (libvulkan.so.1, libEGL_nvidia.so.0)";
    } else {
        why_not =
            "Vulkan does not see " + uuid.text() + " (" + seen.substr(0, seen.size() - 2) + ")";
    }
    return nullptr;
}

bool VulkanDevice::find(const std::string& library, const Uuid& uuid, std::string& seen)
{
    instance_entry_ = entry_of(library);
    if (instance_entry_ == nullptr) return false;
    const auto create = of_instance<vk::CreateInstance>("vkCreateInstance");
    const vk::ApplicationInfo application;
    vk::InstanceCreateInfo info;
    info.application = &application;
    if (create == nullptr || create(&info, nullptr, &instance_) != vk::ok) {
        seen += library + ": no instance; ";
        instance_ = nullptr;
        return false;
    }
    const auto enumerate = of_instance<vk::EnumeratePhysicalDevices>("vkEnumeratePhysicalDevices");
    const auto properties =
        of_instance<vk::GetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2");
    vk::PhysicalDevice devices[32];
    uint32_t count = 32;
    if (enumerate != nullptr && properties != nullptr) {
        const vk::Result result = enumerate(instance_, &count, devices);
        if (result != vk::ok && result != vk::incomplete) count = 0;
        for (uint32_t i = 0; i < count; ++i) {
            vk::PhysicalDeviceIDProperties id;
            vk::PhysicalDeviceProperties2 all;
            all.next = &id;
            properties(devices[i], &all);
            if (std::memcmp(id.device_uuid, uuid.bytes.data(), sizeof id.device_uuid) == 0) {
                physical_ = devices[i];
                return true;
            }
        }
    }
    seen += library + ": " + std::to_string(count) + " devices, none is this GPU; ";
    close();
    return false;
}

std::string VulkanDevice::open()
{
    const float priority = 1;
    vk::DeviceQueueCreateInfo queue; // Vulkan wants one queue; it stays idle
    queue.count = 1;
    queue.priorities = &priority;
    vk::DeviceCreateInfo info;
    info.queue_count = 1;
    info.queues = &queue;
    info.extension_count = 1;
    info.extensions = &vk::external_memory_fd;
    const auto create = of_instance<vk::CreateDevice>("vkCreateDevice");
    if (const vk::Result r = create(physical_, &info, nullptr, &device_); r != vk::ok) {
        device_ = nullptr;
        return vulkan_error("vkCreateDevice", r);
    }
    device_entry_ = of_instance<vk::GetDeviceProcAddr>("vkGetDeviceProcAddr");
    return {};
}

void VulkanDevice::close()
{
    if (device_ != nullptr) of_device<vk::DestroyDevice>("vkDestroyDevice")(device_, nullptr);
    if (instance_ != nullptr)
        of_instance<vk::DestroyInstance>("vkDestroyInstance")(instance_, nullptr);
    device_ = nullptr;
    instance_ = nullptr;
}

VulkanDevice::~VulkanDevice() { close(); }

std::string vulkan_error(const char* call, vk::Result result)
{
    return std::string(call) + " failed with VkResult " + std::to_string(result);
}

std::string icd_library(const std::string& manifest)
{
    std::ifstream file(manifest);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string key = "\"library_path\"";
    const std::size_t at = text.find(key);
    if (at == std::string::npos) return {};
    const std::size_t colon = text.find(':', at + key.size());
    if (colon == std::string::npos) return {};
    const std::size_t first = text.find('"', colon);
    if (first == std::string::npos) return {};
    const std::size_t last = text.find('"', first + 1);
    if (last == std::string::npos) return {};
    const std::string path = text.substr(first + 1, last - first - 1);
    // A bare name goes to the dynamic loader; a relative path starts at the manifest's folder.
    if (path.find('/') == std::string::npos || path.front() == '/') return path;
    const std::size_t slash = manifest.rfind('/');
    return slash == std::string::npos ? path : manifest.substr(0, slash + 1) + path;
}

} // namespace denizen::gpu
