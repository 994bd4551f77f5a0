// SPDX-License-Identifier: Apache-2.0
// A GPU as Vulkan's device, which allocates memory that the CPU can map (mapped.hpp). No window, no
// queue in use, and no Vulkan SDK: the driver is loaded when it is asked for.
#pragma once

#include "vulkan_abi.hpp"
#include <denizen/device/driver.hpp>

#include <memory>
#include <string>

namespace denizen::gpu {

class VulkanDevice {
public:
    // The GPU with this UUID. One for all that ask while somebody has it: made anew it takes the
    // driver about as long as a CUDA context, and it does not make both at a time. Null, with one
    // line in `why_not`: no Vulkan driver, or it does not see this GPU.
    static std::shared_ptr<const VulkanDevice> of(const Uuid& uuid, std::string& why_not);

    ~VulkanDevice();
    VulkanDevice(const VulkanDevice&) = delete;
    VulkanDevice& operator=(const VulkanDevice&) = delete;

    vk::PhysicalDevice physical() const { return physical_; }
    operator vk::Device() const { return device_; }

    template <class F>
    F of_instance(const char* name) const
    {
        return reinterpret_cast<F>(instance_entry_(instance_, name));
    }

    template <class F>
    F of_device(const char* name) const
    {
        return reinterpret_cast<F>(device_entry_(device_, name));
    }

private:
    VulkanDevice() = default;

    // True if the GPU is among those that this library shows; what was seen instead in `seen`.
    bool find(const std::string& library, const Uuid& uuid, std::string& seen);
    std::string open(); // empty, or why it failed
    void close();

    vk::GetInstanceProcAddr instance_entry_ = nullptr;
    vk::GetDeviceProcAddr device_entry_ = nullptr;
    vk::Instance instance_ = nullptr;
    vk::PhysicalDevice physical_ = nullptr;
    vk::Device device_ = nullptr;
};

std::string vulkan_error(const char* call, vk::Result result);

// The "library_path" of a Vulkan driver manifest (ICD JSON), resolved against the manifest's folder
// as the Vulkan loader does it; empty if the file is not there or names none.
std::string icd_library(const std::string& manifest);

} // namespace denizen::gpu
