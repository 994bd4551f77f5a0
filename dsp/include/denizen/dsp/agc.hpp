// SPDX-License-Identifier: Apache-2.0
// Automatic gain control over a stream: y = g x, and after each sample g += rate (reference - |y|),
// so that |y| settles at the reference with a time constant of 1 / (rate |x|) samples.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

namespace denizen::dsp {

// Sample: float or std::complex<float>.
template <class Sample>
class Agc {
public:
    // The gain begins at 1 and is at most `most`. Throws Errc::bad_argument if a value is not
    // positive, or `rate` is over 1.
    Agc(float reference, float rate, float most);

    // As many outputs as samples; `out` may be `in`.
    void feed(const Sample* in, size_t count, Sample* out);

    float gain() const { return gain_; }

private:
    float step_; // rate * reference
    float rate_;
    float most_;
    float gain_ = 1;
    std::vector<float> keep_; // for each sample of a piece, 1 - rate |x|; then the gains
};

extern template class Agc<float>;
extern template class Agc<std::complex<float>>;

} // namespace denizen::dsp
