// SPDX-License-Identifier: Apache-2.0
// Tags stay at their exact samples through decimation, interpolation, regrouping, windows, splits
// and merges. Every test compares all tags with where arithmetic says they belong.
#include <denizen/flow/alone.hpp>

#include <gtest/gtest.h>

#include <numeric>

namespace denizen::flow {
namespace {

std::vector<int> ramp(size_t n)
{
    std::vector<int> samples(n);
    std::iota(samples.begin(), samples.end(), 0);
    return samples;
}

std::vector<Tag> tags_at(const std::vector<uint64_t>& samples)
{
    std::vector<Tag> tags;
    for (const uint64_t s : samples) tags.push_back({s, "at", static_cast<int64_t>(s)});
    return tags;
}

const std::vector<uint64_t> places{0, 1, 2, 6, 7, 63, 64, 65, 100, 101, 447, 448, 999};

TEST(TagCarry, IsExactFarIntoAStream)
{
    TagCarry carry({3, 7});
    const uint64_t far = 7'000'000'000'000'000'003;
    carry.arrive(far, {{4, "key", 1.5}});
    std::vector<Tag> out;
    carry.leave(3'000'000'000'000'000'000, 2, out);
    EXPECT_TRUE(out.empty());
    carry.leave(3'000'000'000'000'000'002, 4, out);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0], (Tag{1, "key", 1.5})); // (far + 4) * 3 / 7 = ...003
}

TEST(TagCarry, RoundsToTheSideOfTheRate)
{
    const std::vector<uint64_t> at{0, 1, 6, 7, 8, 13, 14};
    const auto arrivals = [&](Side side) {
        TagCarry carry({3, 7, side});
        for (const uint64_t s : at) carry.arrive(s, {{0, "key", 1.5}});
        std::vector<Tag> out;
        carry.leave(0, 100, out);
        std::vector<uint64_t> samples;
        for (const Tag& tag : out) samples.push_back(tag.sample);
        return samples;
    };
    EXPECT_EQ(arrivals(Side::before), (std::vector<uint64_t>{0, 0, 2, 3, 3, 5, 6}));
    EXPECT_EQ(arrivals(Side::after), (std::vector<uint64_t>{0, 1, 3, 3, 4, 6, 6}));
}

// Any rate between circuits with buffers of other sizes: input and output quanta never match.
struct Resample : Block {
    In<int> in{*this, "in"};
    Source<int> out{*this, "out"};
    Resample(std::string name, Rate rate) : Block(std::move(name)), rate_(rate)
    {
        out.follow(in, rate);
    }
    // Output m is the last of the inputs s with floor(s * out / in) = m.
    uint64_t input_of(uint64_t m) const { return ((m + 1) * rate_.in - 1) / rate_.out; }
    void work() override
    {
        const auto view = in.view();
        const auto room = out.room();
        const uint64_t end = in.position() + view.size();
        const uint64_t first = out.position();
        size_t made = 0;
        while (made < room.size() && input_of(first + made) < end) { // ends: by room or samples
            room[made] = view[input_of(first + made) - in.position()];
            ++made;
        }
        in.consume(std::min(input_of(first + made), end) - in.position());
        if (made > 0) out.produce(made);
    }
    Rate rate_;
};

class Rates : public testing::TestWithParam<std::tuple<Rate, size_t, size_t>> {};

TEST_P(Rates, BetweenCircuits)
{
    const auto [rate, in_quantum, out_quantum] = GetParam();
    Alone<Resample> test("resample", rate);
    test.feed(test.block.in, ramp(1008), tags_at(places), in_quantum);
    test.circuit(test.block.out, 3, out_quantum);
    const auto& out = test.collect<int>(test.block.out);
    test.run();
    ASSERT_EQ(out.samples.size(), 1008 * rate.out / rate.in);
    ASSERT_EQ(out.tags.size(), places.size());
    for (size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(out.tags[i].sample, places[i] * rate.out / rate.in) << places[i];
        EXPECT_EQ(std::get<int64_t>(out.tags[i].value), static_cast<int64_t>(places[i]));
    }
}

INSTANTIATE_TEST_SUITE_P(All, Rates,
                         testing::Combine(testing::Values(Rate{1, 1}, Rate{1, 7}, Rate{5, 1},
                                                          Rate{3, 7}, Rate{7, 3}),
                                          testing::Values(size_t{1}, size_t{64}, size_t{1000}),
                                          testing::Values(size_t{1}, size_t{37}, size_t{4096})));

// The last of every seven samples stays, in the buffer it came in.
struct DecimateInPlace : Block {
    InPlace<int> samples{*this, "samples"};
    explicit DecimateInPlace(std::string name) : Block(std::move(name)) { samples.rate({1, 7}); }
    void work() override
    {
        const auto s = samples.samples();
        size_t kept = 0;
        for (size_t i = 0; i < s.size(); ++i) {
            if ((samples.position() + i) % 7 == 6) s[kept++] = s[i];
        }
        samples.trim(0, s.size() - kept);
        samples.pass();
    }
};

TEST(Tags, ThroughDecimationInPlace)
{
    for (const size_t quantum : {1, 5, 64, 999}) { // of 5 samples, many leave empty
        Alone<DecimateInPlace> test("decimate");
        test.feed(test.block.samples, ramp(1001), tags_at(places), quantum);
        const auto& out = test.collect<int>(test.block.samples);
        test.run();
        ASSERT_EQ(out.samples.size(), 143u);
        for (size_t i = 0; i < 143; ++i) EXPECT_EQ(out.samples[i], static_cast<int>(7 * i + 6));
        ASSERT_EQ(out.tags.size(), places.size());
        for (size_t i = 0; i < places.size(); ++i)
            EXPECT_EQ(out.tags[i].sample, places[i] / 7) << quantum;
    }
}

// Drops the first two samples of each quantum and prepends copies of the last one, twice.
struct Prefix : Block {
    InPlace<int> samples{*this, "samples"};
    using Block::Block;
    void work() override
    {
        const int last = samples.samples().back();
        samples.trim(2, 0);
        samples.grow(2, 0);
        samples.samples()[0] = samples.samples()[1] = last;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(samples.samples().data()) % 64, 0u);
        EXPECT_THROW(samples.grow(1, 0), Error);
        EXPECT_THROW(samples.trim(9, 0), Error);
        samples.pass();
    }
};

TEST(Tags, GoWithTheWindow)
{
    Alone<Prefix> test("prefix");
    test.feed(test.block.samples, ramp(16), tags_at({0, 1, 2, 7, 9, 10, 15}), 8);
    const auto& out = test.collect<int>(test.block.samples);
    test.run();
    EXPECT_EQ(out.samples,
              (std::vector<int>{7, 7, 2, 3, 4, 5, 6, 7, 15, 15, 10, 11, 12, 13, 14, 15}));
    EXPECT_EQ(out.tags, tags_at({2, 7, 10, 15}))
        << "those of dropped samples are dropped, the others stay where they were";
}

// Quanta go to two outputs in turn, each through a block of its own, and come together again: in
// whatever order they arrive, a tag is at the sample whose value it names.
struct Deal : Block {
    Sink<int> in{*this, "in"};
    Output<int> a{*this, "a", in};
    Output<int> b{*this, "b", in};
    using Block::Block;
    void work() override { (++count_ % 2 == 0 ? a : b).send(in.take()); }
    int count_ = 0;
};
struct Pass : Block {
    InPlace<int> samples{*this, "samples"};
    using Block::Block;
    void work() override { samples.pass(); }
};

TEST(Tags, ThroughASplitAndAMerge)
{
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(1000), tags_at(places));
    auto& deal = g.add<Deal>("deal");
    auto& a = g.add<Pass>("a");
    auto& b = g.add<Pass>("b");
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("ints", source.out, 4, 10);
    g.connect(source.out, deal.in);
    g.connect(deal.a, a.samples);
    g.connect(deal.b, b.samples);
    g.connect(a.samples, sink.in);
    g.connect(b.samples, sink.in);
    g.start();
    g.wait(std::chrono::seconds(30));
    EXPECT_EQ(c.at_home(), 4u);
    ASSERT_EQ(sink.tags.size(), places.size());
    for (const Tag& tag : sink.tags)
        EXPECT_EQ(sink.samples.at(tag.sample), std::get<int64_t>(tag.value));
    auto all = sink.samples;
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, ramp(1000));
}

} // namespace
} // namespace denizen::flow
