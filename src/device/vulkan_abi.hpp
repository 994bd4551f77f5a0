// SPDX-License-Identifier: Apache-2.0
// The few Vulkan 1.1 structures, constants and functions that mapped.cpp needs, declared by hand so
// that no Vulkan SDK is needed to build. They are Vulkan's published binary interface; a test
// compares them with vulkan.h where that is installed. Names are Vulkan's without the Vk prefix.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen::gpu::vk {

using Result = int32_t; // 0 is success, negative an error
using Flags = uint32_t;
using Instance = struct Instance_t*;
using PhysicalDevice = struct PhysicalDevice_t*;
using Device = struct Device_t*;
using DeviceMemory = struct DeviceMemory_t*;
using AnyFunction = void (*)();

inline constexpr Result ok = 0;
inline constexpr Result incomplete = 5; // the list was longer than the space for it
inline constexpr uint32_t version_1_1 = (1u << 22) | (1u << 12);
inline constexpr Flags memory_device_local = 1;
inline constexpr Flags memory_host_visible = 2;
inline constexpr Flags memory_host_coherent = 4;
inline constexpr Flags handle_opaque_fd = 1;
inline constexpr const char* external_memory_fd = "VK_KHR_external_memory_fd";

enum class Type : int32_t { // VkStructureType
    application_info = 0,
    instance_create_info = 1,
    device_queue_create_info = 2,
    device_create_info = 3,
    memory_allocate_info = 5,
    physical_device_properties_2 = 1000059001,
    physical_device_id_properties = 1000071004,
    export_memory_allocate_info = 1000072002,
    memory_get_fd_info = 1000074002,
};

struct ApplicationInfo {
    Type type = Type::application_info;
    const void* next = nullptr;
    const char* application_name = nullptr;
    uint32_t application_version = 0;
    const char* engine_name = nullptr;
    uint32_t engine_version = 0;
    uint32_t api_version = version_1_1;
};

struct InstanceCreateInfo {
    Type type = Type::instance_create_info;
    const void* next = nullptr;
    Flags flags = 0;
    const ApplicationInfo* application = nullptr;
    uint32_t layer_count = 0;
    const char* const* layers = nullptr;
    uint32_t extension_count = 0;
    const char* const* extensions = nullptr;
};

struct PhysicalDeviceIDProperties {
    Type type = Type::physical_device_id_properties;
    void* next = nullptr;
    uint8_t device_uuid[16] = {};
    uint8_t driver_uuid[16] = {};
    uint8_t device_luid[8] = {};
    uint32_t device_node_mask = 0;
    uint32_t device_luid_valid = 0;
};

struct PhysicalDeviceProperties2 {
    Type type = Type::physical_device_properties_2;
    void* next = nullptr;
    uint32_t api_version = 0;
    uint32_t driver_version = 0;
    uint32_t vendor_id = 0;
    uint32_t device_id = 0;
    int32_t device_type = 0;
    char device_name[256] = {};
    uint8_t pipeline_cache_uuid[16] = {};
    alignas(8) unsigned char limits[504] = {};
    uint32_t sparse_properties[5] = {};
};

struct MemoryType {
    Flags flags;
    uint32_t heap;
};

struct MemoryHeap {
    uint64_t size;
    Flags flags;
};

struct PhysicalDeviceMemoryProperties {
    uint32_t type_count = 0;
    MemoryType types[32] = {};
    uint32_t heap_count = 0;
    MemoryHeap heaps[16] = {};
};

struct DeviceQueueCreateInfo {
    Type type = Type::device_queue_create_info;
    const void* next = nullptr;
    Flags flags = 0;
    uint32_t family = 0;
    uint32_t count = 0;
    const float* priorities = nullptr;
};

struct DeviceCreateInfo {
    Type type = Type::device_create_info;
    const void* next = nullptr;
    Flags flags = 0;
    uint32_t queue_count = 0;
    const DeviceQueueCreateInfo* queues = nullptr;
    uint32_t layer_count = 0;
    const char* const* layers = nullptr;
    uint32_t extension_count = 0;
    const char* const* extensions = nullptr;
    const void* features = nullptr;
};

struct ExportMemoryAllocateInfo {
    Type type = Type::export_memory_allocate_info;
    const void* next = nullptr;
    Flags handle_types = handle_opaque_fd;
};

struct MemoryAllocateInfo {
    Type type = Type::memory_allocate_info;
    const void* next = nullptr;
    uint64_t size = 0;
    uint32_t type_index = 0;
};

struct MemoryGetFdInfo {
    Type type = Type::memory_get_fd_info;
    const void* next = nullptr;
    DeviceMemory memory = nullptr;
    Flags handle_type = handle_opaque_fd;
};

// Allocation callbacks are always nullptr here.
using GetInstanceProcAddr = AnyFunction (*)(Instance, const char* name);
using GetDeviceProcAddr = AnyFunction (*)(Device, const char* name);
using NegotiateInterface = Result (*)(uint32_t* version); // of a driver loaded without the loader
using CreateInstance = Result (*)(const InstanceCreateInfo*, const void* callbacks, Instance*);
using DestroyInstance = void (*)(Instance, const void* callbacks);
using EnumeratePhysicalDevices = Result (*)(Instance, uint32_t* count, PhysicalDevice*);
using GetPhysicalDeviceProperties2 = void (*)(PhysicalDevice, PhysicalDeviceProperties2*);
using GetPhysicalDeviceMemoryProperties = void (*)(PhysicalDevice, PhysicalDeviceMemoryProperties*);
using CreateDevice = Result (*)(PhysicalDevice, const DeviceCreateInfo*, const void* callbacks,
                                Device*);
using DestroyDevice = void (*)(Device, const void* callbacks);
using AllocateMemory = Result (*)(Device, const MemoryAllocateInfo*, const void* callbacks,
                                  DeviceMemory*);
using FreeMemory = void (*)(Device, DeviceMemory, const void* callbacks);
using MapMemory = Result (*)(Device, DeviceMemory, uint64_t offset, uint64_t size, Flags, void**);
using UnmapMemory = void (*)(Device, DeviceMemory);
using GetMemoryFd = Result (*)(Device, const MemoryGetFdInfo*, int* fd);

} // namespace denizen::gpu::vk
