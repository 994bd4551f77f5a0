// SPDX-License-Identifier: Apache-2.0
// The angle of a complex number in single precision, without branches: for loops that become
// vectors (dsp/src/sample.cpp) and for teams (team_sample.hpp).
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::dsp {

// |x|; NVRTC knows this builtin by its C name alone.
DENIZEN_HD inline float absolute(float x)
{
#if defined(__CUDACC_RTC__)
    return fabsf(x);
#else
    return __builtin_fabsf(x);
#endif
}

// arctan on 0 to 1: t times a polynomial in t^2, fitted for the least greatest error, 6e-9 before
// the coefficients were rounded to single precision and 8e-8 after.
DENIZEN_HD inline float arctan(float t)
{
    constexpr float c[] = {0.999999881f,  -0.333325982f,  0.199859068f,
                           -0.141612291f, 0.104989454f,   -0.0723485649f,
                           0.0397812091f, -0.0144013492f, 0.00245672232f};
    const float u = t * t;
    float p = c[8];
    for (int k = 7; k >= 0; --k) p = p * u + c[k];
    return p * t;
}

// arg(re + i im); that of (0, 0) is 0.
DENIZEN_HD inline float angle(float re, float im)
{
    constexpr float pi = 3.14159265f;
    constexpr float tiny = 1e-37f; // keeps 0 / 0 away
    const float a = absolute(re);
    const float b = absolute(im);
    const float low = a < b ? a : b;
    const float high = (a < b ? b : a) + tiny;
    float r = arctan(low / high);
    r = a < b ? pi / 2 - r : r;
    r = re < 0 ? pi - r : r;
    return __builtin_copysignf(r, im);
}

} // namespace denizen::dsp
