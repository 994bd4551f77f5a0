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

// The lanes' producer side. Trivially copyable: a loop that sends works on a copy, whose pointers
// stay in registers. Everything here needs the port's lock.
class Lanes {
public:
    Lanes() = default;
    Lanes(uint32_t mask, Slot* slots, const uint32_t* credit, uint64_t* ends)
        : mask_(mask), slots_(slots), credit_(credit), ends_(ends)
    {
    }

    uint32_t capacity() const { return mask_ + 1; }
    uint32_t tail(uint32_t w) const { return static_cast<uint32_t>(ends_[w]); }

    // Whether lane w has room for n slots.
    bool room(uint32_t w, uint32_t n)
    {
        const uint32_t t = tail(w);
        if (t + n - static_cast<uint32_t>(ends_[w] >> 32) <= capacity()) {
            return true;
        }
        // Acquire: partner of the worker's release of its credit.
        const uint32_t credit = load<Scope::system, Order::acquire>(&credit_[w * credit_stride]);
        ends_[w] = t | static_cast<uint64_t>(credit) << 32;
        return t + n - credit <= capacity();
    }

    void write(uint32_t w, const Header& h, const void* payload)
    {
        store_message<Scope::system>(slots_ + static_cast<size_t>(w) * capacity(), mask_, tail(w),
                                     h, payload);
        advance(w, slots_for(h.length));
    }

    // As write, for a length of at most 36 bytes known at compile time.
    template <uint32_t L>
    void write_short(uint32_t w, const Header& h, const void* payload)
    {
        const uint32_t t = tail(w);
        store_short<Scope::system, L>(slots_ + static_cast<size_t>(w) * capacity() + (t & mask_), t,
                                      h, payload);
        advance(w, 1);
    }

private:
    void advance(uint32_t w, uint32_t n)
    {
        ends_[w] = (ends_[w] & ~uint64_t{0xffffffff}) | (tail(w) + n);
    }

    uint32_t mask_ = 0;
    Slot* slots_ = nullptr;
    const uint32_t* credit_ = nullptr;
    uint64_t* ends_ = nullptr; // per lane: tail | credit as last read << 32
};

struct Port {
    void open(uint32_t workers, uint32_t mask, Slot* slots, const uint32_t* credit)
    {
        ends.assign(workers, 0);
        lanes = {mask, slots, credit, ends.data()};
    }

    SpinLock lock;
    Lanes lanes;
    std::vector<uint64_t> ends;
};

} // namespace denizen
