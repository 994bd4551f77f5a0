// SPDX-License-Identifier: Apache-2.0
// Refuses a graph that could stop for ever once it runs: a port without a writer or a reader, a
// loop, a circuit with fewer quanta than its ports may hold. Afterwards nothing can overflow or
// starve.
#include "plan.hpp"
#include "refuse.hpp"

namespace denizen::flow {
namespace {

std::string quoted(const Port& port) { return "port \"" + port.label() + '"'; }

} // namespace

Engine::Plan::Plan(const std::deque<Circuit>& circuits,
                   const std::vector<std::unique_ptr<Block>>& blocks)
{
    if (blocks.empty()) {
        refuse("the graph has no blocks");
    }
    for (const auto& block : blocks) {
        refuse_unconnected(*block);
    }
    refuse_loops(blocks); // before trace(), which would not end in a loop
    for (const Circuit& circuit : circuits) {
        trace(circuit);
        refuse_small(circuit);
    }
}

uint32_t Engine::Plan::quanta_at(const Port& port) const
{
    uint32_t sum = 0;
    for (const Circuit* circuit : at(port)) {
        sum += circuit->quanta();
    }
    return sum;
}

void Engine::Plan::refuse_unconnected(const Block& block) const
{
    for (const InputPort* port : block.inputs_) {
        if (port->writers_.empty()) {
            refuse(quoted(*port) + " has no writer: connect an output to it");
        }
    }
    for (const SourcePort* port : block.sources_) {
        if (port->circuit_ == nullptr) {
            refuse(quoted(*port) + " has no circuit, so no buffers: call circuit() with it");
        }
    }
    for (const OutputPort* port : block.outputs_) {
        if (port->readers_.empty()) {
            refuse(quoted(*port) + " ends a circuit without giving its quanta back: connect it to "
                                   "a sink or to a port that reads by reference");
        }
        if (port->readers_.size() == 1) {
            continue;
        }
        // A quantum has one owner. With several readers none of them may own, change or pass it on.
        for (const OutputPort::Reader& reader : port->readers_) {
            if (!reader.port->reads_only_) {
                refuse(quoted(*reader.port) + " wants quanta of its own, but " + quoted(*port) +
                       " has " + std::to_string(port->readers_.size()) +
                       " readers: all of them must read by reference");
            }
        }
    }
}

// Depth first along the outputs; a block met again on the way to itself closes a loop.
void Engine::Plan::refuse_loops(const std::vector<std::unique_ptr<Block>>& blocks) const
{
    std::set<const Block*> done;
    std::vector<const Block*> way;
    const std::function<void(const Block&)> visit = [&](const Block& block) {
        if (const auto met = std::find(way.begin(), way.end(), &block); met != way.end()) {
            std::string text;
            for (auto b = met; b != way.end(); ++b) {
                text += '"' + (*b)->name() + "\" -> ";
            }
            refuse("the samples go round in a loop, " + text + '"' + block.name() +
                   "\", which never ends: send feedback by messages");
        }
        if (done.contains(&block)) {
            return;
        }
        way.push_back(&block);
        for (const OutputPort* port : block.outputs_) {
            for (const OutputPort::Reader& reader : port->readers_) {
                visit(reader.port->block());
            }
        }
        way.pop_back();
        done.insert(&block);
    };
    for (const auto& block : blocks) {
        visit(*block);
    }
}

// Finds all ports that quanta of the circuit can come to. An input passes a quantum on by those
// outputs of its block that are made from that input.
void Engine::Plan::trace(const Circuit& circuit)
{
    std::vector<const OutputPort*> open{circuit.source_};
    while (!open.empty()) { // ends: there are no loops, and a port is entered once
        const OutputPort& output = *open.back();
        open.pop_back();
        passing_[&output].insert(&circuit);
        ports_[&circuit].push_back(&output);
        for (const OutputPort::Reader& reader : output.readers_) {
            if (!passing_[reader.port].insert(&circuit).second) {
                continue;
            }
            ports_[&circuit].push_back(reader.port);
            for (const OutputPort* next : reader.port->block().outputs_) {
                if (next->from_ == reader.port) {
                    open.push_back(next);
                }
            }
        }
    }
}

void Engine::Plan::refuse_small(const Circuit& circuit) const
{
    // One quantum has to move. Beside it each port may keep all but one of those that it holds.
    uint32_t quanta = 1;
    std::string keepers;
    for (const Port* port : ports_.at(&circuit)) {
        if (const size_t room = circuit.bytes() / port->type().bytes; room < port->needs_) {
            refuse(quoted(*port) + " needs " + std::to_string(port->needs_) +
                   " samples at a time, circuit \"" + circuit.name() + "\" has buffers of " +
                   std::to_string(room) + ": make them larger");
        }
        const auto* input = dynamic_cast<const InputPort*>(port);
        if (input != nullptr && input->holds_ > 1) {
            quanta += input->holds_ - 1;
            keepers += (keepers.empty() ? "" : " and ") + quoted(*port);
        }
    }
    if (circuit.source_->margin_ >= circuit.samples()) {
        refuse(quoted(*circuit.source_) + " leaves a margin of " +
               std::to_string(circuit.source_->margin_) + " samples, circuit \"" + circuit.name() +
               "\" has buffers of " + std::to_string(circuit.samples()) + ": make them larger");
    }
    if (circuit.quanta() < quanta) {
        refuse("circuit \"" + circuit.name() + "\" has " + std::to_string(circuit.quanta()) +
               " quanta, but " + keepers + " may keep so many that it needs " +
               std::to_string(quanta));
    }
}

} // namespace denizen::flow
