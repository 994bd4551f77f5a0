// SPDX-License-Identifier: Apache-2.0
#include "weights.hpp"

#include "packer.hpp"

#include <denizen/base/floats.hpp>

#include <cmath>
#include <cstring>

namespace denizen::infer {
namespace {

// To the nearest, ties to even.
template <class T>
uint16_t bits_of(float value)
{
    return narrow<T>(value).bits;
}

float most_of(Format format)
{
    switch (format) {
    case Format::fp32: return 3.4028235e38F;
    case Format::bf16: return 3.3895314e38F;
    case Format::fp16: return 65504.0F;
    }
    return 0;
}

size_t groups_of(const Step& step, const Range& range)
{
    const size_t units = range.end - range.begin;
    return step.rows == 4 ? units : (units + rows_together - 1) / rows_together;
}

size_t bytes_of(const Step& step, const Range& range, Format format)
{
    return step.rows == 0
               ? 0
               : groups_of(step, range) * rows_together * step.columns * format_bytes(format);
}

void pack_op(const Step& step, const Op& op, const Range& range, Format format, unsigned char* to)
{
    Packer packer(to, format, op, lanes);
    for (size_t group = 0; group < groups_of(step, range); ++group) {
        const size_t unit = range.begin + group * (step.rows == 4 ? 1 : rows_together);
        pack_input_rows(packer, step, op, unit, range.end);
        pack_state_rows(packer, step, op, unit, range.end);
    }
}

// Rows of `width` floats, each padded.
Aligned<float> padded_rows(const std::vector<const float*>& rows, size_t width, const Op& op)
{
    Aligned<float> all(rows.size() * padded(width), "the weights of " + told(op));
    for (size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(all.data() + i * padded(width), rows[i], width * sizeof(float));
    }
    return all;
}

} // namespace

const char* to_string(Format format)
{
    switch (format) {
    case Format::fp32: return "fp32";
    case Format::bf16: return "bf16";
    case Format::fp16: return "fp16";
    }
    return "unknown";
}

void Packer::put(float value)
{
    if (std::fabs(value) > most_of(format_)) {
        throw Error(Errc::bad_argument,
                    told(op_) + ": it has a weight of " + std::to_string(value) + ", and " +
                        infer::to_string(format_) + " goes to " + std::to_string(most_of(format_)) +
                        "; use another format");
    }
    if (format_ == Format::fp32) {
        std::memcpy(to_, &value, 4);
    } else {
        const uint16_t half =
            format_ == Format::bf16 ? bits_of<BFloat>(value) : bits_of<Half>(value);
        std::memcpy(to_, &half, 2);
    }
    to_ += format_bytes(format_);
}

void pack_input_rows(Packer& packer, const Step& step, const Op& op, size_t unit, size_t end)
{
    switch (step.kind) {
    case OpKind::lstm:
    case OpKind::gru: // r, z, n of the input, and of h, which has none
        packer.segment(step.in, 1, [&](size_t gate) {
            const bool none = step.kind == OpKind::gru && gate == 3;
            return none ? nullptr : op.weights[0].data() + (gate * step.out + unit) * step.in;
        });
        break;
    case OpKind::linear:
    case OpKind::rnn:
        packer.segment(step.in, 1, [&](size_t r) {
            return unit + r < end ? op.weights[0].data() + (unit + r) * step.in : nullptr;
        });
        break;
    case OpKind::conv1d:
        for (size_t tap = 0; tap < step.taps; ++tap) { // the oldest input's first
            packer.segment(step.in, step.taps, [&](size_t r) {
                return unit + r < end
                           ? op.weights[0].data() + (unit + r) * step.in * step.taps + tap
                           : nullptr;
            });
        }
        break;
    default: break;
    }
}

void pack_state_rows(Packer& packer, const Step& step, const Op& op, size_t unit, size_t end)
{
    if (!recurrent(step.kind)) {
        return;
    }
    const float* const w = op.weights[1].data();
    packer.segment(step.out, 1, [&](size_t r) -> const float* {
        switch (step.kind) {
        case OpKind::lstm: return w + (r * step.out + unit) * step.out;
        case OpKind::gru: // n of the input has none
            return r == 2 ? nullptr : w + ((r == 3 ? 2 : r) * step.out + unit) * step.out;
        default: return unit + r < end ? w + (unit + r) * step.out : nullptr;
        }
    });
}

Aligned<float> vectors_of(const Step& step, const Op& op)
{
    std::vector<const float*> rows;
    const size_t n = step.out;
    switch (step.kind) {
    case OpKind::linear:
    case OpKind::conv1d: rows = {op.weights[1].data()}; break;
    case OpKind::rnn: rows = {op.weights[2].data()}; break;
    case OpKind::lstm:
        for (size_t gate = 0; gate < 4; ++gate) rows.push_back(op.weights[2].data() + gate * n);
        break;
    case OpKind::gru: {
        const float* const of_input = op.weights[2].data();
        const float* const of_state = op.weights[3].data();
        Aligned<float> all =
            padded_rows({of_input, of_input + n, of_input + 2 * n, of_state + 2 * n}, n, op);
        for (size_t i = 0; i < n; ++i) { // r and z have one sum each
            all.data()[i] += of_state[i];
            all.data()[padded(n) + i] += of_state[n + i];
        }
        return all;
    }
    case OpKind::layernorm:
    case OpKind::affine: rows = {op.weights[0].data(), op.weights[1].data()}; break;
    case OpKind::embedding:
        for (size_t row = 0; row < op.weights[0].size() / n; ++row) {
            rows.push_back(op.weights[0].data() + row * n);
        }
        break;
    default: return {};
    }
    return padded_rows(rows, n, op);
}

size_t Weights::bytes() const
{
    size_t sum = 0;
    for (const Packed& part : parts) sum += part.bytes.bytes();
    for (const Aligned<float>& vector : vectors) sum += vector.bytes();
    return sum;
}

size_t packed_bytes(const Plan& plan, Format format)
{
    size_t sum = 0;
    for (const Step& step : plan.steps) sum += bytes_of(step, {0, step.out}, format);
    return sum;
}

Weights pack(const Plan& plan, const Model& model, Format format)
{
    Weights weights;
    for (uint32_t part = 0; part < plan.parts; ++part) {
        Packed packed;
        size_t bytes = 0;
        for (const Step& step : plan.steps) {
            packed.at.push_back(bytes);
            bytes += bytes_of(step, plan.range(step.out, part), format);
        }
        packed.bytes = Aligned<unsigned char>(bytes, "the model's weights");
        for (size_t i = 0; i < plan.steps.size(); ++i) {
            const Step& step = plan.steps[i];
            if (step.rows != 0) {
                pack_op(step, model.ops[i], plan.range(step.out, part), format,
                        packed.bytes.data() + packed.at[i]);
            }
        }
        weights.parts.push_back(std::move(packed));
    }
    for (size_t i = 0; i < plan.steps.size(); ++i) {
        weights.vectors.push_back(vectors_of(plan.steps[i], model.ops[i]));
    }
    return weights;
}

} // namespace denizen::infer
