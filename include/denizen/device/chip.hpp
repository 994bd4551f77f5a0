// SPDX-License-Identifier: Apache-2.0
// A GPU as parts of the library use it that launch kernels, the wave and the searches of a graph: a
// stream, kernels by name, and memory that is given back together. Taking and freeing memory waits
// for what is resident: all calls are made while the resident programs of this process are off the
// GPU, the destructor's too.
#pragma once

#include <denizen/device/functions.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace denizen::gpu {

class Chip {
public:
    // `what` it is for, as errors name it: "a search of a graph of 5 vertices".
    Chip(int ordinal, std::string what)
        : driver_(gpu::driver()), info_(device_info(ordinal)), what_(std::move(what))
    {
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has compute capability " +
                                             std::to_string(info_.major) + "." +
                                             std::to_string(info_.minor) + "; " + what_ +
                                             " needs 8.0 or newer");
        }
        context_ = PrimaryContext(info_);
        const ContextScope scope(context_);
        check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
              "cuStreamCreateWithPriority");
    }

    ~Chip()
    {
        try {
            const ContextScope scope(context_);
            for (const DevicePtr memory : memory_) driver_.mem_free(memory);
            if (module_ != nullptr) driver_.module_unload(module_);
            driver_.stream_destroy(stream_);
        } catch (const Error&) { // a dead context: nothing is left to give back
            context_.abandon();
        }
    }
    Chip(const Chip&) = delete;
    Chip& operator=(const Chip&) = delete;

    const Driver& driver() const { return driver_; }
    const DeviceInfo& info() const { return info_; }
    Context context() const { return context_; }
    Stream stream() const { return stream_; }
    unsigned sms() const { return static_cast<unsigned>(info_.sm_count); }

    // Everything from here on: with the context of this GPU current (ContextScope).

    // See load_functions().
    void load(const Code& code, const std::string& prefix, const std::vector<std::string>& names,
              const std::string& whose)
    {
        functions_ = load_functions(code, module_, prefix, names, whose);
    }
    Function function(const std::string& name) const { return functions_.at(name); }

    // Of undefined content. Errc::exhausted.
    template <class T>
    T* take(size_t count)
    {
        DevicePtr memory = 0;
        const size_t bytes = std::max<size_t>(1, count) * sizeof(T);
        const Result result = driver_.mem_alloc(&memory, bytes);
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no " + std::to_string(bytes >> 20) + " MiB left on " +
                                             info_.name + " for " + what_);
        }
        check(result, "cuMemAlloc");
        memory_.push_back(memory);
        return reinterpret_cast<T*>(memory);
    }
    template <class T>
    T* take_zeros(size_t count)
    {
        T* const memory = take<T>(count);
        set(memory, 0, std::max<size_t>(1, count) * sizeof(T));
        return memory;
    }

    void free(const void* memory)
    {
        const auto old =
            std::find(memory_.begin(), memory_.end(), reinterpret_cast<DevicePtr>(memory));
        if (old == memory_.end()) return;
        driver_.mem_free(*old);
        memory_.erase(old);
    }

    // Grows `memory` to at least `count`, which are zero then; else it stays as it is.
    template <class T>
    void reserve(T*& memory, size_t& have, size_t count)
    {
        if (count <= have) return;
        free(memory);
        memory = nullptr;
        have = 0;
        memory = take_zeros<T>(count);
        have = count;
    }

    // Zero-filled memory of the host that the GPU reaches.
    std::shared_ptr<void> pinned(size_t bytes) const
    {
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

    // On the stream.
    void set(void* memory, unsigned char value, size_t bytes) const
    {
        check(driver_.memset_d8_async(reinterpret_cast<DevicePtr>(memory), value, bytes, stream_),
              "cuMemsetD8Async");
    }
    void set_word(uint32_t* word, uint32_t value) const
    {
        check(driver_.memset_d32_async(reinterpret_cast<DevicePtr>(word), value, 1, stream_),
              "cuMemsetD32Async");
    }

    // These two wait for the stream.
    template <class T>
    void put(T* to, const T* from, size_t count) const
    {
        if (count == 0) return;
        check(driver_.memcpy_htod_async(reinterpret_cast<DevicePtr>(to), from, count * sizeof(T),
                                        stream_),
              "cuMemcpyHtoDAsync");
        wait();
    }
    template <class T>
    void put(T* to, const std::vector<T>& from) const
    {
        put(to, from.data(), from.size());
    }
    template <class T>
    void fetch(T* to, const T* from, size_t count) const
    {
        check(driver_.memcpy_dtoh_async(to, reinterpret_cast<DevicePtr>(from), count * sizeof(T),
                                        stream_),
              "cuMemcpyDtoHAsync");
        wait();
    }

    void wait() const
    {
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize", info_.name);
    }

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch(const std::string& name, const unsigned (&grid)[3], const unsigned (&threads)[2],
                unsigned shared_bytes, bool cooperative, Arguments... arguments) const
    {
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
        check(driver_.launch_kernel_ex(&config, function(name), pointers, nullptr),
              "cuLaunchKernelEx", name);
    }

    // So much shared memory a block of the kernel may ask for.
    void allow_shared(const std::string& name, size_t bytes) const
    {
        check(driver_.func_set_attribute(function(name), func_max_dynamic_shared,
                                         static_cast<int>(bytes)),
              "cuFuncSetAttribute", "dynamic shared memory");
    }
    // The same; returns how many such blocks may be resident, none where that is too much.
    uint32_t allow(const std::string& name, unsigned threads, size_t shared_bytes) const
    {
        if (shared_bytes > info_.shared_bytes) return 0;
        allow_shared(name, shared_bytes);
        int blocks = 0;
        check(driver_.occupancy_max_active_blocks(&blocks, function(name),
                                                  static_cast<int>(threads), shared_bytes),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor", name);
        return static_cast<uint32_t>(blocks * info_.sm_count);
    }

private:
    const Driver& driver_;
    DeviceInfo info_;
    std::string what_;
    PrimaryContext context_;
    Stream stream_ = nullptr;
    Module module_ = nullptr;
    Functions functions_;
    std::vector<DevicePtr> memory_;
};

} // namespace denizen::gpu
