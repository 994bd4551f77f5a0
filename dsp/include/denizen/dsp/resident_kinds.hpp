// SPDX-License-Identifier: Apache-2.0
// The blocks that run on the resident runtime, as a worker sees them: outputs from inputs, for a
// warp of the GPU or for one thread of the CPU, from one text: that of dsp/output.hpp.
//
// A kind of one's own is a struct with a name and
//     template <class T> static DENIZEN_HD void make(const Piece<T>& p);
// which writes p.out[j] for each j of p.each(), reading p.in[base + j * down] and up to `before`
// samples in front of that. One of two streams reads p.beside[base + j * down] as well, and is the
// first of its chain. It keeps no state: quanta of one stream are at several workers at once.
#pragma once

#include <denizen/dsp/output.hpp>
#include <denizen/flow/resident/stage.hpp>

namespace denizen::flow::resident {

using dsp::Iq; // laid out as std::complex<float>

// A worker's share of the work on a quantum.
template <class Context>
struct Piece {
    const Context& team;
    const Stage& stage;
    const float* values;
    const void* from; // the quantum's first sample; its predecessors lie in front of it
    const void* with; // those of the second stream beside them; null: there is none
    void* to;         // the quantum's first output
    uint64_t first;   // the number of that output in its stream
    uint32_t base;    // of output 0, in inputs: below `down`
    int64_t begin;    // outputs begin ... end - 1; negative ones are of the quantum before
    int64_t end;

    template <class T>
    DENIZEN_HD const T* in() const
    {
        return static_cast<const T*>(from);
    }
    template <class T>
    DENIZEN_HD const T* beside() const
    {
        return static_cast<const T*>(with);
    }
    template <class T>
    DENIZEN_HD T* out() const
    {
        return static_cast<T*>(to);
    }
    // Calls `use` for the outputs of this lane.
    template <class Use>
    DENIZEN_HD void each(Use&& use) const
    {
        for (int64_t j = begin + team.lane(); j < end; j += team.lanes()) {
            use(j);
        }
    }
};

// y = a x + b
struct Saxpy {
    static constexpr const char* name = "saxpy";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const float* in = p.template in<float>();
        float* out = p.template out<float>();
        const float a = p.stage.a;
        const float b = p.stage.b;
        p.each([&](int64_t j) { out[j] = a * in[j] + b; });
    }
};

// y[m] = the sum over k of taps[k] x[m down - k]
template <class Sample, class Tap>
struct Fir {
    static constexpr const char* name = sizeof(Sample) == sizeof(float) ? "fir, real"
                                        : sizeof(Tap) == sizeof(float)  ? "fir, complex"
                                                                        : "fir, complex taps";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Sample* in = p.template in<Sample>() + p.base;
        Sample* out = p.template out<Sample>();
        const Tap* taps = reinterpret_cast<const Tap*>(p.values);
        const auto count = static_cast<uint32_t>(p.stage.values * sizeof(float) / sizeof(Tap));
        const auto down = static_cast<int64_t>(p.stage.down);
        p.each([&](int64_t j) { out[j] = dsp::dot(Sample{}, taps, 1, count, in + j * down); });
    }
};

// y[n] = x[n] w[n modulo the length of w]
struct Mixer {
    static constexpr const char* name = "mixer";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Iq* in = p.template in<Iq>();
        Iq* out = p.template out<Iq>();
        const Iq* w = reinterpret_cast<const Iq*>(p.values);
        const auto period = static_cast<int64_t>(p.stage.values / 2);
        const auto begin = static_cast<int64_t>(p.first % static_cast<uint64_t>(period));
        p.each([&](int64_t j) {
            const int64_t n = (begin + j) % period;
            out[j] = in[j] * w[n < 0 ? n + period : n];
        });
    }
};

// y[n] = a[n] b[n], of two streams
struct Multiply {
    static constexpr const char* name = "multiply";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Iq* a = p.template in<Iq>();
        const Iq* b = p.template beside<Iq>();
        Iq* out = p.template out<Iq>();
        p.each([&](int64_t j) { out[j] = a[j] * b[j]; });
    }
};

// y = |x|^2
struct MagnitudeSquared {
    static constexpr const char* name = "magnitude squared";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Iq* in = p.template in<Iq>();
        float* out = p.template out<float>();
        p.each([&](int64_t j) { out[j] = dsp::power(in[j]); });
    }
};

// y[n] = a arg(x[n] conj(x[n - 1])), 0 where the product is 0
struct DemodulateFm {
    static constexpr const char* name = "demodulate fm";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const Iq* in = p.template in<Iq>();
        float* out = p.template out<float>();
        const float gain = p.stage.a;
        p.each([&](int64_t j) { out[j] = gain * dsp::turn(in[j], in[j - 1]); });
    }
};

} // namespace denizen::flow::resident
