// SPDX-License-Identifier: Apache-2.0
// Atomic access to words of the block's own memory, all relaxed: shared memory on the GPU. On the
// CPU a block is one thread, and its accesses are ordinary ones. base/atomic.hpp would do the same
// with generic addresses, which take longer to find out where they point than these take. The `_if`
// forms are one predicated instruction: a branch around a handful of cycles costs more than they
// do.
#pragma once

#include <denizen/base/atomic.hpp>

namespace denizen::graph::own {

#if DENIZEN_ON_DEVICE

__device__ inline uint32_t address(const void* p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// `otherwise` unless `wanted`.
__device__ inline uint32_t load_if(bool wanted, const uint32_t* p, uint32_t otherwise)
{
    uint32_t value = otherwise;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.relaxed.cta.shared.u32 %0, [%1]; }"
                 : "+r"(value)
                 : "r"(address(p)), "r"(static_cast<uint32_t>(wanted))
                 : "memory");
    return value;
}

// The word before; `otherwise` unless `wanted`.
__device__ inline uint32_t fetch_or_if(bool wanted, uint32_t* p, uint32_t bits, uint32_t otherwise)
{
    uint32_t before = otherwise;
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %3, 0; @p atom.relaxed.cta.shared.or.b32 %0, [%1], %2; }"
        : "+r"(before)
        : "r"(address(p)), "r"(bits), "r"(static_cast<uint32_t>(wanted))
        : "memory");
    return before;
}

__device__ inline uint32_t fetch_add(uint32_t* p, uint32_t n)
{
    uint32_t before = 0;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(address(p)), "r"(n)
                 : "memory");
    return before;
}

__device__ inline void lower(uint32_t* p, uint32_t value)
{
    asm volatile("red.relaxed.cta.shared.min.u32 [%0], %1;" ::"r"(address(p)), "r"(value)
                 : "memory");
}

#else

DENIZEN_HD inline uint32_t load_if(bool wanted, const uint32_t* p, uint32_t otherwise)
{
    return wanted ? *p : otherwise;
}
DENIZEN_HD inline uint32_t fetch_or_if(bool wanted, uint32_t* p, uint32_t bits, uint32_t otherwise)
{
    if (!wanted) return otherwise;
    const uint32_t before = *p;
    *p = before | bits;
    return before;
}
DENIZEN_HD inline uint32_t fetch_add(uint32_t* p, uint32_t n)
{
    const uint32_t before = *p;
    *p = before + n;
    return before;
}
DENIZEN_HD inline void lower(uint32_t* p, uint32_t value) { *p = value < *p ? value : *p; }

#endif

} // namespace denizen::graph::own
