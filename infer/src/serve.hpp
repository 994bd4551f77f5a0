// SPDX-License-Identifier: Apache-2.0
// The resident half: threads that hold a model's weights and the states of its streams. The leader,
// part 0, takes requests from the ring in their order; the others are told of each step.
#pragma once

#include "cells.hpp"
#include "step.hpp"

#include <denizen/base/threads.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace denizen::infer {

class Server {
public:
    // Starts its threads; throws exhausted.
    Server(const Plan& plan, std::unique_ptr<Weights> weights, const Options& options);
    ~Server() { stop(); }

    // Step 1 of a cell that has been filled. Throws closed.
    void send(uint32_t cell, nanoseconds deadline);

    // The threads answer what has been sent, and end.
    void stop();
    bool ended() const { return ended_.load(std::memory_order_acquire); } // partner: lead()

    Cells cells;
    std::atomic<uint64_t> version{1};
    std::atomic<uint64_t> steps{0};
    std::atomic<uint64_t> busy_ns{0};
    std::atomic<uint64_t> swaps{0};
    std::atomic<size_t> weight_bytes;

private:
    // What the followers wait at.
    struct Post {
        alignas(line) uint32_t sequence = 0;
        alignas(line) uint32_t bell = 0;
        uint32_t sleeping = 0;
        alignas(line) StepJob job; // written before the sequence; without weights: end
    };

    void lead();
    void follow(uint32_t part);
    void tell(const StepJob& job);
    void serve(uint32_t cell);
    void step(Cell& cell);
    void read_all(std::vector<float>& kept) const;
    void write_all(const std::vector<float>& kept);
    float* state(uint32_t stream) const
    {
        return states_.data() + size_t{stream} * plan_.state_floats;
    }

    const Plan& plan_;
    const uint64_t spin_ns_;
    Channel<Mpsc> ring_;
    std::unique_ptr<Weights> weights_;
    Aligned<float> states_;           // of all streams
    std::vector<uint64_t> positions_; // steps of each since it began
    Aligned<float> values_;
    Barrier barrier_;
    std::vector<std::unique_ptr<Part>> parts_;
    Post post_;
    std::atomic<bool> ended_{false};
    Threads threads_;
};

} // namespace denizen::infer
