// SPDX-License-Identifier: Apache-2.0
// What is added to the pressure of a cell, step by step: a soft source, through which waves pass.
#pragma once

#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#include <cmath>
#endif

namespace denizen::wave {

enum class Shape : uint32_t {
    impulse, // amplitude once
    ricker,  // Ricker's wavelet (1953): amplitude (1 - 2 a2) exp(-a2), a = pi f (n - delay)
    sine,    // amplitude sin(2 pi (f n + phase))
    samples, // amplitude times a sample for each step
};

// Of n, the steps since it began.
struct Source {
    Shape shape = Shape::impulse;
    int32_t at[3] = {0, 0, 0};
    double amplitude = 1;
    double frequency = 0; // cycles per step
    double delay = 0;     // ricker: steps; sine: cycles
    uint64_t begin = 0;   // its first step, counted from the start of the simulation
    uint64_t first = 0;   // samples: the first of its own in the pool of all
    uint64_t count = 0;
};

// What the source adds while step `step` is made into the next.
template <class T>
DENIZEN_HD inline T drive(const Source& source, uint64_t step, const float* pool)
{
#if DENIZEN_HOSTED
    using std::exp;
    using std::floor;
    using std::sin;
#endif
    if (step < source.begin) return 0;
    const uint64_t n = step - source.begin;
    const auto amplitude = static_cast<T>(source.amplitude);
    constexpr double pi = 3.14159265358979323846;
    switch (source.shape) {
    case Shape::impulse: return n == 0 ? amplitude : 0;
    case Shape::ricker: {
        const double a = pi * source.frequency * (static_cast<double>(n) - source.delay);
        if (a > 12 || a < -12) return 0; // below 1e-60
        const auto a2 = static_cast<T>(a * a);
        return amplitude * (1 - 2 * a2) * exp(-a2);
    }
    case Shape::sine: { // turns are counted in double: n may be large
        const double turns = source.frequency * static_cast<double>(n) + source.delay;
        return amplitude * sin(static_cast<T>(2 * pi * (turns - floor(turns))));
    }
    case Shape::samples:
        return n < source.count ? amplitude * static_cast<T>(pool[source.first + n]) : 0;
    }
    return 0;
}

} // namespace denizen::wave
