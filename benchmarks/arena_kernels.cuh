// SPDX-License-Identifier: Apache-2.0
// The kernels of bench_arena, for any allocator: one that allocates once per thread, one that
// frees, one that does both again and again, and one that keeps sixteen blocks of many sizes per
// thread. Each counts what went wrong; what they wrote is checked outside the timed ones.
#pragma once

#include <denizen/memory/arena/ref.hpp>

#include "rivals/cuda.cuh"

namespace denizen::bench {

// The allocators. Bump gives out addresses and takes none back: one atomic of each warp on one
// word, the least that an allocator can do, shown as a ceiling.
struct ArenaArm {
    ArenaRef arena;

    __device__ void* allocate(uint64_t bytes) const { return arena.allocate(bytes); }
    __device__ void deallocate(void* p) const { arena.deallocate(p); }
};
struct DeviceMalloc {
    __device__ void* allocate(uint64_t bytes) const { return malloc(bytes); }
    __device__ void deallocate(void* p) const { free(p); }
};
struct Bump {
    unsigned char* base;
    unsigned long long* next;

    __device__ void* allocate(uint64_t bytes) const
    {
        const uint32_t active = __activemask();
        const uint32_t lane = threadIdx.x & 31;
        const int leader = __ffs(static_cast<int>(active)) - 1;
        const uint32_t rank = static_cast<uint32_t>(__popc(active & ((1u << lane) - 1)));
        unsigned long long at = 0;
        if (static_cast<int>(lane) == leader) {
            at = atomicAdd(next, bytes * static_cast<uint32_t>(__popc(active)));
        }
        return base + __shfl_sync(active, at, leader) + rank * bytes;
    }
    __device__ void deallocate(void*) const {}
};

// Requests, failures, blocks whose content had changed, bytes that are live and were live at most,
// and whether all stop.
struct Count {
    unsigned long long requests;
    unsigned long long failed;
    unsigned long long wrong;
    unsigned long long live;
    unsigned long long most;
    unsigned long long full;
    unsigned long long refused; // while there is a limit: those of `failed` so far
};

namespace kernels {

constexpr uint32_t arena_threads = 256;

__device__ inline void add(unsigned long long* to, unsigned long long n)
{
    if (n != 0) atomicAdd(to, n);
}

template <class A>
__global__ void __launch_bounds__(arena_threads, 4)
    once(A a, uint32_t n, uint64_t bytes, void** out)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a.allocate(bytes);
}

template <class A>
__global__ void __launch_bounds__(arena_threads) give(A a, uint32_t n, void** blocks)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a.deallocate(blocks[i]);
}

// All of every block, by its warp's lanes in turn.
__global__ void mark(uint32_t n, uint64_t words, uint32_t* const* blocks)
{
    const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (i >= n || blocks[i] == nullptr) return;
    for (uint64_t w = threadIdx.x & 31; w < words; w += 32) {
        blocks[i][w] = i * 2654435761u + static_cast<uint32_t>(w);
    }
}

__global__ void check_marks(uint32_t n, uint64_t words, uint32_t* const* blocks, Count* count)
{
    const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (i >= n) return;
    if (blocks[i] == nullptr) {
        if ((threadIdx.x & 31) == 0) add(&count->failed, 1);
        return;
    }
    unsigned long long wrong = 0;
    for (uint64_t w = threadIdx.x & 31; w < words; w += 32) {
        wrong += blocks[i][w] != i * 2654435761u + static_cast<uint32_t>(w) ? 1 : 0;
    }
    add(&count->wrong, wrong);
}

// Allocates and frees; writes the first `touch` bytes, a word at a time. Checked: all that was
// written is found again.
template <class A, bool Checked>
__global__ void __launch_bounds__(arena_threads)
    churn(A a, uint32_t n, uint32_t rounds, uint64_t bytes, uint32_t touch, Count* count)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long failed = 0;
    unsigned long long wrong = 0;
    for (uint32_t r = 0; r < rounds; ++r) {
        auto* p = static_cast<uint32_t*>(a.allocate(bytes));
        if (p == nullptr) {
            ++failed;
            continue;
        }
        const uint32_t seed = i * 64 + r;
        for (uint32_t w = 0; w < touch / 4; ++w) p[w] = seed + w;
        if constexpr (Checked) {
            for (uint32_t w = 0; w < touch / 4; ++w) {
                wrong += *static_cast<volatile uint32_t*>(p + w) != seed + w ? 1 : 0;
            }
        }
        a.deallocate(p);
    }
    add(&count->failed, failed);
    add(&count->wrong, wrong);
}

// How sizes are drawn: any of the ten classes from 16 B to 8 KB, or nine times of ten 64 B.
enum class Sizes { mixed, skewed };

__device__ inline uint32_t next_random(uint32_t& state)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

__device__ inline uint64_t draw(Sizes sizes, uint32_t& state)
{
    const uint32_t r = next_random(state) >> 4;
    if (sizes == Sizes::skewed && r % 10 != 0) return 64;
    return uint64_t{16} << r / 10 % 10;
}

constexpr uint32_t outstanding = 16;

// Keeps up to 16 blocks: in each step one of sixteen places is drawn, what is there is freed, and
// another allocated, so that the places fill up while three of four requests are replacements. All
// threads stop when a request would make more than `limit` bytes live (0: none), or when as many
// requests have been refused as there are threads. First and last word of each block are checked
// when it is freed; with a limit they stay allocated, and `left`, if it is not null, says where, 16
// to a thread. Live is counted in bytes of the class (all sizes here are powers of two).
template <class A>
__global__ void __launch_bounds__(arena_threads)
    keep(A a, uint32_t n, uint32_t steps, Sizes sizes, unsigned long long limit, void** left,
         Count* count)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t* held[outstanding] = {};
    uint32_t size[outstanding] = {};
    uint32_t state = i * 2654435761u + 12345;
    unsigned long long requests = 0, failed = 0, wrong = 0, most = 0;
    const auto drop = [&](uint32_t k) {
        if (held[k] == nullptr) return;
        const uint32_t words = size[k] / 4;
        wrong += held[k][0] != i || held[k][words - 1] != (i ^ size[k]) ? 1 : 0;
        a.deallocate(held[k]);
        held[k] = nullptr;
        if (limit != 0) atomicAdd(&count->live, 0ull - size[k]);
    };
    for (uint32_t s = 0; s < steps; ++s) {
        const uint32_t k = next_random(state) >> 8 & (outstanding - 1);
        if (limit != 0 && *static_cast<volatile unsigned long long*>(&count->full) != 0) break;
        drop(k);
        const uint64_t bytes = draw(sizes, state);
        if (limit != 0) {
            const unsigned long long live = atomicAdd(&count->live, bytes) + bytes;
            if (live > limit) {
                atomicAdd(&count->live, 0ull - bytes);
                atomicExch(&count->full, 1ull);
                break;
            }
            most = live > most ? live : most;
        }
        ++requests;
        auto* p = static_cast<uint32_t*>(a.allocate(bytes));
        if (p == nullptr) {
            ++failed;
            if (limit != 0) {
                atomicAdd(&count->live, 0ull - bytes);
                if (atomicAdd(&count->refused, 1ull) + 1 >= n) atomicExch(&count->full, 1ull);
            }
            continue;
        }
        p[0] = i;
        p[bytes / 4 - 1] = i ^ static_cast<uint32_t>(bytes);
        held[k] = p;
        size[k] = static_cast<uint32_t>(bytes);
    }
    if (limit == 0) {
        for (uint32_t k = 0; k < outstanding; ++k) drop(k);
    } else {
        for (uint32_t k = 0; k < outstanding; ++k) {
            if (left != nullptr) left[uint64_t{i} * outstanding + k] = held[k];
            if (held[k] != nullptr) {
                const uint32_t words = size[k] / 4;
                wrong += held[k][0] != i || held[k][words - 1] != (i ^ size[k]) ? 1 : 0;
            }
        }
    }
    add(&count->requests, requests);
    add(&count->failed, failed);
    add(&count->wrong, wrong);
    atomicMax(&count->most, most);
}

} // namespace kernels

} // namespace denizen::bench
