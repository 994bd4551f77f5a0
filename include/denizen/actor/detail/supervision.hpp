// SPDX-License-Identifier: Apache-2.0
// What a supervisor decides when one of its children fails, and how its children are told. Called
// by one lane of the supervisor's worker; restart_at_once() by the lane whose actor has failed.
#pragma once

#include <denizen/actor/detail/orders.hpp>

namespace denizen {

namespace detail {

DENIZEN_COLD inline void open_supervisor(const Shared& s, uint32_t id, const SuperviseRequest& r)
{
    auto* sup = new (s.heap + r.offset) Supervisor();
    sup->strategy = r.strategy;
    sup->children = r.children;
    sup->max_restarts = r.max_restarts;
    sup->window_ns = r.window_ns;
    open_book(s, id, r.local, supervisor_type, sup, Life::running);
    store<Scope::gpu>(&s.status[id].actors, r.local + 1);
}

DENIZEN_COLD inline void adopt(const Shared& s, uint32_t id, const AdoptRequest& r)
{
    Child* children = static_cast<Supervisor*>(entry_of(s, id, r.local).state)->child();
    const uint32_t first = r.rank_and_count & 0xfffffff;
    for (uint32_t i = 0; i < r.rank_and_count >> 28; ++i) {
        children[first + i] = {r.child[i], 0};
    }
}

// What would come of the failure of an actor that runs, without the chores in between, where its
// supervisor is on this worker and does no more than restart it, and nobody is told: the lanes
// whose actors have failed do this side by side. A budget is their supervisor's, and not a lane's
// to spend: only an unlimited one will do. False, and nothing is done, if it is not as simple as
// that. What lies together is read side by side and judged once, by &: the rest of the batch would
// wait for one word after the other.
template <class P>
DENIZEN_COLD bool restart_at_once(const Shared& s, uint32_t id, uint32_t local,
                                  const ActorEntry& entry, uint32_t code)
{
    ActorRecord& record = record_of(s, id, local);
    const ActorRecord was = record;
    const Address above{was.supervisor};
    const bool beside = (above.node() == s.node) & (above.worker() == id);
    if (!((was.supervisor != nobody) & beside & (life_of(was) == Life::running) &
          restarts_quietly(s, id, local, entry, was))) {
        return false;
    }
    const ActorEntry of_supervisor = entry_of(s, id, above.local());
    if (!((of_supervisor.type() == supervisor_type) & of_supervisor.running())) {
        return false;
    }
    auto& sup = *static_cast<Supervisor*>(of_supervisor.state);
    if (!((sup.strategy == static_cast<uint32_t>(Strategy::one_for_one)) &
          (sup.max_restarts == unlimited_restarts) & (sup.listed == 0) &
          (was.rank < sup.children))) {
        return false;
    }
    Child& child = sup.child()[was.rank]; // no other lane's
    const uint32_t epoch = child.epoch + 1;
    if (was.epoch + 1 != epoch) {
        return false;
    }
    child.epoch = record.epoch = epoch;
    record.failure = code;
    record.incarnation = was.incarnation + 1;
    renew<P>(s, id, entry);
    return true;
}

// One order of a supervisor to one of its children.
template <class P>
DENIZEN_COLD void order_child(const Shared& s, uint32_t id, uint32_t local, uint32_t rank,
                              SystemOp op)
{
    const ActorEntry& entry = entry_of(s, id, local);
    Child& child = static_cast<Supervisor*>(entry.state)->child()[rank];
    const Address to{child.address};
    const LifeRequest request{to.local(), 0, rank, ++child.epoch};
    if (to.node() == s.node && to.worker() == id) {
        bool later = false;
        apply<P>(s, id, op, entry.self, request, later);
    } else {
        send_system(s, id, op, to, entry.self, request);
    }
}

// A supervisor that cannot go on: its own supervisor decides, or else its children stop.
template <class P>
DENIZEN_COLD void escalate(const Shared& s, uint32_t id, uint32_t local, uint32_t child,
                           uint32_t code)
{
    const ActorRecord& record = record_of(s, id, local);
    const bool above = record.supervisor != nobody;
    begin_orders(s, id, local, above ? SystemOp::suspend : SystemOp::stop, 0);
    if (!above) {
        report_error(s, {static_cast<uint32_t>(Errc::failed), id, child, supervisor_gave_up, code});
    }
    fail(s, id, local, code);
}

// A child of supervisor `local` has failed.
template <class P>
DENIZEN_COLD void child_failed(const Shared& s, uint32_t id, uint32_t local, uint32_t rank,
                               uint32_t code, uint32_t epoch)
{
    const ActorEntry& entry = entry_of(s, id, local);
    if (entry.type() != supervisor_type || life_of(record_of(s, id, local)) != Life::running) {
        return; // it stops, or is suspended, and its children with it
    }
    auto& sup = *static_cast<Supervisor*>(entry.state);
    if (rank >= sup.children || sup.child()[rank].epoch != epoch) {
        return; // late: it has had an order since
    }
    if (sup.listed != 0 && sup.order == static_cast<uint32_t>(SystemOp::restart) &&
        sup.next <= rank && rank < sup.end) {
        return; // it is about to have one
    }
    const auto strategy = static_cast<Strategy>(sup.strategy);
    switch (strategy) {
    case Strategy::resume: order_child<P>(s, id, local, rank, SystemOp::resume); return;
    case Strategy::stop: order_child<P>(s, id, local, rank, SystemOp::stop); return;
    case Strategy::one_for_one:
    case Strategy::one_for_all:
    case Strategy::rest_for_one:
        if (!spend(sup, now_ns())) {
            break;
        }
        if (strategy == Strategy::one_for_one) {
            order_child<P>(s, id, local, rank, SystemOp::restart);
        } else {
            begin_orders(s, id, local, SystemOp::restart,
                         strategy == Strategy::one_for_all ? 0 : rank);
        }
        return;
    case Strategy::escalate: break;
    }
    escalate<P>(s, id, local, sup.child()[rank].address, code);
}

} // namespace detail

} // namespace denizen
