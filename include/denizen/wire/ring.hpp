// SPDX-License-Identifier: Apache-2.0
// What the three rings share: the words beside the slots, the ring's state, and the view through
// which an end on either side reaches them.
//
// A ring is bounded and never silent. The slots carry the messages and their arrival (slot.hpp);
// beside them lie only
//   tail    the next free ticket, where several producers draw from it
//   credit  how far the consumer has come, stored in batches; ticket t may be written once
//           t - credit < capacity
//   state   open, closed, or a side known to be dead
// each on its own line. Where the words lie (host, device, CPU-mapped device memory) is the
// owner's choice; the ends only hold pointers.
#pragma once

#include <denizen/base/errc.hpp>
#include <denizen/wire/slot.hpp>

namespace denizen {

enum class RingState : uint32_t { open = 0, closed, producer_dead, consumer_dead };

struct RingWords {
    alignas(line) uint32_t tail = 0;
    alignas(line) uint32_t head = 0; // MPMC only: the next ticket to consume
    alignas(line) uint32_t credit = 0;
    alignas(line) uint32_t state = 0;
    alignas(line) uint32_t bell = 0; // futex word of a sleeping consumer
    uint32_t sleeping = 0;           // how many sleep on it: see wait.hpp
};

// Trivially copyable; both sides build their ends from it.
struct RingView {
    Slot* slots = nullptr;
    uint32_t mask = 0;
    uint32_t start = 0; // first ticket
    RingWords* words = nullptr;

    DENIZEN_HD uint32_t capacity() const { return mask + 1; }
    DENIZEN_HD RingState state() const
    {
        return static_cast<RingState>(load<Scope::system>(&words->state));
    }
};

// One half of the ring at the most, so that a message always finds room in a drained ring and a
// second can be written while the first is read.
DENIZEN_HD inline bool fits(uint32_t capacity, uint32_t length)
{
    return length <= max_length &&
           (capacity == 2 ? slots_for(length) <= 2 : slots_for(length) <= capacity / 2);
}

namespace detail {

// What a producer is told before it looks for room.
DENIZEN_HD inline Errc refuse_send(const RingView& ring, const Header& h)
{
    if (h.type > max_type || h.flags > max_flags) {
        return Errc::wrong_type;
    }
    if (!fits(ring.capacity(), h.length)) {
        return Errc::oversize;
    }
    switch (ring.state()) {
    case RingState::closed: return Errc::closed;
    case RingState::consumer_dead: return Errc::peer_dead;
    default: return Errc::ok;
    }
}

// What a consumer is told when it found nothing. The state must have been read before the ring was
// found empty: what was sent before the close is then delivered first. `drawn()`: some producer
// holds a ticket whose message is on its way.
template <class Drawn>
DENIZEN_HD inline Errc nothing_left(RingState before, Drawn&& drawn)
{
    switch (before) {
    case RingState::closed: return drawn() ? Errc::empty : Errc::closed;
    case RingState::producer_dead: return Errc::peer_dead;
    default: return Errc::empty;
    }
}

} // namespace detail

} // namespace denizen
