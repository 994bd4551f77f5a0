// SPDX-License-Identifier: Apache-2.0
#include "mapped.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "vulkan_abi.hpp"
#include <denizen/base/error.hpp>
#include <denizen/device/primary_context.hpp>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace denizen::gpu {
namespace {

constexpr std::size_t granule = std::size_t{2} << 20; // the GPU's large page

void drain_write_combining()
{
#if defined(__x86_64__)
    _mm_sfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

template <class F>
F as(vk::AnyFunction f)
{
    return reinterpret_cast<F>(f);
}

// One way into Vulkan: the loader, or a driver without the loader.
struct Entry {
    std::string name;
    vk::GetInstanceProcAddr get = nullptr;
};

Entry open_entry(const std::string& library)
{
    // Never closed: drivers register exit handlers and thread-local destructors.
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return {};
    if (void* negotiate = dlsym(handle, "vk_icdNegotiateLoaderICDInterfaceVersion")) {
        uint32_t version = 5;
        reinterpret_cast<vk::NegotiateInterface>(negotiate)(&version);
    }
    void* get = dlsym(handle, "vk_icdGetInstanceProcAddr");
    if (get == nullptr) get = dlsym(handle, "vkGetInstanceProcAddr");
    return {library, reinterpret_cast<vk::GetInstanceProcAddr>(get)};
}

// In the order to be tried. Only NVIDIA's driver is loaded without the loader: another vendor's
// cannot hold the CUDA device.
std::vector<std::string> entry_libraries()
{
    std::vector<std::string> libraries{"libvulkan.so.1"};
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
        if (library.find("nvidia") != std::string::npos) libraries.push_back(library);
    }
    libraries.emplace_back("libEGL_nvidia.so.0");
    libraries.emplace_back("libGLX_nvidia.so.0");
    return libraries;
}

} // namespace

// Owns everything from the Vulkan instance to the CUDA mapping; members are filled in the order of
// the create_* calls, and the destructor undoes whatever is there in the opposite order.
struct MappedMemory::Parts {
    vk::GetInstanceProcAddr instance_entry = nullptr;
    vk::GetDeviceProcAddr device_entry = nullptr;
    vk::Instance instance = nullptr;
    vk::PhysicalDevice physical = nullptr;
    vk::Device device = nullptr;
    vk::DeviceMemory memory = nullptr;
    std::byte* host = nullptr;
    std::size_t size = 0;
    PrimaryContext context;
    ExternalMemory external = nullptr;
    DevicePtr pointer = 0;

    Parts() = default;
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;

    ~Parts()
    {
        free_cuda();
        free_vulkan();
    }

    template <class F>
    F from_instance(const char* name) const
    {
        return as<F>(instance_entry(instance, name));
    }

    template <class F>
    F from_device(const char* name) const
    {
        return as<F>(device_entry(device, name));
    }

    void free_cuda()
    {
        // The mapping first, then the import; errors have nobody to go to.
        if (external != nullptr && driver().ctx_push_current(context) == success) {
            const Driver& cu = driver();
            if (pointer != 0) cu.mem_free(pointer);
            cu.destroy_external_memory(external);
            Context popped = nullptr;
            cu.ctx_pop_current(&popped);
        }
        context.release();
        pointer = 0;
        external = nullptr;
    }

    void free_vulkan()
    {
        if (host != nullptr) from_device<vk::UnmapMemory>("vkUnmapMemory")(device, memory);
        if (memory != nullptr) from_device<vk::FreeMemory>("vkFreeMemory")(device, memory, nullptr);
        if (device != nullptr) from_device<vk::DestroyDevice>("vkDestroyDevice")(device, nullptr);
        if (instance != nullptr)
            from_instance<vk::DestroyInstance>("vkDestroyInstance")(instance, nullptr);
        host = nullptr;
        memory = nullptr;
        device = nullptr;
        instance = nullptr;
    }

    // Each step returns an empty string or why it failed, or throws the reason.
    std::string find_device(const std::vector<std::string>& libraries, const Uuid& uuid);
    bool find_device_through(const Entry& entry, const Uuid& uuid, std::string& seen);
    std::string create_device();
    std::string allocate(std::size_t bytes);
    std::string import(int ordinal);
    std::string verify();
};

namespace {

std::string vulkan_error(const char* call, vk::Result result)
{
    return std::string(call) + " failed with VkResult " + std::to_string(result);
}

std::string cuda_error(const char* call, Result result)
{
    const char* name = nullptr;
    driver().get_error_name(result, &name);
    return std::string(call) + ": " + (name != nullptr ? name : "unknown CUDA error");
}

std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

} // namespace

bool MappedMemory::Parts::find_device_through(const Entry& entry, const Uuid& uuid,
                                              std::string& seen)
{
    instance_entry = entry.get;
    const auto create = from_instance<vk::CreateInstance>("vkCreateInstance");
    const vk::ApplicationInfo application;
    vk::InstanceCreateInfo info;
    info.application = &application;
    if (create == nullptr || create(&info, nullptr, &instance) != vk::ok) {
        seen += entry.name + ": no instance; ";
        instance = nullptr;
        return false;
    }
    const auto enumerate =
        from_instance<vk::EnumeratePhysicalDevices>("vkEnumeratePhysicalDevices");
    const auto properties =
        from_instance<vk::GetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2");
    vk::PhysicalDevice devices[32];
    uint32_t count = 32;
    if (enumerate != nullptr && properties != nullptr) {
        const vk::Result result = enumerate(instance, &count, devices);
        if (result != vk::ok && result != vk::incomplete) count = 0;
        for (uint32_t i = 0; i < count; ++i) {
            vk::PhysicalDeviceIDProperties id;
            vk::PhysicalDeviceProperties2 all;
            all.next = &id;
            properties(devices[i], &all);
            if (std::memcmp(id.device_uuid, uuid.bytes.data(), sizeof id.device_uuid) == 0) {
                physical = devices[i];
                return true;
            }
        }
    }
    seen += entry.name + ": " + std::to_string(count) + " devices, none is this GPU; ";
    free_vulkan();
    return false;
}

std::string MappedMemory::Parts::find_device(const std::vector<std::string>& libraries,
                                             const Uuid& uuid)
{
    std::string seen;
    for (const std::string& library : libraries) {
        const Entry entry = open_entry(library);
        if (entry.get != nullptr && find_device_through(entry, uuid, seen)) return {};
    }
    if (seen.empty()) return "no Vulkan loader or driver (libvulkan.so.1, libEGL_nvidia.so.0)";
    return "Vulkan does not see " + uuid.text() + " (" + seen.substr(0, seen.size() - 2) + ")";
}

std::string MappedMemory::Parts::create_device()
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
    const auto create = from_instance<vk::CreateDevice>("vkCreateDevice");
    if (const vk::Result r = create(physical, &info, nullptr, &device); r != vk::ok) {
        device = nullptr;
        return vulkan_error("vkCreateDevice", r);
    }
    device_entry = from_instance<vk::GetDeviceProcAddr>("vkGetDeviceProcAddr");
    return {};
}

std::string MappedMemory::Parts::allocate(std::size_t bytes)
{
    constexpr vk::Flags wanted =
        vk::memory_device_local | vk::memory_host_visible | vk::memory_host_coherent;
    size = (std::max<std::size_t>(bytes, 1) + granule - 1) / granule * granule;
    vk::PhysicalDeviceMemoryProperties kinds;
    from_instance<vk::GetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(
        physical, &kinds);
    const auto allocate = from_device<vk::AllocateMemory>("vkAllocateMemory");
    const vk::ExportMemoryAllocateInfo exported;
    vk::MemoryAllocateInfo info;
    info.next = &exported;
    info.size = size;
    std::string problem = "the GPU offers no device-local memory that the CPU can map";
    for (uint32_t i = 0; i < kinds.type_count && memory == nullptr; ++i) {
        if ((kinds.types[i].flags & wanted) != wanted) continue;
        info.type_index = i;
        if (const vk::Result r = allocate(device, &info, nullptr, &memory); r != vk::ok) {
            memory = nullptr;
            problem = vulkan_error("vkAllocateMemory", r) + " for " + mebibytes(size) + " of the " +
                      mebibytes(kinds.heaps[kinds.types[i].heap].size) +
                      " that the CPU can map (BAR)";
        }
    }
    if (memory == nullptr) return problem;
    void* address = nullptr;
    const auto map = from_device<vk::MapMemory>("vkMapMemory");
    if (const vk::Result r = map(device, memory, 0, size, 0, &address); r != vk::ok)
        return vulkan_error("vkMapMemory", r);
    host = static_cast<std::byte*>(address);
    return {};
}

std::string MappedMemory::Parts::import(int ordinal)
{
    const auto get_fd = from_device<vk::GetMemoryFd>("vkGetMemoryFdKHR");
    if (get_fd == nullptr) return "the Vulkan driver lacks vkGetMemoryFdKHR";
    const Driver& cu = driver();
    context = PrimaryContext(device_info(ordinal));
    const ContextScope scope(context);
    vk::MemoryGetFdInfo info;
    info.memory = memory;
    ExternalMemoryHandleDesc handle;
    handle.size = size;
    if (const vk::Result r = get_fd(device, &info, &handle.handle.fd); r != vk::ok)
        return vulkan_error("vkGetMemoryFdKHR", r);
    if (const Result r = cu.import_external_memory(&external, &handle); r != success) {
        close(handle.handle.fd); // the driver owns it only after success
        external = nullptr;
        return cuda_error("cuImportExternalMemory", r);
    }
    ExternalMemoryBufferDesc buffer;
    buffer.size = size;
    if (const Result r = cu.external_memory_get_mapped_buffer(&pointer, external, &buffer);
        r != success) {
        pointer = 0;
        return cuda_error("cuExternalMemoryGetMappedBuffer", r);
    }
    return {};
}

// Proves that both mappings are the same bytes, and leaves them zero. A stream of its own: the NULL
// stream could wait for another resident kernel of this process.
std::string MappedMemory::Parts::verify()
{
    const Driver& cu = driver();
    const ContextScope scope(context);
    Stream stream = nullptr;
    if (const Result r = cu.stream_create_with_priority(&stream, stream_non_blocking, 0);
        r != success)
        return cuda_error("cuStreamCreate", r);
    std::vector<std::uint32_t> expected(size / 4);
    std::vector<std::uint32_t> found(size / 4);
    std::string problem;
    for (const std::uint32_t factor : {2654435761u, 0u}) {
        for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = static_cast<std::uint32_t>(i + 1) * factor;
        std::memcpy(host, expected.data(), size);
        drain_write_combining();
        Result r = cu.memcpy_dtoh_async(found.data(), pointer, size, stream);
        if (r == success) r = cu.stream_synchronize(stream);
        if (r != success) {
            problem = cuda_error("cuMemcpyDtoH", r);
        } else if (found != expected) {
            problem = "what the CPU wrote did not reach the GPU";
        }
        if (!problem.empty()) break;
    }
    cu.stream_destroy(stream);
    return problem;
}

MappedMemory::MappedMemory(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MappedMemory::MappedMemory(MappedMemory&&) noexcept = default;
MappedMemory& MappedMemory::operator=(MappedMemory&&) noexcept = default;
MappedMemory::~MappedMemory() = default;

std::byte* MappedMemory::host() const { return parts_->host; }
DevicePtr MappedMemory::device() const { return parts_->pointer; }
std::size_t MappedMemory::size() const { return parts_->size; }

std::optional<MappedMemory> MappedMemory::try_create(int ordinal, const Uuid& uuid,
                                                     std::size_t bytes, std::string* why_not)
{
    std::string problem;
    const char* wish = std::getenv("DENIZEN_MAPPED");
    if (wish != nullptr && std::strcmp(wish, "0") == 0) {
        problem = "switched off by DENIZEN_MAPPED=0";
    } else if (!driver_present()) {
        problem = driver_problem();
    }
    auto parts = std::make_unique<Parts>();
    try {
        if (problem.empty()) problem = parts->find_device(entry_libraries(), uuid);
        if (problem.empty()) problem = parts->create_device();
        if (problem.empty()) problem = parts->allocate(bytes);
        if (problem.empty()) problem = parts->import(ordinal);
        if (problem.empty()) problem = parts->verify();
    } catch (const Error& error) {
        problem = error.what();
    }
    if (problem.empty()) return MappedMemory(std::move(parts));
    if (why_not != nullptr) *why_not = problem;
    return std::nullopt;
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
