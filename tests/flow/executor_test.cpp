// SPDX-License-Identifier: Apache-2.0
// The same graphs on every executor: threads, sequences, pools, and mixtures of them.
#include <denizen/flow/alone.hpp>
#include <denizen/flow/detail/script.hpp>

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace denizen::flow {
namespace {

using namespace std::chrono_literals;

std::vector<int> ramp(size_t n)
{
    std::vector<int> samples(n);
    std::iota(samples.begin(), samples.end(), 0);
    return samples;
}

struct Add : Block {
    InPlace<int> samples{*this, "samples"};
    Messages<int> amount{*this, "amount", [this](int a) { by_ = a; }};
    explicit Add(std::string name, int by = 1) : Block(std::move(name)), by_(by) {}
    void work() override
    {
        for (int& x : samples.samples()) x += by_;
        samples.pass();
    }
    int by_;
};

struct Counter : Block { // until it is stopped
    Source<int> out{*this, "out"};
    using Block::Block;
    void work() override
    {
        const auto room = out.room();
        std::iota(room.begin(), room.end(), next_);
        next_ += static_cast<int>(room.size());
        out.produce(room.size());
    }
    int next_ = 0;
};

struct Sum : Block { // reads one circuit, fills another
    In<int> in{*this, "in"};
    Source<int> out{*this, "out"};
    explicit Sum(std::string name) : Block(std::move(name)) { out.follow(in, {1, 2}); }
    void work() override
    {
        while (in.view().size() >= 2) {
            out.room()[0] = in.view()[0] + in.view()[1];
            const bool last = in.view().size() == 2;
            in.consume(2);
            const bool full = out.room().size() == 1;
            out.produce(1);
            if (last || full) return;
        }
        in.consume(in.view().size());
    }
};

struct Chain : Flowgraph {
    static constexpr size_t samples = 6'000;
    VectorSource<int>& source = add<VectorSource<int>>(
        "source", ramp(samples), std::vector<Tag>{{1'001, "at", int64_t{1'001}}});
    Add& one = add<Add>("one");
    Add& two = add<Add>("two", 2);
    Sum& sum = add<Sum>("sum");
    VectorSink<int>& sink = add<VectorSink<int>>("sink");
    VectorSink<int>& other = add<VectorSink<int>>("other");
    Circuit& first = circuit("ints", source.out, 3, 100);
    Circuit& second = circuit("sums", sum.out, 2, 64);

    Chain()
    {
        connect(source.out, one.samples);
        connect(one.samples, two.samples);
        connect(two.samples, sum.in);
        connect(two.samples, other.in); // a broadcast
        connect(sum.out, sink.in);
    }
    void check()
    {
        wait(60s);
        ASSERT_EQ(other.samples.size(), samples);
        ASSERT_EQ(sink.samples.size(), samples / 2);
        for (size_t i = 0; i < samples; ++i) ASSERT_EQ(other.samples[i], static_cast<int>(i) + 3);
        for (size_t i = 0; i < samples / 2; ++i) {
            ASSERT_EQ(sink.samples[i], static_cast<int>(4 * i) + 7);
        }
        EXPECT_EQ(other.tags, (std::vector<Tag>{{1'001, "at", int64_t{1'001}}}));
        EXPECT_EQ(sink.tags, (std::vector<Tag>{{500, "at", int64_t{1'001}}}));
        EXPECT_EQ(first.at_home(), 3u);
        EXPECT_EQ(second.at_home(), 2u);
    }
};

TEST(Executors, PoolsOfEverySize)
{
    for (const size_t threads : {1u, 2u, 3u, 8u}) {
        Chain g;
        g.start({{}, {{g.blocks(), std::vector<int>(threads, -1)}}});
        g.check();
    }
}

TEST(Executors, ASequenceTwoPoolsAndAThread)
{
    Chain g;
    g.start({{{{g.one, g.sink}, -1}}, {{{g.source, g.two}, {-1}}, {{g.sum}, {-1, -1}}}});
    g.check();
}

TEST(Executors, APoolPinnedToACore)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int core = 0;
    while (!CPU_ISSET(core, &allowed)) ++core; // ends: this process runs somewhere
    struct Where : Block {
        In<int> in{*this, "in"};
        std::vector<int> cores;
        using Block::Block;
        void work() override
        {
            cores.push_back(sched_getcpu());
            in.consume(in.view().size());
        }
    };
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(1'000));
    auto& where = g.add<Where>("where");
    g.circuit("ints", source.out, 2, 100);
    g.connect(source.out, where.in);
    g.start({{}, {{{where}, {core}}}});
    g.wait(30s);
    EXPECT_EQ(where.cores, std::vector<int>(10, core));
}

// The reader gives an empty quantum back without a call of its work(). Its source comes before it
// in the thread's order, and nobody else has anything to do.
TEST(Executors, AnEmptyQuantumComesBackWithinOneThread)
{
    struct EveryOther : Block {
        Sink<int> in{*this, "in"};
        Output<int> out{*this, "out", in};
        size_t taken = 0;
        using Block::Block;
        void work() override
        {
            Quantum<int> quantum = in.take();
            if (taken++ % 2 == 0) quantum.trim(quantum.samples().size(), 0);
            out.send(std::move(quantum));
        }
    };
    for (const bool pooled : {false, true}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<int>>("source", ramp(1'000));
        auto& every_other = g.add<EveryOther>("every other");
        auto& sink = g.add<VectorSink<int>>("sink");
        Circuit& circuit = g.circuit("ints", source.out, 1, 100);
        g.connect(source.out, every_other.in);
        g.connect(every_other.out, sink.in);
        const std::vector<std::reference_wrapper<Block>> order{source, sink, every_other};
        g.start(pooled ? Executors{{}, {{order, {-1}}}} : Executors{{{order, -1}}, {}});
        g.wait(30s);
        ASSERT_EQ(sink.samples.size(), 500u) << (pooled ? "a pool" : "a sequence");
        EXPECT_EQ(sink.samples.front(), 100);
        EXPECT_EQ(circuit.at_home(), 1u);
    }
}

TEST(Executors, WhatPoolsRefuse)
{
    const auto refused = [](const std::string& text, auto&& make) {
        Chain g;
        try {
            g.start(make(g));
            FAIL() << text;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::bad_argument);
            EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
    };
    refused("block \"one\" is in 2 sequences",
            [](Chain& g) { return Executors{{{{g.one}, -1}}, {{{g.one}}}}; });
    refused("core 100000 is not one of this process",
            [](Chain& g) { return Executors{{}, {{{g.one}, {100'000}}}}; });
    refused("a pool without threads", [](Chain& g) { return Executors{{}, {{{g.one}, {}}}}; });
}

TEST(Executors, StopAbortAndDropInAPool)
{
    for (const int how : {0, 1, 2}) {
        Flowgraph g;
        auto& source = g.add<Counter>("counter");
        auto& sink = g.add<NullSink<int>>("sink");
        auto& add = g.add<Add>("add");
        Circuit& c = g.circuit("ints", source.out, 3, 100);
        g.connect(source.out, add.samples);
        g.connect(add.samples, sink.in);
        g.start({{}, {{g.blocks(), {-1, -1}}}});
        std::this_thread::sleep_for(10ms);
        if (how == 0) {
            g.stop();
            g.wait(30s);
            EXPECT_EQ(c.at_home(), 3u);
            EXPECT_EQ(sink.in.position(), static_cast<uint64_t>(source.next_));
            EXPECT_GT(source.next_, 0);
        } else if (how == 1) {
            g.abort();
            EXPECT_NO_THROW(g.wait(30s));
        }
    }
}

TEST(Executors, MessagesReachASuspendedBlock)
{
    struct Waits : Block { // has no samples to read until it is told to send the first
        Source<int> out{*this, "out"};
        Messages<int> go{*this, "go", [this](int n) { left_ = n; }};
        using Block::Block;
        void work() override
        {
            if (left_ < 0) return; // it waits for something outside the graph
            out.room()[0] = left_;
            out.produce(1);
            if (left_-- == 0) finish();
        }
        int left_ = -1;
    };
    Flowgraph g;
    auto& waits = g.add<Waits>("waits");
    auto& sink = g.add<VectorSink<int>>("sink");
    g.circuit("ints", waits.out, 2, 4);
    g.connect(waits.out, sink.in);
    g.start({{}, {{g.blocks(), {-1}}}});
    std::this_thread::sleep_for(5ms);
    waits.go.post(9);
    g.wait(30s);
    EXPECT_EQ(sink.samples, (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(Executors, AFailureInAPoolNamesTheBlock)
{
    struct Fails : Block {
        In<int> in{*this, "in"};
        using Block::Block;
        void work() override { throw std::runtime_error("no such file"); }
    };
    Flowgraph g;
    auto& source = g.add<Counter>("counter");
    auto& fails = g.add<Fails>("fails");
    g.circuit("ints", source.out, 2, 4);
    g.connect(source.out, fails.in);
    g.start({{}, {{g.blocks(), {-1, -1}}}});
    try {
        g.wait(30s);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "block \"fails\" failed: no such file");
    }
}

TEST(Executors, AStalledPoolNamesTheStarvedBlock)
{
    struct Keeps : Block {
        Sink<int> in{*this, "in"};
        Output<int> out{*this, "out", in};
        std::vector<Quantum<int>> kept;
        using Block::Block;
        void work() override { kept.push_back(in.take()); }
    };
    Flowgraph g;
    auto& source = g.add<Counter>("counter");
    auto& keeps = g.add<Keeps>("keeps");
    auto& sink = g.add<NullSink<int>>("sink");
    g.circuit("ints", source.out, 2, 4);
    g.connect(source.out, keeps.in);
    g.connect(keeps.out, sink.in);
    g.start({{}, {{g.blocks(), {-1}}}});
    try {
        g.wait(300ms);
        FAIL();
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("block \"sink\" is starved: port \"sink.in\""), std::string::npos)
            << text;
        EXPECT_NE(text.find("2 at \"keeps.in\""), std::string::npos) << text;
    }
}

// Sums pairs of samples wherever quanta end, as a script.
struct Pairs : ScriptBlock {
    In<int> in{*this, "in"};
    std::vector<int> sums;
    size_t most;
    Pairs(std::string name, size_t m) : ScriptBlock(std::move(name)), most(m) {}
    int last = 0;
    Script take()
    {
        co_await next();
        last = in.view()[0];
        if (last == 666) throw std::runtime_error("an evil sample");
        in.consume(1);
    }
    Script run() override
    {
        while (sums.size() < most) { // ends: by then, or with the samples
            co_await take();
            const int first = last;
            co_await take();
            sums.push_back(first + last);
        }
    }
};

TEST(Scripts, ReadAcrossQuantaOnAnyExecutor)
{
    for (const bool pooled : {false, true}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<int>>("source", ramp(600));
        auto& pairs = g.add<Pairs>("pairs", 250);
        Circuit& c = g.circuit("ints", source.out, 2, 7);
        g.connect(source.out, pairs.in);
        if (pooled) {
            g.start({{}, {{g.blocks(), {-1}}}});
        } else {
            g.start();
        }
        g.wait(30s);
        ASSERT_EQ(pairs.sums.size(), 250u);
        for (int i = 0; i < 250; ++i) EXPECT_EQ(pairs.sums[static_cast<size_t>(i)], 4 * i + 1);
        EXPECT_EQ(c.at_home(), 2u);
    }
}

TEST(Scripts, WhatAnInnerOneThrowsEndsTheGraph)
{
    Alone<Pairs> test("pairs", 10'000);
    test.feed(test.block.in, ramp(1'000));
    try {
        test.run();
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "block \"pairs\" failed: an evil sample");
    }
    EXPECT_EQ(test.block.sums.size(), 333u);
}

struct Squares : Block { // other samples in the same memory
    Transform<int16_t, int> samples{*this, "samples"};
    explicit Squares(std::string name) : Block(std::move(name)) { samples.rate({1, 2}); }
    void work() override
    {
        const auto in = samples.samples();
        const auto out = samples.results();
        const size_t n = in.size() / 2;
        for (size_t i = 0; i < n; ++i) out[i] = in[2 * i] * in[2 * i + 1];
        samples.pass(n);
    }
};

TEST(Transforms, AQuantumGoesOnAsOtherSamples)
{
    Flowgraph g;
    std::vector<int16_t> in(100);
    std::iota(in.begin(), in.end(), int16_t{0});
    auto& source = g.add<VectorSource<int16_t>>("source", in, std::vector<Tag>{{50, "at", 1.0}});
    auto& squares = g.add<Squares>("squares");
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("shorts", source.out, 2, 16);
    g.connect(source.out, squares.samples);
    g.connect(squares.samples, sink.in);
    g.start();
    g.wait(30s);
    ASSERT_EQ(sink.samples.size(), 50u);
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(sink.samples[static_cast<size_t>(i)], 2 * i * (2 * i + 1));
    }
    EXPECT_EQ(sink.tags, (std::vector<Tag>{{25, "at", 1.0}}));
    EXPECT_EQ(c.at_home(), 2u);
}

TEST(Transforms, MoreThanFitsIsRefused)
{
    struct Greedy : Block {
        Transform<int16_t, int> samples{*this, "samples"};
        using Block::Block;
        void work() override { samples.pass(9); }
    };
    Flowgraph g;
    auto& source = g.add<VectorSource<int16_t>>("source", std::vector<int16_t>(16));
    auto& greedy = g.add<Greedy>("greedy");
    auto& sink = g.add<VectorSink<int>>("sink");
    g.circuit("shorts", source.out, 2, 16);
    g.connect(source.out, greedy.samples);
    g.connect(greedy.samples, sink.in);
    g.start();
    try {
        g.wait(30s);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "block \"greedy\" failed: port \"greedy.samples\": 9 samples in "
                                   "room for 8");
    }
}

} // namespace
} // namespace denizen::flow
