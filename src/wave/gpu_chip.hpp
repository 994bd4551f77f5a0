// SPDX-License-Identifier: Apache-2.0
// A GPU as the simulation uses it, through the driver: a stream, kernels by name, and memory that
// is given back together. Taking and freeing memory waits for what is resident: all calls are made
// while the resident programs of this process are off the GPU.
#pragma once

#include "../backend.hpp"
#include "../gpu/functions.hpp"
#include "../gpu/primary_context.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace denizen::wave {

class Chip {
public:
    explicit Chip(int ordinal) : driver_(gpu::driver()), info_(gpu::device_info(ordinal))
    {
        using namespace gpu;
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has compute capability " +
                                             std::to_string(info_.major) + "." +
                                             std::to_string(info_.minor) +
                                             "; the simulation needs 8.0 or newer");
        }
        context_ = PrimaryContext(info_);
        const ContextScope scope(context_);
        check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
              "cuStreamCreateWithPriority");
    }

    ~Chip()
    {
        try {
            const gpu::ContextScope scope(context_);
            for (const auto& [memory, bytes] : memory_) driver_.mem_free(memory);
            if (module_ != nullptr) driver_.module_unload(module_);
            driver_.stream_destroy(stream_);
        } catch (const Error&) { // a dead context: nothing is left to give back
        }
    }
    Chip(const Chip&) = delete;
    Chip& operator=(const Chip&) = delete;

    const gpu::Driver& driver() const { return driver_; }
    const gpu::DeviceInfo& info() const { return info_; }
    gpu::Context context() const { return context_; }
    gpu::Stream stream() const { return stream_; }
    gpu::Function function(const std::string& name) const { return functions_.at(name); }

    // Everything from here on: with the context of this GPU current (gpu::ContextScope).
    void load(const Code& code, const std::vector<std::string>& names)
    {
        functions_ = gpu::load_functions(code, module_, "denizen_wave_", names, "the wave's");
    }

    // Zero-filled.
    template <class U>
    U* take(size_t count)
    {
        gpu::DevicePtr memory = 0;
        const size_t bytes = std::max<size_t>(1, count) * sizeof(U);
        const gpu::Result result = driver_.mem_alloc(&memory, bytes);
        if (result == gpu::error_out_of_memory) {
            throw Error(Errc::exhausted, "no " + std::to_string(bytes >> 20) + " MiB left on " +
                                             info_.name + " for a simulation of so many cells");
        }
        gpu::check(result, "cuMemAlloc");
        memory_.emplace_back(memory, bytes);
        clear(reinterpret_cast<void*>(memory), bytes);
        return reinterpret_cast<U*>(memory);
    }

    void free(const void* memory)
    {
        const auto old = std::find_if(memory_.begin(), memory_.end(), [&](const auto& m) {
            return m.first == reinterpret_cast<gpu::DevicePtr>(memory);
        });
        if (old == memory_.end()) return;
        driver_.mem_free(old->first);
        memory_.erase(old);
    }

    // Grows `memory` to at least `count`, whose content is lost.
    template <class U>
    void reserve(U*& memory, size_t& have, size_t count)
    {
        if (count <= have) return;
        free(memory);
        memory = nullptr;
        have = 0;
        memory = take<U>(count);
        have = count;
    }

    // Zero-filled memory of the host that the GPU reaches.
    std::shared_ptr<void> pinned(size_t bytes) const
    {
        using namespace gpu;
        void* memory = nullptr;
        check(driver_.mem_host_alloc(&memory, bytes, host_alloc_portable | host_alloc_device_map),
              "cuMemHostAlloc", std::to_string(bytes >> 10) + " KiB");
        std::memset(memory, 0, bytes);
        return {memory, [this](void* p) {
                    try {
                        without_residents([&] {
                            const ContextScope scope(context_);
                            driver_.mem_free_host(p);
                        });
                    } catch (const Error&) { // a dead context
                    }
                }};
    }

    void clear(void* memory, size_t bytes) const
    {
        gpu::check(
            driver_.memset_d8_async(reinterpret_cast<gpu::DevicePtr>(memory), 0, bytes, stream_),
            "cuMemsetD8Async");
    }

    template <class U>
    void put(U* to, const U* from, size_t count) const
    {
        if (count == 0) return;
        gpu::check(driver_.memcpy_htod_async(reinterpret_cast<gpu::DevicePtr>(to), from,
                                             count * sizeof(U), stream_),
                   "cuMemcpyHtoDAsync");
        wait();
    }
    template <class U>
    void put(U* to, const std::vector<U>& from) const
    {
        put(to, from.data(), from.size());
    }

    template <class U>
    void fetch(U* to, const U* from, size_t count) const
    {
        gpu::check(driver_.memcpy_dtoh_async(to, reinterpret_cast<gpu::DevicePtr>(from),
                                             count * sizeof(U), stream_),
                   "cuMemcpyDtoHAsync");
        wait();
    }

    void wait() const
    {
        gpu::check(driver_.stream_synchronize(stream_), "cuStreamSynchronize", info_.name);
    }

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch(const std::string& name, const unsigned (&grid)[3], const unsigned (&threads)[2],
                unsigned shared_bytes, bool cooperative, Arguments... arguments) const
    {
        using namespace gpu;
        void* pointers[] = {&arguments...};
        LaunchAttribute together;
        together.id = launch_cooperative;
        together.value.cooperative = 1;
        LaunchConfig config;
        std::copy_n(grid, 3, config.grid);
        std::copy_n(threads, 2, config.block);
        config.shared_bytes = shared_bytes;
        config.stream = stream_;
        config.attributes = &together;
        config.attribute_count = cooperative ? 1 : 0;
        check(driver_.launch_kernel_ex(&config, functions_.at(name), pointers, nullptr),
              "cuLaunchKernelEx", name);
    }

    // How many blocks may be resident; none where their shared memory does not suffice.
    uint32_t allow(const std::string& name, unsigned threads, size_t shared_bytes) const
    {
        using namespace gpu;
        if (shared_bytes > info_.shared_bytes) return 0;
        const Function function = functions_.at(name);
        check(driver_.func_set_attribute(function, func_max_dynamic_shared,
                                         static_cast<int>(shared_bytes)),
              "cuFuncSetAttribute", "dynamic shared memory");
        int blocks = 0;
        check(driver_.occupancy_max_active_blocks(&blocks, function, static_cast<int>(threads),
                                                  shared_bytes),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor", name);
        return static_cast<uint32_t>(blocks * info_.sm_count);
    }

private:
    const gpu::Driver& driver_;
    gpu::DeviceInfo info_;
    gpu::PrimaryContext context_;
    gpu::Stream stream_ = nullptr;
    gpu::Module module_ = nullptr;
    gpu::Functions functions_;
    std::vector<std::pair<gpu::DevicePtr, size_t>> memory_;
};

} // namespace denizen::wave
