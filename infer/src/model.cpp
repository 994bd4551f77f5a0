// SPDX-License-Identifier: Apache-2.0
// Whether a model is one, before anything starts.
#include <denizen/infer/model.hpp>

#include <denizen/base/error.hpp>

#include <cmath>

namespace denizen::infer {
namespace {

struct Kind {
    const char* name;
    uint32_t inputs; // 2 for concat: as many at least
    uint32_t weights;
};

constexpr Kind kinds[] = {
    {"linear", 1, 2}, {"lstm", 1, 3},      {"gru", 1, 4},       {"rnn", 1, 3},
    {"conv1d", 1, 2}, {"embedding", 1, 1}, {"layernorm", 1, 2}, {"affine", 1, 2},
    {"relu", 1, 0},   {"gelu", 1, 0},      {"gelu_tanh", 1, 0}, {"silu", 1, 0},
    {"tanh", 1, 0},   {"sigmoid", 1, 0},   {"softmax", 1, 0},   {"add", 2, 0},
    {"concat", 2, 0},
};

const Kind& kind_of(const Op& op) { return kinds[static_cast<uint32_t>(op.kind)]; }

[[noreturn]] void refuse(const Op& op, const std::string& what)
{
    throw Error(Errc::bad_argument, told(op) + ": " + what);
}

std::string number(uint64_t n) { return std::to_string(n); }

void check_weight(const Op& op, size_t index, uint64_t floats)
{
    const std::span<const float> weight = op.weights[index];
    if (weight.size() != floats) {
        refuse(op, "weight " + number(index) + " has " + number(weight.size()) +
                       " floats; its widths take " + number(floats));
    }
}

void check_finite(const Op& op)
{
    for (size_t index = 0; index < op.weights.size(); ++index) {
        const std::span<const float> weight = op.weights[index];
        for (size_t i = 0; i < weight.size(); ++i) {
            if (!std::isfinite(weight[i])) {
                refuse(op, "element " + number(i) + " of weight " + number(index) + " is " +
                               std::to_string(weight[i]) + "; give finite ones");
            }
        }
    }
}

void check_shapes(const Model& model, size_t index)
{
    const Op& op = model.ops[index];
    const uint64_t in = model.widths[op.inputs[0]];
    const uint64_t out = model.widths[index + 1];
    const auto recurrent = [&](uint64_t gates) {
        check_weight(op, 0, gates * out * in);
        check_weight(op, 1, gates * out * out);
        for (size_t bias = 2; bias < op.weights.size(); ++bias) {
            check_weight(op, bias, gates * out);
        }
    };
    switch (op.kind) {
    case OpKind::linear:
        check_weight(op, 0, out * in);
        check_weight(op, 1, out);
        return;
    case OpKind::lstm: recurrent(4); return;
    case OpKind::gru: recurrent(3); return;
    case OpKind::rnn: recurrent(1); return;
    case OpKind::conv1d:
        if (op.settings.dilation < 1 || op.settings.dilation > most_dilation) {
            refuse(op, "dilation is " + number(op.settings.dilation) + "; use 1 to " +
                           number(most_dilation));
        }
        if (op.weights[0].empty() || op.weights[0].size() % (out * in) != 0) {
            refuse(op, "weight 0 has " + number(op.weights[0].size()) +
                           " floats; use a multiple of " + number(out * in));
        }
        check_weight(op, 1, out);
        return;
    case OpKind::embedding:
        if (op.weights[0].empty() || op.weights[0].size() % out != 0 ||
            op.weights[0].size() / out > INT32_MAX) {
            refuse(op, "weight 0 has " + number(op.weights[0].size()) +
                           " floats; use a multiple of " + number(out) + ", at most 2^31 - 1 rows");
        }
        return;
    case OpKind::layernorm:
        if (!(op.settings.eps > 0) || !std::isfinite(op.settings.eps)) {
            refuse(op, "eps is " + std::to_string(op.settings.eps) + "; use one above 0");
        }
        [[fallthrough]];
    case OpKind::affine:
        check_weight(op, 0, out);
        check_weight(op, 1, out);
        break;
    case OpKind::concat: {
        uint64_t sum = 0;
        for (const uint32_t input : op.inputs) sum += model.widths[input];
        if (sum != out) {
            refuse(op, "its inputs have " + number(sum) + " floats, and it makes " + number(out));
        }
        return;
    }
    default: break;
    }
    for (const uint32_t input : op.inputs) { // those that keep the width
        if (model.widths[input] != out) {
            refuse(op, "it reads " + number(model.widths[input]) + " floats and makes " +
                           number(out) + "; the two must be the same");
        }
    }
}

} // namespace

const char* to_string(OpKind kind) { return kinds[static_cast<uint32_t>(kind)].name; }

std::string told(const Op& op) { return "layer \"" + op.name + "\" (" + to_string(op.kind) + ")"; }

uint32_t taps_of(const Model& model, size_t op)
{
    const uint64_t one = uint64_t{model.widths[model.ops[op].inputs[0]]} * model.widths[op + 1];
    return static_cast<uint32_t>(model.ops[op].weights[0].size() / one);
}

void check(const Model& model)
{
    const auto refuse_model = [](const std::string& what) {
        throw Error(Errc::bad_argument, "the model " + what);
    };
    if (model.ops.empty() || model.widths.size() != model.ops.size() + 1) {
        refuse_model("has " + number(model.ops.size()) + " ops and " + number(model.widths.size()) +
                     " widths; give an op or more, and one width more than ops");
    }
    for (const uint32_t width : model.widths) {
        if (width < 1 || width > most_width) {
            refuse_model("has a value of " + number(width) + " floats; use 1 to " +
                         number(most_width));
        }
    }
    if (model.output < 1 || model.output > model.ops.size()) {
        refuse_model("answers with value " + number(model.output) + "; use one that an op makes, " +
                     "1 to " + number(model.ops.size()));
    }
    if (model.tokens && model.widths[0] != 1) {
        refuse_model("takes a token, and its input has the width " + number(model.widths[0]) +
                     "; use 1");
    }
    for (size_t i = 0; i < model.ops.size(); ++i) {
        const Op& op = model.ops[i];
        if (static_cast<uint32_t>(op.kind) >= std::size(kinds)) {
            throw Error(Errc::bad_argument, "layer \"" + op.name + "\": there is no kind " +
                                                number(static_cast<uint32_t>(op.kind)));
        }
        const Kind& kind = kind_of(op);
        const bool enough = op.kind == OpKind::concat ? op.inputs.size() >= kind.inputs
                                                      : op.inputs.size() == kind.inputs;
        if (!enough || op.weights.size() != kind.weights) {
            refuse(op, "it has " + number(op.inputs.size()) + " inputs and " +
                           number(op.weights.size()) + " weights; it takes " + number(kind.inputs) +
                           (op.kind == OpKind::concat ? " or more" : "") + " and " +
                           number(kind.weights));
        }
        for (const uint32_t input : op.inputs) {
            if (input > i) {
                refuse(op, "it reads value " + number(input) + ", which is made later; use 0 to " +
                               number(i));
            }
            if ((op.kind == OpKind::embedding) != (model.tokens && input == 0)) {
                refuse(op, op.kind == OpKind::embedding
                               ? "it reads value " + number(input) + ", which is no token"
                               : std::string("it reads a token, which only an embedding does"));
            }
        }
        check_shapes(model, i);
        check_finite(op);
    }
}

} // namespace denizen::infer
