// SPDX-License-Identifier: Apache-2.0
// The host's side of a run that is open to commands: two rings, a heartbeat, and the window that
// reads are written into. The engine that gives the memory says where it lies.
#pragma once

#include <denizen/wave/detail/control.hpp>
#include <denizen/wave/simulation.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

namespace denizen::wave {

class Mailbox {
public:
    // Zero-filled memory, aligned to 128 bytes, that is given back with the last copy.
    using Allocate = std::function<std::shared_ptr<void>(size_t bytes)>;

    // The window holds `cells` values of `bytes_per_cell`.
    Mailbox(const Allocate& allocate, uint64_t cells, uint32_t bytes_per_cell);

    // How many changes of cells, damping and sources, and how many sources, the run has room for.
    void allow(uint32_t changes, uint32_t sources);

    // Sends commands that belong together and waits until all are answered: the step from the start
    // of the run. `over`: whether the run has ended. Throws as Simulation::command(); if there is
    // no room for all of them, none is sent.
    uint32_t ask(std::vector<Request>& commands, std::vector<double>* values, nanoseconds patience,
                 const std::function<bool()>& over);

    // The device's ends.
    const RingView& orders() const { return in_; }
    const RingView& answers() const { return out_; }
    void* window() const { return window_.get(); }
    uint32_t* heartbeat() const { return heartbeat_; }
    uint32_t* told() const { return told_; } // by the device: see told_word()
    double cell(size_t k) const;             // of the window

private:
    void take(const Box& box, const Answer& answer, std::vector<double>& values) const;
    void claim(const std::vector<Request>& commands);

    static constexpr uint32_t slots = 1024;

    std::shared_ptr<void> memory_;
    std::shared_ptr<void> window_;
    uint64_t cells_;
    uint32_t bytes_per_cell_;
    uint32_t* heartbeat_ = nullptr;
    uint32_t* told_ = nullptr;
    RingView in_;
    RingView out_;
    SpscSender<Scope::system> sender_;
    SpscReceiver<Scope::system> receiver_;
    std::mutex mutex_;
    uint32_t next_ = 1; // id of a command
    uint32_t changes_left_ = 0;
    uint32_t sources_left_ = 0;
};

// For methods that the host leads step by step: serves what lies in the mailbox in front of step
// `step` of the run. `apply` does what a command says, `read` fills the window. False: the run ends
// here. Waits while the run is paused.
class Served {
public:
    Served(Mailbox& mailbox, std::function<void(Request&)> apply,
           std::function<void(const Box&)> read);
    bool serve(uint32_t step);
    // The run is over: whoever still asks is told so.
    void close(uint32_t step);

private:
    void answer(uint32_t id, const Answer& reply);

    Mailbox& mailbox_;
    SpscReceiver<Scope::system> in_;
    SpscSender<Scope::system> out_;
    std::function<void(Request&)> apply_;
    std::function<void(const Box&)> read_;
    bool paused_ = false;
    uint32_t until_ = 0; // as if paused from that step on
};

} // namespace denizen::wave
