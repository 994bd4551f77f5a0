// SPDX-License-Identifier: Apache-2.0
// The blocks that run on the resident runtime and keep state, as a worker sees them: each is alone
// in its chain, which has one worker.
#pragma once

#include <denizen/base/team.hpp>
#include <denizen/dsp/output.hpp>
#include <denizen/flow/resident/piece.hpp>

namespace denizen::flow::resident {

using dsp::Iq;

// What some samples do to the gain g of automatic gain control (dsp/agc.hpp): it becomes the lesser
// of keep * g + more and most. So does what two such do one after the other, as keep is not
// negative: that is why a team can take samples side by side.
struct GainStep {
    float keep;
    float more;
    float most;

    DENIZEN_HD float operator()(float g) const
    {
        const float next = keep * g + more;
        return next < most ? next : most;
    }
};
struct Then {
    DENIZEN_HD GainStep operator()(const GainStep& first, const GainStep& second) const
    {
        return {second.keep * first.keep, second.keep * first.more + second.more,
                second(first.most)};
    }
};

// y = g x; `a` is the rate, `b` the rate times the reference; values: the most, and g.
template <class Sample>
struct Agc {
    static constexpr const char* name =
        sizeof(Sample) == sizeof(float) ? "agc, real" : "agc, complex";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        constexpr uint32_t in_a_row = 8; // samples of a member
        const Team team(p.team);
        const Sample* in = p.template in<Sample>();
        Sample* out = p.template out<Sample>();
        auto* after = static_cast<float*>(p.scratch); // each member's samples: the gain
        const float most = p.values[0];
        float gain = p.values[1];
        const auto step = static_cast<int64_t>(in_a_row) * team.size();
        for (int64_t begin = 0; begin < p.end; begin += step) {
            const int64_t first = begin + static_cast<int64_t>(in_a_row) * team.rank();
            float keep[in_a_row];
            GainStep all{1, 0, most};
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < in_a_row; ++i) {
                if (first + i < p.end) {
                    const float rest = 1 - p.stage.a * size_of(in[first + i]);
                    keep[i] = rest > 0 ? rest : 0;
                    all = Then{}(all, {keep[i], p.stage.b, most});
                }
            }
            after[team.rank()] = team.scan(all, Then{})(gain);
            team.sync();
            if (team.rank() != 0) {
                gain = after[team.rank() - 1];
            }
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < in_a_row; ++i) {
                if (first + i < p.end) {
                    out[first + i] = gain * in[first + i];
                    gain = GainStep{keep[i], p.stage.b, most}(gain);
                }
            }
            gain = after[team.size() - 1];
            team.sync(); // before the next turn writes there
        }
        if (team.rank() == 0) {
            p.values[1] = gain;
        }
    }

private:
    static DENIZEN_HD float size_of(float x) { return dsp::absolute(x); }
    static DENIZEN_HD float size_of(Iq x) { return dsp::length(x); }
};

} // namespace denizen::flow::resident
