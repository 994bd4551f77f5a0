// SPDX-License-Identifier: Apache-2.0
// The scan of one block of samples by a team: a block of GPU threads, or one thread of the CPU. It
// gives what the receiver's loops find (apps/radio/src/scan.hpp), in the order of nothing: who
// calls it sorts by position, and believes or not (airspace.hpp).
//
// A team has rank(), size(), sync(), count(bool), which counts the members that say true, and
// take(uint32_t&), which adds one and gives what was there.
#pragma once

#include <denizen/radio/detail/demodulate.hpp>

namespace denizen::radio {

// A position at which frames were read: by the preamble's levels, and, unless that left no doubt,
// by the frame's own.
struct Candidate {
    uint32_t offset = 0; // from the begin of the block, in samples
    uint16_t pulse = 0;  // mean magnitude of the preamble's pulses
    uint16_t readings = 0;
    Reading reading[2];
};

inline constexpr uint32_t max_found = 4096; // positions in a block; real signals have hundreds

// What a team shares: 152 KB.
struct ScanMemory {
    uint16_t m[lead + block_samples + reach];
    uint32_t sums[floor_means];
    uint32_t found[max_found];
    uint32_t found_count;
    uint32_t out_count;
};

// Magnitudes of the block and around it; zero where the stream has not begun or has ended.
template <class Team>
DENIZEN_HD void load_block(Team& team, const uint8_t* iq, uint32_t before, uint32_t available,
                           uint16_t* m)
{
    // Eight samples at once: `iq` is aligned to 16 bytes, and the lead is eight samples.
    static_assert(lead == 8 && (lead + block_samples + reach) % 8 == 0);
    struct alignas(16) Eight {
        uint8_t iq[16];
    };
    for (uint32_t k = team.rank(); k < (lead + block_samples + reach) / 8; k += team.size()) {
        const uint32_t begin = k * 8; // in m; `lead` less in the block
        uint16_t* to = m + begin;
        if ((begin >= lead || before >= lead) && begin + 8 <= lead + available) {
            const Eight eight = *reinterpret_cast<const Eight*>(iq + 2 * begin - 2 * lead);
            for (uint32_t i = 0; i < 8; ++i)
                to[i] = magnitude(eight.iq[2 * i], eight.iq[2 * i + 1]);
            continue;
        }
        for (uint32_t i = 0; i < 8; ++i) {
            const bool inside = begin >= lead ? begin - lead + i < available : before >= lead;
            const uint8_t* from = iq + 2 * (begin + i) - 2 * lead;
            to[i] = inside ? magnitude(from[0], from[1]) : uint16_t{0};
        }
    }
}

// The floor of the first `count` samples: bit by bit the largest value that at most a sixteenth of
// the sums are below.
template <class Team>
DENIZEN_HD uint32_t floor_of_block(Team& team, const uint16_t* m, uint32_t count, uint32_t* sums)
{
    const uint32_t n = count / floor_samples;
    for (uint32_t k = team.rank(); k < n; k += team.size()) {
        uint32_t sum = 0;
        // Each member begins elsewhere: else all would read the same bank of shared memory.
        for (uint32_t i = 0; i < floor_samples; ++i)
            sum += m[k * floor_samples + (i + 2 * k) % floor_samples];
        sums[k] = sum;
    }
    team.sync();
    uint32_t quantile = 0;
    for (uint32_t bit = 1u << 19; bit != 0; bit >>= 1) { // 64 magnitudes are less than 2^20
        const uint32_t tried = quantile | bit;
        uint32_t below = 0;
        for (uint32_t k = 0; k < n; k += team.size())
            below += team.count(k + team.rank() < n && sums[k + team.rank()] < tried);
        if (below <= n / 16) quantile = tried;
    }
    return floor_of_quantile(quantile);
}

// Scans the `count` samples from `iq` on, of which `available` >= count, at most `reach` more, are
// there, and `before` before it (0, or at least `lead`). `iq` is aligned to 16 bytes. Gives every
// member how many candidates there are; only the first `room` are in `out`. More than max_found
// positions are not looked at: then the answer is UINT32_MAX, and the block is for the CPU.
template <class Team>
DENIZEN_HD uint32_t scan_block(Team& team, const uint8_t* iq, uint32_t before, uint32_t count,
                               uint32_t available, ScanMemory& memory, Candidate* out,
                               uint32_t room)
{
    if (team.rank() == 0) memory.found_count = memory.out_count = 0;
    load_block(team, iq, before, available, memory.m);
    team.sync();
    if (count < floor_samples) return 0; // shorter than any message
    const uint16_t* m = memory.m + lead;
    const uint32_t floor = floor_of_block(team, m, count, memory.sums);
    const Thresholds t = thresholds(floor);
    for (uint32_t k = team.rank(); k < count; k += team.size()) {
        if (!preamble_at(m + k, t) || !bits_at(m + k, t)) continue;
        const uint32_t at = team.take(memory.found_count);
        if (at < max_found) memory.found[at] = k;
    }
    team.sync();
    const uint32_t found = memory.found_count;
    if (found > max_found) {
        team.sync(); // every member has seen it
        return ~0u;
    }
    for (uint32_t i = team.rank(); i < found; i += team.size()) {
        const uint16_t* here = m + memory.found[i];
        Candidate c;
        if (!read_first(here, floor, c.reading[0])) continue;
        c.offset = memory.found[i];
        c.pulse = static_cast<uint16_t>(pulses_at(here) / 2);
        c.readings = 1;
        const Reading& first = c.reading[0];
        if (first.syndrome != 0 || !plain_parity(first.frame.format()))
            c.readings += read_again(here, floor, first, c.reading[1]);
        const uint32_t at = team.take(memory.out_count);
        if (at < room) out[at] = c;
    }
    team.sync(); // the candidates are written
    const uint32_t candidates = memory.out_count;
    team.sync(); // the memory may be used again
    return candidates;
}

} // namespace denizen::radio
