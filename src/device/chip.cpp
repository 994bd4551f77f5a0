// SPDX-License-Identifier: Apache-2.0
#include <denizen/device/chip.hpp>

#include "mapped.hpp"
#include "partition.hpp"

#include <denizen/base/error.hpp>

#include <cstring>
#include <utility>

namespace denizen::gpu {

void check_capability(const DeviceInfo& info, int major, const std::string& needs)
{
    if (info.cooperative_launch && info.major >= major) return;
    throw Error(Errc::no_device, info.name + " has compute capability " +
                                     std::to_string(info.major) + "." + std::to_string(info.minor) +
                                     "; " + needs + " or newer");
}

Chip::Chip(DeviceInfo info, std::string what, StreamPriority priority, uint32_t partition)
    : info_(std::move(info)), what_(std::move(what)), context_(info_)
{
    const ContextScope scope(context_);
    if (partition != 0) partition_ = std::make_unique<Partition>(info_, partition);
    open_stream(priority);
}

Chip::~Chip()
{
    if (context_ == nullptr) return; // abandoned
    try {
        const ContextScope scope(context_);
        const Driver& cu = driver();
        mapped_.clear();
        for (void* const memory : host_) cu.mem_free_host(memory);
        for (const DevicePtr memory : memory_) cu.mem_free(memory);
        for (const Module module : modules_) cu.module_unload(module);
        for (const Stream stream : streams_) cu.stream_destroy(stream);
    } catch (const Error&) { // a dead context: nothing is left to give back
        abandon();
    }
}

void Chip::abandon() noexcept
{
    for (auto& memory : mapped_) static_cast<void>(memory.release());
    static_cast<void>(partition_.release());
    context_.abandon();
}

void Chip::close(std::unique_ptr<Chip>& chip)
{
    // To free memory waits for all that runs on the GPU: where a resident program does not leave,
    // what the chip has stays until the process ends.
    if (chip != nullptr && !without_residents([&] { chip.reset(); })) {
        chip->abandon();
        chip.reset();
    }
}

void Chip::leave_partition()
{
    if (partition_ == nullptr) return;
    without_residents([&] {
        const ContextScope scope(context_);
        Stream other = nullptr;
        check(driver().stream_create_with_priority(&other, stream_non_blocking, 0),
              "cuStreamCreateWithPriority");
        check(driver().stream_destroy(std::exchange(streams_[0], other)), "cuStreamDestroy");
        partition_.reset();
    });
}

Stream Chip::open_stream(StreamPriority priority)
{
    int least = 0;
    int greatest = 0;
    if (priority == StreamPriority::highest) {
        check(driver().ctx_get_stream_priority_range(&least, &greatest),
              "cuCtxGetStreamPriorityRange");
    }
    Stream stream = nullptr;
    if (partition_ != nullptr && streams_.empty()) {
        stream = partition_->open_stream(greatest);
    } else {
        check(driver().stream_create_with_priority(&stream, stream_non_blocking, greatest),
              "cuStreamCreateWithPriority");
    }
    streams_.push_back(stream);
    return stream;
}

Module Chip::load_module(const std::vector<char>& cubin, const std::string& what)
{
    Module module = nullptr;
    check(driver().module_load_data(&module, cubin.data()), "cuModuleLoadData", what);
    modules_.push_back(module);
    return module;
}

Module Chip::load(const Code& code, const std::string& prefix,
                  const std::vector<std::string>& names, const std::string& what, bool all)
{
    const Module module = code.cubin.empty() ? nullptr : load_module(code.cubin, what);
    for (const std::string& name : names) {
        Function function = nullptr;
        if (module == nullptr) {
            function = static_cast<Function>(code.function(name));
        } else {
            const Result found =
                driver().module_get_function(&function, module, (prefix + name).c_str());
            if (found != success && !all) continue;
            check(found, "cuModuleGetFunction", prefix + name);
        }
        functions_[name] = function;
    }
    return module;
}

void Chip::allow_shared(const std::string& name, size_t bytes) const
{
    check(driver().func_set_attribute(function(name), func_max_dynamic_shared,
                                      static_cast<int>(bytes)),
          "cuFuncSetAttribute", "dynamic shared memory");
}

uint32_t Chip::allow(const std::string& name, unsigned threads, size_t shared_bytes) const
{
    if (shared_bytes > info_.shared_bytes) return 0;
    allow_shared(name, shared_bytes);
    int blocks = 0;
    check(driver().occupancy_max_active_blocks(&blocks, function(name), static_cast<int>(threads),
                                               shared_bytes),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor", name);
    return static_cast<uint32_t>(blocks * info_.sm_count);
}

Result Chip::try_take(DevicePtr& memory, size_t bytes)
{
    const Result result = driver().mem_alloc(&memory, bytes);
    if (result == success) memory_.push_back(memory);
    return result;
}

void* Chip::take_bytes(size_t bytes)
{
    DevicePtr memory = 0;
    const Result result = try_take(memory, bytes);
    if (result == error_out_of_memory) {
        throw Error(Errc::exhausted, "no " + std::to_string(bytes >> 20) + " MiB left on " +
                                         info_.name + " for " + what_);
    }
    check(result, "cuMemAlloc");
    return reinterpret_cast<void*>(memory);
}

void Chip::free(const void* memory)
{
    if (std::erase(memory_, reinterpret_cast<DevicePtr>(memory)) != 0) {
        driver().mem_free(reinterpret_cast<DevicePtr>(memory));
    }
}

void* Chip::take_host(size_t bytes, const std::string& what)
{
    void* memory = nullptr;
    check(driver().mem_host_alloc(&memory, bytes, host_alloc_portable | host_alloc_device_map),
          "cuMemHostAlloc", what);
    host_.push_back(memory);
    std::memset(memory, 0, bytes);
    return memory;
}

void Chip::free_host(void* memory)
{
    if (std::erase(host_, memory) != 0) driver().mem_free_host(memory);
}

std::shared_ptr<void> Chip::pinned(size_t bytes) const
{
    void* memory = nullptr;
    check(driver().mem_host_alloc(&memory, bytes, host_alloc_portable | host_alloc_device_map),
          "cuMemHostAlloc", std::to_string(bytes >> 10) + " KiB");
    std::memset(memory, 0, bytes);
    return {memory, [this](void* p) {
                try {
                    without_residents([&] {
                        const ContextScope scope(context_);
                        driver().mem_free_host(p);
                    });
                } catch (const Error&) { // a dead context
                }
            }};
}

const MappedMemory* Chip::map(size_t bytes, std::string& why_not)
{
    auto made = MappedMemory::try_create(info_.ordinal, info_.uuid, bytes, &why_not);
    if (!made) return nullptr;
    return mapped_.emplace_back(std::make_unique<MappedMemory>(std::move(*made))).get();
}

} // namespace denizen::gpu
