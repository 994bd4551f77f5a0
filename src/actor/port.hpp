// SPDX-License-Identifier: Apache-2.0
// The host's side of all host rings: SPSC rings, one data and one urgent per worker, whose producer
// is whoever holds the port's lock. Threads that send share the rings; a thread that waits for room
// does so without the lock, so a full host ring stalls only its own senders.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/wire/tickets.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
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

// One ring as its producer sees it.
struct HostRing {
    Slot* slots = nullptr;
    const uint32_t* credit = nullptr;
    PlaceOfOne place;
};

// The rings' producer side. Trivially copyable: a loop that sends works on a copy, whose words
// stay in registers. Everything here needs the port's lock.
class HostRings {
public:
    HostRings() = default;
    HostRings(uint32_t mask, HostRing* rings) : mask_(mask), rings_(rings) {}

    uint32_t capacity() const { return mask_ + 1; }
    uint32_t tail(size_t w) const { return rings_[w].place.tail; }

    // Whether ring w has room for n slots.
    bool room(size_t w, uint32_t n)
    {
        // Its acquire: partner of the worker's release of its credit.
        return rings_[w].place.room<Scope::system>(n, capacity(), rings_[w].credit);
    }

    void write(size_t w, const Header& h, const void* payload)
    {
        HostRing& ring = rings_[w];
        store_message<Scope::system>(ring.slots, mask_, ring.place.tail, h, payload);
        ring.place.tail += slots_for(h.length);
    }

    // As write, for a length of at most 36 bytes known at compile time.
    template <uint32_t L>
    void write_short(size_t w, const Header& h, const void* payload)
    {
        HostRing& ring = rings_[w];
        store_short<Scope::system, L>(ring.slots + (ring.place.tail & mask_), ring.place.tail, h,
                                      payload);
        ++ring.place.tail;
    }

private:
    uint32_t mask_ = 0;
    HostRing* rings_ = nullptr;
};

// The rings of one priority to the workers of all nodes, node by node.
struct Port {
    // Appends the rings of one node: [workers][mask + 1] slots, credits `credit_stride` apart.
    void add(uint32_t workers, uint32_t mask, Slot* slots, const uint32_t* credit)
    {
        for (size_t w = 0; w < workers; ++w) {
            table.push_back({slots + w * (mask + size_t{1}), credit + w * credit_stride, {}});
        }
        rings = {mask, table.data()};
    }

    // What has been sent on ring `i` and not been handled from ticket `head` on, slot by slot.
    template <class Use>
    void each_slot(size_t i, uint32_t head, Use&& use)
    {
        for (uint32_t t = head; t != table[i].place.tail; ++t) { // ends: the tail is not far
            use(table[i].slots[t & (rings.capacity() - 1)], t);
        }
    }

    SpinLock lock;
    std::atomic_flag long_topic; // a publication to one is being sent: the next waits for its end
    HostRings rings;
    std::vector<HostRing> table;
};

} // namespace denizen
