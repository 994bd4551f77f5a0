// SPDX-License-Identifier: Apache-2.0
// The resident half: threads that hold a model's weights and the states of its streams. The leader,
// part 0, takes requests from the ring in their order; the others are told of each step.
#pragma once

#include "cells.hpp"
#include "serving.hpp"
#include "step.hpp"

#include <denizen/base/threads.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace denizen::infer {

class Server final : public Serving {
public:
    // Starts its threads; throws exhausted.
    Server(const Plan& plan, std::unique_ptr<Weights> weights, const Options& options);
    ~Server() override { stop(); }

    bool take(uint32_t& cell, uint32_t) override { return cells_.take(cell); }
    uint32_t cells() const override { return cells_.size(); }
    uint32_t generation(uint32_t cell) const override
    {
        return load<Scope::system>(&cells_[cell].generation);
    }
    void send(uint32_t cell, uint32_t stream, const std::byte* input,
              const Deadline& deadline) override;
    bool look(uint32_t cell, uint32_t&) const override { return cells_.done(cell); }
    void sleep(uint32_t cell, uint64_t most_ns) override;
    uint64_t take_answer(uint32_t cell, float* output) override;
    void abandon(uint32_t cell) override { cells_.abandon(cell); }
    bool ended() const override
    {
        return ended_.load(std::memory_order_acquire);
    } // partner: lead()
    [[noreturn]] void refuse() const override;

    uint64_t swap(const Model& model, uint64_t least, const Deadline& deadline) override;
    void reset(uint32_t stream, const Deadline& deadline) override;
    void read_state(uint32_t stream, std::span<float> to, const Deadline& deadline) override;
    void write_state(uint32_t stream, std::span<const float> from,
                     const Deadline& deadline) override;
    std::vector<float> read_all(const Deadline& deadline) override;
    void write_all(std::vector<float> states, const Deadline& deadline) override;

    uint64_t version() const override { return version_.load(std::memory_order_relaxed); }
    Stats stats() const override;
    uint32_t parts() const override { return plan_.parts; }
    size_t weight_bytes() const override { return weight_bytes_.load(std::memory_order_relaxed); }
    size_t state_bytes() const override { return states_.bytes(); }
    std::string place() const override;

    // The threads answer what has been sent, and end.
    void stop() override;

private:
    // What the followers wait at.
    struct Post {
        alignas(line) uint32_t sequence = 0;
        alignas(line) uint32_t bell = 0;
        uint32_t sleeping = 0;
        alignas(line) StepJob job; // written before the sequence; without weights: end
    };

    void post(uint32_t cell, const Deadline& deadline);
    // A request other than a step: `before(cell)` fills it, `after(cell)` reads the answer.
    template <class Before, class After>
    void call(Request request, uint32_t stream, const Deadline& deadline, Before&& before,
              After&& after);
    void lead();
    void follow(uint32_t part);
    void tell(const StepJob& job);
    void serve(uint32_t cell);
    void step(Cell& cell);
    void copy_all(std::vector<float>& kept) const;
    void set_all(const std::vector<float>& kept);
    float* state(uint32_t stream) const
    {
        return states_.data() + size_t{stream} * plan_.state_floats;
    }

    const Plan& plan_;
    const Format format_;
    const uint64_t spin_ns_;
    Cells cells_;
    std::atomic<uint64_t> version_{1};
    std::atomic<uint64_t> steps_{0};
    std::atomic<uint64_t> busy_ns_{0};
    std::atomic<uint64_t> swaps_{0};
    std::atomic<size_t> weight_bytes_;
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
