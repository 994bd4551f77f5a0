// SPDX-License-Identifier: Apache-2.0
// The physical limit of a round trip: one resident thread and two 4-byte words. The host stores a
// number, the thread polls for it and stores it back, the host polls for that. Nothing else
// travels, so no protocol on the same two paths can be faster.
//
// The request word lies in pinned host memory (the GPU polls across PCIe) or in device memory
// mapped for the CPU (the host's store crosses PCIe, the GPU polls near itself); the reply word is
// pinned.
#pragma once

#include <limits>

#include <denizen/base/clock.hpp>

#include "cuda.cuh"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace denizen::bench {

// Written once by the kernel as it leaves; the host reads it after the stream has ended.
struct PingPongTally {
    unsigned long long count = 0;
    unsigned long long sum = 0;
};

namespace kernels {

constexpr uint32_t stop_word = std::numeric_limits<uint32_t>::max();

// The spin ends with the next number, with stop_word, or at the time limit.
static __global__ void ping_pong(const uint32_t* request, uint32_t* reply, uint32_t first,
                                 uint64_t limit_ns, PingPongTally* tally)
{
    const uint64_t start = now_ns();
    PingPongTally seen;
    uint32_t next = first;
    for (uint32_t polls = 1;; ++polls) {
        uint32_t value = 0;
        asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(request) : "memory");
        if (value == next) {
            asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(reply), "r"(value) : "memory");
            ++seen.count;
            seen.sum += value;
            ++next;
        } else if (value == stop_word || (polls % 1024 == 0 && now_ns() - start > limit_ns)) {
            break;
        }
    }
    *tally = seen;
}

} // namespace kernels

class PingPong {
public:
    // The request word in pinned memory of its own.
    PingPong() : PingPong(nullptr, nullptr) {}

    // The request word in device memory that the CPU can store to: its address on the host and in
    // kernels. It must outlive this object, and nobody else may write to it.
    PingPong(uint32_t* host_request, uint32_t* device_request)
        : own_request_(32), reply_(32), tally_(1), write_combined_(host_request != nullptr),
          host_request_(write_combined_ ? host_request : own_request_.get()),
          device_request_(write_combined_ ? device_request : own_request_.get())
    {
        preload(kernels::ping_pong);
    }

    ~PingPong()
    {
        if (running_) {
            send(kernels::stop_word);
            cudaStreamSynchronize(stream_); // ends with the stop word, or at the kernel's limit
        }
    }

    // Starts the kernel, which stays for at most kernel_limit_ns; call stop() before that.
    void start()
    {
        send(last_);
        first_ = last_ + 1;
        *tally_.get() = PingPongTally{};
        kernels::ping_pong<<<1, 1, 0, stream_>>>(device_request_, reply_.get(), first_,
                                                 kernel_limit_ns, tally_.get());
        check_cuda(cudaGetLastError(), "ping-pong launch");
        running_ = true;
    }

    // One round trip. Throws if the reply stays out for two seconds (the kernel has left).
    uint32_t call()
    {
        const uint32_t number = ++last_;
        send(number);
        uint64_t give_up = 0;
        for (uint32_t polls = 1;; ++polls) { // ends with the reply, or after two seconds
            const uint32_t value = __atomic_load_n(reply_.get(), __ATOMIC_RELAXED);
            if (value == number) return value;
            if (polls % 65536 == 0) {
                if (give_up == 0) give_up = now_ns() + 2'000'000'000;
                if (now_ns() > give_up) throw std::runtime_error("ping-pong: no reply for 2 s");
            }
        }
    }
    uint32_t expected() const { return last_; }

    // Ends the kernel; whether it has counted and summed exactly the numbers sent since start().
    bool stop()
    {
        send(kernels::stop_word);
        stream_.synchronize();
        running_ = false;
        const uint64_t count = last_ - first_ + 1;
        const uint64_t sum = count * (uint64_t{first_} + last_) / 2;
        return tally_[0].count == count && tally_[0].sum == sum;
    }

private:
    void send(uint32_t value)
    {
        __atomic_store_n(host_request_, value, __ATOMIC_RELAXED);
#if defined(__x86_64__)
        if (write_combined_) _mm_sfence(); // pushes the store out of the core's combining buffer
#else
        if (write_combined_) __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    }

    OwnStream stream_;
    PinnedBuffer<uint32_t> own_request_;
    PinnedBuffer<uint32_t> reply_;
    PinnedBuffer<PingPongTally> tally_;
    bool write_combined_;
    uint32_t* host_request_;
    uint32_t* device_request_;
    uint32_t last_ = 0;
    uint32_t first_ = 1;
    bool running_ = false;
};

} // namespace denizen::bench
