// SPDX-License-Identifier: Apache-2.0
// How a profiler watches its own process by CUPTI: a callback around each API call, and a record of
// each kernel (CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL). Here both are counted and nothing else is
// done with them, so that the time is CUPTI's alone. Declared here after cupti_activity.h of CUDA
// 12 and 13; the library is found when it is asked for, as the lens finds it (lens/attribute.cpp).
#pragma once

#include "lens/cupti.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace denizen::bench {

// One of them in a process: CUPTI knows one subscriber, and its buffers come without a pointer to
// whom they are for.
class CuptiRecords {
public:
    bool is_on() const { return is_on_; }

    // From here on the process is watched. Throws where there is no CUPTI, or somebody has it.
    void begin()
    {
        if (is_on_) return;
        check("cuptiSubscribe",
              call<lens::cupti::Subscribe>("cuptiSubscribe")(&subscriber_, on_call, nullptr));
        for (const uint32_t domain : {lens::cupti::driver_api, lens::cupti::runtime_api})
            check("cuptiEnableDomain",
                  call<lens::cupti::EnableDomain>("cuptiEnableDomain")(1, subscriber_, domain));
        check("cuptiActivityRegisterCallbacks",
              call<Register>("cuptiActivityRegisterCallbacks")(give_buffer, take_buffer));
        check("cuptiActivityEnable", call<OfKind>("cuptiActivityEnable")(concurrent_kernel));
        is_on_ = true;
    }

    // How many kernels were recorded since the last time. The device must be idle.
    uint64_t take()
    {
        if (!is_on_) return 0;
        check("cuptiActivityFlushAll", call<FlushAll>("cuptiActivityFlushAll")(flush_forced));
        return records.exchange(0, std::memory_order_relaxed);
    }

    // CUPTI leaves the process, as cuptiFinalize() asks for it: idle, with its buffers flushed.
    void end()
    {
        if (!is_on_) return;
        check("cuptiActivityDisable", call<OfKind>("cuptiActivityDisable")(concurrent_kernel));
        take();
        is_on_ = false;
        check("cuptiUnsubscribe", call<Unsubscribe>("cuptiUnsubscribe")(subscriber_));
        check("cuptiFinalize", call<Finalize>("cuptiFinalize")());
    }

private:
    static constexpr int concurrent_kernel = 10; // CUpti_ActivityKind
    static constexpr uint32_t flush_forced = 1;
    static constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

    using GiveBuffer = void (*)(uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
    using TakeBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, std::size_t bytes,
                                std::size_t valid_bytes);
    using Register = int (*)(GiveBuffer, TakeBuffer);
    using OfKind = int (*)(int kind);
    using FlushAll = int (*)(uint32_t flags);
    using NextRecord = int (*)(uint8_t* buffer, std::size_t valid_bytes, void** record);
    using Unsubscribe = int (*)(void* subscriber);
    using Finalize = int (*)();

    static void* library()
    {
        static void* const found = [] {
            const char* own = std::getenv("DENIZEN_LENS_CUPTI");
            for (const char* name : {own, "libcupti.so.13", "libcupti.so.12", "libcupti.so"})
                if (name && *name)
                    if (void* opened = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return opened;
            throw std::runtime_error("there is no libcupti.so: name it in DENIZEN_LENS_CUPTI");
        }();
        return found;
    }

    template <class Function>
    static Function call(const char* name)
    {
        void* const found = dlsym(library(), name);
        if (!found) throw std::runtime_error(std::string("libcupti.so has no ") + name);
        return reinterpret_cast<Function>(found);
    }

    static void check(const char* name, int status)
    {
        if (status != 0)
            throw std::runtime_error(std::string(name) + " failed: " + std::to_string(status));
    }

    static void on_call(void*, uint32_t, uint32_t, const lens::cupti::CallbackData*)
    {
        calls.fetch_add(1, std::memory_order_relaxed);
    }

    static void give_buffer(uint8_t** buffer, std::size_t* bytes, std::size_t* most_records)
    {
        const std::lock_guard held(mutex);
        *bytes = buffer_bytes;
        *most_records = 0; // as many as there is room for
        if (free.empty()) {
            *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, buffer_bytes));
        } else {
            *buffer = free.back();
            free.pop_back();
        }
    }

    // Of a thread of CUPTI's, or within take().
    static void take_buffer(void*, uint32_t, uint8_t* buffer, std::size_t, std::size_t valid_bytes)
    {
        static const auto next = call<NextRecord>("cuptiActivityGetNextRecord");
        uint64_t kernels = 0;
        for (void* record = nullptr; valid_bytes && next(buffer, valid_bytes, &record) == 0;)
            kernels += *static_cast<const int*>(record) == concurrent_kernel; // ends: the buffer's
        records.fetch_add(kernels, std::memory_order_relaxed);
        const std::lock_guard held(mutex);
        free.push_back(buffer);
    }

    static inline std::atomic<uint64_t> calls{0}, records{0};
    static inline std::mutex mutex;
    static inline std::vector<uint8_t*> free;

    void* subscriber_ = nullptr;
    bool is_on_ = false;
};

} // namespace denizen::bench
