// SPDX-License-Identifier: Apache-2.0
// The parity of Mode S: CRC-24 with the generator 0x1FFF409 (ICAO Annex 10 volume IV, 3.1.2.3.3).
// The syndrome of a whole frame is what its last 24 bits differ by from the parity of those before:
// nothing (DF17, DF18), the interrogator's code (DF11), or the aircraft's address (all others).
#pragma once

#include <denizen/radio/detail/frame.hpp>

namespace denizen::radio {

inline constexpr uint32_t crc24_generator = 0xFFF409;

// Eight steps of the division: each clears the highest of the 32 bits.
DENIZEN_HD constexpr uint32_t divide_byte(uint32_t rest)
{
    for (uint32_t step = 0; step < 8; ++step)
        rest = rest << 1 ^ (rest & 1u << 31 ? crc24_generator << 8 : 0);
    return rest >> 8;
}

namespace detail {

// What each highest byte leaves: a table is quicker on a CPU and slower on a GPU.
struct Crc24Table {
    uint32_t of[256];
    DENIZEN_HD constexpr Crc24Table() : of()
    {
        for (uint32_t byte = 0; byte < 256; ++byte) of[byte] = divide_byte(byte << 24);
    }
};
inline constexpr Crc24Table crc24_table;

DENIZEN_HD inline uint32_t feed_byte(uint32_t rest, uint32_t byte)
{
#if DENIZEN_ON_DEVICE
    return divide_byte(rest << 8) ^ byte;
#else
    return ((rest << 8 & 0xFFFFFF) | byte) ^ crc24_table.of[rest >> 16];
#endif
}

} // namespace detail

DENIZEN_HD inline uint32_t syndrome(const Frame& frame)
{
    uint32_t rest = 0;
    for (int32_t shift = 48; shift >= 0; shift -= 8)
        rest = detail::feed_byte(rest, static_cast<uint32_t>(frame.head >> shift & 0xFF));
    if (frame.bits() == short_bits) return rest;
    for (int32_t shift = 48; shift >= 0; shift -= 8)
        rest = detail::feed_byte(rest, static_cast<uint32_t>(frame.tail >> shift & 0xFF));
    return rest;
}

// The syndrome that an error of bit n - 1 gives, from the one that an error of bit n gives. An
// error of the last bit gives 1.
DENIZEN_HD inline uint32_t earlier_error(uint32_t of_n)
{
    return of_n << 1 ^ (of_n & 1u << 23 ? crc24_generator | 1u << 24 : 0);
}

} // namespace denizen::radio
