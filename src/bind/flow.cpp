// SPDX-License-Identifier: Apache-2.0
// Flow graphs for Python. python/denizen/flow is their face, and that of their blocks, and keeps
// alive what these refer to.
#include "flow.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {

using namespace flow;

namespace {

// A graph as Python holds it, from several threads. Those that start it or wait for it give back
// the GIL, and keep it: one that another thread closes meanwhile goes when the last of them has
// left, with the GIL, so that no other thread is at one of its blocks.
class PyGraph {
public:
    PyGraph() : held_(std::make_shared<Whole>()) {}
    ~PyGraph() { close(nullptr); }

    void add(BlockHandle& handle)
    {
        Whole& held = need();
        if (!handle.owned) {
            throw Error(Errc::bad_argument,
                        "block \"" + handle.get().name() + "\" is in a graph already");
        }
        held.graph.add(std::move(handle.owned));
        blocks_.push_back(handle.block);
        held.needed.push_back(handle.needs);
    }
    // Blocks end after the work() they are in, which needs the GIL.
    // `check`: what may end the wait, and leave the graph as it is.
    void close(InterruptCheck check)
    {
        const std::shared_ptr<Whole> held = held_;
        if (held != nullptr && started_) {
            const Unlocked unlocked;
            const Interruptible interruptible(check);
            held->graph.abort();
            try {
                held->graph.wait(std::chrono::hours(24)); // ends: with the work() under way
            } catch (const Error&) { // why it failed is told by wait(), for who asks
            }
        }
        for (const auto& block : blocks_) {
            *block = nullptr;
        }
        blocks_.clear();
        held_.reset();
    }
    void start(const Executors& executors)
    {
        const std::shared_ptr<Whole> held = keep();
        if (started_) {
            throw Error(Errc::bad_argument, "the graph has been started before: build a new one");
        }
        started_ = true;
        try {
            const Unlocked unlocked;
            held->graph.start(executors);
        } catch (...) {
            started_ = false;
            throw;
        }
    }
    void wait(double timeout)
    {
        const std::shared_ptr<Whole> held = keep();
        const Unlocked unlocked;
        held->graph.wait(seconds(timeout));
    }
    Flowgraph& graph() const { return need().graph; }

private:
    struct Whole {
        std::vector<std::shared_ptr<void>> needed; // by the blocks, which go first
        Flowgraph graph;
    };
    std::shared_ptr<Whole> keep() const
    {
        if (held_ == nullptr) {
            throw Error(Errc::closed, "the graph is closed");
        }
        return held_;
    }
    Whole& need() const { return *keep(); }

    std::shared_ptr<Whole> held_;
    std::vector<std::shared_ptr<Block*>> blocks_;
    bool started_ = false;
};

using Named = std::vector<BlockHandle*>;

std::vector<std::reference_wrapper<Block>> blocks_of(const Named& named)
{
    std::vector<std::reference_wrapper<Block>> blocks;
    for (BlockHandle* handle : named) {
        blocks.emplace_back(handle->get());
    }
    return blocks;
}

void connect(PyGraph& graph, PyPort& from, PyPort& to)
{
    InputPort& input = need(to.input(), "an input: a source sends");
    if (InPlacePort* through = from.in_place()) {
        graph.graph().connect(*through, input);
    } else {
        graph.graph().connect(need(from.source(), "a port that sends: an input reads"), input);
    }
}

} // namespace

void flows(nb::module_& m)
{
    flow_blocks(m);
    nb::class_<PyGraph>(m, "FlowGraph")
        .def(nb::init<>())
        .def("add", &PyGraph::add)
        .def("close", [](PyGraph& g) { g.close(&check_signals); })
        .def("circuit",
             [](PyGraph& g, const std::string& name, PyPort& source, uint32_t quanta,
                size_t samples) {
                 source.need_block();
                 Circuit& c = g.graph().circuit(
                     name, need(source.source(), "a source: other ports get quanta"), quanta,
                     samples);
                 return reinterpret_cast<uintptr_t>(&c);
             })
        .def("at_home",
             [](PyGraph& g, uintptr_t circuit) {
                 g.graph(); // it owns the circuit
                 return reinterpret_cast<Circuit*>(circuit)->at_home();
             })
        .def("connect",
             [](PyGraph& g, PyPort& from, PyPort& to) {
                 from.need_block();
                 to.need_block();
                 connect(g, from, to);
             })
        .def("validate", [](PyGraph& g) { g.graph().validate(); })
        .def("start",
             [](PyGraph& g, const std::vector<std::pair<Named, int>>& sequences,
                const std::vector<std::pair<Named, std::vector<int>>>& pools) {
                 Executors executors;
                 for (const auto& [named, core] : sequences) {
                     executors.sequences.push_back({blocks_of(named), core});
                 }
                 for (const auto& [named, cores] : pools) {
                     executors.pools.push_back({blocks_of(named), cores});
                 }
                 g.start(executors);
             })
        .def("wait", &PyGraph::wait)
        .def("stop", [](PyGraph& g) { g.graph().stop(); })
        .def("abort", [](PyGraph& g) { g.graph().abort(); })
        .def("starved", [](PyGraph& g) { return g.graph().starved(); });

    flow_signals(m);
}

} // namespace denizen::bind
