// SPDX-License-Identifier: Apache-2.0
// Flowgraphs: quanta that go round between threads, sequences and pools, with tags and messages,
// to the end of the samples or until they are stopped.
#include "scenario.hpp"

#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>

#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

namespace simulation {
namespace {

using namespace denizen;
using namespace denizen::flow;
using namespace std::chrono_literals;

// Whoever has nothing to do and is not woken sleeps for a second.
std::chrono::nanoseconds patience()
{
    return calm() ? std::chrono::nanoseconds(300ms) : std::chrono::nanoseconds(60s);
}

struct Add : Block {
    InPlace<int> samples{*this, "samples"};
    Messages<int> amount{*this, "amount", [this](int a) {
                             by += a;
                             ++told;
                         }};
    int by;
    std::atomic<int> told{0};
    Add(std::string name, int b) : Block(std::move(name)), by(b) {}
    void work() override
    {
        for (int& x : samples.samples()) {
            x += by;
        }
        samples.pass();
    }
};

struct Sums : Block { // of two neighbours: reads one circuit, fills another
    In<int> in{*this, "in"};
    Source<int> out{*this, "out"};
    std::optional<int> first;
    explicit Sums(std::string name) : Block(std::move(name)) { out.follow(in, {1, 2}); }
    void work() override
    {
        const int x = in.view()[0];
        if (first) {
            out.room()[0] = *first + x;
            out.produce(1);
            first.reset();
        } else {
            first = x;
        }
        in.consume(1);
    }
};

struct Counter : Block { // until it is stopped
    Source<int> out{*this, "out"};
    int next = 0;
    using Block::Block;
    void work() override
    {
        const auto room = out.room();
        std::iota(room.begin(), room.end(), next);
        next += static_cast<int>(room.size());
        out.produce(room.size());
    }
};

// Each block on a thread of its own, in one of two sequences, or in a pool of one or two threads.
Executors anywhere(const Flowgraph& g)
{
    Executors e;
    std::vector<std::reference_wrapper<Block>> in[3];
    for (const auto block : g.blocks()) {
        if (const uint32_t where = draw(4); where != 0) {
            in[where - 1].push_back(block);
        }
    }
    for (uint32_t i = 0; i < 2; ++i) {
        if (!in[i].empty()) {
            e.sequences.push_back({in[i], -1});
        }
    }
    if (!in[2].empty()) {
        e.pools.push_back({in[2], std::vector<int>(1 + draw(2), -1)});
    }
    return e;
}

template <class Body>
void checked(Body&& body)
{
    try {
        body();
    } catch (const Error& e) {
        fail(e.what());
    }
}

// To the end of the samples: each comes out once, in order, with its tags, and all quanta come
// home.
void flows()
{
    checked([] {
        const int n = 2 * static_cast<int>(1 + draw(12));
        std::vector<int> ramp(static_cast<size_t>(n));
        std::iota(ramp.begin(), ramp.end(), 0);
        const auto at = draw(static_cast<uint32_t>(n));
        const uint32_t quanta[] = {1 + draw(3), 1 + draw(3)};
        Flowgraph g;
        auto& source =
            g.add<VectorSource<int>>("source", ramp, std::vector<Tag>{{at, "at", int64_t{at}}});
        auto& one = g.add<Add>("one", 1);
        auto& two = g.add<Add>("two", 2);
        auto& sums = g.add<Sums>("sums");
        auto& sink = g.add<VectorSink<int>>("sink");
        auto& other = g.add<VectorSink<int>>("other");
        Circuit& first = g.circuit("ints", source.out, quanta[0], 1 + draw(5));
        Circuit& second = g.circuit("sums", sums.out, quanta[1], 1 + draw(3));
        g.connect(source.out, one.samples);
        g.connect(one.samples, two.samples);
        g.connect(two.samples, sums.in);
        g.connect(two.samples, other.in); // a broadcast
        g.connect(sums.out, sink.in);
        g.start(anywhere(g));
        g.wait(patience());
        require(other.samples.size() == ramp.size() && sink.samples.size() * 2 == ramp.size(),
                "samples are missing, or came twice");
        for (int i = 0; i < n; ++i) {
            require(other.samples[static_cast<size_t>(i)] == i + 3, "another sample");
        }
        for (int i = 0; i < n / 2; ++i) {
            require(sink.samples[static_cast<size_t>(i)] == 4 * i + 7, "another sum");
        }
        require(other.tags == std::vector<Tag>{{at, "at", int64_t{at}}}, "another tag");
        require(sink.tags.size() == 1 && sink.tags[0].sample == at / 2,
                "the sums' tag is elsewhere");
        require(first.at_home() == quanta[0] && second.at_home() == quanta[1],
                "a quantum has not come home");
    });
}

// Stopped or aborted at any moment, while messages come; then the same again.
void stops()
{
    checked([] {
        for (uint32_t again = 1 + draw(2); again > 0; --again) {
            const uint32_t quanta = 1 + draw(3);
            const bool all = draw(3) != 0; // or what is under way is lost
            Flowgraph g;
            auto& source = g.add<Counter>("counter");
            auto& add = g.add<Add>("add", 0);
            auto& sink = g.add<VectorSink<int>>("sink");
            Circuit& c = g.circuit("ints", source.out, quanta, 1 + draw(4));
            g.connect(source.out, add.samples);
            g.connect(add.samples, sink.in);
            g.start(anywhere(g));
            const uint32_t messages = draw(3);
            std::thread other([&] {
                for (uint32_t i = 0; i < messages; ++i) {
                    add.amount.post(0);
                    std::this_thread::sleep_for(std::chrono::microseconds(draw(20)));
                }
            });
            std::this_thread::sleep_for(std::chrono::microseconds(draw(60)));
            other.join();
            if (all) {
                // Samples go round: nobody waits for long.
                for (uint32_t i = 0; i < 100 && add.told != static_cast<int>(messages); ++i) {
                    std::this_thread::sleep_for(1ms);
                }
                require(add.told == static_cast<int>(messages), "a message has not arrived");
                g.stop();
            } else {
                g.abort();
            }
            g.wait(patience());
            const auto made = static_cast<size_t>(source.next);
            require(all ? sink.samples.size() == made : sink.samples.size() <= made,
                    "samples are missing, or came twice");
            for (size_t i = 0; i < sink.samples.size(); ++i) {
                require(sink.samples[i] == static_cast<int>(i), "another sample");
            }
            require(!all || c.at_home() == quanta, "a quantum has not come home");
            require(add.told <= static_cast<int>(messages), "a message came twice");
        }
    });
}

} // namespace

std::vector<Scenario> flow_scenarios()
{
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    return {{"flows", flows, all, nullptr, 400'000, 4}, {"stops", stops, all, nullptr, 400'000, 4}};
}

} // namespace simulation
