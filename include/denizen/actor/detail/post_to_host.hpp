// SPDX-License-Identifier: Apache-2.0
// The short ways of a short message to a host: into the egress ring of this one, from a GPU, and
// into the node's ring for another one of the cluster. All else is post_any()'s, which writes the
// same rings.
#pragma once

#include <denizen/actor/detail/draw.hpp>
#include <denizen/actor/detail/outgoing.hpp>

namespace denizen::detail {

DENIZEN_HD inline bool is_of_another_host(const Shared& s, Address to)
{
    const uint32_t host = s.far.host_of(to);
    return to.is_far() && host < s.far.hosts && host != s.far.host;
}

#if DENIZEN_ON_DEVICE

// `words`: nine. False: nothing was sent.
DENIZEN_HD inline bool post_to_host(const Shared& s, uint32_t id, const Header& h,
                                    const uint32_t* words)
{
    const Address to{h.destination};
    const cluster::Address b = own_box(s, id);
    const bool here = to == host;
    if ((!here && !is_of_another_host(s, to)) || stamps_wanted(b) != Stamps::none) {
        return false;
    }
    // As path_to() has it; of two kinds, so that target() and draw() are no more than these.
    Path path{RingKind::egress, 0, Route::to_host};
    Target t;
    if (here) {
        t = target(s, id, RingKind::egress, 0);
    } else {
        path = {RingKind::peer, s.node * max_workers + s.far.host_of(to), Route::peer};
        t = target(s, id, RingKind::peer, path.index);
    }
    const Drawn drawn = draw(s, id, path, t, 1);
    const Slot content = slot_of_words(drawn.ticket + 1, h, words);
    if (drawn.free == 0) {
        park(s, id, content, path.kind, path.index, drawn.ticket, h);
    } else {
        Slot* const slot = t.slots + (drawn.ticket & t.mask);
        for (uint32_t k = 0; k < 4; ++k) {
            store_packet<Scope::system>(&slot->packet[k], content.packet[k]);
        }
    }
    cluster::add(box::sent(b, path.route), 1);
    return true;
}

#elif DENIZEN_HOSTED

// False: nothing was sent. `b`: the worker's box, whose short ways are open.
template <uint32_t L>
inline bool post_to_host(const Shared& s, cluster::Address b, const Header& h, const void* payload)
{
    const Address to{h.destination};
    if (!is_of_another_host(s, to)) {
        return false;
    }
    const uint32_t peer = s.far.host_of(to);
    const PeerLink& link = s.peer[s.node];
    uint32_t* const tail = link.tails + size_t{peer} * credit_stride;
    // Acquire: partner of the release in FarDoor::give_credit().
    const uint32_t credit =
        load<Scope::system, Order::acquire>(link.credits + size_t{peer} * credit_stride);
    uint32_t ticket = load<Scope::gpu>(tail);
    // A ticket is drawn only with its room: another worker may have drawn it meanwhile.
    if (ticket - credit > s.inbox_mask || !compare_exchange<Scope::gpu>(tail, ticket, ticket + 1)) {
        return false;
    }
    Slot* const slots = link.inboxes + size_t{peer} * (s.inbox_mask + 1);
    store_short<Scope::system, L>(slots + (ticket & s.inbox_mask), ticket, h, payload);
    cluster::add(box::sent(b, Route::peer), 1);
    ring_bell(&link.bells[peer].bell, &link.bells[peer].sleeping);
    return true;
}

#endif

} // namespace denizen::detail
