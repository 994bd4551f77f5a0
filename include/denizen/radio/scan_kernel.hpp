// SPDX-License-Identifier: Apache-2.0
// A resident kernel that scans blocks of I/Q while the host is still receiving them: no launch per
// buffer. It reads pinned host memory directly, since each byte is needed once. It leaves when the
// last block is done, when it is told to stop, or at its deadline, whichever is first.
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/radio/scan_block.hpp>

#if defined(__CUDACC__)
#include <cuda/atomic>

namespace denizen::radio {

inline constexpr uint32_t scan_threads = 512; // of a block, which is a team; one fits on an SM

// All pointers are readable and writable from both sides, but `next`, which is the device's.
struct ScanJob {
    const uint8_t* iq; // the stream, aligned to 16 bytes
    uint64_t samples;  // in the whole stream
    uint64_t* ready;   // how many the host has written so far
    uint32_t* next;    // the first block that nobody scans yet; 0 at launch
    uint32_t* stop;    // not 0: leave
    Candidate* out;    // `room` for each block
    uint32_t* counts;  // for each block 0, then one more than scan_block() says
    uint32_t room;     // candidates
    uint64_t limit;    // ns after its start at which the kernel leaves
};

namespace detail {

struct BlockTeam {
    __device__ uint32_t rank() const { return threadIdx.x; }
    __device__ uint32_t size() const { return blockDim.x; }
    __device__ void sync() const { __syncthreads(); }
    __device__ uint32_t count(bool member) const
    {
        return static_cast<uint32_t>(__syncthreads_count(member));
    }
    __device__ uint32_t take(uint32_t& counter) const { return atomicAdd(&counter, 1u); }
};

template <class T>
using System = cuda::atomic_ref<T, cuda::thread_scope_system>;

// Waits until the samples that block `b` needs are there. False if there is no such block, or the
// kernel is to leave.
__device__ inline bool wait_for_block(const ScanJob& job, uint32_t b, uint64_t deadline)
{
    const uint64_t begin = static_cast<uint64_t>(b) * block_samples;
    if (begin >= job.samples) return false;
    const uint64_t all = begin + block_samples + reach;
    const uint64_t needed = all < job.samples ? all : job.samples;
    // Ends when the host has written them (acquire: with the samples before it), by `stop`, or at
    // the deadline.
    while (System<uint64_t>(*job.ready).load(cuda::memory_order_acquire) < needed) {
        if (System<uint32_t>(*job.stop).load(cuda::memory_order_relaxed) != 0) return false;
        if (now_ns() > deadline) return false;
        __nanosleep(500);
    }
    return now_ns() <= deadline;
}

} // namespace detail

// Launch with scan_threads, as many blocks as fit, and sizeof(ScanMemory) of dynamic shared memory.
static __global__ void __launch_bounds__(scan_threads, 1) scan_resident(ScanJob job)
{
    extern __shared__ __align__(16) unsigned char shared[];
    ScanMemory& memory = *reinterpret_cast<ScanMemory*>(shared);
    __shared__ uint32_t mine;
    __shared__ bool go;
    detail::BlockTeam team;
    const uint64_t deadline = now_ns() + job.limit;
    while (true) { // ends with the blocks, see wait_for_block()
        if (team.rank() == 0) {
            mine = atomicAdd(job.next, 1u);
            go = detail::wait_for_block(job, mine, deadline);
        }
        team.sync();
        const uint32_t b = mine;
        if (!go) return;
        const uint64_t begin = static_cast<uint64_t>(b) * block_samples;
        const uint64_t rest = job.samples - begin;
        const auto count = static_cast<uint32_t>(rest < block_samples ? rest : block_samples);
        const uint64_t most = block_samples + reach;
        const auto available = static_cast<uint32_t>(rest < most ? rest : most);
        const uint32_t found =
            scan_block(team, job.iq + 2 * begin, b == 0 ? 0 : lead, count, available, memory,
                       job.out + static_cast<uint64_t>(b) * job.room, job.room);
        __threadfence_system(); // every thread's candidates are seen by the host before the count
        team.sync();
        if (team.rank() == 0) {
            // Release, and the host's acquire is its load of the count.
            detail::System<uint32_t>(job.counts[b])
                .store(found == ~0u ? found : found + 1, cuda::memory_order_release);
        }
        // The next take() of `mine` follows the barrier inside scan_block() that all have passed.
    }
}

} // namespace denizen::radio
#endif
