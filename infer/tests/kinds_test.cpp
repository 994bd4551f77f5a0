// SPDX-License-Identifier: Apache-2.0
// Every kind of op against sums written out in double precision, in every format of weights and
// dealt to any number of parts.
#include "place.hpp"
#include "reference.hpp"

#include "../src/rows.hpp"

#include <denizen/base/error.hpp>

#include <gtest/gtest.h>

namespace denizen::infer {
namespace {

#if defined(DENIZEN_INFER_FEW) // where it takes long until a model is there
constexpr uint32_t widths[] = {3, 40, 130};
#else
constexpr uint32_t widths[] = {1, 3, 16, 17, 40, 128};
#endif

// Twelve steps of two streams in turn; the error against the reference with weights as the format
// keeps them is that of sums in fp32.
double worst_of(const Model& model, Format format = Format::fp32, uint32_t parts = few_parts)
{
    Engine engine(model, {.streams = 2, .format = format, .parts = parts}, chip());
    Reference references[] = {Reference(model, format), Reference(model, format)};
    double most = 0;
    for (uint32_t step = 0; step < 12; ++step) {
        const std::vector<float> x = noise(model.widths[0], 100 + step, 2.0F);
        const uint32_t stream = step % 3 == 1 ? 1 : 0;
        const double off = worst(ask(engine, stream, x), references[stream].step(x));
        most = off <= most ? most : off;
    }
    return most;
}

TEST(InferKinds, LayersWithMatricesAreWithinTheErrorOfTheirSums)
{
    for (const uint32_t in : widths) {
        for (const uint32_t out : widths) {
            SCOPED_TRACE(testing::Message() << in << " to " << out);
            for (const Format format : {Format::fp32, Format::bf16, Format::fp16}) {
                if (format != Format::fp32 && in != 40) continue; // columns alone depend on it
                SCOPED_TRACE(to_string(format));
                Builder linear(in, 1);
                linear.linear(0, out);
                EXPECT_LT(worst_of(linear.model(), format), 2e-5);
                Builder lstm(in, 2);
                lstm.lstm(0, out);
                EXPECT_LT(worst_of(lstm.model(), format), 1e-5);
                Builder gru(in, 3);
                gru.gru(0, out);
                EXPECT_LT(worst_of(gru.model(), format), 1e-5);
                Builder rnn(in, 4);
                rnn.rnn(0, out);
                EXPECT_LT(worst_of(rnn.model(), format), 3e-5);
                Builder conv(in, 5);
                conv.conv1d(0, out, 3, 2);
                EXPECT_LT(worst_of(conv.model(), format), 4e-5);
            }
        }
    }
}

TEST(InferKinds, AConvolutionSeesItsOwnInputsAsFarBackAsItsTapsReach)
{
    for (const uint32_t taps : {1u, 2u, 5u}) {
        for (const uint32_t dilation : {1u, 2u, 7u}) {
            SCOPED_TRACE(testing::Message() << taps << " taps, dilation " << dilation);
            Builder b(5, 6);
            b.conv1d(0, 6, taps, dilation);
            EXPECT_LT(worst_of(b.model()), 1e-5);
        }
    }
}

TEST(InferKinds, ElementwiseOpsNormsAndShapes)
{
    for (const uint32_t inputs : widths) {
        SCOPED_TRACE(inputs);
        for (const OpKind kind : {OpKind::relu, OpKind::gelu, OpKind::gelu_tanh, OpKind::silu,
                                  OpKind::tanh, OpKind::sigmoid, OpKind::softmax}) {
            SCOPED_TRACE(to_string(kind));
            Builder b(inputs, 7);
            b.each(kind, 0);
            EXPECT_LT(worst_of(b.model()), 1e-6);
        }
        Builder norm(inputs, 8);
        norm.layernorm(0);
        EXPECT_LT(worst_of(norm.model()), inputs == 1 ? 1e-6 : 1e-5);
        Builder scaled(inputs, 9);
        scaled.affine(0);
        EXPECT_LT(worst_of(scaled.model()), 1e-6);
        Builder joined(inputs, 10);
        const uint32_t a = joined.linear(0, 20);
        joined.concat({a, 0, joined.add(a, a)});
        EXPECT_LT(worst_of(joined.model()), 2e-5);
    }
}

// A relu that is made with the rows before it, one that others read beside it, and one that is the
// answer; of one request in a round and of several.
TEST(InferKinds, AReluBehindAMatrixIsMadeWhoeverElseReadsIt)
{
    for (const uint32_t inputs : {3u, 40u}) {
        Builder b(inputs, 15);
        const uint32_t first = b.each(OpKind::relu, b.linear(0, 20));
        const uint32_t convolved = b.each(OpKind::relu, b.conv1d(first, 20, 3));
        const uint32_t read_twice = b.linear(convolved, 20);
        const uint32_t sum = b.add(read_twice, b.each(OpKind::relu, read_twice));
        b.each(OpKind::relu, b.linear(sum, 9));
        EXPECT_LT(worst_of(b.model()), 2e-5);
        Engine engine(b.model(), {.streams = 4, .parts = few_parts}, chip());
        std::vector<Reference> references(4, Reference(b.model()));
        const std::vector<uint32_t> streams = {0, 1, 2, 3};
        std::vector<float> x;
        for (const uint32_t stream : streams) {
            const std::vector<float> one = noise(inputs, 300 + stream, 2.0F);
            x.insert(x.end(), one.begin(), one.end());
        }
        for (int turn = 0; turn < 20; ++turn) {
            std::vector<float> y(size_t{4} * 9);
            std::vector<uint64_t> versions(4);
            engine.steps(streams, std::as_bytes(std::span(x)), y, versions);
            for (const uint32_t stream : streams) {
                const auto* const own = x.data() + stream * inputs;
                const Values expected =
                    references[stream].step(std::vector<float>(own, own + inputs));
                const std::vector<float> got(y.begin() + 9 * stream, y.begin() + 9 * stream + 9);
                EXPECT_LT(worst(got, expected), 2e-5);
            }
        }
    }
}

TEST(InferKinds, ActivationsOfLargeAndSmallNumbers)
{
    std::vector<float> x = {0.0F, -0.0F, 1e-8F, -1e-8F, 1e-3F, 0.24F,  0.25F, 0.26F,
                            5.0F, -5.0F, 20.0F, -20.0F, 90.0F, -90.0F, 1e30F, -1e30F};
    for (const OpKind kind :
         {OpKind::relu, OpKind::silu, OpKind::tanh, OpKind::sigmoid, OpKind::softmax}) {
        SCOPED_TRACE(to_string(kind));
        Builder b(16, 11);
        b.each(kind, 0);
        Engine engine(b.model(), {}, chip());
        const std::vector<float> y = ask(engine, 0, x);
        const Values expected = Reference(b.model()).step(x);
        for (size_t i = 0; i < x.size(); ++i) {
            EXPECT_NEAR(y[i], expected[i], 4e-7 * std::max(1.0, std::abs(expected[i]))) << x[i];
        }
    }
    x[3] = NAN;
    Builder b(16, 11);
    b.each(OpKind::tanh, 0);
    Engine engine(b.model(), {}, chip());
    const std::vector<float> y = ask(engine, 0, x);
    EXPECT_TRUE(std::isnan(y[3]));
    EXPECT_FALSE(std::isnan(y[2]) || std::isnan(y[4]));
}

TEST(InferKinds, ATokenPicksItsRow)
{
    Builder b(0, 12, true);
    b.lstm(b.embedding(50, 20), 24);
    Engine engine(b.model(), {}, chip());
    Reference reference(b.model());
    for (const int32_t token : {0, 49, 7, 7}) {
        std::vector<float> y(24);
        engine.step(0, std::as_bytes(std::span(&token, 1)), y);
        EXPECT_LT(worst(y, reference.step(token)), 1e-5);
    }
    for (const int32_t token : {-1, 50}) {
        std::vector<float> y(24);
        try {
            engine.step(0, std::as_bytes(std::span(&token, 1)), y);
            FAIL() << "token " << token;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_argument);
            EXPECT_NE(std::string(e.what()).find("tokens 0 to 49"), std::string::npos) << e.what();
        }
    }
}

// A model with every way for values to go from part to part.
void build_everything(Builder& b)
{
    const uint32_t conv = b.each(OpKind::gelu_tanh, b.conv1d(0, 70, 3, 2));
    const uint32_t lstm = b.lstm(conv, 70);
    const uint32_t sum = b.add(lstm, conv);
    const uint32_t gru = b.gru(b.layernorm(sum), 33);
    const uint32_t both = b.concat({gru, sum, 0});
    const uint32_t rnn = b.rnn(both, 90);
    b.each(OpKind::softmax, b.affine(b.linear(b.each(OpKind::relu, rnn), 50)));
}

TEST(InferKinds, AnyNumberOfPartsGivesTheSameBits)
{
    for (const Format format : {Format::fp32, Format::bf16, Format::fp16}) {
        Builder b(37, 13);
        build_everything(b);
        EXPECT_LT(worst_of(b.model(), format), 1e-5);
        Engine alone(b.model(), {.streams = 2, .format = format, .parts = few_parts}, chip());
        for (uint32_t parts = few_parts + 1; parts <= 8; parts += parts == 4 ? 4 : 1) {
            SCOPED_TRACE(testing::Message() << parts << " parts, " << to_string(format));
            Engine shared(b.model(), {.streams = 2, .format = format, .parts = parts}, chip());
            alone.reset(0);
            for (uint32_t step = 0; step < 9; ++step) {
                const std::vector<float> x = noise(37, step);
                EXPECT_EQ(ask(shared, 1, x), ask(alone, 0, x)) << "step " << step;
            }
        }
    }
}

// Against a model in fp32, with weights of +-0.09 as a layer of 128 begins with: what a format's
// eight or eleven bits cost an answer of the order of 1.
TEST(InferKinds, WhatAFormatOfWeightsCosts)
{
    Builder b(128, 14);
    b.linear(b.lstm(b.lstm(0, 128), 128), 32);
    Model scaled = b.model();
    std::deque<std::vector<float>> small;
    for (Op& op : scaled.ops) {
        for (auto& weight : op.weights) {
            small.emplace_back(weight.begin(), weight.end());
            for (float& w : small.back()) w *= 0.22F;
            weight = small.back();
        }
    }
    const std::pair<Format, double> bounds[] = {
        {Format::fp32, 2e-6}, {Format::fp16, 5e-4}, {Format::bf16, 4e-3}};
    for (const auto& [format, bound] : bounds) {
        SCOPED_TRACE(to_string(format));
        Engine engine(scaled, {.format = format}, chip());
        Reference exact(scaled);
        double most = 0;
        for (uint32_t step = 0; step < 30; ++step) {
            const std::vector<float> x = noise(128, step);
            most = std::max(most, worst(ask(engine, 0, x), exact.step(x)));
        }
        EXPECT_LT(most, bound);
        if (format == Format::bf16) {
            EXPECT_GT(most, 1e-5); // it is not fp32
        }
    }
}

// One input is 1 and the others 0, so a row's sum is one weight: of each 16-bit word its value.
TEST(InferRows, EveryHalfIsReadAsWhatItIsWithAndWithoutTheMachinesInstructions)
{
    constexpr size_t words = 1u << 16;
    alignas(64) static uint16_t weights[words];
    for (size_t i = 0; i < words; ++i) weights[i] = static_cast<uint16_t>(i);
    const auto value = [](Format format, uint32_t bits) {
        const uint32_t exponent_bits = format == Format::fp16 ? 5 : 8;
        const uint32_t fraction_bits = 15 - exponent_bits;
        const auto exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
        const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
        const int bias = (1 << (exponent_bits - 1)) - 1 + static_cast<int>(fraction_bits);
        const double size = exponent == 0
                                ? std::ldexp(fraction, 1 - bias)
                                : std::ldexp(fraction + (1u << fraction_bits), exponent - bias);
        return bits >> 15 ? -size : size;
    };
    std::vector<float> out(words / lanes);
    for (const Format format : {Format::fp16, Format::bf16}) {
        const uint32_t infinite = format == Format::fp16 ? 0x7c00 : 0x7f80; // and above: no weights
        for (uint16_t& word : weights) word = (word & 0x7fff) < infinite ? word : uint16_t{0};
        for (const bool portable : {false, true}) {
            for (size_t lane = 0; lane < lanes; ++lane) {
                alignas(64) float x[lanes] = {};
                x[lane] = 1;
                const Segment segment = {x, 1};
                (portable ? multiply_rows_portably
                          : multiply_rows)(format, weights, words / lanes / rows_together, &segment,
                                           1, out.data(), 1, rows_together);
                for (size_t row = 0; row < out.size(); ++row) {
                    const uint32_t word = weights[row * lanes + lane];
                    ASSERT_EQ(out[row], static_cast<float>(value(format, word)))
                        << to_string(format) << " " << word << (portable ? ", portable" : "");
                }
            }
        }
        for (size_t i = 0; i < words; ++i) weights[i] = static_cast<uint16_t>(i);
    }
}

std::string refusal(const Model& model, const Options& options = {})
{
    try {
        Engine engine(model, options, chip());
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::bad_argument);
        return e.what();
    }
    return "";
}

TEST(InferKinds, WhatIsNoModelIsRefusedByTheLayersName)
{
    Builder b(8, 15);
    b.linear(b.lstm(0, 12), 4);
    const Model good = b.model();
    EXPECT_EQ(refusal(good), "");

    Model wrong = good;
    wrong.widths[1] = 13;
    EXPECT_NE(
        refusal(wrong).find("layer \"l1\" (lstm): weight 0 has 384 floats; its widths take 416"),
        std::string::npos)
        << refusal(wrong);
    wrong = good;
    wrong.ops[0].inputs = {1};
    EXPECT_NE(refusal(wrong).find("layer \"l1\" (lstm): it reads value 1, which is made later"),
              std::string::npos);
    wrong = good;
    wrong.output = 3;
    EXPECT_NE(refusal(wrong).find("answers with value 3"), std::string::npos);
    wrong = good;
    wrong.ops[1].weights.pop_back();
    EXPECT_NE(refusal(wrong).find("layer \"l2\" (linear): it has 1 inputs and 1 weights"),
              std::string::npos);
    wrong = good;
    wrong.widths[0] = 0;
    EXPECT_NE(refusal(wrong).find("a value of 0 floats"), std::string::npos);
    wrong = good;
    std::vector<float> weights(wrong.ops[1].weights[0].begin(), wrong.ops[1].weights[0].end());
    weights[7] = INFINITY;
    wrong.ops[1].weights[0] = weights;
    EXPECT_NE(refusal(wrong).find("layer \"l2\" (linear): element 7 of weight 0 is inf"),
              std::string::npos)
        << refusal(wrong);
    weights[7] = 70'000.0F;
    EXPECT_EQ(refusal(wrong), "");
    EXPECT_NE(refusal(wrong, {.format = Format::fp16}).find("fp16 goes to 65504"),
              std::string::npos);

    Builder tokens(0, 16, true);
    tokens.linear(0, 3);
    EXPECT_NE(refusal(tokens.model()).find("reads a token"), std::string::npos);
    Builder twice(8, 17);
    twice.lstm(twice.lstm(0, 8), 8);
    wrong = twice.model();
    wrong.ops[1].name = wrong.ops[0].name;
    EXPECT_NE(refusal(wrong).find("two layers keep a state \"l1.h\""), std::string::npos);

    EXPECT_NE(refusal(good, {.streams = 0}).find("streams = 0; use 1 to 16777216"),
              std::string::npos);
    EXPECT_NE(refusal(good, {.parts = 1000}).find("parts = 1000"), std::string::npos);
    EXPECT_NE(refusal(good, {.requests = 0}).find("requests = 0"), std::string::npos);
    Builder far(1u << 16, 18);
    far.conv1d(0, 1, 2, most_dilation);
    EXPECT_NE(refusal(far.model(), {.streams = 1u << 24}).find("more than 2^40"),
              std::string::npos);
}

} // namespace
} // namespace denizen::infer
