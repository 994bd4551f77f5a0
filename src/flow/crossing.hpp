// SPDX-License-Identifier: Apache-2.0
// A resident block that fills other circuits, at run time: the host's half. Its thread fills slots
// of pinned memory with samples, hands them to the workers, and gives the outputs to the circuits
// in the order of the stream.
#pragma once

#include "workers.hpp"

#include <denizen/flow/resident_bridge.hpp>

namespace denizen::flow {

class detail::Engine::ResidentCrossing {
public:
    // Starts all such blocks of a graph. Throws as the runtime does.
    static void start(const std::vector<std::unique_ptr<Block>>& blocks);

    explicit ResidentCrossing(ResidentBridge& block);

    void work();
    bool poll();
    bool busy() const { return away() || due() != 0; }
    void set(const std::vector<float>& values);

private:
    // A slot, whose last two parts are there if there is a second input:
    //   [what the samples need of the past][samples][outputs, stream by stream][past][samples]
    //                                      lead_    results_                         beside_
    struct Flight { // of a slot that a worker has
        uint32_t made = 0;
        uint32_t given = 0; // outputs that are in the circuits
        std::atomic<bool> failed{false};
        std::atomic<bool> done{false};
    };

    std::byte* slot(uint32_t ticket) const { return begin_ + uint64_t{ticket & mask_} * slot_; }
    std::byte* samples(uint32_t ticket) const { return slot(ticket) + lead_; }
    std::byte* beside(uint32_t ticket) const { return slot(ticket) + beside_; }
    bool away() const { return sent_ != returned_; }
    bool may_send() const { return sent_ - returned_ < mask_; } // one slot is being filled
    uint32_t whole() const { return filled_ - filled_ % shape_.frame; }
    uint32_t due() const; // outputs that can be made of what is in the slot being filled
    void send();
    bool give();
    void done(const resident::Done& message);

    ResidentBridge& block_;
    ResidentBridge::Shape shape_;
    uint32_t most_; // samples of a slot
    uint32_t lead_;
    uint32_t results_;
    uint32_t beside_;
    uint32_t slot_; // bytes
    uint32_t mask_; // slots - 1
    Buffer memory_;
    std::byte* begin_ = nullptr;
    std::unique_ptr<Flight[]> flights_;
    uint64_t position_ = 0; // of the first sample in the slot being filled
    uint32_t filled_ = 0;   // samples there
    uint32_t sent_ = 0;     // tickets; also whose slot is being filled
    uint32_t returned_ = 0;
    uint64_t waits_since_ = 0; // for the oldest
    ResidentWorkers workers_;  // the last: see there
};

} // namespace denizen::flow
