// SPDX-License-Identifier: Apache-2.0
// The coroutines that wait for a thread, first in, first out: any number of threads at both ends
// (D. Vyukov's bounded queue). First out first: last in first out would let two coroutines that
// wake each other starve a third. Each coroutine is in one queue at most and there is a place for
// each, so a push finds room, at the latest when a thread that took something has marked its place
// free.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <bit>
#include <memory>

namespace denizen::flow {

class Parking;

class RunQueue {
public:
    explicit RunQueue(uint32_t most) : mask_(std::bit_ceil(most < 2 ? 2 : most) - 1)
    {
        places_ = std::make_unique<Place[]>(mask_ + 1);
        for (uint32_t i = 0; i <= mask_; ++i) {
            places_[i].state.store(i, std::memory_order_relaxed);
        }
    }

    void push(Parking* item)
    {
        const uint32_t ticket = tail_.fetch_add(1, std::memory_order_relaxed);
        Place& place = places_[ticket & mask_];
        Backoff wait;
        // Acquire: partner of the release in pop(). Ends: whoever took what lay here marks it.
        while (place.state.load(std::memory_order_acquire) != ticket) {
            wait.pause();
        }
        place.item = item;
        place.state.store(ticket + 1, std::memory_order_release); // partner: pop()
    }
    bool pop(Parking*& item)
    {
        uint32_t ticket = head_.load(std::memory_order_relaxed);
        for (;;) { // ends: each failure means that another thread got its ticket
            Place& place = places_[ticket & mask_];
            if (place.state.load(std::memory_order_acquire) != ticket + 1) {
                const uint32_t latest = head_.load(std::memory_order_relaxed);
                if (latest == ticket) {
                    return false;
                }
                ticket = latest;
                continue;
            }
            if (head_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
                item = place.item;
                place.state.store(ticket + mask_ + 1, std::memory_order_release);
                return true;
            }
        }
    }
    // True also while a push is on its way.
    bool something() const
    {
        return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_relaxed);
    }

private:
    struct Place {
        std::atomic<uint32_t> state; // t: free for ticket t; t + 1: full
        Parking* item = nullptr;
    };

    std::unique_ptr<Place[]> places_;
    uint32_t mask_;
    alignas(line) std::atomic<uint32_t> tail_{0};
    alignas(line) std::atomic<uint32_t> head_{0};
};

} // namespace denizen::flow
