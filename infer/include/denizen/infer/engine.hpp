// SPDX-License-Identifier: Apache-2.0
// A resident model: threads that keep a model's weights packed and the states of all streams, and
// answer requests that come through a ring. One step is one time step of one stream. Host only.
//
//   Engine m(model, {.streams = 32});
//   m.step(7, x, y);                       // the state of stream 7 stays with the model
//   const Ticket t = m.begin(7, x);        // or several at once, those of a stream in order
//   m.end(t, y);
//
// Any number of threads may ask. A swap of the weights lies between two requests: each answer is of
// one version, which it names.
#pragma once

#include <denizen/infer/model.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace denizen::infer {

using nanoseconds = std::chrono::nanoseconds;

const char* to_string(Format format);

struct Options {
    uint32_t streams = 1; // 1 to 2^24
    Format format = Format::fp32;
    // Threads that share the rows of each layer, 1 to 64; 0: one for each 4 MiB of packed weights,
    // and not more than there are cores but one. The answers are the same bit by bit.
    // On a GPU: blocks, each on an SM of its own; 0: 16 that share their memory if the model fits
    // there, else as many as there are.
    uint32_t parts = 0;
    // Of the model on a GPU, each on SMs of its own with a share of the streams and of the
    // requests: stream s is one of copy s % copies. For more streams than one copy keeps up with.
    uint32_t copies = 1;
    uint32_t requests = 256; // that may be under way, 1 to 65536
    // For so long a thread with nothing to do looks for work before it sleeps, and who asks looks
    // for the answer.
    nanoseconds spin = std::chrono::microseconds(50);
};

class Chip; // where a resident program runs: gpu.hpp

// A request under way.
struct Ticket {
    uint64_t value = 0;
};

struct Stats {
    uint64_t steps = 0;   // answered
    uint64_t busy_ns = 0; // in all of them, from a request's arrival at the model to its answer
    uint64_t swaps = 0;
    // On a GPU, whose busy_ns is by its own clock and without the ways there and back:
    uint64_t rounds = 0;     // in which the steps were, several streams' together
    uint64_t loading_ns = 0; // until the last incarnation had its weights
};

// A piece of a stream's state: as many floats, of one op.
struct StatePart {
    std::string name; // `layer.h`, `layer.c`, `layer.inputs` (oldest first)
    size_t floats = 0;
    size_t steps = 1; // of inputs: how many, each of floats / steps
};

class Engine {
public:
    // Throws bad_argument for what is no model (see check()) or option, and for a weight that is
    // too large for the format; exhausted without memory or threads.
    Engine(const Model& model, const Options& options);
    // The same on a GPU (gpu.hpp). bad_argument also for a model whose matrices do not fit; `spin`
    // is of who asks alone. A step has begun when it is sent.
    Engine(const Model& model, const Options& options, std::unique_ptr<Chip> chip);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // All of the following throw bad_argument for a stream or sizes that the model does not have,
    // full if there was no room for a request until the deadline, timeout if there was no answer,
    // closed after close() or in a forked child. After a timeout, an interrupt or abandon() a
    // step that has begun is made, and nobody gets its answer; one that has not begun is not made.

    // `input`: the floats of value 0 or one int32, `output`: the floats of the answer. Returns the
    // version of the weights that made it.
    uint64_t step(uint32_t stream, std::span<const std::byte> input, std::span<float> output,
                  nanoseconds deadline = std::chrono::seconds(10));

    // `streams.size()` requests, of which as many as there is room for are under way at once.
    // `versions` has as many elements. After an error those before it have been answered.
    void steps(std::span<const uint32_t> streams, std::span<const std::byte> inputs,
               std::span<float> outputs, std::span<uint64_t> versions,
               nanoseconds deadline = std::chrono::seconds(10));

    Ticket begin(uint32_t stream, std::span<const std::byte> input,
                 nanoseconds deadline = std::chrono::seconds(10));
    bool ready(Ticket ticket) const;
    // The ticket is used up, also by an error.
    uint64_t end(Ticket ticket, std::span<float> output,
                 nanoseconds deadline = std::chrono::seconds(10));
    void abandon(Ticket ticket); // nobody will ask for the answer

    // Takes other weights of a model of the same ops, widths and settings, between two requests of
    // a copy. Returns the new version, which all copies have then.
    uint64_t swap(const Model& model, nanoseconds deadline = std::chrono::seconds(10));

    // Between two requests, in turn with them. The state's pieces lie one after the other, in the
    // order of state_parts(), state_floats() in all.
    void reset(uint32_t stream, nanoseconds deadline = std::chrono::seconds(10));
    void state(uint32_t stream, std::span<float> to,
               nanoseconds deadline = std::chrono::seconds(10));
    void set_state(uint32_t stream, std::span<const float> from,
                   nanoseconds deadline = std::chrono::seconds(10));
    const std::vector<StatePart>& state_parts() const;
    size_t state_floats() const;

    // The states of all streams as a file, of one moment between two requests, whole or not at all;
    // and back, into a model of the same ops, widths and settings with as many streams. The weights
    // are not in it. restore() throws bad_snapshot for any other file.
    void save(const std::string& path, nanoseconds deadline = std::chrono::seconds(10));
    void restore(const std::string& path, nanoseconds deadline = std::chrono::seconds(10));

    uint64_t version() const; // of the weights, from 1
    Stats stats() const;
    uint32_t parts() const; // of all copies
    uint32_t streams() const;
    uint32_t requests() const;
    Format format() const;
    size_t input_bytes() const;
    size_t output_floats() const;
    size_t weight_bytes() const; // packed
    size_t state_bytes() const;  // of all streams
    std::string place() const;   // "3 CPU threads", "16 blocks of one cluster of NVIDIA H200"

    // Answers what is under way, and ends the threads. In a forked child it does nothing.
    void close();

private:
    struct Core;
    std::unique_ptr<Core> core_;
};

} // namespace denizen::infer
