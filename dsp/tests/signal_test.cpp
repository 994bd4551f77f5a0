// SPDX-License-Identifier: Apache-2.0
// Blocks of signal processing on the graph's threads: in a graph they give what their kernels give
// for the whole stream at once, to the last bit, however quanta are cut. Their resident twins are
// compared with the same kernels in circuits_test.cu, the kernels with SciPy in test_dsp.py, the
// blocks in test_signal_circuits.py.
#include "whole_stream.hpp"

#include <denizen/dsp/signal.hpp>
#include <denizen/dsp/signal_circuits.hpp>
#include <denizen/flow/alone.hpp>

#include <gtest/gtest.h>
#include <support/noise.hpp>

namespace denizen::flow {
namespace {

using Complex = std::complex<float>;
using std::chrono::seconds;

const std::vector<Complex> signal = test::noise(1'500);
const std::vector<float> taps{0.1f, 0.5f, 1, 0.5f, 0.25f, 0.1f, -0.2f};
// Samples of the quanta that are read and of those that are filled.
const std::vector<std::pair<size_t, size_t>> cuts{{7, 40}, {64, 33}, {2'000, 2'000}};

TEST(SignalCircuits, AResamplersOutputsAreItsKernels)
{
    for (const auto& [up, down] : {std::pair{7u, 2u}, std::pair{2u, 7u}}) {
        const auto expected = test::resampled(signal, taps, up, down);
        for (const auto& [in, out] : cuts) {
            Alone<Resampler<Complex>> test("resampler", taps, up, down);
            test.feed(test.block.in, signal, {{0, "at", 0.0}, {501, "at", 1.0}}, in);
            test.circuit(test.block.out, 2, out);
            const auto& got = test.collect<Complex>(test.block.out);
            test.run(seconds(60));
            EXPECT_EQ(got.samples, expected);
            const uint64_t second = (501 * up + down - 1) / down;
            EXPECT_EQ(got.tags, (std::vector<Tag>{{0, "at", 0.0}, {second, "at", 1.0}}));
        }
    }
}

TEST(SignalCircuits, FramesAreTransformed)
{
    constexpr size_t points = 32;
    for (const bool inverse : {false, true}) {
        const auto expected = test::transformed(signal, points, inverse);
        for (const auto& [in, out] : cuts) {
            Alone<Fft> test("fft", uint32_t{points}, inverse);
            test.feed(test.block.in, signal, {{700, "at", 1.0}}, in);
            test.circuit(test.block.out, 2, out);
            const auto& got = test.collect<Complex>(test.block.out);
            test.run(seconds(60));
            EXPECT_EQ(got.samples, expected);
            EXPECT_EQ(got.tags, (std::vector<Tag>{{700, "at", 1.0}}));
        }
    }
}

TEST(SignalCircuits, ChannelsThatAreAskedForAreMade)
{
    constexpr uint32_t channels = 8;
    const auto all = test::channelized(signal, taps, channels);
    for (const auto& [in, out] : cuts) {
        Alone<Channelizer> test("bank", taps, channels);
        test.feed(test.block.in, signal, {{17, "at", 1.0}}, in);
        std::vector<const VectorSink<Complex>*> got;
        for (const uint32_t k : {5u, 0u}) {
            EXPECT_EQ(test.block.channel(k).label(), "bank.channel " + std::to_string(k));
            test.circuit(test.block.channel(k), 2, out + k); // buffers of other sizes
            got.push_back(&test.collect<Complex>(test.block.channel(k)));
        }
        test.run(seconds(60));
        for (const size_t i : {0, 1}) {
            EXPECT_EQ(got[i]->samples, all[i == 0 ? 5 : 0]);
            EXPECT_EQ(got[i]->tags, (std::vector<Tag>{{3, "at", 1.0}}));
        }
    }
    Channelizer bank("bank", taps, channels);
    EXPECT_THROW(bank.channel(channels), Error);
}

TEST(Signal, GainIsControlledInPlace)
{
    std::vector<Complex> expected(signal.size());
    dsp::Agc<Complex>(0.5f, 0.01f, 10).feed(signal.data(), signal.size(), expected.data());
    Alone<Agc<Complex>> test("agc", 0.5f, 0.01f, 10.0f);
    test.feed(test.block.samples, signal, {{99, "at", 1.0}}, 37);
    const auto& got = test.collect<Complex>(test.block.samples);
    test.run(seconds(60));
    EXPECT_EQ(got.samples, expected);
    EXPECT_EQ(got.tags, (std::vector<Tag>{{99, "at", 1.0}}));
}

} // namespace
} // namespace denizen::flow
