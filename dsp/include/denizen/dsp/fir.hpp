// SPDX-License-Identifier: Apache-2.0
// A FIR filter over a stream, also between rates: a filter alone (up = down = 1), a decimator
// (down > 1), or a rational polyphase resampler. Blocks of any size, down to single samples, give
// the same outputs to the last bit. One thread at a time.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace denizen::dsp {

// Samples and taps: (float, float), (complex, float) and (complex, complex), of single precision.
template <class Sample, class Tap = float>
class Fir {
public:
    // y[m] = the sum over k of taps[k] * u[m * down - k], where u is the stream with up - 1 zeros
    // after each sample, and zeros before it. Throws Errc::bad_argument for no taps, for taps of
    // more than 2^22 values in all (16 MiB), and for a rate outside 1 to 2^20.
    explicit Fir(std::span<const Tap> taps, uint32_t up = 1, uint32_t down = 1);

    // The most outputs that `count` further samples can give.
    size_t most(size_t count) const;

    // From the next output on, over the same samples. Throws Errc::bad_argument for none, and for
    // more than there were at first.
    void set_taps(std::span<const Tap> taps);

    // Takes `count` samples and writes every output that needs no later one; gives their number.
    // `out` may be `in` where up is 1.
    size_t feed(const Sample* in, size_t count, Sample* out);

private:
    size_t outputs() const;
    void interleave(size_t count, Sample* out);

    static constexpr size_t parts = sizeof(Sample) / sizeof(float);
    static constexpr size_t tap_parts = sizeof(Tap) / sizeof(float);

    size_t up_;
    size_t down_;
    size_t given_;                // taps
    size_t taps_;                 // of each phase
    size_t block_;                // samples taken at once
    std::vector<float> h_[2];     // by phases, the latest sample's tap last; real and imaginary
    std::vector<float> x_[2];     // the last taps_ - 1 samples, then those of the block
    std::vector<float> y_[2];     // outputs of the block
    std::vector<float> of_phase_; // those of one phase
    size_t filled_ = 0;           // how many of x_ are
    uint64_t next_ = 0; // u's index of the next output, counted from the first sample of the block
};

extern template class Fir<float, float>;
extern template class Fir<std::complex<float>, float>;
extern template class Fir<std::complex<float>, std::complex<float>>;

// The taps of a low-pass filter: a sinc in a Kaiser window (J. F. Kaiser, 1974), an odd number of
// them, their sum being 1. Frequencies as fractions of the sampling rate: half of the level is left
// at `cutoff` (to 0.5), and `attenuation` dB (20 to 150) are reached half a `transition` above it.
// Throws Errc::bad_argument for values outside those ranges.
std::vector<float> low_pass(double cutoff, double transition, double attenuation);

} // namespace denizen::dsp
