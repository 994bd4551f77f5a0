// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <denizen/base/error.hpp>

#include <cstring>
#include <set>

namespace denizen::infer {
namespace {

constexpr size_t most_state = size_t{1} << 40; // floats

bool reads_whole(OpKind kind)
{
    switch (kind) {
    case OpKind::linear:
    case OpKind::lstm:
    case OpKind::gru:
    case OpKind::rnn:
    case OpKind::conv1d:
    case OpKind::layernorm:
    case OpKind::softmax:
    case OpKind::concat: return true;
    default: return false;
    }
}

// Where the parts meet: before an op that reads whole what has been written since they last did.
void place_meetings(Plan& plan)
{
    std::vector<bool> fresh(plan.widths.size(), false);
    for (Step& step : plan.steps) {
        if (reads_whole(step.kind)) {
            for (const uint32_t input : step.inputs) step.meet = step.meet || fresh[input];
        }
        if (step.meet) fresh.assign(fresh.size(), false);
        fresh[step.value] = true;
    }
}

void keep(Plan& plan, const Op& op, const char* what, size_t floats, size_t steps = 1)
{
    plan.kept.push_back({op.name + "." + what, floats, steps});
    plan.kept_floats += floats;
}

void lay_out_state(Plan& plan, Step& step, const Op& op)
{
    step.state_at = plan.state_floats;
    if (recurrent(step.kind)) {
        const bool cell = step.kind == OpKind::lstm;
        plan.state_floats += (cell ? 3 : 2) * padded(step.out);
        keep(plan, op, "h", step.out);
        if (cell) keep(plan, op, "c", step.out);
    } else if (step.kind == OpKind::conv1d && step.taps > 1) {
        step.window = size_t{step.taps - 1} * step.settings.dilation + 1;
        if (step.window > most_state / padded(step.in)) {
            throw Error(Errc::bad_argument, told(op) + ": it keeps (taps - 1) * dilation inputs, " +
                                                "which is more than 2^40 floats");
        }
        plan.state_floats += step.window * padded(step.in);
        keep(plan, op, "inputs", (step.window - 1) * step.in, step.window - 1);
    }
    if (plan.state_floats > most_state) {
        throw Error(Errc::bad_argument,
                    told(op) + ": the model's state up to it is more than " + "2^40 floats");
    }
}

// h of the last step and of the next take turns in two places, so that a part may write its units
// while others still read.
float* h_at(const Step& step, float* state, uint64_t turn)
{
    return state + step.state_at + (turn & 1) * padded(step.out);
}

const float* h_at(const Step& step, const float* state, uint64_t turn)
{
    return h_at(step, const_cast<float*>(state), turn);
}

size_t c_offset(const Step& step) { return step.state_at + 2 * padded(step.out); }

void copy(float* to, const float* from, size_t floats)
{
    std::memcpy(to, from, floats * sizeof(float));
}

} // namespace

Plan plan_of(const Model& model)
{
    Plan plan;
    plan.widths = model.widths;
    plan.output = model.output;
    plan.tokens = model.tokens;
    for (size_t i = 0; i < model.ops.size(); ++i) {
        const Op& op = model.ops[i];
        Step step;
        step.kind = op.kind;
        step.settings = op.settings;
        step.inputs = op.inputs;
        step.value = static_cast<uint32_t>(i + 1);
        step.in = model.widths[op.inputs[0]];
        step.out = model.widths[i + 1];
        if (op.kind == OpKind::conv1d) step.taps = taps_of(model, i);
        switch (op.kind) {
        case OpKind::lstm:
        case OpKind::gru: step.rows = 4; break;
        case OpKind::linear:
        case OpKind::rnn:
        case OpKind::conv1d: step.rows = 1; break;
        default: break;
        }
        step.columns = padded(step.in) * std::max(1u, step.taps);
        if (recurrent(op.kind)) step.columns += padded(step.out);
        if (op.kind == OpKind::embedding) {
            const size_t rows = op.weights[0].size() / step.out;
            plan.tokens_below = plan.tokens_below == 0 ? rows : std::min(plan.tokens_below, rows);
        }
        lay_out_state(plan, step, op);
        if (!recurrent(op.kind)) {
            step.value_at = plan.value_floats;
            plan.value_floats += padded(step.out);
        }
        plan.steps.push_back(std::move(step));
    }
    std::set<std::string> names;
    for (const StatePart& part : plan.kept) {
        if (!names.insert(part.name).second) {
            throw Error(Errc::bad_argument, "two layers keep a state \"" + part.name +
                                                "\"; give each a name of its own");
        }
    }
    place_meetings(plan);
    return plan;
}

void read_state(const Plan& plan, const float* state, uint64_t position, float* kept)
{
    for (const Step& step : plan.steps) {
        if (recurrent(step.kind)) {
            copy(kept, h_at(step, state, position), step.out);
            kept += step.out;
            if (step.kind == OpKind::lstm) {
                copy(kept, state + c_offset(step), step.out);
                kept += step.out;
            }
        }
        for (size_t back = step.window; back > 1; --back) { // inputs, oldest first
            const size_t slot = (position + step.window - (back - 1)) % step.window;
            copy(kept, state + step.state_at + slot * padded(step.in), step.in);
            kept += step.in;
        }
    }
}

void write_state(const Plan& plan, const float* kept, float* state)
{
    for (const Step& step : plan.steps) {
        if (recurrent(step.kind)) {
            copy(h_at(step, state, 0), kept, step.out);
            kept += step.out;
            if (step.kind == OpKind::lstm) {
                copy(state + c_offset(step), kept, step.out);
                kept += step.out;
            }
        }
        for (size_t slot = 1; slot < step.window; ++slot) {
            copy(state + step.state_at + slot * padded(step.in), kept, step.in);
            kept += step.in;
        }
    }
}

void check_same(const Plan& plan, const Plan& other, const Model& names, const std::string& what)
{
    const auto refuse_other = [&](const std::string& why) {
        throw Error(Errc::bad_argument,
                    what + " " + why + "; give one of the same layers, widths and settings");
    };
    if (other.steps.size() != plan.steps.size()) {
        refuse_other("has " + std::to_string(other.steps.size()) + " ops and the resident " +
                     std::to_string(plan.steps.size()));
    }
    if (other.widths != plan.widths || other.output != plan.output || other.tokens != plan.tokens) {
        refuse_other("has other widths, another output or another kind of input");
    }
    for (size_t i = 0; i < plan.steps.size(); ++i) {
        const Step& a = plan.steps[i];
        const Step& b = other.steps[i];
        if (a.kind != b.kind || a.inputs != b.inputs || a.taps != b.taps ||
            a.settings.eps != b.settings.eps || a.settings.relu != b.settings.relu ||
            a.settings.dilation != b.settings.dilation) {
            refuse_other("differs at " + told(names.ops[i]));
        }
    }
    if (plan.tokens_below != other.tokens_below) {
        refuse_other("has tables of " + std::to_string(other.tokens_below) +
                     " rows and the resident of " + std::to_string(plan.tokens_below));
    }
}

} // namespace denizen::infer
