// SPDX-License-Identifier: Apache-2.0
// One output of a kernel from its inputs: the text that teams (team_*.hpp) and the resident blocks
// of flow graphs (dsp/resident/kinds.hpp) share.
#pragma once

#include <denizen/dsp/angle.hpp>
#include <denizen/dsp/butterfly.hpp>

namespace denizen::dsp {

// |x|^2
DENIZEN_HD inline float power(Iq x) { return x.re * x.re + x.im * x.im; }

// |x|
DENIZEN_HD inline float length(Iq x)
{
#if defined(__CUDACC_RTC__) // which knows the builtin by its C name alone
    return sqrtf(power(x));
#else
    return __builtin_sqrtf(power(x));
#endif
}

// arg(x conj(before)), 0 where the product is 0
DENIZEN_HD inline float turn(Iq x, Iq before)
{
    return angle(x.re * before.re + x.im * before.im, x.im * before.re - x.re * before.im);
}

// sum + taps[0] x[0] + taps[step] x[-1] + ..., `count` products
template <class Sample, class Tap>
DENIZEN_HD Sample dot(Sample sum, const Tap* taps, uint32_t step, uint32_t count, const Sample* x)
{
    constexpr uint32_t at_once = 8; // loads of both that are under way: a lone warp waits for them
    uint32_t k = 0;
    for (; k + at_once <= count; k += at_once) { // ends: taps are few
        Tap tap[at_once];
        Sample sample[at_once];
        for (uint32_t i = 0; i < at_once; ++i) {
            tap[i] = taps[static_cast<uint64_t>(k + i) * step];
            sample[i] = *(x - k - i);
        }
        for (uint32_t i = 0; i < at_once; ++i) {
            sum = sum + tap[i] * sample[i];
        }
    }
    DENIZEN_ROLLED
    for (; k < count; ++k) {
        sum = sum + taps[static_cast<uint64_t>(k) * step] * *(x - k);
    }
    return sum;
}

} // namespace denizen::dsp
