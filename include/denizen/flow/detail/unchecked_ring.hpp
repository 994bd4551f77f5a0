// SPDX-License-Identifier: Apache-2.0
// One sender, one receiver, and a sender that never looks whether there is room: in a circuit so
// many items circulate and no more, so a ring with a slot for each cannot overfill. Nothing flows
// back from receiver to sender, and a slot carries its own arrival, so an item costs the transfer
// of its own cache line and of no other.
//
// Hazard: with more items in circulation than slots, unread ones are overwritten. Whoever makes a
// ring must know the number: flow::Channel (channel.hpp) is told, a Flowgraph counts.
//
// Why a slot may be reused without asking: ticket t takes the slot of t - slots. These are
// slots + 1 sends of at most `slots` items, so one item was sent twice among them; it has been
// received in between, and with it, in order, everything sent before. The receiver's reads of the
// slot come before that item's way back to the sender, which acquires and releases at every step.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/wire/wait.hpp>

#include <bit>
#include <memory>
#include <type_traits>

namespace denizen::flow {

template <class T>
class UncheckedRing {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    // `items`: at most so many are ever in circulation.
    explicit UncheckedRing(uint32_t items) : mask_(std::bit_ceil(items < 2 ? 2 : items) - 1)
    {
        slots_ = std::make_unique<Slot[]>(mask_ + 1);
    }

    // By the one sender.
    void send(const T& item)
    {
        Slot& slot = slots_[tail_ & mask_];
        slot.item = item;
        store<Scope::system, Order::release>(&slot.arrived, ++tail_); // partner: ready()
    }
    // Nothing is sent after this.
    void close() { store<Scope::system, Order::release>(&closed_, 1u); }

    // By the one receiver.
    bool ready() const
    {
        return load<Scope::system, Order::acquire>(&slots_[head_ & mask_].arrived) == head_ + 1;
    }
    bool try_receive(T& item)
    {
        if (!ready()) {
            return false;
        }
        item = slots_[head_++ & mask_].item;
        return true;
    }
    // Look here first and at ready() second: then what was sent before the close is not missed.
    bool closed() const { return load<Scope::system, Order::acquire>(&closed_) != 0; }

private:
    // Tickets start at 1, a slot before its first use says 0: no ticket of the first lap.
    struct Slot {
        T item{};
        uint32_t arrived = 0;
    };

    std::unique_ptr<Slot[]> slots_;
    uint32_t mask_;
    alignas(line) uint32_t tail_ = 0; // the sender's own
    alignas(line) uint32_t head_ = 0; // the receiver's own
    alignas(line) uint32_t closed_ = 0;
};

// What a receiver sleeps on, whatever it waits for: one per thread, rung by all who send to it.
struct alignas(line) Bell {
    uint32_t rung = 0;
    uint32_t sleeping = 0;

    // After sending. One load, unless the receiver sleeps.
    void ring() { ring_bell(&rung, &sleeping); }

    // Until rung, or `ns` have passed, unless `anything()` says that there is work.
    template <class Anything>
    void sleep(uint64_t ns, Anything&& anything)
    {
        sleep_on_bell(&rung, &sleeping, ns, anything);
    }
};

} // namespace denizen::flow
