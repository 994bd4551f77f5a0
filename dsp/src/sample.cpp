// SPDX-License-Identifier: Apache-2.0
#include <denizen/dsp/angle.hpp>
#include <denizen/dsp/sample.hpp>

#include <denizen/base/levels.hpp>

namespace denizen::dsp {
namespace {

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
