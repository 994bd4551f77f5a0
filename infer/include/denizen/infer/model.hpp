// SPDX-License-Identifier: Apache-2.0
// What a resident model computes in one time step of one stream: values, and the ops that make
// them. denizen.infer.Model is the same in Python, and its importers make one of PyTorch's modules
// or of ONNX. Host only.
//
//   Model m;
//   m.widths = {8, 32, 4};                                // of value 0, the input, and of 1 and 2
//   m.ops = {{OpKind::lstm, {0}, {wih, whh, b}, {}, "lstm"},
//            {OpKind::linear, {1}, {w, b2}, {}, "head"}}; // op i makes value i + 1
//   m.output = 2;
#pragma once

#include <denizen/infer/kinds.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace denizen::infer {

const char* to_string(OpKind kind);

struct Settings {
    float eps = 1e-5F;     // layernorm
    bool relu = false;     // rnn: in place of tanh
    uint32_t dilation = 1; // conv1d: steps between two taps
};

struct Op {
    OpKind kind;
    std::vector<uint32_t> inputs; // numbers of values
    std::vector<std::span<const float>> weights;
    Settings settings;
    std::string name; // the layer's in the user's model, for errors and for the names of states
};

// Every op keeps zeros as its state before a stream's first step.
struct Model {
    std::vector<uint32_t> widths; // floats of each value
    std::vector<Op> ops;
    uint32_t output = 0; // the value that is the answer
    bool tokens = false; // the input is one int32, for an embedding, and its width 1
};

inline constexpr uint32_t most_width = 1u << 20;
inline constexpr uint32_t most_dilation = 1u << 20;

// `layer "lstm" (lstm)`, for errors.
std::string told(const Op& op);

// Throws bad_argument, with the layer's name, for what is no model: widths that do not fit, weights
// of another size or not finite, an op that reads a later value.
void check(const Model& model);

// How many taps a conv1d of the model has.
uint32_t taps_of(const Model& model, size_t op);

} // namespace denizen::infer
