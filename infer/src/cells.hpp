// SPDX-License-Identifier: Apache-2.0
// Where a request lies while it is under way. The ring carries a cell's number; input and answer
// stay in the cell.
//
// clang-format off
//   1  who asks takes a cell from the free ones, fills it, marks it pending and sends its number
//   2  the model answers into it and marks it done; it wakes who has marked it sleeping meanwhile
//   3  who asked takes the answer and gives the cell back
//   2' who asked gives up and marks it abandoned; at 2 the model finds that, and gives it back,
//      without the work if it has not begun
// clang-format on
#pragma once

#include "aligned.hpp"
#include "rows.hpp"
#include "weights.hpp"

#include <denizen/base/atomic.hpp>
#include <denizen/wire/channel.hpp>

#include <bit>
#include <memory>
#include <vector>

namespace denizen::infer {

enum class Request : uint32_t { step, swap, reset, read_state, write_state, read_all, write_all };

enum class CellState : uint32_t { free, pending, sleeping, done, abandoned };

struct alignas(line) Cell {
    uint32_t state = 0;      // a CellState, and the futex word of who sleeps
    uint32_t generation = 0; // a ticket of an older one is used up
    Request request = Request::step;
    uint32_t stream = 0;
    uint64_t version = 0;             // of the weights that answered
    float* input = nullptr;           // padded
    float* output = nullptr;          // padded
    std::unique_ptr<Weights> weights; // of a swap: the new ones, then the old
    std::vector<float> kept;          // states
};

class Cells {
public:
    Cells(uint32_t count, size_t input_floats, size_t output_floats)
        : cells_(count), free_("free requests", slots_for_all(count)),
          room_(count * (padded(input_floats) + padded(output_floats)), "the requests")
    {
        float* at = room_.data();
        for (Cell& cell : cells_) {
            cell.input = at;
            cell.output = at + padded(input_floats);
            at = cell.output + padded(output_floats);
        }
        for (uint32_t i = 0; i < count; ++i) give(i);
    }

    static uint32_t slots_for_all(uint32_t count) { return std::bit_ceil(2 * count + 2); }

    uint32_t size() const { return static_cast<uint32_t>(cells_.size()); }
    Cell& operator[](uint32_t i) { return cells_[i]; }
    const Cell& operator[](uint32_t i) const { return cells_[i]; }

    // False if none is free.
    bool take(uint32_t& i)
    {
        Header h;
        if (MpmcReceiver<Scope::system>(free_.view()).try_receive(h, nullptr, 0) != Errc::ok) {
            return false;
        }
        i = h.destination;
        return true;
    }

    // Step 3, and step 2 of an abandoned one.
    void give_back(uint32_t i)
    {
        Cell& cell = cells_[i];
        cell.weights.reset();
        std::vector<float>().swap(cell.kept);
        store<Scope::system>(&cell.state, static_cast<uint32_t>(CellState::free));
        fetch_add<Scope::system>(&cell.generation, 1u);
        give(i);
    }

    // Step 2. Acquire and release: partner of the same in who asks.
    void answer(uint32_t i)
    {
        Cell& cell = cells_[i];
        const auto before = static_cast<CellState>(exchange<Scope::system, Order::acq_rel>(
            &cell.state, static_cast<uint32_t>(CellState::done)));
        if (before == CellState::sleeping) futex_wake_all(&cell.state);
        if (before == CellState::abandoned) give_back(i);
    }

    // Step 2'.
    void abandon(uint32_t i)
    {
        const auto before = static_cast<CellState>(exchange<Scope::system, Order::acq_rel>(
            &cells_[i].state, static_cast<uint32_t>(CellState::abandoned)));
        if (before == CellState::done) give_back(i);
    }

    // Whether nobody waits for the answer any more.
    bool abandoned(uint32_t i) const
    {
        return load<Scope::system>(&cells_[i].state) == static_cast<uint32_t>(CellState::abandoned);
    }

    bool done(uint32_t i) const
    {
        return load<Scope::system, Order::acquire>(&cells_[i].state) ==
               static_cast<uint32_t>(CellState::done);
    }

private:
    void give(uint32_t i)
    {
        Header h;
        h.destination = i;
        MpmcSender<Scope::system> giver(free_.view());
        // Ends: there are more slots than cells, and a taker that holds a slot is giving it up.
        while (giver.try_send(h, nullptr) != Errc::ok) relax();
    }

    std::vector<Cell> cells_;
    Channel<Mpmc> free_;
    Aligned<float> room_;
};

} // namespace denizen::infer
