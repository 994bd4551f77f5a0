// SPDX-License-Identifier: Apache-2.0
// The lanes of a worker: the 32 threads of a warp on the GPU, one thread on the CPU. Code written
// against these few operations is the same text on both. Every lane must take part in each call.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::lanes {

#if DENIZEN_ON_DEVICE
inline constexpr uint32_t size = 32;

__device__ inline uint32_t id() { return threadIdx.x & 31; }
__device__ inline void sync() { __syncwarp(); }
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
