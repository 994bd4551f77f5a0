// SPDX-License-Identifier: Apache-2.0
// The path of a message: the ring that leads from a worker to an address, the nearest one there is.
// All messages of one pair of actors have the same one, hence they arrive in order; urgent ones
// have rings of their own.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/detail/near.hpp>

namespace denizen::detail {

// Where a message goes, found from its destination.
struct Path {
    RingKind kind;
    uint32_t index; // of target()
    Route route;
};

DENIZEN_HD inline Route near_route(const Shared& s, uint32_t id, cluster::Address b,
                                   uint32_t worker, uint32_t near)
{
    return worker == id                                  ? Route::worker
           : near - cluster::load(box::sm(b)) < s.per_sm ? Route::sm
                                                         : Route::cluster;
}

DENIZEN_HD inline Path path_to(const Shared& s, uint32_t id, Address to, Priority priority)
{
    const RingKind to_peer = priority == Priority::urgent ? RingKind::peer_urgent : RingKind::peer;
    if (to.is_host()) {
        if (to.is_far()) {
            return {to_peer, s.node * max_workers + s.far.host_of(to), Route::peer};
        }
        return {RingKind::egress, 0, Route::to_host};
    }
    const uint32_t w = to.worker();
    if (to.node() != s.node) {
        return {to_peer, to.node() * max_workers + w, Route::peer};
    }
    if (priority == Priority::urgent) {
        return {RingKind::urgent, w, Route::gpu};
    }
    const cluster::Address b = own_box(s, id);
    const uint32_t near = (to.value >> 18) - cluster::load(box::first(b));
    if (near < cluster::load(box::rings(b))) {
        return {RingKind::near, near, near_route(s, id, b, w, near)};
    }
    return {RingKind::inbox, w, Route::gpu};
}

DENIZEN_HD inline bool exists(const Shared& s, Address to)
{
    if (to.is_host()) {
        return !to.is_far() || s.far.host_of(to) < s.far.hosts;
    }
    return to.node() < s.nodes && to.worker() < s.workers;
}

// Whether a message there is sent, and no dead letter at once.
DENIZEN_HD inline bool reachable(const Shared& s, Address to)
{
    return to.is_reply_cell() ? to.cell() < s.cell_count : exists(s, to);
}

} // namespace denizen::detail
