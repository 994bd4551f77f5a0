// SPDX-License-Identifier: Apache-2.0
// What one step of a fast Fourier transform does to four or two complex numbers: the text that the
// CPU's loops (dsp/src/fft.cpp) and a team (team_fft.hpp) share.
//
// The transform is Stockham's: it goes from one buffer to another and back, and leaves the results
// in order without a permutation (C. Van Loan, Computational Frameworks for the Fast Fourier
// Transform, 1992, section 1.7). With `rest` points left in each of `stride` transforms, butterfly
// p of rest / 4 takes for each q below `stride` the elements q + stride * (p + k * rest / 4) and
// gives q + stride * (4 p + k), for k from 0 to 3.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::dsp {

// A complex sample, laid out as std::complex<float>, which device code does not have.
struct alignas(8) Iq {
    float re = 0;
    float im = 0;
    bool operator==(const Iq&) const = default;
};

DENIZEN_HD inline Iq operator+(Iq a, Iq b) { return {a.re + b.re, a.im + b.im}; }
DENIZEN_HD inline Iq operator-(Iq a, Iq b) { return {a.re - b.re, a.im - b.im}; }
DENIZEN_HD inline Iq operator*(Iq a, Iq b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
DENIZEN_HD inline Iq operator*(float a, Iq b) { return {a * b.re, a * b.im}; }

// w[k] = exp(-2 pi i k p / rest), for k from 1 to 3.
DENIZEN_HD inline void radix4(Iq a, Iq b, Iq c, Iq d, Iq w1, Iq w2, Iq w3, Iq (&out)[4])
{
    const Iq even = a + c;
    const Iq odd = b + d;
    const Iq sine = a - c;
    const Iq turned = {b.im - d.im, d.re - b.re}; // -i (b - d)
    out[0] = even + odd;
    out[1] = w1 * (sine + turned);
    out[2] = w2 * (even - odd);
    out[3] = w3 * (sine - turned);
}

} // namespace denizen::dsp
