// SPDX-License-Identifier: Apache-2.0
// Where a frame may begin. Every Mode S reply opens with four pulses of half a microsecond, at 0,
// 1, 3.5 and 4.5 us, and silence up to the first bit at 8 us: at 2 Msps the samples 0, 2, 7 and 9
// of 16. A pulse that does not coincide with a sample is spread over two of them, so the pulses are
// looked for in a sample and the better of its neighbours; what they must exceed is the floor, the
// mean magnitude of the noise around, because the few silent samples alone say little about it.
#pragma once

#include <denizen/radio/detail/magnitude.hpp>

namespace denizen::radio {

inline constexpr uint32_t samples_per_bit = 2;
inline constexpr uint32_t preamble_samples = 16;
// What is read around a position: samples before it, and from it on.
inline constexpr uint32_t lead = 8;
inline constexpr uint32_t reach = preamble_samples + 112 * samples_per_bit + 8;

// The floor is estimated once per block of so many samples, counted from the start of the stream:
// it is the same however the stream was cut into buffers.
inline constexpr uint32_t block_samples = 65536;
inline constexpr uint32_t floor_samples = 64; // in one of the means it is estimated from
inline constexpr uint32_t floor_means = block_samples / floor_samples;

// The floor from the 16th part quantile of the block's means (a sixteenth of the block is surely
// free of signals; noise makes that quantile a tenth too low).
DENIZEN_HD inline uint32_t floor_of_quantile(uint32_t sum)
{
    return sum * 11 / (10 * floor_samples);
}

// What the scan compares with, from the floor of the block. The factors are found by measuring what
// recorded and generated frames have and noise and replies of other kinds (Mode A, C) have not.
struct Thresholds {
    uint16_t pulses;  // least half sum of the eight samples of pulses
    uint16_t silence; // most half sum of the six silent samples, beside a share of the pulses
    uint32_t bits;    // least sum of the samples of eight bits
};

DENIZEN_HD inline Thresholds thresholds(uint32_t floor)
{
    const uint32_t pulses = floor * 23 / 4; // eight samples of noise have 4
    return {static_cast<uint16_t>(pulses < 65535 ? pulses : 65535),
            static_cast<uint16_t>(floor * 2), // six samples of noise have 3
            floor * (16 * 3 / 2)};
}

// Half the sum of the samples of the four pulses, if they are at `m`. Sums of four magnitudes fit
// in 16 bits, and staying there doubles what a vector register holds.
DENIZEN_HD inline uint16_t pulses_at(const uint16_t* m)
{
    return static_cast<uint16_t>(static_cast<uint16_t>(m[0] + m[2] + m[7] + m[9]) >> 1);
}

// Whether a preamble may begin at m[0]: its pulses are stronger than a sample earlier or later,
// rise above the noise, and there is silence where there should be. Free of branches, so that
// compilers make vectors of it.
DENIZEN_HD inline bool preamble_at(const uint16_t* m, const Thresholds& t)
{
    const uint16_t here = pulses_at(m);
    const uint16_t before = pulses_at(m - 1);
    const uint16_t after = pulses_at(m + 1);
    const auto pulses = static_cast<uint16_t>(here + (before > after ? before : after));
    const auto silence =
        static_cast<uint16_t>((static_cast<uint16_t>(m[4] + m[5] + m[11] + m[12]) >> 1) +
                              (static_cast<uint16_t>(m[13] + m[14]) >> 1));
    const auto allowed = static_cast<uint16_t>(t.silence + (pulses >> 2));
    return (here >= before) & (here > after) & (pulses >= t.pulses) & (silence <= allowed);
}

// Whether there is power wherever a short frame has bits: in every eight of them as many pulses as
// in any other eight. What only looked like a preamble mostly fails in the last, so these come
// first.
DENIZEN_HD inline bool bits_at(const uint16_t* m, const Thresholds& t)
{
    for (int32_t eight = 6; eight >= 0; --eight) {
        uint32_t sum = 0;
        const uint16_t* s = m + preamble_samples + eight * 16;
        for (uint32_t k = 0; k < 16; ++k) sum += s[k];
        if (sum < t.bits) return false;
    }
    return true;
}

} // namespace denizen::radio
