// SPDX-License-Identifier: Apache-2.0
// Activations of one float, on the device by its own instructions: within 4e-7 of the exact value,
// absolute, or relative where it is above 1.
#pragma once

#include <denizen/infer/kinds.hpp>

#if DENIZEN_HOSTED
#include <cmath>
#endif

namespace denizen::infer::detail {

DENIZEN_HD inline float exp_of(float x)
{
#if DENIZEN_ON_DEVICE
    return __expf(x);
#elif DENIZEN_HOSTED
    return std::exp(x);
#else
    return x;
#endif
}

DENIZEN_HD inline float quotient(float a, float b)
{
#if DENIZEN_ON_DEVICE
    return __fdividef(a, b); // 0 for b above 2^126
#else
    return a / b;
#endif
}

DENIZEN_HD inline float fma_of(float a, float b, float c)
{
#if DENIZEN_ON_DEVICE
    return __fmaf_rn(a, b, c);
#elif DENIZEN_HOSTED
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

// 1 / (1 + 2^x)
DENIZEN_HD inline float logistic_of(float x)
{
#if DENIZEN_ON_DEVICE
    float y = 0;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0F + y));
    return y;
#elif DENIZEN_HOSTED
    return 1.0F / (1.0F + std::exp2(x));
#else
    return x;
#endif
}

DENIZEN_HD inline float sigmoid_of(float x) { return logistic_of(-1.44269504F * x); }

// Of a gate, where what is small against 1 does not count: a third of the instructions of
// tanh_of().
DENIZEN_HD inline float gate_tanh_of(float x)
{
    return fma_of(2.0F, logistic_of(-2.88539008F * x), -1.0F);
}

// Near 0 by its series, where the quotient would lose what is small against 1.
DENIZEN_HD inline float tanh_of(float x)
{
    const float s = x * x;
    float p = -1382.0F / 155925;
    p = fma_of(p, s, 62.0F / 2835);
    p = fma_of(p, s, -17.0F / 315);
    p = fma_of(p, s, 2.0F / 15);
    p = fma_of(p, s, -1.0F / 3);
    const float near = fma_of(x * s, p, x);
    const float far = 1.0F - quotient(2.0F, exp_of(2.0F * x) + 1.0F);
    return s < 0.0625F ? near : far;
}

DENIZEN_HD inline float erf_of(float x)
{
#if DENIZEN_ON_DEVICE
    return erff(x);
#elif DENIZEN_HOSTED
    return std::erf(x);
#else
    return x;
#endif
}

DENIZEN_HD inline float root_of(float x)
{
#if DENIZEN_ON_DEVICE
    return __fsqrt_rn(x);
#elif DENIZEN_HOSTED
    return std::sqrt(x);
#else
    return x;
#endif
}

DENIZEN_HD inline float activated(OpKind kind, float x)
{
    switch (kind) {
    case OpKind::relu: return x < 0.0F ? 0.0F : x; // a NaN stays one
    case OpKind::gelu: return 0.5F * x * (1.0F + erf_of(x * 0.707106781F));
    case OpKind::gelu_tanh:
        return 0.5F * x * (1.0F + tanh_of(0.797884561F * (x + 0.044715F * x * x * x)));
    case OpKind::silu: return x * sigmoid_of(x);
    case OpKind::tanh: return tanh_of(x);
    case OpKind::sigmoid: return sigmoid_of(x);
    default: return x;
    }
}

// What a row's sum becomes in a cell. LSTM: the gates i, f, g, o.
DENIZEN_HD inline float lstm_gate(float sum, uint32_t row)
{
    const bool tanh = row == 2;
    const float y = logistic_of((tanh ? -2.88539008F : -1.44269504F) * sum);
    return tanh ? fma_of(2.0F, y, -1.0F) : y;
}

DENIZEN_HD inline float lstm_of_gates(float i, float f, float g, float o, float& c)
{
    c = fma_of(f, c, i * g);
    return o * gate_tanh_of(c);
}

// GRU: r and z; n's two halves, of the input and of h, stay.
DENIZEN_HD inline float gru_gate(float sum, uint32_t row)
{
    return row < 2 ? sigmoid_of(sum) : sum;
}

DENIZEN_HD inline float gru_of_gates(float r, float z, float n, float of_h, float before)
{
    const float made = gate_tanh_of(fma_of(r, of_h, n));
    return fma_of(z, before - made, made);
}

// Of the four rows' sums.
DENIZEN_HD inline float lstm_of(const float (&sum)[4], float& c)
{
    return lstm_of_gates(lstm_gate(sum[0], 0), lstm_gate(sum[1], 1), lstm_gate(sum[2], 2),
                         lstm_gate(sum[3], 3), c);
}

DENIZEN_HD inline float gru_of(const float (&sum)[4], float before)
{
    return gru_of_gates(gru_gate(sum[0], 0), gru_gate(sum[1], 1), sum[2], sum[3], before);
}

} // namespace denizen::infer::detail
