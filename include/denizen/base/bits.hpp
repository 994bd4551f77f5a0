// SPDX-License-Identifier: Apache-2.0
// Bits of a word, one spelling for host and device: free blocks and free pages of the arena are
// bits, and several small numbers are looked at together as fields of a word.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::bits {

DENIZEN_HD inline uint32_t count(uint32_t v)
{
#if DENIZEN_ON_DEVICE
    return static_cast<uint32_t>(__popc(static_cast<int>(v)));
#else
    return static_cast<uint32_t>(__builtin_popcount(v));
#endif
}

DENIZEN_HD inline uint32_t count(uint64_t v)
{
#if DENIZEN_ON_DEVICE
    return static_cast<uint32_t>(__popcll(static_cast<long long>(v)));
#else
    return static_cast<uint32_t>(__builtin_popcountll(v));
#endif
}

// Index of the lowest set bit of a word that has one.
DENIZEN_HD inline uint32_t first(uint64_t v)
{
#if DENIZEN_ON_DEVICE
    return static_cast<uint32_t>(__ffsll(static_cast<long long>(v))) - 1;
#else
    return static_cast<uint32_t>(__builtin_ctzll(v));
#endif
}

// The first set bit from `start` on, cyclically. `v` has one, `start` < 64.
DENIZEN_HD inline uint32_t first_from(uint64_t v, uint32_t start)
{
    const uint64_t from = v & (~uint64_t{0} << start);
    return first(from != 0 ? from : v);
}

// Of each field of `v` that is zero the highest bit, and perhaps of one that is 1 and lies above
// such a field. `ones`: the lowest bit of each field, of `width` bits.
DENIZEN_HD constexpr uint64_t zero_fields(uint64_t v, uint64_t ones, uint32_t width)
{
    return (v - ones) & ~v & (ones << (width - 1));
}

// Index of the highest set bit; `v` > 0.
DENIZEN_HD inline uint32_t log2(uint64_t v)
{
#if DENIZEN_ON_DEVICE
    return 63u - static_cast<uint32_t>(__clzll(static_cast<long long>(v)));
#else
    return 63u - static_cast<uint32_t>(__builtin_clzll(v));
#endif
}

// Index of the n-th set bit, from 0; `v` has more than n. Halves the range in each step.
DENIZEN_HD inline uint32_t select(uint64_t v, uint32_t n)
{
    uint32_t at = 0;
    uint32_t low = count(static_cast<uint32_t>(v));
    uint32_t half = static_cast<uint32_t>(v);
    if (n >= low) {
        n -= low;
        at = 32;
        half = static_cast<uint32_t>(v >> 32);
    }
    for (uint32_t width = 16; width != 0; width /= 2) {
        low = count(half & ((1u << width) - 1));
        if (n >= low) {
            n -= low;
            at += width;
            half >>= width;
        }
    }
    return at;
}

// The n lowest set bits of `v`, or all of them.
DENIZEN_HD inline uint64_t lowest(uint64_t v, uint32_t n)
{
    return count(v) <= n ? v : v & ((uint64_t{1} << select(v, n)) - 1);
}

// The same, of those from bit `start` < 64 on, cyclically.
DENIZEN_HD inline uint64_t lowest_from(uint64_t v, uint32_t n, uint32_t start)
{
    const uint64_t turned = start == 0 ? v : v >> start | v << (64 - start);
    const uint64_t chosen = lowest(turned, n);
    return start == 0 ? chosen : chosen << start | chosen >> (64 - start);
}

} // namespace denizen::bits
