// SPDX-License-Identifier: Apache-2.0
#include "loops.hpp"
#include <denizen/base/levels.hpp>

#include <cstring>

namespace denizen::dsp::loops {
namespace {

// Lanes are neighbouring outputs: no sum across lanes, but samples must lie side by side.
DENIZEN_LEVELS void neighbours(const float* __restrict h, size_t taps, const float* __restrict x,
                               size_t count, float* __restrict out)
{
    for (size_t i = 0; i < count; i += across) {
        float sum[across] = {};
        for (size_t j = 0; j < taps; ++j)
            for (size_t lane = 0; lane < across; ++lane) sum[lane] += h[j] * x[i + j + lane];
        std::memcpy(out + i, sum, sizeof sum);
    }
}

typedef float Lanes __attribute__((vector_size(lanes * sizeof(float))));

// Lanes are neighbouring taps; four outputs at a time share the loads of taps and hide the latency
// of each other's additions.
DENIZEN_LEVELS void four_apart(const float* __restrict h, size_t taps, const float* __restrict x,
                               size_t step, size_t count, float* __restrict out)
{
    for (size_t i = 0; i < count; i += 4) {
        const float* a = x + i * step;
        const float* b = a + step;
        const float* c = b + step;
        const float* d = c + step;
        Lanes sum_a = {};
        Lanes sum_b = {};
        Lanes sum_c = {};
        Lanes sum_d = {};
        for (size_t j = 0; j < taps; j += lanes) {
            Lanes tap;
            Lanes in;
            std::memcpy(&tap, h + j, sizeof tap);
            std::memcpy(&in, a + j, sizeof in);
            sum_a += tap * in;
            std::memcpy(&in, b + j, sizeof in);
            sum_b += tap * in;
            std::memcpy(&in, c + j, sizeof in);
            sum_c += tap * in;
            std::memcpy(&in, d + j, sizeof in);
            sum_d += tap * in;
        }
        float sum[4] = {};
        for (size_t lane = 0; lane < lanes; ++lane) {
            sum[0] += sum_a[lane];
            sum[1] += sum_b[lane];
            sum[2] += sum_c[lane];
            sum[3] += sum_d[lane];
        }
        std::memcpy(out + i, sum, sizeof sum);
    }
}

} // namespace

void correlate(const float* h, size_t taps, const float* x, size_t step, size_t count, float* out)
{
    if (step == 1) {
        neighbours(h, taps, x, count, out);
    } else {
        four_apart(h, taps, x, step, count, out);
    }
}

} // namespace denizen::dsp::loops
