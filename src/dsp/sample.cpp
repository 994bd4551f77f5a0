// SPDX-License-Identifier: Apache-2.0
#include <denizen/dsp/sample.hpp>

#include "../levels.hpp"

#include <cmath>
#include <numbers>

namespace denizen::dsp {
namespace {

// arctan on 0 to 1: t times a polynomial in t^2, fitted for the least greatest error, 6e-9 before
// the coefficients were rounded to single precision and 8e-8 after.
inline float arctan(float t)
{
    constexpr float c[] = {0.999999881f,  -0.333325982f,  0.199859068f,
                           -0.141612291f, 0.104989454f,   -0.0723485649f,
                           0.0397812091f, -0.0144013492f, 0.00245672232f};
    const float u = t * t;
    float p = c[8];
    for (int k = 7; k >= 0; --k) p = p * u + c[k];
    return p * t;
}

// Without branches. The angle of (0, 0) is 0.
inline float angle(float re, float im)
{
    constexpr auto pi = std::numbers::pi_v<float>;
    constexpr float tiny = 1e-37f; // keeps 0 / 0 away
    const float a = std::fabs(re);
    const float b = std::fabs(im);
    const float low = a < b ? a : b;
    const float high = (a < b ? b : a) + tiny;
    float r = arctan(low / high);
    r = a < b ? pi / 2 - r : r;
    r = re < 0 ? pi - r : r;
    return std::copysign(r, im);
}

// Complex numbers as pairs of floats, as the standard lays them out.
inline const float* pairs(const Complex* x) { return reinterpret_cast<const float*>(x); }

DENIZEN_LEVELS void angles(const float* __restrict x, float gain, float* __restrict out,
                           size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const float* before = x + 2 * i;
        const float* now = before + 2;
        out[i] = gain * angle(now[0] * before[0] + now[1] * before[1],
                              now[1] * before[0] - now[0] * before[1]);
    }
}

DENIZEN_LEVELS void add_scaled(float a, const float* x, float* y, size_t count)
{
    for (size_t i = 0; i < count; ++i) y[i] += a * x[i];
}

DENIZEN_LEVELS void products(const float* a, const float* b, float* out, size_t count)
{
    for (size_t i = 0; i < 2 * count; i += 2) {
        const float re = a[i] * b[i] - a[i + 1] * b[i + 1];
        const float im = a[i] * b[i + 1] + a[i + 1] * b[i];
        out[i] = re;
        out[i + 1] = im;
    }
}

DENIZEN_LEVELS void squares(const float* x, float* out, size_t count)
{
    for (size_t i = 0; i < count; ++i) out[i] = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1];
}

} // namespace

void saxpy(float a, const float* x, float* y, size_t count) { add_scaled(a, x, y, count); }

void multiply(const Complex* a, const Complex* b, Complex* out, size_t count)
{
    products(pairs(a), pairs(b), reinterpret_cast<float*>(out), count);
}

void magnitude_squared(const Complex* x, float* out, size_t count)
{
    squares(pairs(x), out, count);
}

void demodulate_fm(const Complex* x, Complex before, float gain, float* out, size_t count)
{
    if (count == 0) return;
    const float first[4] = {before.real(), before.imag(), x[0].real(), x[0].imag()};
    angles(first, gain, out, 1);
    angles(pairs(x), gain, out + 1, count - 1);
}

} // namespace denizen::dsp
