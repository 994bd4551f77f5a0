// SPDX-License-Identifier: Apache-2.0
#include "functions.hpp"

#include "rows.hpp"
#include <denizen/base/levels.hpp>

#include <bit>
#include <cmath>

namespace denizen::infer {
namespace {

// exp(x) = 2^k exp(r), |r| <= ln(2) / 2, exp(r) by its series. What would overflow is cut off at
// 2^127 and below, which is all that a sigmoid, a tanh or a softmax asks of it. A NaN stays one.
[[gnu::always_inline]] inline float exp_of(float x)
{
    constexpr float to_whole = 12582912.0F; // 1.5 * 2^23: adding it rounds to a whole number
    x = x < -87.0F ? -87.0F : x;
    x = x > 88.0F ? 88.0F : x;
    const float shifted = x * 1.44269504F + to_whole;
    const float k = shifted - to_whole;
    const float r = (x - k * 0.693359375F) + k * 2.12194440e-4F; // ln(2) in two pieces
    float p = 1.0F / 5040;
    p = p * r + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const uint32_t whole = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(to_whole);
    return p * std::bit_cast<float>((whole + 127U) << 23);
}

[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1.0F / (1.0F + exp_of(-x)); }

// Near 0 by its series, where the quotient would lose what is small against 1.
[[gnu::always_inline]] inline float tanh_of(float x)
{
    const float s = x * x;
    float p = -1382.0F / 155925;
    p = p * s + 62.0F / 2835;
    p = p * s - 17.0F / 315;
    p = p * s + 2.0F / 15;
    p = p * s - 1.0F / 3;
    const float near = x + x * s * p;
    const float far = 1.0F - 2.0F / (exp_of(2.0F * x) + 1.0F);
    return s < 0.0625F ? near : far;
}

[[gnu::always_inline]] inline float gelu_tanh_of(float x)
{
    return 0.5F * x * (1.0F + tanh_of(0.797884561F * (x + 0.044715F * x * x * x)));
}

template <class Function>
[[gnu::always_inline]] inline void each(const float* x, float* y, size_t n, Function&& function)
{
    for (size_t i = 0; i < n; i += lanes) {
        float block[lanes];
        for (size_t lane = 0; lane < lanes; ++lane) block[lane] = function(x[i + lane]);
        for (size_t lane = 0; lane < lanes; ++lane) y[i + lane] = block[lane];
    }
}

DENIZEN_LEVELS void relu(const float* x, float* y, size_t n)
{
    each(x, y, n, [](float v) { return v < 0.0F ? 0.0F : v; }); // a NaN stays one
}

DENIZEN_LEVELS void sigmoid(const float* x, float* y, size_t n) { each(x, y, n, sigmoid_of); }

DENIZEN_LEVELS void tanh(const float* x, float* y, size_t n) { each(x, y, n, tanh_of); }

DENIZEN_LEVELS void silu(const float* x, float* y, size_t n)
{
    each(x, y, n, [](float v) { return v * sigmoid_of(v); });
}

DENIZEN_LEVELS void gelu_tanh(const float* x, float* y, size_t n) { each(x, y, n, gelu_tanh_of); }

void gelu(const float* x, float* y, size_t n)
{
    each(x, y, n, [](float v) { return 0.5F * v * (1.0F + std::erf(v * 0.707106781F)); });
}

} // namespace

void activate(OpKind kind, const float* x, float* y, size_t n)
{
    switch (kind) {
    case OpKind::relu: relu(x, y, n); return;
    case OpKind::gelu: gelu(x, y, n); return;
    case OpKind::gelu_tanh: gelu_tanh(x, y, n); return;
    case OpKind::silu: silu(x, y, n); return;
    case OpKind::tanh: tanh(x, y, n); return;
    case OpKind::sigmoid: sigmoid(x, y, n); return;
    default: return; // step.cpp asks for no other
    }
}

DENIZEN_LEVELS void add(const float* a, const float* b, float* y, size_t n)
{
    for (size_t i = 0; i < n; i += lanes) {
        float block[lanes];
        for (size_t lane = 0; lane < lanes; ++lane) block[lane] = a[i + lane] + b[i + lane];
        for (size_t lane = 0; lane < lanes; ++lane) y[i + lane] = block[lane];
    }
}

DENIZEN_LEVELS void affine(const float* x, const float* __restrict scale,
                           const float* __restrict shift, float* y, size_t n)
{
    for (size_t i = 0; i < n; i += lanes) {
        float block[lanes];
        for (size_t lane = 0; lane < lanes; ++lane) {
            block[lane] = x[i + lane] * scale[i + lane] + shift[i + lane];
        }
        for (size_t lane = 0; lane < lanes; ++lane) y[i + lane] = block[lane];
    }
}

DENIZEN_LEVELS void lstm_cell(const float* __restrict sums, size_t sums_stride,
                              const float* __restrict bias, size_t bias_stride, float* __restrict c,
                              float* __restrict h, size_t n)
{
    for (size_t block = 0; block < n; block += lanes) {
        for (size_t lane = 0; lane < lanes; ++lane) {
            const size_t u = block + lane;
            const float i = sigmoid_of(sums[u] + bias[u]);
            const float f = sigmoid_of(sums[u + sums_stride] + bias[u + bias_stride]);
            const float g = tanh_of(sums[u + 2 * sums_stride] + bias[u + 2 * bias_stride]);
            const float o = sigmoid_of(sums[u + 3 * sums_stride] + bias[u + 3 * bias_stride]);
            const float kept = f * c[u] + i * g;
            c[u] = kept;
            h[u] = o * tanh_of(kept);
        }
    }
}

DENIZEN_LEVELS void gru_cell(const float* __restrict sums, size_t sums_stride,
                             const float* __restrict bias, size_t bias_stride,
                             const float* __restrict before, float* __restrict h, size_t n)
{
    for (size_t block = 0; block < n; block += lanes) {
        for (size_t lane = 0; lane < lanes; ++lane) {
            const size_t u = block + lane;
            const float r = sigmoid_of(sums[u] + bias[u]);
            const float z = sigmoid_of(sums[u + sums_stride] + bias[u + bias_stride]);
            const float of_input = sums[u + 2 * sums_stride] + bias[u + 2 * bias_stride];
            const float of_state = sums[u + 3 * sums_stride] + bias[u + 3 * bias_stride];
            const float made = tanh_of(of_input + r * of_state);
            h[u] = (1.0F - z) * made + z * before[u];
        }
    }
}

// Sums in sixteen lanes, then across them, then what is left: in the same order for any slice.
template <class Term>
[[gnu::always_inline]] inline float sum_of(size_t width, Term&& term)
{
    float lane_sums[lanes] = {};
    size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
        for (size_t lane = 0; lane < lanes; ++lane) lane_sums[lane] += term(i + lane);
    }
    for (size_t distance = lanes / 2; distance > 0; distance /= 2) {
        for (size_t lane = 0; lane < distance; ++lane)
            lane_sums[lane] += lane_sums[lane + distance];
    }
    for (; i < width; ++i) lane_sums[0] += term(i);
    return lane_sums[0];
}

DENIZEN_LEVELS void layernorm(const float* x, size_t width, float eps, const float* __restrict g,
                              const float* __restrict b, float* __restrict y, size_t begin,
                              size_t end)
{
    const auto n = static_cast<float>(width);
    const float mean = sum_of(width, [&](size_t i) { return x[i]; }) / n;
    const float variance =
        sum_of(width, [&](size_t i) { return (x[i] - mean) * (x[i] - mean); }) / n;
    const float scale = 1.0F / std::sqrt(variance + eps);
    for (size_t i = begin; i < end; ++i) y[i] = (x[i] - mean) * scale * g[i] + b[i];
}

DENIZEN_LEVELS void softmax(const float* x, size_t width, float* __restrict room,
                            float* __restrict y, size_t begin, size_t end)
{
    float most = x[0];
    for (size_t i = 1; i < width; ++i) most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < padded(width); ++i) room[i] = exp_of(x[i] - most);
    const float sum = sum_of(width, [&](size_t i) { return room[i]; });
    for (size_t i = begin; i < end; ++i) y[i] = room[i] / sum;
}

} // namespace denizen::infer
