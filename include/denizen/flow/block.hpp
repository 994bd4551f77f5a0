// SPDX-License-Identifier: Apache-2.0
// What a graph is made of. A block says what it does with the quanta at its ports in work(); the
// runtime calls it, on one thread, when every port has one, and does the rest.
//
//   struct Gain : flow::Block {
//       flow::InPlace<float> samples{*this, "samples"};
//       flow::Messages<float> gain{*this, "gain", [this](float g) { gain_ = g; }};
//       using Block::Block;
//       void work() override {
//           for (float& x : samples.samples()) x *= gain_;
//           samples.pass();
//       }
//       float gain_ = 1;
//   };
#pragma once

#include <denizen/flow/message.hpp>
#include <denizen/flow/port.hpp>

namespace denizen::flow {

// What all blocks of a running graph look at.
struct RunState {
    std::atomic<bool> started{false};  // also if that failed: its rings may be made
    std::atomic<bool> stopping{false}; // those without an input finish, the others when they have
                                       // nothing left
    std::atomic<bool> aborting{false}; // all leave at once
};

class Block {
public:
    explicit Block(std::string name) : name_(std::move(name)) {}
    virtual ~Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    const std::string& name() const { return name_; }

protected:
    // Called when every input has a quantum and every source room. It moves something at some port,
    // or is called again after a pause.
    virtual void work() = 0;

    // For a block whose inputs are not read in step: work() is called when at least one has a
    // quantum, and the block ends when all have ended. Call it when the block is made.
    void work_on_any_input()
    {
        Engine::refuse_late(*this, "block \"" + name_ + "\": work_on_any_input()");
        any_input_ = true;
    }
    bool has_quantum(const InputPort& port) const { return port.has_quantum(); }

    // For a block that hands quanta to somebody outside the graph, a GPU for instance, and gets
    // them back later. poll() is called before work(), and while busy() again and again: it sends
    // on what is done, and tells whether that was anything. A busy block does not end.
    virtual bool poll() { return false; }
    virtual bool busy() const { return false; }

    // From work(): this was the last call. Half-filled quanta are sent, the readers told.
    void finish() { finishing_ = true; }

private:
    friend class detail::Engine;
    friend class Flowgraph;

    std::string name_;
    std::vector<InputPort*> inputs_;
    std::vector<OutputPort*> outputs_; // all, sources among them
    std::vector<SourcePort*> sources_;
    std::vector<MessagePort*> messages_;
    std::atomic<Doorbell*> bell_{nullptr};
    std::atomic<bool> reader_left_{false}; // some reader of some output has finished
    const RunState* run_ = nullptr;
    bool moved_ = false;
    bool any_input_ = false;
    bool finishing_ = false;
    bool finished_ = false;
    bool passive_ = false; // another block does its work, resident.hpp

    // For Flowgraph::starved(), told before the thread sleeps: since when, and at which port (null:
    // it could work and moved nothing).
    std::atomic<uint64_t> idle_since_{0}; // 0: it does not sleep, or has finished
    std::atomic<const Port*> starved_at_{nullptr};
};

} // namespace denizen::flow
