// SPDX-License-Identifier: Apache-2.0
// Plain loops over the functions of include/denizen/radio, made into vectors by the compiler, once
// for each level of x86-64; the loader picks the one for the machine. All arithmetic is on
// integers, so that every version finds the same.
#include "scan.hpp"
#include <denizen/base/levels.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace denizen::radio::scan {
namespace {

// Positions are looked at in pieces whose sums stay in the first-level cache.
constexpr size_t piece = 2048;
constexpr size_t beyond = preamble_samples + 7 * 16; // samples after a position that its bits take

// sums[k] = a quarter of the samples m[k] to m[k + 15]: they fit in 16 bits, and lose at most three
// quarters of a unit each.
DENIZEN_LEVELS void quarter_sums(const uint16_t* __restrict m, uint16_t* __restrict sums,
                                 size_t count)
{
    uint16_t four[piece + beyond + 16];
    for (size_t k = 0; k < count + 12; ++k)
        four[k] = static_cast<uint16_t>((m[k] >> 2) + (m[k + 1] >> 2) + (m[k + 2] >> 2) +
                                        (m[k + 3] >> 2));
    for (size_t k = 0; k < count; ++k)
        sums[k] = static_cast<uint16_t>(four[k] + four[k + 4] + four[k + 8] + four[k + 12]);
}

// Marks where preamble_at() holds, and bits_at() too but for the rounding of the sums.
DENIZEN_LEVELS void mark(const uint16_t* __restrict m, const uint16_t* __restrict sums,
                         size_t count, Thresholds t, uint8_t* __restrict marks)
{
    const uint32_t exact = t.bits / 4 > 12 ? t.bits / 4 - 12 : 0;
    const auto least = static_cast<uint16_t>(exact < 65535 ? exact : 65535);
    for (size_t k = 0; k < count; ++k) {
        const uint16_t* s = sums + k + preamble_samples;
        const bool power = (s[0] >= least) & (s[16] >= least) & (s[32] >= least) &
                           (s[48] >= least) & (s[64] >= least) & (s[80] >= least) &
                           (s[96] >= least);
        marks[k] = preamble_at(m + k, t) & power;
    }
}

// The positions of the marks that are set. Eight of them at a time become bits by a multiplication
// that moves each to the highest byte.
size_t collect(const uint8_t* marks, size_t count, uint32_t* found)
{
    static_assert(std::endian::native == std::endian::little);
    size_t n = 0;
    for (size_t k = 0; k < count; k += 64) {
        uint64_t set = 0;
        for (size_t eight = 0; eight < 8; ++eight) {
            uint64_t word;
            std::memcpy(&word, marks + k + 8 * eight, 8);
            set |= (word * 0x0102040810204080 >> 56) << (8 * eight);
        }
        for (; set != 0; set &= set - 1)
            found[n++] = static_cast<uint32_t>(k) + static_cast<uint32_t>(std::countr_zero(set));
    }
    return n;
}

// Keeps the positions where bits_at() holds exactly.
DENIZEN_LEVELS size_t confirm(const uint16_t* m, Thresholds t, uint32_t* found, size_t count)
{
    const auto fails = [=](uint32_t k) { return !bits_at(m + k, t); };
    return static_cast<size_t>(std::remove_if(found, found + count, fails) - found);
}

DENIZEN_LEVELS void sum(const uint16_t* __restrict m, size_t count, uint32_t* __restrict sums)
{
    for (size_t k = 0; k < count; ++k) {
        uint32_t total = 0;
        for (size_t i = 0; i < floor_samples; ++i) total += m[k * floor_samples + i];
        sums[k] = total;
    }
}

// The largest value that at most a sixteenth of the sums are below, bit by bit: counting twenty
// times in vectors is several times quicker than partitioning.
DENIZEN_LEVELS uint32_t quantile(const uint32_t* sums, size_t count)
{
    uint32_t found = 0;
    for (uint32_t bit = 1u << 19; bit != 0; bit >>= 1) { // 64 magnitudes are less than 2^20
        const uint32_t tried = found | bit;
        uint32_t below = 0;
        for (size_t k = 0; k < count; ++k) below += sums[k] < tried;
        if (below <= count / 16) found = tried;
    }
    return found;
}

} // namespace

DENIZEN_LEVELS void magnitudes(const uint8_t* __restrict iq, uint16_t* __restrict m, size_t count)
{
    for (size_t k = 0; k < count; ++k) m[k] = magnitude(iq[2 * k], iq[2 * k + 1]);
}

DENIZEN_LEVELS void magnitudes(const float* __restrict iq, uint16_t* __restrict m, size_t count)
{
    constexpr float full = 127.5f * magnitude_scale;
    const auto whole = [](float x) { // what is not a number becomes the most negative one
        const float y = x * full;
        const float low = y > -full ? y : -full;
        const float z = low < full ? low : full;
        return static_cast<int32_t>(z + (z < 0 ? -0.5f : 0.5f));
    };
    for (size_t k = 0; k < count; ++k) {
        const int32_t x = whole(iq[2 * k]);
        const int32_t y = whole(iq[2 * k + 1]);
        m[k] = static_cast<uint16_t>(root(static_cast<uint32_t>(x * x + y * y)));
    }
}

uint32_t floor(const uint16_t* m, size_t count, uint32_t* sums)
{
    const size_t n = count / floor_samples;
    sum(m, n, sums);
    return floor_of_quantile(quantile(sums, n));
}

size_t positions(const uint16_t* m, size_t count, const Thresholds& t, uint8_t* marks,
                 uint32_t* found)
{
    uint16_t sums[piece + beyond];
    for (size_t at = 0; at < count; at += piece) {
        const size_t n = std::min(piece, count - at);
        quarter_sums(m + at, sums, n + beyond - 15);
        mark(m + at, sums, n, t, marks + at);
    }
    const size_t whole = (count + 63) / 64 * 64;
    std::memset(marks + count, 0, whole - count);
    return confirm(m, t, found, collect(marks, whole, found));
}

// Flattened, so that what they call is compiled for the same instructions.
DENIZEN_LEVELS __attribute__((flatten)) bool first(const uint16_t* m, uint32_t floor, Reading& out)
{
    return read_first(m, floor, out);
}

DENIZEN_LEVELS __attribute__((flatten)) bool again(const uint16_t* m, uint32_t floor,
                                                   const Reading& before, Reading& out)
{
    return read_again(m, floor, before, out);
}

} // namespace denizen::radio::scan
