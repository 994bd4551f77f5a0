// SPDX-License-Identifier: Apache-2.0
// A Mode S frame as it was on the air: 56 or 112 bits, the first transmitted bit first. Fields are
// addressed as the standard counts them (ICAO Annex 10 volume IV): from bit 1, both ends included.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::radio {

inline constexpr uint32_t short_bits = 56;
inline constexpr uint32_t long_bits = 112;

struct Frame {
    uint64_t head = 0; // bits 1 to 56, the last of them lowest
    uint64_t tail = 0; // bits 57 to 112 of a long frame, else 0

    // Downlink format: what kind of frame it is.
    DENIZEN_HD uint32_t format() const { return static_cast<uint32_t>(head >> 51); }
    DENIZEN_HD uint32_t bits() const { return head >> 55 != 0 ? long_bits : short_bits; }

    // Bit number `n`, from 1.
    DENIZEN_HD uint32_t bit(uint32_t n) const
    {
        return static_cast<uint32_t>(n <= short_bits ? head >> (short_bits - n) & 1
                                                     : tail >> (long_bits - n) & 1);
    }

    DENIZEN_HD void flip(uint32_t n)
    {
        (n <= short_bits ? head : tail) ^= 1ull << ((n <= short_bits ? short_bits : long_bits) - n);
    }

    // Bits `first` to `last`, at most 56 of them.
    DENIZEN_HD uint64_t field(uint32_t first, uint32_t last) const
    {
        const uint64_t mask = (1ull << (last - first + 1)) - 1;
        if (last <= short_bits) return head >> (short_bits - last) & mask;
        const uint64_t low = tail >> (long_bits - last);
        return (first > short_bits ? low : low | head << (last - short_bits)) & mask;
    }
    DENIZEN_HD uint32_t part(uint32_t first, uint32_t last) const
    {
        return static_cast<uint32_t>(field(first, last));
    }

    DENIZEN_HD bool operator==(const Frame& other) const
    {
        return head == other.head && tail == other.tail;
    }
};

} // namespace denizen::radio
