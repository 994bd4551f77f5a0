// SPDX-License-Identifier: Apache-2.0
// The example of docs/flow.md; example_test.cpp runs it.
#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>

namespace flow = denizen::flow;

// Changes the buffer it gets; the factor can be changed while it runs.
struct Gain : flow::Block {
    flow::InPlace<float> samples{*this, "samples"};
    flow::Messages<float> factor{*this, "factor", [this](float f) { factor_ = f; }};

    using Block::Block;
    void work() override
    {
        for (float& x : samples.samples()) x *= factor_;
        samples.pass();
    }
    float factor_ = 1;
};

// The mean of every four samples: reads one circuit, fills another, at a quarter of the rate.
struct Average : flow::Block {
    flow::In<float> in{*this, "in"};
    flow::Source<float> out{*this, "out"};

    explicit Average(std::string name) : Block(std::move(name)) { out.follow(in, {1, 4}); }
    void work() override
    {
        sum_ += in.view()[0];
        in.consume(1);
        if (in.position() % 4 == 0) {
            out.room()[0] = sum_ / 4;
            out.produce(1);
            sum_ = 0;
        }
    }
    float sum_ = 0;
};

struct Result {
    std::vector<float> samples;
    std::vector<flow::Tag> tags;
};

// Ten, twenty, ... eighty, twice as loud, four by four; the sixth sample is marked.
Result example()
{
    flow::Flowgraph graph;
    const std::vector<float> samples{10, 20, 30, 40, 50, 60, 70, 80};
    auto& source = graph.add<flow::VectorSource<float>>(
        "source", samples, std::vector<flow::Tag>{{5, "frequency", 1090e6}});
    auto& gain = graph.add<Gain>("gain");
    auto& average = graph.add<Average>("average");
    auto& sink = graph.add<flow::VectorSink<float>>("sink");

    graph.circuit("raw", source.out, 4, 1024); // four buffers of 1024 samples
    graph.circuit("averages", average.out, 2, 256);
    graph.connect(source.out, gain.samples);
    graph.connect(gain.samples, average.in);
    graph.connect(average.out, sink.in);

    gain.factor.post(2);
    graph.start(); // a thread per block
    graph.wait(std::chrono::seconds(10));
    return {sink.samples, sink.tags}; // 50, 130; "frequency" at sample 1
}
