// SPDX-License-Identifier: Apache-2.0
// Resident blocks that follow each other in a graph, at run time: the host's half. The first
// block's thread hands quanta to the workers and sends on what has come back; the others have
// nothing to do.
#pragma once

#include "plan.hpp"
#include "workers.hpp"

#include <denizen/flow/resident.hpp>

#include <unordered_map>

namespace denizen::flow {

class detail::Engine::ResidentChain {
public:
    // The chains of a graph; the circuits that pass them get pinned buffers. Throws bad_argument,
    // naming the block, for what cannot run there.
    static std::vector<std::unique_ptr<ResidentChain>>
    build(const std::vector<std::unique_ptr<Block>>& blocks, const Plan& plan);

    explicit ResidentChain(std::vector<ResidentBlock*> blocks);

    void work();
    bool poll();
    bool busy() const { return away() || unpaired(); }
    template <class... V> // ResidentWorkers::set()
    void set(uint32_t stage, const V&... values)
    {
        workers_.set(stage, values...);
    }

private:
    // Of a circuit. Each of its cells has two places for its samples, one behind the other in one
    // buffer: it is at one of them, and what is made of it may go to the other.
    struct Memory {
        struct Places {
            BufferRef buffer;
            std::byte* begin = nullptr; // of the buffer
        };
        std::map<const detail::Cell*, Places> cells;
        uint32_t lead = 0;  // bytes in front of a place
        uint32_t apart = 0; // from one place to the other
    };
    struct Flight {
        detail::Cell* cell = nullptr;
        std::atomic<uint32_t> pieces{0}; // that are not done
        std::atomic<bool> failed{false};
    };

    // `beside_at`: where the second stream's samples begin, counted as the quantum's are, and for
    // those of `beside` bytes there is room; 0: no chain has one.
    static std::shared_ptr<Memory> pinned(const Circuit& circuit, Resident& resident, uint64_t lead,
                                          uint64_t beside_at, uint64_t beside);
    void plan_stages();
    void start(const std::set<const Circuit*>& circuits, uint64_t beside_at);
    void submit();
    uint32_t pieces_of(size_t count) const;
    uint64_t outputs_before(uint64_t position) const;
    bool away() const { return sent_ != returned_; }
    // The second stream has ended in the middle of a quantum of the first.
    bool unpaired() const { return paired_ != 0 && head().beside_->exhausted(); }
    uint64_t lead() const { return std::max(before_, beside_before_); }
    // Room for the second stream beside a buffer.
    uint64_t beside(const Circuit& circuit) const;
    ResidentBlock& head() const { return *blocks_.front(); }
    InPlacePort& port(uint32_t stage) const { return *blocks_[stage]->port_; }
    void done(const resident::Done& message);

    Resident& resident_;
    std::vector<ResidentBlock*> blocks_;
    uint32_t before_ = 0;        // bytes of its past that a quantum takes along
    uint32_t beside_before_ = 0; // and of the second stream's
    uint64_t beside_at_ = 0;
    std::unordered_map<const Circuit*, std::shared_ptr<Memory>> memory_;
    std::vector<std::byte> past_;
    std::vector<std::byte> beside_past_;
    size_t paired_ = 0; // samples of the second stream that lie beside the current quantum
    std::unique_ptr<Flight[]> flights_; // by ticket
    uint32_t flight_mask_ = 0;
    uint32_t sent_ = 0; // tickets
    uint32_t returned_ = 0;
    uint64_t waits_since_ = 0; // for the oldest
    ResidentWorkers workers_;  // the last: see there
};

} // namespace denizen::flow
