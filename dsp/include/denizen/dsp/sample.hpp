// SPDX-License-Identifier: Apache-2.0
// What is done to samples one by one. Arrays of `count` samples; an output may be an input, but may
// not overlap one otherwise.
#pragma once

#include <complex>
#include <cstddef>

namespace denizen::dsp {

using Complex = std::complex<float>;

// y += a * x
void saxpy(float a, const float* x, float* y, size_t count);

// out = a * b. Infinities follow the formula of four products, not C's annex G.
void multiply(const Complex* a, const Complex* b, Complex* out, size_t count);

// out = |x|^2
void magnitude_squared(const Complex* x, float* out, size_t count);

// out = gain * arg(x[i] * conj(x[i - 1])), for x[-1] = `before`; within gain * 4e-7 of the exact
// value, and 0 where the product is 0. `out` must not overlap `x`.
void demodulate_fm(const Complex* x, Complex before, float gain, float* out, size_t count);

// Frequency demodulation over a stream: what demodulate_fm() computes, block by block. With
// gain = rate / (2 pi deviation) outputs are in units of the deviation.
class FmDemodulator {
public:
    explicit FmDemodulator(float gain) : gain_(gain) {}

    // As many outputs as samples. The first sample of a stream gives 0.
    void feed(const Complex* in, size_t count, float* out)
    {
        if (count == 0) return;
        demodulate_fm(in, before_, gain_, out, count);
        before_ = in[count - 1];
    }

    // From the next sample on.
    void set_gain(float gain) { gain_ = gain; }

private:
    float gain_;
    Complex before_ = 0;
};

} // namespace denizen::dsp
