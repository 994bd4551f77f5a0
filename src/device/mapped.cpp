// SPDX-License-Identifier: Apache-2.0
#include "mapped.hpp"

#include "vulkan.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

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

} // namespace

// Owns everything from the Vulkan device to the CUDA mapping; members are filled in the order of
// the steps, and the destructor undoes whatever is there in the opposite order.
struct MappedMemory::Parts {
    std::shared_ptr<const VulkanDevice> vulkan;
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
        if (host != nullptr) vulkan->of_device<vk::UnmapMemory>("vkUnmapMemory")(*vulkan, memory);
        if (memory != nullptr)
            vulkan->of_device<vk::FreeMemory>("vkFreeMemory")(*vulkan, memory, nullptr);
        host = nullptr;
        memory = nullptr;
    }

    // Each step returns an empty string or why it failed, or throws the reason.
    std::string allocate(std::size_t bytes);
    std::string import(int ordinal);
    std::string verify();
};

namespace {

std::string cuda_error(const char* call, Result result)
{
    const char* name = nullptr;
    driver().get_error_name(result, &name);
    return std::string(call) + ": " + (name != nullptr ? name : "unknown CUDA error");
}

std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

} // namespace

std::string MappedMemory::Parts::allocate(std::size_t bytes)
{
    constexpr vk::Flags wanted =
        vk::memory_device_local | vk::memory_host_visible | vk::memory_host_coherent;
    size = (std::max<std::size_t>(bytes, 1) + granule - 1) / granule * granule;
    vk::PhysicalDeviceMemoryProperties kinds;
    vulkan->of_instance<vk::GetPhysicalDeviceMemoryProperties>(
        "vkGetPhysicalDeviceMemoryProperties")(vulkan->physical(), &kinds);
    const auto allocate = vulkan->of_device<vk::AllocateMemory>("vkAllocateMemory");
    const vk::ExportMemoryAllocateInfo exported;
    vk::MemoryAllocateInfo info;
    info.next = &exported;
    info.size = size;
    std::string problem = "the GPU offers no device-local memory that the CPU can map";
    for (uint32_t i = 0; i < kinds.type_count && memory == nullptr; ++i) {
        if ((kinds.types[i].flags & wanted) != wanted) continue;
        info.type_index = i;
        if (const vk::Result r = allocate(*vulkan, &info, nullptr, &memory); r != vk::ok) {
            memory = nullptr;
            problem = vulkan_error("vkAllocateMemory", r) + " for " + mebibytes(size) + " of the " +
                      mebibytes(kinds.heaps[kinds.types[i].heap].size) +
                      " that the CPU can map (BAR)";
        }
    }
    if (memory == nullptr) return problem;
    void* address = nullptr;
    const auto map = vulkan->of_device<vk::MapMemory>("vkMapMemory");
    if (const vk::Result r = map(*vulkan, memory, 0, size, 0, &address); r != vk::ok)
        return vulkan_error("vkMapMemory", r);
    host = static_cast<std::byte*>(address);
    return {};
}

std::string MappedMemory::Parts::import(int ordinal)
{
    const auto get_fd = vulkan->of_device<vk::GetMemoryFd>("vkGetMemoryFdKHR");
    if (get_fd == nullptr) return "the Vulkan driver lacks vkGetMemoryFdKHR";
    const Driver& cu = driver();
    context = PrimaryContext(device_info(ordinal));
    const ContextScope scope(context);
    vk::MemoryGetFdInfo info;
    info.memory = memory;
    ExternalMemoryHandleDesc handle;
    handle.size = size;
    if (const vk::Result r = get_fd(*vulkan, &info, &handle.handle.fd); r != vk::ok)
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

bool mapped_memory_wanted()
{
    const char* wish = std::getenv("DENIZEN_MAPPED");
    return wish == nullptr || std::strcmp(wish, "0") != 0;
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
    if (!mapped_memory_wanted()) {
        problem = "switched off by DENIZEN_MAPPED=0";
    } else if (!driver_present()) {
        problem = driver_problem();
    }
    auto parts = std::make_unique<Parts>();
    try {
        if (problem.empty()) parts->vulkan = VulkanDevice::of(uuid, problem);
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

} // namespace denizen::gpu
