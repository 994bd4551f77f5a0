// SPDX-License-Identifier: Apache-2.0
// From magnitudes to bits. A bit is a pulse in the first half of its microsecond (1) or in the
// second (0), so at 2 Msps it is two samples, and comparing the two is enough only while samples
// and pulses coincide. Otherwise a pulse leaks into a neighbouring sample and bits blur into each
// other: half a sample off, the second sample of a bit says nothing at all. Therefore the whole
// sequence of bits is found that explains the samples best (Viterbi, over two states: what the bit
// before was), given the levels that a first and a second sample have by the bits on either side;
// they come from the preamble, and, where the parity is then wrong, once more from the message
// itself.
#pragma once

#include <denizen/radio/crc24.hpp>
#include <denizen/radio/detail/preamble.hpp>

namespace denizen::radio {

// Expected magnitudes, in quarters of the scan's units: by [the bit before][this bit] for a first
// sample, by [this bit][the bit after] for a second one.
struct Levels {
    int32_t first[2][2];
    int32_t second[2][2];
};

// From the preamble at m[0] and the floor.
DENIZEN_HD inline Levels levels_of_preamble(const uint16_t* m, uint32_t floor)
{
    const int32_t noise = static_cast<int32_t>(floor) / 4;
    const auto power = [noise](uint32_t half_sum) { // of four samples, less the noise's
        const int32_t mean = static_cast<int32_t>(half_sum) / 8;
        return mean > noise ? root(static_cast<uint32_t>(mean * mean - noise * noise)) : 0;
    };
    const uint32_t before = pulses_at(m - 1);
    const uint32_t after = pulses_at(m + 1);
    const int32_t pulse = power(pulses_at(m));
    const int32_t leak = power(before > after ? before : after);
    const int32_t early = before > after ? leak : 0; // into the sample before its own
    const int32_t late = before > after ? 0 : leak;  // into the one after
    const auto level = [noise](int32_t x) {
        return root(static_cast<uint32_t>(x * x + noise * noise));
    };
    Levels out;
    for (int32_t a = 0; a < 2; ++a) {
        for (int32_t b = 0; b < 2; ++b) {
            out.first[a][b] = level((b ? pulse : early) + (a ? 0 : late));
            out.second[a][b] = level((a ? late : pulse) + (b ? early : 0));
        }
    }
    return out;
}

// What it costs that bit i is `b` after `a`: the squared distances of its first sample and of the
// second sample before it. Before the first bit there is silence, as after the pulse of a 1.
DENIZEN_HD inline uint32_t step_cost(const uint16_t* s, const Levels& l, uint32_t i, uint32_t a,
                                     uint32_t b)
{
    s += i * samples_per_bit;
    const int32_t d = s[0] / 4 - l.first[a][b];
    const int32_t e = s[-1] / 4 - l.second[a][b];
    return static_cast<uint32_t>(d * d + (i == 0 ? 0 : e * e));
}

// Costs computed when they are asked for: for a thread with few registers to spare.
struct CostsOnDemand {
    const uint16_t* s;
    const Levels& levels;
    DENIZEN_HD uint32_t operator()(uint32_t i, uint32_t a, uint32_t b) const
    {
        return step_cost(s, levels, i, a, b);
    }
};

// Costs of all steps beforehand, in loops that compilers make vectors of.
struct CostsAhead {
    uint32_t cost[2][2][long_bits];
    DENIZEN_HD CostsAhead(const uint16_t* s, const Levels& levels)
    {
        int32_t first[long_bits];
        int32_t second[long_bits]; // of the bit before
        for (int32_t i = 0; i < static_cast<int32_t>(long_bits); ++i) {
            first[i] = s[2 * i] / 4;
            second[i] = s[2 * i - 1] / 4;
        }
        for (uint32_t a = 0; a < 2; ++a) {
            for (uint32_t b = 0; b < 2; ++b) {
                for (uint32_t i = 0; i < long_bits; ++i) {
                    const int32_t d = first[i] - levels.first[a][b];
                    const int32_t e = second[i] - levels.second[a][b];
                    cost[a][b][i] = static_cast<uint32_t>(d * d + e * e);
                }
                cost[a][b][0] = step_cost(s, levels, 0, a, b);
            }
        }
    }
    DENIZEN_HD uint32_t operator()(uint32_t i, uint32_t a, uint32_t b) const
    {
        return cost[a][b][i];
    }
};

// Survivors of the search: for either value of the last bit the cost of the best sequence that ends
// so, and that sequence: which survivor before `run` it continues, then the bits since.
struct Paths {
    uint32_t cost[2];
    uint64_t bits[2];

    // Goes on from bit `begin` to before bit `end`, at most 56 of them.
    template <class Costs>
    DENIZEN_HD void run(const Costs& of, uint32_t begin, uint32_t end)
    {
        uint32_t cost0 = cost[0];
        uint32_t cost1 = cost[1];
        uint64_t bits0 = 0;
        uint64_t bits1 = 1;
        for (uint32_t i = begin; i < end; ++i) {
            const uint32_t c00 = cost0 + of(i, 0, 0);
            const uint32_t c10 = cost1 + of(i, 1, 0);
            const uint32_t c01 = cost0 + of(i, 0, 1);
            const uint32_t c11 = cost1 + of(i, 1, 1);
            const uint64_t to0 = (c10 < c00 ? bits1 : bits0) << 1;
            const uint64_t to1 = (c11 < c01 ? bits1 : bits0) << 1 | 1;
            cost0 = c10 < c00 ? c10 : c00;
            cost1 = c11 < c01 ? c11 : c01;
            bits0 = to0;
            bits1 = to1;
        }
        cost[0] = cost0;
        cost[1] = cost1;
        bits[0] = bits0;
        bits[1] = bits1;
    }

    // The better end, if silence follows sample s[-1].
    DENIZEN_HD uint32_t best(const uint16_t* s, const Levels& l) const
    {
        const int32_t e0 = s[-1] / 4 - l.second[0][0];
        const int32_t e1 = s[-1] / 4 - l.second[1][0];
        return cost[1] + static_cast<uint32_t>(e1 * e1) < cost[0] + static_cast<uint32_t>(e0 * e0);
    }
};

// Whether it is a format that aircraft send and this decoder knows.
DENIZEN_HD inline bool known_format(uint32_t format)
{
    constexpr uint32_t known = 1u << 0 | 1u << 4 | 1u << 5 | 1u << 11 | 1u << 16 | 1u << 17 |
                               1u << 18 | 1u << 20 | 1u << 21;
    return (known >> format & 1) != 0;
}

// The frame whose bits begin at `s`, by the likeliest sequence of bits; its length follows from its
// first bit. False where the format is not known: then `out` is not to be used.
template <class Costs>
DENIZEN_HD bool slice(const uint16_t* s, const Levels& l, const Costs& costs, Frame& out)
{
    constexpr uint32_t opening = 12; // bits after which the format is settled
    constexpr uint32_t rest = short_bits - opening;
    Paths paths{{1u << 30, 0}, {}}; // no path begins after a 0
    paths.run(costs, 0, opening);
    const uint64_t mask = (1ull << opening) - 1;
    const uint64_t opened[2] = {paths.bits[0] & mask, paths.bits[1] & mask};
    const uint32_t likelier = paths.cost[1] < paths.cost[0];
    if (!known_format(static_cast<uint32_t>(opened[likelier] >> (opening - 5)))) return false;
    paths.run(costs, opening, short_bits);
    uint64_t head[2];
    for (uint32_t b = 0; b < 2; ++b)
        head[b] = opened[paths.bits[b] >> rest] << rest | (paths.bits[b] & ((1ull << rest) - 1));
    uint32_t end = paths.best(s + short_bits * samples_per_bit, l);
    if (head[end] >> (short_bits - 1) == 0) {
        out = {head[end], 0};
    } else {
        paths.run(costs, short_bits, long_bits);
        end = paths.best(s + long_bits * samples_per_bit, l);
        const uint64_t tail = paths.bits[end];
        out = {head[tail >> short_bits], tail & ((1ull << short_bits) - 1)};
    }
    return known_format(out.format());
}

// The levels that the samples have on average where `frame` says what the bits are.
DENIZEN_HD inline Levels levels_of_frame(const uint16_t* s, const Frame& frame, Levels levels)
{
    uint32_t first[2][2] = {};
    uint32_t second[2][2] = {};
    uint32_t first_count[2][2] = {};
    uint32_t second_count[2][2] = {};
    const uint32_t bits = frame.bits();
    uint32_t before = 1;
    for (uint32_t n = 1; n <= bits; ++n, s += samples_per_bit) {
        const uint32_t bit = frame.bit(n);
        const uint32_t after = n < bits ? frame.bit(n + 1) : 0;
        first[before][bit] += s[0];
        first_count[before][bit] += 1;
        second[bit][after] += s[1];
        second_count[bit][after] += 1;
        before = bit;
    }
    constexpr uint32_t enough = 4;
    for (uint32_t a = 0; a < 2; ++a) {
        for (uint32_t b = 0; b < 2; ++b) {
            if (first_count[a][b] >= enough)
                levels.first[a][b] = static_cast<int32_t>(first[a][b] / first_count[a][b] / 4);
            if (second_count[a][b] >= enough)
                levels.second[a][b] = static_cast<int32_t>(second[a][b] / second_count[a][b] / 4);
        }
    }
    return levels;
}

} // namespace denizen::radio
