// SPDX-License-Identifier: Apache-2.0
// Where a coroutine waits: it is suspended until somebody notifies it, and no thread waits with it.
// One word, read and changed in one step by whoever notifies and by whoever is about to suspend:
//
//   notifier                               coroutine
//   publish; old = word | notified         nothing there; word: 0 -> suspended, or else look again
//   old == suspended -> schedule it        (scheduled) word = 0; look; nothing -> as above
//
// The two changes of the word have an order. If the notifier's comes first, the coroutine finds the
// word changed, and by its acquire what was published; if it comes second it finds a suspended
// coroutine. Only the first notifier after a suspension does, so it is scheduled once. A notifier
// pays one read-modify-write of a word that the other side changes only when it has nothing to do.
#pragma once

#include <denizen/flow/detail/unchecked_ring.hpp>

#include <atomic>
#include <coroutine>

namespace denizen::flow {

class Scheduler;

class alignas(line) Parking {
public:
    Parking() = default;
    Parking(const Parking&) = delete;
    Parking& operator=(const Parking&) = delete;

    // After publishing, from any thread. Hazard: the parking must outlive the call.
    void notify()
    {
        // Acquire: the coroutine's stores before it suspended. Release: what was published.
        if (word_.fetch_or(notified, std::memory_order_acq_rel) == suspended) {
            schedule();
        }
    }

private:
    friend class Scheduler;
    template <class Settled>
    friend class Until;

    static constexpr uint32_t notified = 1;
    static constexpr uint32_t suspended = 2;

    void schedule();

    // By the coroutine, or by the worker that is about to resume it. False: go on. After true it
    // may be running elsewhere, or be gone.
    bool suspend()
    {
        for (;;) { // ends: settled, or nobody has notified since the last look
            uint32_t none = 0;
            if (word_.compare_exchange_strong(none, suspended, std::memory_order_acq_rel,
                                              std::memory_order_acquire)) {
                return true;
            }
            word_.exchange(0, std::memory_order_acq_rel); // partner: notify()
            if (settled_(argument_)) {
                return false;
            }
        }
    }
    // By the worker that has taken it from a queue.
    void resume()
    {
        word_.exchange(0, std::memory_order_acq_rel); // partner: notify()
        if (settled_(argument_) || !suspend()) {
            handle_.resume();
        }
    }

    std::atomic<uint32_t> word_{0};
    uint32_t home_ = 0; // the worker that ran it last
    Scheduler* scheduler_ = nullptr;
    std::coroutine_handle<> handle_;
    bool (*settled_)(void*) = nullptr; // whether it may go on; called by one thread at a time
    void* argument_ = nullptr;
};

// What a thread or a coroutine that runs blocks sleeps on, rung by all who send to them.
struct Doorbell {
    Bell bell;
    Parking parking;
    bool pooled = false; // a coroutine's

    void ring()
    {
        if (pooled) {
            parking.notify();
        } else {
            bell.ring();
        }
    }
};

} // namespace denizen::flow
