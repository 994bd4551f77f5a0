// SPDX-License-Identifier: Apache-2.0
// Up to three events of one case in the 36 bytes that a message carries without needing a whole
// warp: how the host writes them (packer.hpp) and how a case's actor reads them.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::procmine {

// An event of a case that is known: when (microseconds) and what.
struct Moment {
    int64_t time;
    uint32_t activity;
};

// words 0, 1: a time, the base. words 2 to 7: three events of 64 bits each, the lower word first:
// the activity in 16 bits, above it the time less the base plus 2^47. word 8: how many they are.
// What does not fit so is `wide`, and alone: its time in words 2, 3 and its activity in word 4.
namespace packed {

inline constexpr uint32_t words = 9;
inline constexpr uint32_t most = 3;
inline constexpr uint32_t activity_bits = 16;
inline constexpr uint64_t middle = uint64_t{1} << 47; // 4.4 years of microseconds

inline constexpr uint32_t count_mask = 3;
inline constexpr uint32_t wide = 4;
// No event of the stream waits for others. Else the base is the stream's bound: what is not later
// need not wait any more.
inline constexpr uint32_t at_once = 8;

DENIZEN_HD inline uint64_t get(const uint32_t* at) { return at[0] | uint64_t{at[1]} << 32; }

DENIZEN_HD inline void put(uint32_t* at, uint64_t value)
{
    at[0] = static_cast<uint32_t>(value);
    at[1] = static_cast<uint32_t>(value >> 32);
}

DENIZEN_HD inline int64_t base(const uint32_t* message)
{
    return static_cast<int64_t>(get(message));
}

DENIZEN_HD inline uint32_t count(const uint32_t* message) { return message[8] & count_mask; }

// Event i, below count().
DENIZEN_HD inline Moment event(const uint32_t* message, uint32_t i)
{
    if ((message[8] & wide) != 0) return {static_cast<int64_t>(get(message + 2)), message[4]};
    const uint64_t both = get(message + 2 + 2 * i);
    // Modulo 2^64, as it was written: right for any two times.
    const uint64_t time = get(message) + (both >> activity_bits) - middle;
    return {static_cast<int64_t>(time), static_cast<uint32_t>(both & 0xffff)};
}

} // namespace packed
} // namespace denizen::procmine
