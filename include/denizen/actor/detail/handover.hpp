// SPDX-License-Identifier: Apache-2.0
// A message that a handler sends to its own worker while nothing else waits there is handled next.
// It draws its ticket of the worker's ring to itself, but its slot is not written: the message
// stays in the registers of the lane that has sent it, and the lane goes on with it.
//
// Why the order holds: nothing lies in front of it in the ring, and what the same handler sends
// there after it has later tickets. If it cannot be handled at once after all (its actor has failed
// meanwhile, or takes the whole warp), its slot is written late, and the ring delivers it. One lane
// runs a handler at that time, and no other touches the ring's tail.
#pragma once

#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/near.hpp>
#include <denizen/actor/detail/outbox.hpp>

namespace denizen::detail {

struct Handover {
    static constexpr uint32_t closed = ~0u;

    uint32_t here = closed; // node and worker whose message is taken; closed: none is
    uint32_t taken = 0;     // 1: one has been: `words`, with ticket `end` - 1
    // Set by who begins a row. Without values before: to write these is a tenth of a message's way.
    box::Ways ways;           // of the worker's box
    cluster::Address tail;    // of the worker's ring to itself,
    cluster::Address credit;  // where that says what it has handled,
    uint32_t end;             // and what both are while it is empty
    const ActorEntry* actors; // the worker's
    // Set where `taken` is.
    ActorEntry entry; // on its way while its sender ends
    Words words;

    // For a message of L bytes to `here`: true if it is taken. Then it is sent.
    template <uint32_t L>
    DENIZEN_HD bool take(const Shared& s, const Header& h, const void* payload)
    {
        const uint32_t place = Address{h.destination}.local();
        if (place >= s.actors_per_worker || cluster::load(tail) != end) {
            return false;
        }
        here = closed;
        taken = 1;
        entry = load_entry(&actors[place]);
        // All before this one has been handled. It is said now: else the ring would be full when a
        // row of messages has been handed over that is as long as the ring.
        cluster::store_own(credit, end);
        cluster::store_own(tail, ++end);
        const Packet first = encode(h, 0);
        for (uint32_t w = 0; w < 3; ++w) {
            words.word[w] = first.word[w];
        }
        const auto* bytes = static_cast<const unsigned char*>(payload);
        for (uint32_t k = 1; k < 4; ++k) {
            const Packet p = pack<L>(bytes, (k - 1) * packet_payload, 0);
            for (uint32_t w = 0; w < 3; ++w) {
                words.word[3 * k + w] = p.word[w];
            }
        }
        return true;
    }
};

// Writes the slot of a message that was handed over and is not handled at once.
DENIZEN_COLD inline void write_late(const Shared& s, uint32_t id, uint32_t ticket,
                                    const Words& words)
{
    Slot slot;
    for (uint32_t k = 0; k < 4; ++k) {
        slot.packet[k] = {{words.word[3 * k], words.word[3 * k + 1], words.word[3 * k + 2]},
                          ticket + 1};
    }
    write_slot(target(s, id, RingKind::near, id % s.near), ticket, slot);
}

} // namespace denizen::detail
