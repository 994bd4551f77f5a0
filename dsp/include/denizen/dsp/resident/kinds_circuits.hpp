// SPDX-License-Identifier: Apache-2.0
// The blocks that run on the resident runtime and fill other circuits (dsp/resident_circuits.hpp),
// as a worker sees them. Each is the last of its chain, and so has the worker's scratch memory.
#pragma once

#include <denizen/base/team.hpp>
#include <denizen/dsp/output.hpp>
#include <denizen/dsp/team_fft.hpp>
#include <denizen/flow/resident/piece.hpp>

namespace denizen::flow::resident {

using dsp::Iq;

// y[m] = the sum over k of taps[k] u[m down - k], where u is x with up - 1 zeros after each sample
template <class Sample, class Tap>
struct Resample {
    static constexpr const char* name = sizeof(Sample) == sizeof(float) ? "resample, real"
                                        : sizeof(Tap) == sizeof(float)  ? "resample, complex"
                                                                        : "resample, complex taps";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Sample* in = p.template in<Sample>();
        Sample* out = p.template out<Sample>();
        const Tap* taps = reinterpret_cast<const Tap*>(p.values);
        const auto count = static_cast<uint32_t>(p.stage.values * sizeof(float) / sizeof(Tap));
        const uint32_t up = p.stage.up;
        p.each([&](int64_t j) {
            const uint32_t at = p.base + static_cast<uint32_t>(j) * p.stage.down; // in u
            const uint32_t newest = at / up;
            const uint32_t phase = at - newest * up;
            const uint32_t products = phase < count ? (count - phase - 1) / up + 1 : 0;
            out[j] = dsp::dot(Sample{}, taps + phase, up, products, in + newest);
        });
    }
};

// The transforms of the piece, frame by frame. `a` is 1 for the inverse; values: the roots of
// unity, as many as a frame has points.
struct Transforms {
    static constexpr const char* name = "fft";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Team team(p.team);
        const uint32_t points = p.stage.values / 2;
        const auto count = static_cast<uint32_t>(p.end);
        const Iq* roots = reinterpret_cast<const Iq*>(p.values);
        // The worker's copy of the samples, which nobody reads later, is one of the two buffers.
        Iq* x = const_cast<Iq*>(p.template in<Iq>());
        Iq* other = static_cast<Iq*>(p.scratch);
        Iq* out = p.template out<Iq>();
        const bool inverse = p.stage.a != 0;
        const uint32_t rows = count / points;
        const Iq* done = inverse ? dsp::team::fft<true>(team, x, other, roots, points, rows)
                                 : dsp::team::fft(team, x, other, roots, points, rows);
        const float scale = inverse ? 1.0f / static_cast<float>(points) : 1.0f;
        p.each([&](int64_t j) { out[j] = scale * done[j]; });
    }
};

// A polyphase channelizer (dsp/channelizer.hpp). `b` says how many taps there are; values: the
// taps, as many as are a multiple of two, the roots of unity for `down` channels, and the numbers
// of those that are wanted. Output m of the n-th of them goes to n * (outputs of each) + m.
struct Channels {
    static constexpr const char* name = "channelizer";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Team team(p.team);
        const auto taps = static_cast<uint32_t>(p.stage.b);
        const uint32_t channels = p.stage.down;
        const auto frames = static_cast<uint32_t>(p.end);
        const uint32_t roots_at = taps + taps % 2;
        const Iq* roots = reinterpret_cast<const Iq*>(p.values + roots_at);
        const uint32_t chosen_at = roots_at + 2 * channels;
        const uint32_t wanted = p.stage.values - chosen_at;
        const Iq* in = p.template in<Iq>() + p.base;
        Iq* out = p.template out<Iq>();
        Iq* a = static_cast<Iq*>(p.scratch);
        Iq* b = a + frames * channels;
        for (uint32_t i = team.rank(); i < frames * channels; i += team.size()) {
            const uint32_t r = i & (channels - 1);
            const Iq* newest = in + (i - r);
            Iq sum;
            for (uint32_t k = r; k < taps; k += channels) { // ends: taps are few
                sum = sum + p.values[k] * *(newest - k);
            }
            a[r == 0 ? i : i + channels - 2 * r] = sum;
        }
        team.sync();
        const Iq* done = dsp::team::fft(team, a, b, roots, channels, frames);
        for (uint32_t i = team.rank(); i < wanted * frames; i += team.size()) {
            const uint32_t n = i / frames;
            uint32_t channel = 0;
            copy_bytes(&channel, p.values + chosen_at + n, sizeof channel);
            out[i] = done[(i - n * frames) * channels + channel];
        }
    }
};

} // namespace denizen::flow::resident
