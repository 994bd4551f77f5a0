// SPDX-License-Identifier: Apache-2.0
#include "step.hpp"

#include "functions.hpp"

#include <cstring>

namespace denizen::infer {
namespace {

size_t most_room(const Plan& plan)
{
    size_t most = lanes;
    for (const Step& step : plan.steps) {
        most = std::max(most, (step.rows == 4 ? 4 : 1) * padded(step.out));
    }
    return most;
}

size_t most_segments(const Plan& plan)
{
    size_t most = 2;
    for (const Step& step : plan.steps) most = std::max(most, size_t{step.taps});
    return most;
}

} // namespace

Part::Part(const Plan& plan, Format format, uint32_t number, float* values, Barrier& barrier)
    : plan_(plan), format_(format), number_(number), values_(values), barrier_(barrier),
      at_(plan.widths.size(), nullptr), room_(most_room(plan), "the sums of a step"),
      segments_(most_segments(plan))
{
    for (const Step& step : plan.steps) at_[step.value] = values + step.value_at;
}

// `units_apart`: between a unit's gates in `out`; else units lie side by side.
void Part::multiply(const Step& step, size_t op, const StepJob& job, const Segment* segments,
                    size_t count, float* out, size_t units_apart)
{
    const Range mine = plan_.range(step.out, number_);
    const Packed& packed = job.weights->parts[number_];
    const size_t units = mine.end - mine.begin;
    const bool gates = step.rows == 4;
    multiply_rows(format_, packed.bytes.data() + packed.at[op],
                  gates ? units : (units + rows_together - 1) / rows_together, segments, count, out,
                  gates ? units_apart : 1, gates ? 1 : rows_together);
}

void Part::recurrent_op(const Step& step, size_t op, const StepJob& job)
{
    const Range mine = plan_.range(step.out, number_);
    const size_t pitch = padded(step.out);
    float* const state = job.state + step.state_at;
    const float* const before = state + (job.position & 1) * pitch;
    float* const after = state + (1 - (job.position & 1)) * pitch;
    const float* const bias = job.weights->vectors[op].data() + mine.begin;
    at_[step.value] = after;
    if (mine.begin == mine.end) {
        return;
    }
    const Segment segments[] = {{at_[step.inputs[0]], padded(step.in) / lanes},
                                {before, pitch / lanes}};
    const size_t n = mine.padded();
    if (step.kind == OpKind::rnn) {
        float* const h = after + mine.begin;
        multiply(step, op, job, segments, 2, h, 0);
        add(h, bias, h, n);
        activate(step.settings.relu ? OpKind::relu : OpKind::tanh, h, h, n);
        return;
    }
    float* const sums = room_.data();
    multiply(step, op, job, segments, 2, sums, pitch);
    if (step.kind == OpKind::lstm) {
        lstm_cell(sums, pitch, bias, pitch, state + 2 * pitch + mine.begin, after + mine.begin, n);
    } else {
        gru_cell(sums, pitch, bias, pitch, before + mine.begin, after + mine.begin, n);
    }
}

void Part::conv1d(const Step& step, size_t op, const StepJob& job)
{
    const float* const x = at_[step.inputs[0]];
    const size_t pitch = padded(step.in);
    float* const window = job.state + step.state_at;
    for (uint32_t tap = 0; tap < step.taps; ++tap) {
        const size_t back = size_t{step.taps - 1 - tap} * step.settings.dilation;
        const float* const from =
            back == 0 ? x : window + (job.position + step.window - back) % step.window * pitch;
        segments_[tap] = {from, pitch / lanes};
    }
    const Range mine = plan_.range(step.out, number_);
    if (mine.begin != mine.end) {
        float* const y = values_ + step.value_at + mine.begin;
        multiply(step, op, job, segments_.data(), step.taps, y, 0);
        add(y, job.weights->vectors[op].data() + mine.begin, y, mine.padded());
    }
    if (step.window > 1) { // this step's slot is the one that no tap of it reads
        const Range kept = plan_.range(step.in, number_);
        std::memcpy(window + job.position % step.window * pitch + kept.begin, x + kept.begin,
                    (kept.end - kept.begin) * sizeof(float));
    }
}

void Part::concat(const Step& step)
{
    const Range mine = plan_.range(step.out, number_);
    float* const y = values_ + step.value_at;
    size_t at = 0; // where the input's elements go
    for (const uint32_t input : step.inputs) {
        const size_t n = plan_.widths[input];
        const size_t begin = std::max(at, mine.begin);
        const size_t end = std::min(at + n, mine.end);
        if (begin < end) {
            std::memcpy(y + begin, at_[input] + (begin - at), (end - begin) * sizeof(float));
        }
        at += n;
    }
}

void Part::run(const StepJob& job)
{
    at_[0] = job.input;
    for (size_t op = 0; op < plan_.steps.size(); ++op) {
        const Step& step = plan_.steps[op];
        if (step.meet) barrier_.meet(number_, meetings_);
        if (recurrent(step.kind)) {
            recurrent_op(step, op, job);
            continue;
        }
        if (step.kind == OpKind::conv1d) {
            conv1d(step, op, job);
            continue;
        }
        const Range mine = plan_.range(step.out, number_);
        if (mine.begin == mine.end) {
            continue;
        }
        const size_t n = mine.padded();
        const float* const whole = at_[step.inputs[0]];
        const float* const x = whole + mine.begin;                    // where widths are the same
        const float* const vectors = job.weights->vectors[op].data(); // null where it has none
        const auto row = [&](size_t number) { return vectors + number * padded(step.out); };
        float* const y = values_ + step.value_at + mine.begin;
        switch (step.kind) {
        case OpKind::linear: {
            const Segment segment = {whole, padded(step.in) / lanes};
            multiply(step, op, job, &segment, 1, y, 0);
            add(y, row(0) + mine.begin, y, n);
            break;
        }
        case OpKind::embedding: {
            int32_t token = 0;
            std::memcpy(&token, job.input, sizeof token);
            std::memcpy(y, row(static_cast<size_t>(token)) + mine.begin, n * sizeof(float));
            break;
        }
        case OpKind::layernorm:
            layernorm(whole, step.out, step.settings.eps, row(0), row(1), values_ + step.value_at,
                      mine.begin, mine.end);
            break;
        case OpKind::softmax:
            softmax(whole, step.out, room_.data(), values_ + step.value_at, mine.begin, mine.end);
            break;
        case OpKind::affine: affine(x, row(0) + mine.begin, row(1) + mine.begin, y, n); break;
        case OpKind::add: add(x, at_[step.inputs[1]] + mine.begin, y, n); break;
        case OpKind::concat: concat(step); break;
        default: activate(step.kind, x, y, n); break;
        }
    }
    barrier_.meet(number_, meetings_);
}

} // namespace denizen::infer
