// SPDX-License-Identifier: Apache-2.0
// Graphs that cannot work are refused before they start, with the port and the reason.
#include <denizen/flow/alone.hpp>

#include <gtest/gtest.h>

namespace denizen::flow {
namespace {

struct Gain : Block {
    InPlace<float> samples{*this, "samples"};
    using Block::Block;
    void work() override { samples.pass(); }
};

struct Twice : Block { // sends on what it takes
    Sink<float> in{*this, "in"};
    Output<float> out{*this, "out", in};
    using Block::Block;
    void work() override { out.send(in.take()); }
};

struct Graph : Flowgraph {
    VectorSource<float>& source = add<VectorSource<float>>("source", std::vector<float>(10));
    NullSink<float>& sink = add<NullSink<float>>("sink");
    Gain& gain = add<Gain>("gain");
    void chain()
    {
        circuit("iq", source.out, 2, 16);
        connect(source.out, gain.samples);
        connect(gain.samples, sink.in);
    }
};

template <class Call>
void refused(const char* text, Call&& call)
{
    try {
        call();
        FAIL() << "not refused: " << text;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_argument);
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
}

TEST(Refusal, AGraphThatWorksIsNot)
{
    Graph g;
    g.chain();
    EXPECT_NO_THROW(g.validate());
}

TEST(Refusal, NoBlocks)
{
    Flowgraph g;
    refused("the graph has no blocks", [&] { g.start(); });
}

TEST(Refusal, AnInputWithoutWriter)
{
    Graph g;
    g.circuit("iq", g.source.out, 2, 16);
    g.connect(g.source.out, g.sink.in);
    refused("port \"gain.samples\" has no writer", [&] { g.start(); });
}

TEST(Refusal, ALeafThatDoesNotReturn)
{
    Graph g;
    auto& other = g.add<NullSink<float>>("other");
    g.circuit("iq", g.source.out, 2, 16);
    g.connect(g.source.out, g.gain.samples);
    auto& source2 = g.add<VectorSource<float>>("source2", std::vector<float>(10));
    g.circuit("iq2", source2.out, 2, 16);
    g.connect(source2.out, g.sink.in);
    g.connect(source2.out, other.in);
    refused("port \"gain.samples\" ends a circuit without giving its quanta back",
            [&] { g.validate(); });
}

TEST(Refusal, ASourceWithoutACircuit)
{
    Graph g;
    g.connect(g.source.out, g.gain.samples);
    g.connect(g.gain.samples, g.sink.in);
    refused("port \"source.out\" has no circuit", [&] { g.validate(); });
}

TEST(Refusal, TwoCircuitsThatReturnToOnePort)
{
    Graph g;
    g.chain();
    refused("circuit \"more\": port \"source.out\" is where circuit \"iq\" returns",
            [&] { g.circuit("more", g.source.out, 2, 16); });
}

TEST(Refusal, ACircuitWithoutQuanta)
{
    Graph g;
    refused("0 quanta of 16 samples", [&] { g.circuit("iq", g.source.out, 0, 16); });
}

TEST(Refusal, TwoTypes)
{
    Graph g;
    auto& doubles = g.add<NullSink<double>>("doubles");
    refused("port \"source.out\" to port \"doubles.in\": the first sends float, the second takes "
            "double",
            [&] { g.connect(g.source.out, doubles.in); });
}

TEST(Refusal, OneConnectionTwice)
{
    Graph g;
    g.chain();
    refused("they are connected already", [&] { g.connect(g.gain.samples, g.sink.in); });
}

TEST(Refusal, ABroadcastToOneThatWrites)
{
    Graph g;
    g.chain();
    auto& other = g.add<NullSink<float>>("other");
    g.connect(g.source.out, other.in);
    refused("port \"gain.samples\" wants quanta of its own, but port \"source.out\" has 2 readers",
            [&] { g.validate(); });
}

TEST(Refusal, BuffersTooSmall)
{
    Graph g;
    g.chain();
    g.sink.in.needs(32);
    refused("port \"sink.in\" needs 32 samples at a time, circuit \"iq\" has buffers of 16",
            [&] { g.validate(); });
}

TEST(Refusal, AMarginThatLeavesNothing)
{
    Graph g;
    g.chain();
    g.source.out.leave_margin(16);
    refused("port \"source.out\" leaves a margin of 16 samples", [&] { g.validate(); });
}

TEST(Refusal, TooFewQuantaForOneThatKeepsThem)
{
    Graph g;
    g.chain();
    g.gain.samples.holds(3);
    refused("circuit \"iq\" has 2 quanta, but port \"gain.samples\" may keep so many that it needs "
            "3",
            [&] { g.validate(); });
}

TEST(Refusal, ALoop)
{
    Graph g;
    auto& twice = g.add<Twice>("twice");
    g.circuit("iq", g.source.out, 2, 16);
    g.connect(g.source.out, g.gain.samples);
    g.connect(g.gain.samples, twice.in);
    g.connect(twice.out, g.gain.samples);
    auto& source2 = g.add<VectorSource<float>>("source2", std::vector<float>(10));
    g.circuit("iq2", source2.out, 2, 16);
    g.connect(source2.out, g.sink.in);
    refused("\"gain\" -> \"twice\" -> \"gain\"", [&] { g.validate(); });
}

TEST(Refusal, MoreBuffersThanThereCanBe)
{
    Graph g;
    refused("circuit \"iq\": 1048577 quanta; use 1 to 2^20",
            [&] { g.circuit("iq", g.source.out, (1u << 20) + 1, 16); });
    try { // of more bytes than a word counts
        g.circuit("iq", g.source.out, 2, size_t{1} << 62);
        FAIL() << "there is so much memory";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::exhausted);
        EXPECT_STREQ(error.what(), "circuit \"iq\": there is no memory for 2 quanta of "
                                   "4611686018427387904 samples; use fewer");
    }
    g.chain(); // nothing is left of them
    EXPECT_NO_THROW(g.validate());
}

TEST(Refusal, ARateWithoutSamples)
{
    Graph g;
    refused("a rate of 1 output samples to 0 input samples",
            [&] { g.source.out.follow(g.sink.in, {1, 0}); });
    refused("a rate of 4294967296 output samples to 1 input",
            [&] { g.gain.samples.rate({1ull << 32, 1}); });
}

TEST(Refusal, APortThatChangesWhileTheGraphRuns)
{
    Graph g;
    g.chain();
    g.start();
    const char* text = "comes too late: the graph has started";
    refused(text, [&] { g.source.out.leave_margin(100); });
    refused(text, [&] { g.source.out.follow(g.sink.in); });
    refused(text, [&] { g.gain.samples.rate({1, 2}); });
    refused(text, [&] { g.gain.samples.holds(2); });
    refused(text, [&] { g.sink.in.needs(2); });
    refused(text, [&] { const In<float> late(g.sink, "late"); });
    refused(text, [&] { const Source<float> late(g.source, "late"); });
    refused(text, [&] { const Messages<int> late(g.gain, "late", [](int) {}); });
    g.wait(std::chrono::seconds(10));
}

TEST(Refusal, ABlockOfAnotherGraph)
{
    Graph g;
    Graph other;
    refused("another graph", [&] { g.connect(g.source.out, other.sink.in); });
    refused("another graph", [&] { g.circuit("iq", other.source.out, 2, 16); });
}

TEST(Refusal, TwoBlocksOfOneName)
{
    Graph g;
    refused("two blocks are called \"gain\"", [&] { g.add<Gain>("gain"); });
}

TEST(Refusal, SequencesThatDoNotCover)
{
    Graph g;
    g.chain();
    refused("block \"sink\" is in 0 sequences", [&] { g.start({{{g.source, g.gain}}}); });
    refused("block \"sink\" is in 2 sequences",
            [&] { g.start({{{g.source, g.gain, g.sink, g.sink}}}); });
    refused("core 100000 is not one of this process",
            [&] { g.start({{{g.source, g.gain, g.sink}, 100'000}}); });
}

TEST(Refusal, ChangesAfterTheStart)
{
    Graph g;
    g.chain();
    g.start();
    refused("comes too late", [&] { g.add<Gain>("late"); });
    refused("has been started before", [&] { g.start(); });
    refused("has started", [&] { g.connect(g.source.out, g.sink.in); });
    g.wait(std::chrono::seconds(20));
}

TEST(Refusal, MoreSamplesThanThereAre)
{
    struct Greedy : Block {
        In<float> in{*this, "in"};
        using Block::Block;
        void work() override { in.consume(in.view().size() + 1); }
    };
    Alone<Greedy> test("greedy");
    test.feed(test.block.in, std::vector<float>(10));
    try {
        test.run();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::failed);
        EXPECT_STREQ(error.what(), "block \"greedy\" failed: port \"greedy.in\": 11 samples "
                                   "consumed of 10");
    }
}

} // namespace
} // namespace denizen::flow
