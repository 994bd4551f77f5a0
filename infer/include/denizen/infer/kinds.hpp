// SPDX-License-Identifier: Apache-2.0
// The kinds of ops, and how matrices are kept: what the host and the kernel of a GPU call them.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::infer {

// The weights of each kind, row-major, gates in PyTorch's order; h: the width of its value.
enum class OpKind : uint32_t {
    linear,    // W[out, in], b[out]
    lstm,      // Wih[4h, in], Whh[4h, h], b[4h]; gates i, f, g, o; keeps h and c
    gru,       // Wih[3h, in], Whh[3h, h], bih[3h], bhh[3h]; gates r, z, n; keeps h
    rnn,       // Wih[h, in], Whh[h, h], b[h]; tanh, or relu; keeps h
    conv1d,    // W[out, in, k], b[out]; keeps the last (k - 1) * dilation inputs
    embedding, // W[n, d], of a token
    layernorm, // g, b
    affine,    // scale, shift
    relu,
    gelu,      // by erf
    gelu_tanh, // the approximation by tanh
    silu,
    tanh,
    sigmoid,
    softmax, // over the whole width
    add,     // of two values of one width
    concat,  // of two or more values
};

// How the matrices of weights are kept. Sums are in fp32 in any case, and so are biases, norms and
// tables of embeddings.
enum class Format : uint32_t { fp32, bf16, fp16 };

DENIZEN_HD constexpr uint32_t format_bytes(Format format) { return format == Format::fp32 ? 4 : 2; }

// Those that keep h.
DENIZEN_HD constexpr bool recurrent(OpKind kind)
{
    return kind == OpKind::lstm || kind == OpKind::gru || kind == OpKind::rnn;
}

// Those whose four rows are the gates of one unit; of other matrices they are four units.
DENIZEN_HD constexpr bool gated(OpKind kind) { return kind == OpKind::lstm || kind == OpKind::gru; }

DENIZEN_HD constexpr bool has_matrix(OpKind kind)
{
    return kind == OpKind::linear || kind == OpKind::conv1d || recurrent(kind);
}

} // namespace denizen::infer
