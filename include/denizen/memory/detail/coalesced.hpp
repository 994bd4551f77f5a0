// SPDX-License-Identifier: Apache-2.0
// The threads that call the arena together: on the GPU the lanes of a warp that are at this very
// call, on the CPU the one thread. Unlike lanes.hpp no lane has to take part: callers may diverge.
// Every coalesced thread takes part in every call below.
#pragma once

#include <denizen/base/bits.hpp>

#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
#include <sched.h>
#endif

namespace denizen::arena {

#if DENIZEN_ON_DEVICE
class Coalesced {
public:
    __device__ static Coalesced here() { return Coalesced(__activemask()); }

    __device__ uint32_t lane() const { return threadIdx.x & 31; }
    __device__ bool any(bool b) const { return __any_sync(mask_, b) != 0; }
    // What lane `from`, one of them, has.
    __device__ uint32_t get(uint32_t value, uint32_t from) const
    {
        return __shfl_sync(mask_, value, static_cast<int>(from));
    }
    // Those of them with the same value as this one. The instruction has no mask, and would match
    // other callers' lanes that are active beside these.
    __device__ uint32_t same(uint32_t value) const
    {
        return __match_any_sync(mask_, value) & mask_;
    }
    // Of those in `group`, all of whom call it.
    __device__ static uint32_t or_of(uint32_t group, uint32_t bits)
    {
        return __reduce_or_sync(group, bits);
    }
    // What each of them has written before, all see after.
    __device__ void sync() const { __syncwarp(mask_); }

private:
    __device__ explicit Coalesced(uint32_t mask) : mask_(mask) {}

    uint32_t mask_;
};
#else
class Coalesced {
public:
    DENIZEN_HD static Coalesced here() { return {}; }

    DENIZEN_HD uint32_t lane() const { return 0; }
    DENIZEN_HD bool any(bool b) const { return b; }
    DENIZEN_HD uint32_t get(uint32_t value, uint32_t) const { return value; }
    DENIZEN_HD uint32_t same(uint32_t) const { return 1; }
    DENIZEN_HD static uint32_t or_of(uint32_t, uint32_t bits) { return bits; }
    DENIZEN_HD void sync() const {}
};
#endif

#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
namespace detail {

// Threads of the host are numbered as they first call an arena.
inline uint32_t thread_number()
{
    static uint32_t next = 0;
    thread_local const uint32_t mine = __atomic_fetch_add(&next, 1u, __ATOMIC_RELAXED);
    return mine;
}

} // namespace detail
#endif

// Where the caller runs: an SM and a warp of it. For spreading alone: a warp may be moved.
struct Spot {
    uint32_t sm = 0;
    uint32_t warp = 0;

    DENIZEN_HD static Spot here()
    {
        Spot spot;
#if DENIZEN_ON_DEVICE
        asm volatile("mov.u32 %0, %%smid;" : "=r"(spot.sm));
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(spot.warp));
#elif DENIZEN_HOSTED
        spot.sm = detail::thread_number();
#endif
        return spot;
    }
};

// Lets others go on. Its callers bound how often they call it.
DENIZEN_HD inline void let_others()
{
#if DENIZEN_ON_DEVICE
    __nanosleep(100);
#elif DENIZEN_HOSTED
    sched_yield();
#endif
}

} // namespace denizen::arena
