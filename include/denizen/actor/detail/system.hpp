// SPDX-License-Identifier: Apache-2.0
// The runtime's own messages from worker to worker, and the answers to those of the host.
#pragma once

#include <denizen/actor/detail/crossing.hpp>
#include <denizen/actor/detail/post.hpp>

namespace denizen {

// Tells the worker of `actor` to do something with it; called by one lane.
DENIZEN_COLD inline void send_system(const Shared& s, uint32_t id, SystemOp op, Address actor,
                                     uint32_t sender, const LifeRequest& request)
{
    // Of another host's actor: its link passes the order on (far.hpp).
    const bool elsewhere = actor.is_far() && crosses_hosts(op);
    if ((actor.is_host() && !elsewhere) || !detail::exists(s, actor)) {
        report_error(
            s, {static_cast<uint32_t>(Errc::no_actor), id, actor.value, misdirected_order, sender});
        return;
    }
    const Header h{actor.value, sender, static_cast<uint32_t>(op), flag_system, sizeof request};
    // A drain and its echo come after what was sent before; all others overtake it.
    const bool behind = op == SystemOp::drain || op == SystemOp::drained;
    post_raw(s, id, h, &request, behind ? Priority::data : Priority::urgent);
}

// Where the host waits for an answer; null if an actor has sent the request.
DENIZEN_HD inline Slot* cell_of(const Shared& s, Address to)
{
    return to.is_reply_cell() && to.cell() < s.cell_count
               ? s.cells + static_cast<uint64_t>(to.cell()) * s.cell_slots
               : nullptr;
}

// Tells the host that its request has been done, or one word besides, in one packet.
DENIZEN_HD inline void acknowledge(const Shared& s, uint32_t sender, SystemOp op, uint32_t word = 0)
{
    const Address to{sender};
    if (Slot* cell = cell_of(s, to); cell != nullptr) {
        const uint32_t words[2] = {word, 0};
        detail::store_compact(cell, to, static_cast<uint32_t>(op), flag_system, words, sizeof word);
    }
}

// Tells the host all there is to say.
DENIZEN_COLD inline void answer(const Shared& s, uint32_t sender, SystemOp op,
                                const LifeReport& report)
{
    if (cell_of(s, Address{sender}) != nullptr) {
        const Header h{sender, host.value, static_cast<uint32_t>(op), flag_system, sizeof report};
        const LifeReport told = report; // a copy: see from_words()
        uint32_t words[first_payload / 4] = {};
        copy_bytes(words, &told, sizeof told);
        detail::reply_to_cell(s, detail::outgoing(h, words), 1);
    }
}

} // namespace denizen
