// SPDX-License-Identifier: Apache-2.0
// From a position where a preamble may begin to the frame that may be there: a pure function of the
// samples around it, for CPU and GPU. What is then believed depends on which aircraft are known and
// is decided, in the order of positions, by who keeps that table (airspace.hpp).
#pragma once

#include <denizen/radio/detail/slicer.hpp>

namespace denizen::radio {

// A frame as it was read, and the bits whose errors would explain a wrong parity: one, or two of
// the most doubtful ones, as numbers from 1; 0 stands for none.
struct Reading {
    Frame frame;
    uint32_t syndrome = 0;
    uint8_t error[2] = {0, 0};
    bool clear = true; // DF11: its last seven bits, which may hold a code, fit their samples well
    uint8_t doubt = 0; // how many bits were read with more doubt than error[0], 8 for any more
};

// Formats whose parity is not combined with the aircraft's address.
DENIZEN_HD inline bool plain_parity(uint32_t format)
{
    return format == 11 || format == 17 || format == 18;
}

// How much dearer the frame would be with bit i (from 0) the other way.
template <class Costs>
DENIZEN_HD int32_t certainty(const Costs& of, const Frame& frame, uint32_t i)
{
    const uint32_t bit = frame.bit(i + 1);
    const uint32_t before = i > 0 ? frame.bit(i) : 1;
    uint32_t difference = of(i, before, 1 - bit) - of(i, before, bit);
    if (i + 1 < frame.bits()) {
        const uint32_t after = frame.bit(i + 2);
        difference += of(i + 1, 1 - bit, after) - of(i + 1, bit, after);
    }
    return static_cast<int32_t>(difference);
}

// Looks for the errors that explain the reading's syndrome. Wrong formats (bits 1 to 5) are never
// repaired: then neither the length nor the kind of parity was known. Pairs are looked for among
// the few most doubtful bits of long frames.
template <class Costs>
DENIZEN_HD void explain(const Costs& costs, Reading& r)
{
    constexpr uint32_t few = 8;
    struct Doubtful {
        int32_t certainty;
        uint32_t syndrome;
        uint32_t n;
    } doubtful[few];
    uint32_t count = 0;
    uint32_t of_n = 1;
    for (uint32_t n = r.frame.bits(); n > 5; --n, of_n = earlier_error(of_n)) {
        const int32_t c = certainty(costs, r.frame, n - 1);
        if (of_n == r.syndrome) r.error[0] = static_cast<uint8_t>(n);
        if (count == few && c >= doubtful[few - 1].certainty) continue;
        uint32_t k = count < few ? count++ : few - 1;
        for (; k > 0 && doubtful[k - 1].certainty > c; --k) doubtful[k] = doubtful[k - 1];
        doubtful[k] = {c, of_n, n};
    }
    if (r.error[0] != 0) {
        while (r.doubt < count && doubtful[r.doubt].n != r.error[0]) ++r.doubt;
        return;
    }
    if (r.frame.bits() != long_bits) return;
    for (uint32_t a = 0; a < count; ++a) {
        for (uint32_t b = 0; b < a; ++b) {
            if ((doubtful[a].syndrome ^ doubtful[b].syndrome) != r.syndrome) continue;
            r.error[0] = static_cast<uint8_t>(doubtful[a].n);
            r.error[1] = static_cast<uint8_t>(doubtful[b].n);
            r.doubt = static_cast<uint8_t>(a);
            return; // two pairs of so few bits never share a syndrome: the code's distance is 6
        }
    }
}

// Whether every one of the last seven bits is nearer to its samples than a third of a pulse. Bits
// that another transmission has covered are read wrong with little doubt, but fit badly.
template <class Costs>
DENIZEN_HD bool clear_code(const Costs& of, const Levels& l, const Frame& frame)
{
    const auto third = static_cast<uint32_t>(l.first[1][1] / 3);
    bool clear = true;
    for (uint32_t i = short_bits - 7; i < short_bits; ++i)
        clear &= of(i, frame.bit(i), frame.bit(i + 1)) <= third * third;
    return clear;
}

// How the costs of bits are computed on this side.
#if DENIZEN_ON_DEVICE
using Costs = CostsOnDemand;
#else
using Costs = CostsAhead;
#endif

DENIZEN_HD inline bool read(const uint16_t* s, const Levels& l, Reading& out)
{
    const Costs costs{s, l};
    out = {};
    if (!slice(s, l, costs, out.frame)) return false;
    out.syndrome = syndrome(out.frame);
    if (plain_parity(out.frame.format()) && out.syndrome != 0) explain(costs, out);
    if (out.frame.format() == 11) out.clear = clear_code(costs, l, out.frame);
    return true;
}

// Reads the frame whose preamble begins at m[0], of which m[-lead] to m[reach] are readable, by the
// levels of the preamble. False if there is none.
DENIZEN_HD inline bool read_first(const uint16_t* m, uint32_t floor, Reading& out)
{
    return read(m + preamble_samples, levels_of_preamble(m, floor), out);
}

// Reads it again by its own levels. False if that changes nothing.
DENIZEN_HD inline bool read_again(const uint16_t* m, uint32_t floor, const Reading& first,
                                  Reading& out)
{
    const uint16_t* s = m + preamble_samples;
    const Levels levels = levels_of_frame(s, first.frame, levels_of_preamble(m, floor));
    return read(s, levels, out) && !(out.frame == first.frame);
}

} // namespace denizen::radio
