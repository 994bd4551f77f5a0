// SPDX-License-Identifier: Apache-2.0
// The filter, decimator and rational resampler of fir.hpp by a team (team_sample.hpp says what that
// is): a member computes whole outputs. The stream may be cut anywhere, with the same outputs to
// the last bit.
#pragma once

#include <denizen/dsp/output.hpp>

namespace denizen::dsp::team {

// Sample and Tap: float or Iq, see fir.hpp. Every member keeps a copy of its own of this struct;
// what it points to is the team's.
template <class Sample, class Tap = float>
struct Fir {
    const Tap* taps;
    uint32_t tap_count; // at least 1
    uint32_t up;        // at least 1, as `down`
    uint32_t down;
    Sample* history;   // room for 2 * kept() samples; zeros before the first feed()
    uint64_t next = 0; // the next output's place in the stream with up - 1 zeros after each sample
    uint32_t half = 0; // which half of the history is the current one

    // How many samples before the current block an output needs.
    DENIZEN_HD uint32_t kept() const { return (tap_count - 1) / up; }

    // How many outputs `count` further samples give.
    DENIZEN_HD uint32_t outputs(uint32_t count) const
    {
        const uint64_t end = static_cast<uint64_t>(count) * up;
        return next < end ? static_cast<uint32_t>((end - next - 1) / down + 1) : 0;
    }

    // Takes `count` samples, which must not overlap `out`; gives the number of outputs. They are
    // visible to all members, and the history is up to date, when it returns.
    template <class Team>
    DENIZEN_HD uint32_t feed(Team& team, const Sample* in, uint32_t count, Sample* out)
    {
        const uint32_t n = outputs(count);
        const Sample* old = history + half * kept();
        for (uint32_t m = team.rank(); m < n; m += team.size())
            out[m] = output(in, old, next + static_cast<uint64_t>(m) * down);
        // The newest kept() samples of history and block, the oldest first.
        Sample* fresh = history + (1 - half) * kept();
        for (uint32_t i = team.rank(); i < kept(); i += team.size()) {
            const uint64_t at = static_cast<uint64_t>(i) + count;
            fresh[i] = at < kept() ? old[at] : in[at - kept()];
        }
        next += static_cast<uint64_t>(n) * down - static_cast<uint64_t>(count) * up;
        half = 1 - half;
        team.sync();
        return n;
    }

private:
    DENIZEN_HD Sample output(const Sample* in, const Sample* old, uint64_t at) const
    {
        const auto newest = static_cast<uint32_t>(at / up);
        const auto phase = static_cast<uint32_t>(at % up);
        const uint32_t count = phase < tap_count ? (tap_count - phase - 1) / up + 1 : 0;
        const uint32_t here = count <= newest ? count : newest + 1; // the rest is history
        const Sample sum = dot(Sample{}, taps + phase, up, here, in + newest);
        return here == count ? sum
                             : dot(sum, taps + phase + static_cast<uint64_t>(here) * up, up,
                                   count - here, old + kept() - 1);
    }
};

} // namespace denizen::dsp::team
