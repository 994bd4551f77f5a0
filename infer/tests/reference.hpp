// SPDX-License-Identifier: Apache-2.0
// Models that own their weights, and what their steps are, written out in double precision.
#pragma once

#include <denizen/infer/engine.hpp>
#include <denizen/infer/model.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <vector>

namespace denizen::infer {

using Values = std::vector<double>;

// Builds a model op by op; each returns the number of the value it makes.
class Builder {
public:
    Builder(uint32_t width, uint32_t seed, bool tokens = false) : random_(seed)
    {
        model_.widths = {tokens ? 1 : width};
        model_.tokens = tokens;
    }

    uint32_t linear(uint32_t x, uint32_t out)
    {
        return op(OpKind::linear, {x}, out, {out * width(x), out});
    }
    uint32_t lstm(uint32_t x, uint32_t h)
    {
        return op(OpKind::lstm, {x}, h, {4 * h * width(x), 4 * h * h, 4 * h});
    }
    uint32_t gru(uint32_t x, uint32_t h)
    {
        return op(OpKind::gru, {x}, h, {3 * h * width(x), 3 * h * h, 3 * h, 3 * h});
    }
    uint32_t rnn(uint32_t x, uint32_t h, bool relu = false)
    {
        return op(OpKind::rnn, {x}, h, {h * width(x), h * h, h}, {.relu = relu});
    }
    uint32_t conv1d(uint32_t x, uint32_t out, uint32_t taps, uint32_t dilation = 1)
    {
        return op(OpKind::conv1d, {x}, out, {out * width(x) * taps, out}, {.dilation = dilation});
    }
    uint32_t embedding(uint32_t rows, uint32_t d)
    {
        return op(OpKind::embedding, {0}, d, {rows * d});
    }
    uint32_t layernorm(uint32_t x)
    {
        return op(OpKind::layernorm, {x}, width(x), {width(x), width(x)});
    }
    uint32_t affine(uint32_t x) { return op(OpKind::affine, {x}, width(x), {width(x), width(x)}); }
    uint32_t each(OpKind kind, uint32_t x) { return op(kind, {x}, width(x), {}); }
    uint32_t add(uint32_t a, uint32_t b) { return op(OpKind::add, {a, b}, width(a), {}); }
    uint32_t concat(std::vector<uint32_t> all)
    {
        uint32_t sum = 0;
        for (const uint32_t one : all) sum += width(one);
        return op(OpKind::concat, std::move(all), sum, {});
    }

    const Model& model() const { return model_; } // the last value is the answer

private:
    uint32_t width(uint32_t value) const { return model_.widths[value]; }

    void draw(std::vector<float>& weight)
    {
        std::uniform_real_distribution<float> some(-0.4F, 0.4F);
        for (float& w : weight) w = some(random_);
    }

    uint32_t op(OpKind kind, std::vector<uint32_t> inputs, uint32_t out,
                std::vector<uint32_t> sizes, Settings settings = {})
    {
        std::vector<std::span<const float>> spans;
        for (const uint32_t size : sizes) {
            draw(weights_.emplace_back(size));
            spans.emplace_back(weights_.back());
        }
        const auto number = static_cast<uint32_t>(model_.ops.size() + 1);
        model_.ops.push_back(
            {kind, std::move(inputs), std::move(spans), settings, "l" + std::to_string(number)});
        model_.widths.push_back(out);
        model_.output = number;
        return number;
    }

    Model model_;
    std::deque<std::vector<float>> weights_;
    std::mt19937 random_;
};

// To `bits` of significand, ties to even, nothing smaller than 2^least.
inline double rounded(double x, int bits, int least)
{
    int exponent = 0;
    std::frexp(x, &exponent);
    const double quantum = std::ldexp(1.0, std::max(exponent - bits, least));
    return std::nearbyint(x / quantum) * quantum;
}

// One stream of a model.
class Reference {
public:
    explicit Reference(const Model& model, Format format = Format::fp32)
        : model_(model), format_(format), h_(model.ops.size()), c_(model.ops.size()),
          window_(model.ops.size())
    {
        for (size_t i = 0; i < model.ops.size(); ++i) {
            h_[i].assign(model.widths[i + 1], 0.0);
            c_[i].assign(model.widths[i + 1], 0.0);
        }
    }

    Values step(const std::vector<float>& input)
    {
        std::vector<Values> values = {Values(input.begin(), input.end())};
        return run(std::move(values));
    }
    Values step(int32_t token)
    {
        token_ = token;
        return run({Values{0.0}});
    }

private:
    // A matrix's element as the format keeps it.
    double w(std::span<const float> weight, size_t i) const
    {
        switch (format_) {
        case Format::fp32: return weight[i];
        case Format::bf16: return rounded(weight[i], 8, -133);
        case Format::fp16: return rounded(weight[i], 11, -24);
        }
        return 0;
    }

    double dot(std::span<const float> weight, size_t row, const Values& x) const
    {
        double sum = 0;
        for (size_t j = 0; j < x.size(); ++j) sum += w(weight, row * x.size() + j) * x[j];
        return sum;
    }

    static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

    Values run(std::vector<Values> values)
    {
        for (size_t i = 0; i < model_.ops.size(); ++i) values.push_back(make(i, values));
        return values[model_.output];
    }

    Values make(size_t i, const std::vector<Values>& values)
    {
        const Op& op = model_.ops[i];
        const Values& x = values[op.inputs[0]];
        const size_t n = model_.widths[i + 1];
        const auto& weight = op.weights;
        Values y(n);
        switch (op.kind) {
        case OpKind::linear:
            for (size_t u = 0; u < n; ++u) y[u] = dot(weight[0], u, x) + weight[1][u];
            return y;
        case OpKind::lstm: {
            const auto gate = [&](size_t g, size_t u) {
                const size_t row = g * n + u;
                return dot(weight[0], row, x) + dot(weight[1], row, h_[i]) + weight[2][row];
            };
            for (size_t u = 0; u < n; ++u) {
                c_[i][u] =
                    sigmoid(gate(1, u)) * c_[i][u] + sigmoid(gate(0, u)) * std::tanh(gate(2, u));
                y[u] = sigmoid(gate(3, u)) * std::tanh(c_[i][u]);
            }
            return h_[i] = y;
        }
        case OpKind::gru:
            for (size_t u = 0; u < n; ++u) {
                const auto of_input = [&](size_t g) {
                    return dot(weight[0], g * n + u, x) + weight[2][g * n + u];
                };
                const auto of_state = [&](size_t g) {
                    return dot(weight[1], g * n + u, h_[i]) + weight[3][g * n + u];
                };
                const double r = sigmoid(of_input(0) + of_state(0));
                const double z = sigmoid(of_input(1) + of_state(1));
                const double made = std::tanh(of_input(2) + r * of_state(2));
                y[u] = (1 - z) * made + z * h_[i][u];
            }
            return h_[i] = y;
        case OpKind::rnn:
            for (size_t u = 0; u < n; ++u) {
                const double sum = dot(weight[0], u, x) + dot(weight[1], u, h_[i]) + weight[2][u];
                y[u] = op.settings.relu ? std::max(0.0, sum) : std::tanh(sum);
            }
            return h_[i] = y;
        case OpKind::conv1d: {
            const size_t taps = taps_of(model_, i);
            auto& window = window_[i]; // the newest first
            window.push_front(x);
            for (size_t u = 0; u < n; ++u) {
                y[u] = weight[1][u];
                for (size_t tap = 0; tap < taps; ++tap) {
                    const size_t back = (taps - 1 - tap) * op.settings.dilation;
                    if (back >= window.size()) continue;
                    for (size_t j = 0; j < x.size(); ++j) {
                        y[u] += w(weight[0], (u * x.size() + j) * taps + tap) * window[back][j];
                    }
                }
            }
            return y;
        }
        case OpKind::embedding:
            for (size_t u = 0; u < n; ++u) y[u] = weight[0][static_cast<size_t>(token_) * n + u];
            return y;
        case OpKind::layernorm: {
            double mean = 0;
            double variance = 0;
            for (const double v : x) mean += v / static_cast<double>(n);
            for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
            for (size_t u = 0; u < n; ++u) {
                y[u] = (x[u] - mean) / std::sqrt(variance + op.settings.eps) * weight[0][u] +
                       weight[1][u];
            }
            return y;
        }
        case OpKind::affine:
            for (size_t u = 0; u < n; ++u) y[u] = x[u] * weight[0][u] + weight[1][u];
            return y;
        case OpKind::softmax: {
            const double most = *std::max_element(x.begin(), x.end());
            double sum = 0;
            for (const double v : x) sum += std::exp(v - most);
            for (size_t u = 0; u < n; ++u) y[u] = std::exp(x[u] - most) / sum;
            return y;
        }
        case OpKind::add:
            for (size_t u = 0; u < n; ++u) y[u] = x[u] + values[op.inputs[1]][u];
            return y;
        case OpKind::concat:
            y.clear();
            for (const uint32_t input : op.inputs) {
                y.insert(y.end(), values[input].begin(), values[input].end());
            }
            return y;
        default:
            for (size_t u = 0; u < n; ++u) y[u] = activated(op.kind, x[u]);
            return y;
        }
    }

    static double activated(OpKind kind, double x)
    {
        switch (kind) {
        case OpKind::relu: return std::max(0.0, x);
        case OpKind::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case OpKind::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case OpKind::silu: return x * sigmoid(x);
        case OpKind::tanh: return std::tanh(x);
        default: return sigmoid(x);
        }
    }

    const Model& model_;
    Format format_;
    std::vector<Values> h_;
    std::vector<Values> c_;
    std::vector<std::deque<Values>> window_;
    int32_t token_ = 0;
};

inline std::vector<float> noise(size_t n, uint32_t seed, float scale = 1.0F)
{
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> some(-scale, scale);
    std::vector<float> values(n);
    for (float& v : values) v = some(random);
    return values;
}

inline std::vector<float> ask(Engine& engine, uint32_t stream, const std::vector<float>& input)
{
    std::vector<float> output(engine.output_floats());
    engine.step(stream, std::as_bytes(std::span(input)), output);
    return output;
}

inline double worst(const std::vector<float>& got, const Values& expected)
{
    double most = got.size() == expected.size() ? 0 : INFINITY;
    for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
        const double off = std::abs(got[i] - expected[i]);
        most = off <= most ? most : off; // a NaN is worse than anything
    }
    return most;
}

} // namespace denizen::infer
