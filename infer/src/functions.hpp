// SPDX-License-Identifier: Apache-2.0
// What a step does to vectors beside the products: activations, cells of recurrent layers, norms.
// `n`: floats, a multiple of 16; arrays are as long and do not overlap, but `y` may be `x`. exp()
// is within 3e-7 of the exact value, relative; sigmoid() and tanh() within 3e-7, absolute.
#pragma once

#include <denizen/infer/model.hpp>

#include <cstddef>

namespace denizen::infer {

// relu, gelu, gelu_tanh, silu, tanh or sigmoid.
void activate(OpKind kind, const float* x, float* y, size_t n);

void add(const float* a, const float* b, float* y, size_t n); // y may be a
void affine(const float* x, const float* scale, const float* shift, float* y, size_t n);

// `sums` and `bias`: four gates, `stride` floats apart.
void lstm_cell(const float* sums, size_t sums_stride, const float* bias, size_t bias_stride,
               float* c, float* h, size_t n);
// r, z, and n's two halves, of the input and of h.
void gru_cell(const float* sums, size_t sums_stride, const float* bias, size_t bias_stride,
              const float* before, float* h, size_t n);

// The elements from `begin` to below `end`, multiples of 16 or the width, of the whole vector's
// norm or softmax. `room`: padded(width) floats.
void layernorm(const float* x, size_t width, float eps, const float* g, const float* b, float* y,
               size_t begin, size_t end);
void softmax(const float* x, size_t width, float* room, float* y, size_t begin, size_t end);

} // namespace denizen::infer
