// SPDX-License-Identifier: Apache-2.0
// The recurrence, written as g = g (1 - rate |x|) + rate * reference, has one multiplication and
// addition in its cycle; what is not in the cycle is done before and after it, in vectors.
#include <denizen/dsp/agc.hpp>

#include <denizen/base/levels.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <cmath>

namespace denizen::dsp {
namespace {

constexpr size_t piece = 1024;

// Never below 0: a sample larger than 1 / rate would turn the gain's sign.
DENIZEN_LEVELS void keeps(const float* x, float rate, float* out, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const float keep = 1 - rate * std::fabs(x[i]);
        out[i] = keep > 0 ? keep : 0;
    }
}

DENIZEN_LEVELS void keeps(const std::complex<float>* x, float rate, float* out, size_t count)
{
    const auto* pairs = reinterpret_cast<const float*>(x);
    for (size_t i = 0; i < count; ++i) {
        const float re = pairs[2 * i];
        const float im = pairs[2 * i + 1];
        const float keep = 1 - rate * std::sqrt(re * re + im * im);
        out[i] = keep > 0 ? keep : 0;
    }
}

DENIZEN_LEVELS void scale(const float* x, const float* gains, float* out, size_t count)
{
    for (size_t i = 0; i < count; ++i) out[i] = x[i] * gains[i];
}

DENIZEN_LEVELS void scale(const std::complex<float>* x, const float* gains,
                          std::complex<float>* out, size_t count)
{
    const auto* pairs = reinterpret_cast<const float*>(x);
    auto* to = reinterpret_cast<float*>(out);
    for (size_t i = 0; i < count; ++i) {
        to[2 * i] = pairs[2 * i] * gains[i];
        to[2 * i + 1] = pairs[2 * i + 1] * gains[i];
    }
}

} // namespace

template <class Sample>
Agc<Sample>::Agc(float reference, float rate, float most)
    : step_(rate * reference), rate_(rate), most_(most), keep_(piece)
{
    if (!(reference > 0 && rate > 0 && rate <= 1 && most > 0))
        throw Error(Errc::bad_argument, "AGC with reference " + std::to_string(reference) +
                                            ", rate " + std::to_string(rate) +
                                            " and a gain of at most " + std::to_string(most) +
                                            "; give positive values, and a rate of at most 1");
    gain_ = std::min(gain_, most_);
}

template <class Sample>
void Agc<Sample>::feed(const Sample* in, size_t count, Sample* out)
{
    while (count > 0) {
        const size_t n = std::min(count, piece);
        keeps(in, rate_, keep_.data(), n);
        float gain = gain_;
        for (size_t i = 0; i < n; ++i) {
            const float keep = keep_[i];
            keep_[i] = gain;
            const float next = gain * keep + step_;
            gain = next < most_ ? next : most_;
        }
        gain_ = gain;
        scale(in, keep_.data(), out, n);
        in += n;
        out += n;
        count -= n;
    }
}

template class Agc<float>;
template class Agc<std::complex<float>>;

} // namespace denizen::dsp
