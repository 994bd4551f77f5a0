// SPDX-License-Identifier: Apache-2.0
// The host's side of all host lanes: one SPSC ring per worker whose producer is whoever holds the
// port's lock. Threads that send share the lanes; a thread that waits for room does so without the
// lock, so a full lane stalls only its own senders.
#pragma once

#include <denizen/wire/wait.hpp>

#include <vector>

namespace denizen {

// A test-and-set lock for sections of some 20 ns. A waiter spins, then yields its core.
class SpinLock {
public:
    void lock()
    {
        for (uint32_t tries = 0;; ++tries) { // ends when the holder leaves its short section
            uint32_t open = 0;
            // Acquire: partner of the release in unlock().
            if (load<Scope::system>(&word_) == 0 &&
                compare_exchange<Scope::system, Order::acquire>(&word_, open, 1u)) {
                return;
            }
            tries < 64 ? relax() : void(sched_yield());
        }
    }
    void unlock() { store<Scope::system, Order::release>(&word_, 0u); }

private:
    uint32_t word_ = 0;
};

class Port {
public:
    void open(uint32_t workers, uint32_t mask, Slot* slots, uint32_t* credit)
    {
        mask_ = mask;
        slots_ = slots;
        credit_ = credit;
        lanes_.resize(workers);
    }

    uint32_t capacity() const { return mask_ + 1; }

    // The four below need the lock.

    bool room(uint32_t w, uint32_t n)
    {
        Lane& lane = lanes_[w];
        if (lane.tail + n - lane.credit <= capacity()) {
            return true;
        }
        // Acquire: partner of the worker's release of its credit.
        lane.credit = load<Scope::system, Order::acquire>(&credit_[w * credit_stride]);
        return lane.tail + n - lane.credit <= capacity();
    }

    void write(uint32_t w, const Header& h, const void* payload)
    {
        Lane& lane = lanes_[w];
        store_message<Scope::system>(slots_ + static_cast<size_t>(w) * capacity(), mask_, lane.tail, h,
                                     payload);
        lane.tail += slots_for(h.length);
    }

    // As write, for a length of at most 36 bytes known at compile time.
    template <uint32_t L>
    void write_short(uint32_t w, const Header& h, const void* payload)
    {
        Lane& lane = lanes_[w];
        store_short<Scope::system, L>(slots_ + static_cast<size_t>(w) * capacity() +
                                          (lane.tail & mask_),
                                      lane.tail, h, payload);
        ++lane.tail;
    }

    uint32_t tail(uint32_t w) const { return lanes_[w].tail; }

    SpinLock lock;

private:
    struct Lane {
        uint32_t tail = 0;
        uint32_t credit = 0;  // as last read
    };

    uint32_t mask_ = 0;
    Slot* slots_ = nullptr;
    uint32_t* credit_ = nullptr;
    std::vector<Lane> lanes_;
};

} // namespace denizen
