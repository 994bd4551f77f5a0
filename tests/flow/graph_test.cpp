// SPDX-License-Identifier: Apache-2.0
// Graphs at work: every sample arrives, every quantum comes home, however a graph ends.
#include <denizen/flow/alone.hpp>

#include <gtest/gtest.h>

#include <numeric>
#include <sched.h>
#include <thread>

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
    Messages<int> amount{*this, "amount", [this](int a) { heard = amount_ = a; }};
    std::atomic<int> heard{0};
    explicit Add(std::string name, int by = 1) : Block(std::move(name)), amount_(by) {}
    void work() override
    {
        for (int& x : samples.samples()) x += amount_;
        samples.pass();
    }
    int amount_;
};

// 0, 1, 2, ... until it is stopped.
struct Counter : Block {
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

struct Head : Block { // the first samples, then it has finished
    In<int> in{*this, "in"};
    std::vector<int> samples;
    Head(std::string name, size_t limit) : Block(std::move(name)), limit_(limit) {}
    void work() override
    {
        const size_t n = std::min(limit_ - samples.size(), in.view().size());
        samples.insert(samples.end(), in.view().begin(), in.view().begin() + static_cast<long>(n));
        in.consume(n);
        if (samples.size() == limit_) finish();
    }
    size_t limit_;
};

TEST(Graph, AChainOnAThreadPerBlock)
{
    for (const uint32_t quanta : {1u, 2u, 7u}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<int>>("source", ramp(10'007));
        auto& one = g.add<Add>("one");
        auto& two = g.add<Add>("two", 2);
        auto& sink = g.add<VectorSink<int>>("sink");
        Circuit& c = g.circuit("ints", source.out, quanta, 100);
        g.connect(source.out, one.samples);
        g.connect(one.samples, two.samples);
        g.connect(two.samples, sink.in);
        g.start();
        g.wait(30s);
        ASSERT_EQ(sink.samples.size(), 10'007u);
        for (int i = 0; i < 10'007; ++i) ASSERT_EQ(sink.samples[static_cast<size_t>(i)], i + 3);
        EXPECT_EQ(c.at_home(), quanta);
    }
}

TEST(Graph, TheSameOnPinnedSequences)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int core = 0;
    while (!CPU_ISSET(core, &allowed)) ++core; // ends: this thread runs on some core
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(10'007));
    auto& one = g.add<Add>("one");
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("ints", source.out, 3, 100);
    g.connect(source.out, one.samples);
    g.connect(one.samples, sink.in);
    g.start({{{source, sink}, core}, {{one}}});
    g.wait(30s);
    EXPECT_EQ(sink.samples.size(), 10'007u);
    EXPECT_EQ(std::accumulate(sink.samples.begin(), sink.samples.end(), 0LL),
              10'007LL * 10'006 / 2 + 10'007);
    EXPECT_EQ(c.at_home(), 3u);
}

TEST(Graph, ABroadcastReachesAllAndTheLastReaderGivesBack)
{
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(20'000));
    Circuit& c = g.circuit("ints", source.out, 4, 32);
    std::vector<VectorSink<int>*> sinks;
    for (int i = 0; i < 3; ++i) {
        sinks.push_back(&g.add<VectorSink<int>>("sink " + std::to_string(i)));
        g.connect(source.out, sinks.back()->in);
    }
    g.start();
    g.wait(60s);
    for (const auto* sink : sinks) EXPECT_EQ(sink->samples, ramp(20'000));
    EXPECT_EQ(c.at_home(), 4u);
}

TEST(Graph, TwoCircuitsMergeInOnePortAndEachGetsItsOwnQuantaBack)
{
    Flowgraph g;
    auto& low = g.add<VectorSource<int>>("low", ramp(5'000));
    auto& high = g.add<VectorSource<int>>("high", std::vector<int>(3'000, 1'000'000));
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& a = g.circuit("a", low.out, 2, 64);
    Circuit& b = g.circuit("b", high.out, 5, 16);
    g.connect(low.out, sink.in);
    g.connect(high.out, sink.in);
    g.start();
    g.wait(30s);
    EXPECT_EQ(std::count(sink.samples.begin(), sink.samples.end(), 1'000'000), 3'000);
    std::erase(sink.samples, 1'000'000);
    EXPECT_EQ(sink.samples, ramp(5'000)); // the order of each writer is kept
    EXPECT_EQ(a.at_home(), 2u);
    EXPECT_EQ(b.at_home(), 5u);
}

TEST(Graph, AReaderThatHasEnoughEndsWhatOnlyFeedsIt)
{
    Flowgraph g;
    auto& source = g.add<Counter>("counter"); // would never end
    auto& add = g.add<Add>("add", 5);
    auto& head = g.add<Head>("head", 1'234);
    Circuit& c = g.circuit("ints", source.out, 3, 100);
    g.connect(source.out, add.samples);
    g.connect(add.samples, head.in);
    g.start();
    g.wait(30s);
    ASSERT_EQ(head.samples.size(), 1'234u);
    EXPECT_EQ(head.samples.back(), 1'233 + 5);
    EXPECT_EQ(c.at_home(), 3u);
}

TEST(Graph, AReaderThatHasEnoughLeavesTheOthersAlone)
{
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(10'000));
    auto& head = g.add<Head>("head", 10);
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("ints", source.out, 2, 100);
    g.connect(source.out, head.in);
    g.connect(source.out, sink.in);
    g.start();
    g.wait(30s);
    EXPECT_EQ(head.samples, ramp(10));
    EXPECT_EQ(sink.samples, ramp(10'000));
    EXPECT_EQ(c.at_home(), 2u);
}

TEST(Graph, StopEndsSourcesAndWhatTheySentArrives)
{
    Flowgraph g;
    auto& source = g.add<Counter>("counter");
    auto& sink = g.add<NullSink<int>>("sink");
    auto& add = g.add<Add>("add");
    Circuit& c = g.circuit("ints", source.out, 3, 100);
    g.connect(source.out, add.samples);
    g.connect(add.samples, sink.in);
    g.start();
    std::this_thread::sleep_for(20ms);
    g.stop();
    g.wait(30s);
    EXPECT_EQ(c.at_home(), 3u);
    EXPECT_EQ(sink.in.position(), static_cast<uint64_t>(source.next_));
}

TEST(Graph, ThreadsWaitForItAndStopItWhileItStarts)
{
    for (int i = 0; i < 50; ++i) {
        Flowgraph graph;
        auto& counter = graph.add<Counter>("counter");
        auto& add = graph.add<Add>("add");
        auto& sink = graph.add<NullSink<int>>("sink");
        graph.circuit("ints", counter.out, 3, 16);
        graph.connect(counter.out, add.samples);
        graph.connect(add.samples, sink.in);
        std::vector<std::thread> threads;
        threads.emplace_back([&] {
            if (i % 2 == 0) {
                graph.stop();
            } else {
                graph.abort();
            }
        });
        graph.start();
        for (int waiter = 0; waiter < 2; ++waiter) {
            threads.emplace_back([&] { graph.wait(10s); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

TEST(Graph, AGraphThatIsDroppedEnds)
{
    Flowgraph g;
    auto& source = g.add<Counter>("counter");
    auto& sink = g.add<NullSink<int>>("sink");
    g.circuit("ints", source.out, 3, 100);
    g.connect(source.out, sink.in);
    g.start();
}

// Takes from whichever input has something.
struct Either : Block {
    In<int> a{*this, "a"};
    In<int> b{*this, "b"};
    std::vector<int> samples;
    explicit Either(std::string name) : Block(std::move(name)) { work_on_any_input(); }
    void work() override
    {
        for (In<int>* in : {&a, &b}) {
            if (!has_quantum(*in)) continue;
            samples.insert(samples.end(), in->view().begin(), in->view().end());
            in->consume(in->view().size());
        }
    }
};

TEST(Alone, ABlockOfTwoInputsThatEndsWhenBothHave)
{
    Alone<Either> test("either");
    test.feed(test.block.a, std::vector<int>(10, 1));
    test.feed(test.block.b, std::vector<int>(1'000, 2), {}, 8);
    test.run();
    EXPECT_EQ(std::count(test.block.samples.begin(), test.block.samples.end(), 1), 10);
    EXPECT_EQ(std::count(test.block.samples.begin(), test.block.samples.end(), 2), 1'000);
}

// Keeps the quanta of the last `depth` calls.
struct Delay : Block {
    Sink<int> in{*this, "in"};
    Output<int> out{*this, "out", in};
    std::deque<Quantum<int>> kept;
    size_t depth;
    Delay(std::string name, uint32_t d) : Block(std::move(name)), depth(d) { in.holds(d + 1); }
    void work() override
    {
        kept.push_back(in.take());
        if (kept.size() > depth) {
            out.send(std::move(kept.front()));
            kept.pop_front();
        }
    }
};

TEST(Graph, ABlockMayKeepQuanta)
{
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(1'000));
    auto& delay = g.add<Delay>("delay", 2);
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("ints", source.out, 3, 10);
    g.connect(source.out, delay.in);
    g.connect(delay.out, sink.in);
    g.start();
    g.wait(30s);
    EXPECT_EQ(sink.samples, ramp(980)); // two quanta are still kept
    EXPECT_EQ(c.at_home(), 1u);
    delay.kept.clear();
    EXPECT_EQ(c.at_home(), 3u);
}

TEST(Graph, AStalledGraphNamesTheStarvedBlock)
{
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(1'000));
    auto& delay = g.add<Delay>("delay", 2);
    delay.depth = 50; // more than it said
    auto& sink = g.add<VectorSink<int>>("sink");
    g.circuit("ints", source.out, 3, 10);
    g.connect(source.out, delay.in);
    g.connect(delay.out, sink.in);
    g.start();
    try {
        g.wait(500ms);
        FAIL() << "it cannot end";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::timeout);
        const std::string text = error.what();
        EXPECT_NE(text.find("block \"sink\" is starved: port \"sink.in\" has had no quantum for"),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("circuit \"ints\" (3 quanta of 10 samples): 3 at \"delay.in\""),
                  std::string::npos)
            << text;
    }
}

struct Ask : Block { // wants more at once than a quantum has
    In<int> in{*this, "in"};
    using Block::Block;
    void work() override
    {
        if (in.view().size() >= 100) in.consume(100);
    }
};

TEST(Graph, ABlockThatMovesNothingIsNamed)
{
    Alone<Ask> test("ask");
    test.feed(test.block.in, ramp(1'000), {}, 10);
    try {
        test.run(300ms);
        FAIL() << "it cannot end";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("block \"ask\" has moved nothing for"),
                  std::string::npos)
            << error.what();
    }
}

TEST(Graph, AFailureEndsTheGraphAndNamesTheBlock)
{
    struct Fails : Block {
        In<int> in{*this, "in"};
        using Block::Block;
        void work() override { throw std::runtime_error("no such file"); }
    };
    Alone<Fails> test("fails");
    test.feed(test.block.in, ramp(1'000));
    try {
        test.run();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::failed);
        EXPECT_STREQ(error.what(), "block \"fails\" failed: no such file");
    }
}

TEST(Messages, RetuneABlockWhileItRuns)
{
    Flowgraph g;
    auto& source = g.add<Counter>("counter");
    auto& add = g.add<Add>("add", 0);
    struct Until : Block { // ends when a sample has been changed
        In<int> in{*this, "in"};
        using Block::Block;
        void work() override
        {
            const bool changed = static_cast<uint64_t>(in.view()[0]) != in.position();
            in.consume(in.view().size());
            if (changed) finish();
        }
    };
    auto& until = g.add<Until>("until");
    Circuit& c = g.circuit("ints", source.out, 2, 4);
    g.connect(source.out, add.samples);
    g.connect(add.samples, until.in);
    g.start();
    add.amount.post(-1'000'000);
    g.wait(30s);
    EXPECT_EQ(c.at_home(), 2u);
    EXPECT_EQ(add.amount.offer(1), Errc::closed);
    EXPECT_THROW(add.amount.post(1), Error);
}

TEST(Messages, FromBlockToBlockAndBounded)
{
    struct Announce : Block {
        In<int> in{*this, "in"};
        MessageOutput<int> total;
        int sum = 0;
        using Block::Block;
        void work() override
        {
            for (const int x : in.view()) sum += x;
            in.consume(in.view().size());
            total.send(sum);
        }
    };
    Flowgraph g;
    auto& source = g.add<VectorSource<int>>("source", ramp(100));
    auto& announce = g.add<Announce>("announce");
    g.circuit("ints", source.out, 2, 10);
    g.connect(source.out, announce.in);
    auto& hears = g.add<Add>("hears", 0);
    auto& counter = g.add<Counter>("counter");
    auto& sink = g.add<NullSink<int>>("sink");
    g.circuit("other", counter.out, 2, 10);
    g.connect(counter.out, hears.samples);
    g.connect(hears.samples, sink.in);
    g.connect(announce.total, hears.amount);
    for (size_t i = 0; i < MessagePort::limit; ++i) hears.amount.post(0); // wait for the start
    EXPECT_EQ(hears.amount.offer(0), Errc::full);
    try {
        hears.amount.post(0);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "message port \"hears.amount\" is full (64 messages): its block "
                                   "is at work for long; post less often");
    }
    // One thread: the messages that wait are handled before the first is sent.
    g.start({{{hears, source, announce, counter, sink}}});
    while (hears.heard.load() != 4950) std::this_thread::sleep_for(1ms); // ends: by the last total
    g.stop();
    g.wait(30s);
    EXPECT_EQ(announce.sum, 4950);
}

// A flushed quantum leaves before it is full, with the tags of its samples; the stream goes on in
// the next one.
TEST(Graph, AFlushSendsWhatThereIs)
{
    struct Drops : Block {
        Source<int> out{*this, "out"};
        using Block::Block;
        void work() override
        {
            out.flush(); // of nothing: the quantum stays
            EXPECT_TRUE(out.has_quantum());
            out.tag(2, "last", int64_t{next_});
            for (int& x : out.room().first(3)) x = next_++;
            out.produce(3);
            out.flush();
            EXPECT_FALSE(out.has_quantum());
            EXPECT_EQ(out.position(), static_cast<uint64_t>(next_));
            if (next_ == 30) finish();
        }
        int next_ = 0;
    };
    struct Sizes : Block {
        In<int> in{*this, "in"};
        std::vector<size_t> sizes;
        using Block::Block;
        void work() override
        {
            sizes.push_back(in.view().size());
            in.consume(in.view().size());
        }
    };
    Flowgraph g;
    auto& drops = g.add<Drops>("drops");
    auto& sizes = g.add<Sizes>("sizes");
    auto& sink = g.add<VectorSink<int>>("sink");
    Circuit& c = g.circuit("ints", drops.out, 2, 100);
    g.connect(drops.out, sizes.in);
    g.connect(drops.out, sink.in);
    g.start();
    g.wait(30s);
    EXPECT_EQ(sizes.sizes, std::vector<size_t>(10, 3));
    EXPECT_EQ(sink.samples, ramp(30));
    ASSERT_EQ(sink.tags.size(), 10u);
    for (size_t k = 0; k < 10; ++k)
        EXPECT_EQ(sink.tags[k], (Tag{3 * k + 2, "last", static_cast<int64_t>(3 * k)}));
    EXPECT_EQ(c.at_home(), 2u);
}

} // namespace
} // namespace denizen::flow
