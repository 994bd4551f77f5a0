// SPDX-License-Identifier: Apache-2.0
// The blocks that run on the resident runtime, as a worker sees them: outputs from inputs, for a
// warp of the GPU or for one thread of the CPU, from one text: that of dsp/output.hpp.
#pragma once

#include <denizen/dsp/output.hpp>
#include <denizen/flow/resident/piece.hpp>

namespace denizen::flow::resident {

using dsp::Iq; // laid out as std::complex<float>

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
