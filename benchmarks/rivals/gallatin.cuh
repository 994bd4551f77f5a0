// SPDX-License-Identifier: Apache-2.0
// Gallatin (McCoy and Pandey, PPoPP 2024; github.com/saltsystemslab/gallatin, commit 1aa70ad), an
// allocator for GPUs, through its own global calls. It is no part of this project: configure with
// -DDENIZEN_GALLATIN=its checkout, and bench_arena has its rows.
#pragma once

#if defined(DENIZEN_GALLATIN)

#include "cuda.cuh"

#include <gallatin/allocators/global_allocator.cuh>

namespace denizen::bench {

struct GallatinArm {
    __device__ void* allocate(uint64_t bytes) const
    {
        return gallatin::allocators::global_malloc(bytes);
    }
    __device__ void deallocate(void* p) const { gallatin::allocators::global_free(p); }
};

// Its heap, on the device that is current. Not while a program is resident: it synchronises.
class GallatinHeap {
public:
    explicit GallatinHeap(uint64_t bytes)
    {
        constexpr uint64_t seed = 42;
        gallatin::allocators::init_global_allocator(bytes, seed, false); // prints nothing
        check_cuda(cudaGetLastError(), "Gallatin's start");
    }
    ~GallatinHeap() { gallatin::allocators::free_global_allocator(); }
    GallatinHeap(const GallatinHeap&) = delete;
    GallatinHeap& operator=(const GallatinHeap&) = delete;
};

} // namespace denizen::bench

#endif
