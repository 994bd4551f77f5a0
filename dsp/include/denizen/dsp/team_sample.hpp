// SPDX-License-Identifier: Apache-2.0
// What sample.hpp and agc.hpp do to a stream, by a team: a block or warp of GPU threads, or one
// thread of the CPU. For blocks that live in a resident kernel; on the CPU the loops in src/dsp are
// faster.
//
// A team has rank(), size() and sync(), which also makes what members wrote visible to all. Every
// function here is called by all members with the same arguments; inputs must be visible to them,
// and outputs are after the next sync(). An output may be an input, but may not overlap one
// otherwise.
#pragma once

#include <denizen/dsp/output.hpp>

namespace denizen::dsp::team {

// y += a * x
template <class Team>
DENIZEN_HD void saxpy(Team& team, float a, const float* x, float* y, uint32_t count)
{
    for (uint32_t i = team.rank(); i < count; i += team.size()) y[i] += a * x[i];
}

// out = a * b
template <class Team>
DENIZEN_HD void multiply(Team& team, const Iq* a, const Iq* b, Iq* out, uint32_t count)
{
    for (uint32_t i = team.rank(); i < count; i += team.size()) out[i] = a[i] * b[i];
}

// out = |x|^2
template <class Team>
DENIZEN_HD void magnitude_squared(Team& team, const Iq* x, float* out, uint32_t count)
{
    for (uint32_t i = team.rank(); i < count; i += team.size()) out[i] = power(x[i]);
}

// out = gain * arg(x[i] * conj(x[i - 1])), for x[-1] = `before`. `out` must not overlap `x`.
template <class Team>
DENIZEN_HD void demodulate_fm(Team& team, const Iq* x, Iq before, float gain, float* out,
                              uint32_t count)
{
    for (uint32_t i = team.rank(); i < count; i += team.size())
        out[i] = gain * turn(x[i], i == 0 ? before : x[i - 1]);
}

// Automatic gain control, see agc.hpp. Every member keeps a copy of its own; `gain` is the same in
// all.
struct Agc {
    float reference;
    float rate;
    float most;
    float gain = 1;

    // As many outputs as samples. `gains` has room for count + 1 values that all members see; the
    // recurrence is one member's work, eight or so cycles a sample, the rest is everybody's.
    template <class Team>
    DENIZEN_HD void feed(Team& team, const Iq* in, uint32_t count, Iq* out, float* gains)
    {
        for (uint32_t i = team.rank(); i < count; i += team.size()) {
            const float keep = 1 - rate * length(in[i]);
            gains[i] = keep > 0 ? keep : 0;
        }
        team.sync();
        if (team.rank() == 0) {
            const float step = rate * reference;
            float g = gain < most ? gain : most;
            for (uint32_t i = 0; i < count; ++i) {
                const float keep = gains[i];
                gains[i] = g;
                const float next = g * keep + step;
                g = next < most ? next : most;
            }
            gains[count] = g;
        }
        team.sync();
        gain = gains[count];
        for (uint32_t i = team.rank(); i < count; i += team.size()) out[i] = gains[i] * in[i];
        team.sync(); // `gains` may be written again
    }
};

} // namespace denizen::dsp::team
