// SPDX-License-Identifier: Apache-2.0
// Runs one block alone, for its tests: samples and tags in, samples and tags out.
//
//   flow::Alone<Gain> test("gain");
//   test.feed(test.block.samples, std::vector<float>{1, 2, 3});
//   auto& out = test.collect<float>(test.block.samples);
//   test.run();                             // out.samples, out.tags
#pragma once

#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>

namespace denizen::flow {

template <class B>
class Alone {
    Flowgraph graph_; // before `block`, which is made by it

public:
    B& block;

    template <class... Arguments>
    explicit Alone(Arguments&&... arguments)
        : block(graph_.add<B>(std::forward<Arguments>(arguments)...))
    {
    }

    // What the port will receive, in quanta of `quantum` samples.
    template <class T>
    void feed(InputPort& port, std::vector<T> samples, std::vector<Tag> tags = {},
              size_t quantum = 64)
    {
        auto& source = graph_.add<VectorSource<T>>("feeds " + port.label(), std::move(samples),
                                                   std::move(tags));
        graph_.circuit("of " + source.name(), source.out, 2, quantum);
        graph_.connect(source.out, port);
    }

    // What the port, an output or an in-place port, will send.
    template <class T, class P>
    const VectorSink<T>& collect(P& port)
    {
        auto& sink = graph_.add<VectorSink<T>>("collects " + port.label());
        graph_.connect(port, sink.in);
        return sink;
    }

    // The buffers of a port of the block that begins a circuit.
    void circuit(SourcePort& port, uint32_t quanta = 2, size_t samples = 64)
    {
        graph_.circuit("of " + port.label(), port, quanta, samples);
    }

    // Until the block and its ends have finished. Throws as Flowgraph::wait() does.
    void run(std::chrono::nanoseconds deadline = std::chrono::seconds(10))
    {
        graph_.start();
        graph_.wait(deadline);
    }
};

} // namespace denizen::flow
