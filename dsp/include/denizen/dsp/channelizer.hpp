// SPDX-License-Identifier: Apache-2.0
// A polyphase channelizer over a stream: all channels of a band at once, each a tenth or a
// thousandth of its rate, for the price of one filter and one Fourier transform (f. harris, C.
// Dick, M. Rice, Digital receivers and transmitters using polyphase filter banks, 2003). Blocks of
// any size give the same outputs to the last bit. One thread at a time.
#pragma once

#include <denizen/dsp/fft.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace denizen::dsp {

class Channelizer {
public:
    using Complex = std::complex<float>;

    // Channel k lies around k / channels of the sampling rate, the upper half below zero:
    //   y[k][m] = the sum over i of taps[i] exp(2 pi i k i / channels) x[m * channels - i],
    // that is a band-pass filter, moved to 0, of which every channels-th output is kept.
    // `channels`: a power of two from 2 to 1024; up to 2^20 taps. Throws Errc::bad_argument.
    Channelizer(std::span<const float> taps, uint32_t channels);

    uint32_t channels() const { return fft_.points(); }

    // How many outputs of each channel `count` further samples give.
    size_t outputs(size_t count) const;

    // Takes `count` samples; output m of channel k goes to out[k * pitch + m], where pitch is at
    // least outputs(count). Gives their number.
    size_t feed(const Complex* in, size_t count, Complex* out, size_t pitch);

private:
    void transform(size_t first, size_t frames, Complex* out, size_t pitch);

    Fft fft_;
    size_t rows_;               // taps of each channel
    std::vector<float> taps_;   // row by row, the oldest sample's first
    std::vector<float> x_[2];   // samples not yet done with; real and imaginary parts
    std::vector<float> sum_[2]; // of one frame
    size_t filled_;             // how many of x_ are
    size_t due_;                // where in x_ the newest sample of the next frame lies
};

} // namespace denizen::dsp
