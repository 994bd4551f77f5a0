// SPDX-License-Identifier: Apache-2.0
// Resident blocks that fill other circuits, and gain control, on CPU threads always and on a GPU
// where there is one: their outputs and tags are those of the CPU's kernels for the whole stream,
// however quanta are cut and whichever worker has them. The kernels are compared with SciPy in
// test_dsp.py, the blocks in test_signal_circuits.py.
#include "whole_stream.hpp"

#include <denizen/dsp/resident/program.hpp>
#include <denizen/dsp/resident_agc.hpp>
#include <denizen/dsp/resident_circuits.hpp>
#include <denizen/flow/alone.hpp>

#include <actor/places.hpp>
#include <support/noise.hpp>

namespace denizen::flow {
namespace {

using namespace denizen::test;
using Complex = std::complex<float>;
using Tags = std::vector<Tag>;

constexpr float within = 2e-5f; // of samples and taps of some units: the order of sums differs

template <class T>
void near_to(const std::vector<T>& got, const std::vector<T>& expected)
{
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_LE(std::abs(got[i] - expected[i]), within) << "sample " << i;
    }
}

class dsp_circuits : public AtEveryPlace {
protected:
    static Options where()
    {
        Options o = options();
        o.device = device();
        return o;
    }
};
DENIZEN_AT_EVERY_PLACE(dsp_circuits);

const std::vector<Complex> signal = noise(3'003); // three jobs
const std::vector<float> taps{0.1f, 0.5f, 1, 0.5f, 0.25f, 0.1f, -0.2f};
// Samples of the quanta that are read and of those that are filled.
const std::vector<std::pair<size_t, size_t>> cuts{{23, 40}, {700, 67}, {6'000, 20'000}};

template <class Sample, class Tap>
void resampled_as_by_the_kernel(Resident& resident, const std::vector<Sample>& in,
                                const std::vector<Tap>& h, uint32_t up, uint32_t down)
{
    const std::vector<Sample> expected = resampled(in, h, up, down);
    for (const auto& [read, filled] : cuts) {
        Alone<ResidentResampler<Sample, Tap>> test("resampler", resident, h, up, down);
        test.feed(test.block.in, in, {{0, "at", 0.0}, {1501, "at", 1.0}}, read);
        test.circuit(test.block.out, 2, filled);
        const auto& got = test.template collect<Sample>(test.block.out);
        test.run(60s);
        near_to(got.samples, expected);
        const uint64_t second = (uint64_t{1501} * up + down - 1) / down;
        EXPECT_EQ(got.tags, (Tags{{0, "at", 0.0}, {second, "at", 1.0}}));
    }
}

TEST_P(dsp_circuits, a_resamplers_outputs_are_its_kernels)
{
    std::vector<float> real(signal.size());
    std::transform(signal.begin(), signal.end(), real.begin(), [](Complex x) { return x.real(); });
    const std::vector<Complex> turned{{1, 2}, {-0.5f, 0.25f}, {0, 1}};
    Resident resident(resident::image(), where(), 3);
    for (const auto& [up, down] : {std::pair{3u, 7u}, std::pair{7u, 2u}, std::pair{1u, 2000u}}) {
        resampled_as_by_the_kernel(resident, signal, taps, up, down);
    }
    resampled_as_by_the_kernel(resident, real, taps, 40, 1); // fewer samples to a job than outputs
    resampled_as_by_the_kernel(resident, signal, turned, 5, 3);
    EXPECT_EQ(resident.runtime().stats().errors, 0u);
}

TEST_P(dsp_circuits, frames_are_transformed)
{
    Resident resident(resident::image(), where(), 3);
    for (const uint32_t points : {2u, 32u, 2048u}) {
        for (const bool inverse : {false, true}) {
            const std::vector<Complex> expected = transformed(signal, points, inverse);
            for (const auto& [read, filled] : cuts) {
                Alone<ResidentFft> test("fft", resident, points, inverse);
                test.feed(test.block.in, signal, {{1'700, "at", 1.0}}, read);
                test.circuit(test.block.out, 2, std::max<size_t>(filled, points));
                const auto& got = test.collect<Complex>(test.block.out);
                test.run(60s);
                ASSERT_EQ(got.samples.size(), expected.size());
                float apart = 0;
                float most = 0;
                for (size_t i = 0; i < expected.size(); ++i) {
                    apart = std::max(apart, std::abs(got.samples[i] - expected[i]));
                    most = std::max(most, std::abs(expected[i]));
                }
                EXPECT_LE(apart, 1e-6f * most) << points << " points";
                EXPECT_EQ(got.tags, (Tags{{1'700, "at", 1.0}}));
            }
        }
    }
}

TEST_P(dsp_circuits, quanta_hold_whole_frames)
{
    struct Sizes : Block {
        In<Complex> in{*this, "in"};
        std::vector<size_t> seen;
        using Block::Block;
        void work() override
        {
            seen.push_back(in.view().size());
            in.consume(in.view().size());
        }
    };
    Resident resident(resident::image(), where(), 2);
    Flowgraph g;
    auto& source = g.add<VectorSource<Complex>>("source", signal);
    auto& fft = g.add<ResidentFft>("fft", resident, 32u);
    auto& sizes = g.add<Sizes>("sizes");
    g.circuit("samples", source.out, 2, 500);
    g.circuit("frames", fft.out, 2, 3 * 32 + 31);
    g.connect(source.out, fft.in);
    g.connect(fft.out, sizes.in);
    g.start();
    g.wait(60s);
    ASSERT_EQ(sizes.seen.size(), (signal.size() / 32 + 2) / 3);
    for (size_t i = 0; i + 1 < sizes.seen.size(); ++i) EXPECT_EQ(sizes.seen[i], 3 * 32);
}

TEST_P(dsp_circuits, channels_that_are_asked_for_are_made)
{
    constexpr uint32_t channels = 8;
    const auto all = channelized(signal, taps, channels);
    Resident resident(resident::image(), where(), 3);
    for (const auto& [read, filled] : cuts) {
        Alone<ResidentChannelizer> test("bank", resident, taps, channels);
        test.feed(test.block.in, signal, {{17, "at", 1.0}}, read);
        std::vector<const VectorSink<Complex>*> got;
        for (const uint32_t k : {5u, 0u, 7u}) {
            EXPECT_EQ(test.block.channel(k).label(), "bank.channel " + std::to_string(k));
            test.circuit(test.block.channel(k), 2, filled + k); // buffers of other sizes
            got.push_back(&test.collect<Complex>(test.block.channel(k)));
        }
        test.run(60s);
        for (const auto& [i, k] : {std::pair{0u, 5u}, std::pair{1u, 0u}, std::pair{2u, 7u}}) {
            near_to(got[i]->samples, all[k]);
            EXPECT_EQ(got[i]->tags, (Tags{{3, "at", 1.0}}));
        }
    }
}

// Channels of a band, each through a resident chain of its own: a circuit that a resident block
// fills is read by others.
TEST_P(dsp_circuits, between_chains_in_a_sequence_and_in_a_pool)
{
    constexpr uint32_t channels = 4;
    std::vector<Complex> twice = signal;
    for (Complex& x : twice) x *= 2;
    const auto all = channelized(twice, taps, channels);
    Resident resident(resident::image(), where(), 2);
    for (const bool pool : {false, true}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<Complex>>("source", signal);
        auto& mixer = g.add<ResidentMixer>("mixer", resident, std::vector<Complex>{{2, 0}});
        auto& bank = g.add<ResidentChannelizer>("bank", resident, taps, channels);
        Circuit& iq = g.circuit("iq", source.out, 3, 500);
        g.connect(source.out, mixer.samples);
        g.connect(mixer.samples, bank.in);
        std::vector<const VectorSink<float>*> got;
        for (uint32_t k = 0; k < channels; ++k) {
            const std::string number = std::to_string(k);
            auto& power = g.add<ResidentMagnitudeSquared>("power " + number, resident);
            auto& sink = g.add<VectorSink<float>>("sink " + number);
            g.circuit("channel " + number, bank.channel(k), 2, 100);
            g.connect(bank.channel(k), power.samples);
            g.connect(power.samples, sink.in);
            got.push_back(&sink);
        }
        if (pool) {
            g.start({{}, {{g.blocks(), {-1, -1}}}});
        } else {
            g.start(Executors{{{g.blocks(), -1}}, {}});
        }
        g.wait(60s);
        for (uint32_t k = 0; k < channels; ++k) {
            std::vector<float> expected;
            for (const Complex& x : all[k]) expected.push_back(std::norm(x));
            near_to(got[k]->samples, expected);
        }
        EXPECT_EQ(iq.at_home(), 3u);
    }
}

// Between two filters: it is a chain of its own, and its one worker sees the whole stream.
TEST_P(dsp_circuits, gain_is_controlled)
{
    auto loud = signal; // and quiet: the gain reaches its bound
    for (size_t i = 0; i < loud.size(); ++i) {
        loud[i] *= i < 1'000 ? 1.0f : i < 2'000 ? 200.0f : 0.01f;
    }
    const std::vector<float> low{0.5f, 0.25f};
    std::vector<Complex> expected(loud.size());
    dsp::Fir<Complex>(low).feed(loud.data(), loud.size(), expected.data());
    dsp::Agc<Complex>(2.0f, 0.01f, 8.0f).feed(expected.data(), expected.size(), expected.data());
    dsp::Fir<Complex>(low).feed(expected.data(), expected.size(), expected.data());
    Resident resident(resident::image(), where(), 3);
    for (const size_t quantum : {23u, 100u, 2'000u}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<Complex>>("source", loud, Tags{{2'500, "at", 1.0}});
        auto& before = g.add<ResidentFir<Complex>>("before", resident, low);
        auto& agc = g.add<ResidentAgc<Complex>>("agc", resident, 2.0f, 0.01f, 8.0f);
        auto& after = g.add<ResidentFir<Complex>>("after", resident, low);
        auto& sink = g.add<VectorSink<Complex>>("sink");
        g.circuit("iq", source.out, 5, quantum);
        g.connect(source.out, before.samples);
        g.connect(before.samples, agc.samples);
        g.connect(agc.samples, after.samples);
        g.connect(after.samples, sink.in);
        g.start();
        g.wait(60s);
        ASSERT_EQ(sink.samples.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_LE(std::abs(sink.samples[i] - expected[i]), 1e-4f * (1 + std::abs(expected[i])))
                << "sample " << i;
        }
        EXPECT_EQ(sink.tags, (Tags{{2'500, "at", 1.0}}));
    }
}

// Who reads ends before the stream does, or the graph is aborted: nothing stays with the runtime.
TEST_P(dsp_circuits, that_end_early_leave_nothing_behind)
{
    struct First : Block {
        In<Complex> in{*this, "in"};
        using Block::Block;
        void work() override
        {
            in.consume(in.view().size());
            if (in.position() >= 100) finish();
        }
    };
    struct Zeros : Block { // until it is stopped
        Source<Complex> out{*this, "out"};
        using Block::Block;
        void work() override { out.produce(out.room().size()); }
    };
    Resident resident(resident::image(), where(), 2);
    for (const bool aborted : {false, true}) {
        Flowgraph g;
        auto& source = g.add<Zeros>("source");
        auto& fft = g.add<ResidentFft>("fft", resident, 64u);
        g.circuit("iq", source.out, 2, 100);
        g.circuit("frames", fft.out, 2, 128);
        g.connect(source.out, fft.in);
        g.connect(fft.out, aborted ? g.add<NullSink<Complex>>("sink").in : g.add<First>("sink").in);
        g.start();
        if (aborted) {
            std::this_thread::sleep_for(5ms);
            g.abort();
        }
        g.wait(60s);
    }
    resident.runtime().drain(20s);
    EXPECT_EQ(resident.runtime().stats().errors, 0u);
    EXPECT_TRUE(eventually([&] { return resident.runtime().buffers().open == 0; }));
}

TEST_P(dsp_circuits, what_cannot_work_is_refused)
{
    Resident resident(resident::image(), where(), 1);
    const auto says = [](auto make) { return std::string(error_of(make).what()); };
    EXPECT_EQ(says([&] { ResidentFft("fft", resident, 8192); }),
              "block \"fft\": 8192 points; a resident block takes a power of two from 2 to 4096");
    EXPECT_EQ(says([&] { ResidentChannelizer("bank", resident, taps, 12); }),
              "block \"bank\": 12 channels; a resident block takes a power of two from 2 to 1024");
    EXPECT_NE(says([&] { ResidentAgc<float>("agc", resident, 1, 2, 1); }).find("a rate of at most"),
              std::string::npos);
    ResidentChannelizer bank("bank", resident, taps, 8);
    EXPECT_EQ(says([&] { bank.channel(8); }), "block \"bank\": channel 8 of 8");
    EXPECT_EQ(says([&] { ResidentResampler<float>("r", resident, taps, 0, 1); }),
              "block \"r\": 7 taps, up by 0, down by 1; a resident block takes 1 to 32768 taps and "
              "rates from 1 to 4096");
}

} // namespace
} // namespace denizen::flow
