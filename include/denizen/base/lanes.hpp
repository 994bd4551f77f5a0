// SPDX-License-Identifier: Apache-2.0
// The lanes of a worker: the 32 threads of a warp on the GPU, one thread on the CPU. Code written
// against these few operations is the same text on both. Every lane must take part in each call.
//
// Hazard: a function that is called, not expanded in line, may let a warp out apart although it
// went in together: lanes that wait inside while one of them makes a long call are let go early.
// ptxas (13.0 to 13.5) does not reckon with it: it carries out the next operation of the warp
// behind the call without a look whether all lanes are there. rejoin() stands behind such calls, or
// is the last that such a function does: directly behind a rejoin() and a call, ptxas trusts the
// call.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::lanes {

#if DENIZEN_ON_DEVICE
inline constexpr uint32_t size = 32;

__device__ inline uint32_t id() { return threadIdx.x & 31; }
__device__ inline void sync() { __syncwarp(); }
// Brings the lanes together, and keeps what sync() promises. sync() alone waits for lanes that are
// apart, and leaves them apart: from then on each operation takes some hundred cycles.
__device__ inline void rejoin()
{
    // Of all instructions for a whole warp one of the few that ptxas puts a bare WARPSYNC.ALL
    // before. It moves zeros; a result that nobody asked for would be left out.
    uint32_t zero = 0;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(zero) : "r"(0) : "memory");
    if (zero != 0) {
        __trap();
    }
    __syncwarp();
}
__device__ inline uint32_t ballot(bool b) { return __ballot_sync(~0u, b); }
template <class T>
__device__ inline T shuffle(T value, uint32_t source)
{
    return __shfl_sync(~0u, value, static_cast<int>(source));
}
// Over all lanes.
__device__ inline uint32_t sum(uint32_t value) { return __reduce_add_sync(~0u, value); }
// The lanes that hold the same value as this one.
__device__ inline uint32_t match(uint32_t value) { return __match_any_sync(~0u, value); }
__device__ inline uint32_t popcount(uint32_t v)
{
    return static_cast<uint32_t>(__popc(static_cast<int>(v)));
}
// Index of the lowest set bit; 32 if there is none.
__device__ inline uint32_t first(uint32_t v)
{
    return v == 0 ? 32u : static_cast<uint32_t>(__ffs(static_cast<int>(v))) - 1;
}
#else
inline constexpr uint32_t size = 1;

DENIZEN_HD inline uint32_t id() { return 0; }
DENIZEN_HD inline void sync() {}
DENIZEN_HD inline void rejoin() {}
DENIZEN_HD inline uint32_t ballot(bool b) { return b ? 1 : 0; }
template <class T>
DENIZEN_HD inline T shuffle(T value, uint32_t)
{
    return value;
}
DENIZEN_HD inline uint32_t sum(uint32_t value) { return value; }
DENIZEN_HD inline uint32_t match(uint32_t) { return 1; }
DENIZEN_HD inline uint32_t popcount(uint32_t v)
{
    return static_cast<uint32_t>(__builtin_popcount(v));
}
DENIZEN_HD inline uint32_t first(uint32_t v)
{
    return v == 0 ? 32u : static_cast<uint32_t>(__builtin_ctz(v));
}
#endif

// Lanes below this one.
DENIZEN_HD inline uint32_t below() { return (1u << id()) - 1; }

} // namespace denizen::lanes
