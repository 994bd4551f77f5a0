// SPDX-License-Identifier: Apache-2.0
// The runtime's own messages (SystemOp), as a worker serves them: new actors, with all lanes; all
// others by lane 0, each where its kind is looked after: topics.hpp,
// supervision.hpp, move.hpp, and orders.hpp for the life of one actor.
#pragma once

#include <denizen/actor/detail/move.hpp>
#include <denizen/actor/detail/supervision.hpp>

namespace denizen {

namespace detail {

// What became of a request.
struct Served {
    LifeReport report{};
    bool later = false; // another worker answers, or this one when it is done
    bool waits = false; // there is no room for it: it stays in its ring

    DENIZEN_HD void fail(Errc code) { report.error = static_cast<uint32_t>(code); }
    DENIZEN_HD bool done() const { return report.error == static_cast<uint32_t>(Errc::ok); }
};

// With all lanes.
template <class P>
DENIZEN_HD inline void make_actors(const Shared& s, uint32_t id, const SpawnRequest& r)
{
    for (uint32_t i = lanes::id(); i < r.count; i += lanes::size) {
        void* state = s.heap + r.offset + static_cast<uint64_t>(i) * r.stride;
        P::construct(r.type, state);
        open_book(s, id, r.first + i, r.type, state, static_cast<Life>(r.life));
    }
    if (lanes::id() == 0) {
        store<Scope::gpu>(&s.status[id].actors, r.first + r.count);
    }
}

DENIZEN_HD inline bool is_move_op(SystemOp op)
{
    return op == SystemOp::move_out || op == SystemOp::depart || op == SystemOp::move_in ||
           op == SystemOp::settle || op == SystemOp::vacate;
}

// A step of a move: see move.hpp.
template <class P>
DENIZEN_HD inline void serve_move(const Shared& s, uint32_t id, SystemOp op, uint32_t sender,
                                  const MoveRequest& r, Served& served)
{
    served.report = report_of(record_of(s, id, r.local), Errc::ok);
    Errc done = Errc::ok;
    switch (op) {
    case SystemOp::move_out: done = move_out<P>(s, id, sender, r, served.later); break;
    case SystemOp::depart: done = depart<P>(s, id, sender, r, served.later); break;
    case SystemOp::move_in: move_in<P>(s, id, sender, r, served.later); break;
    case SystemOp::settle: settle(s, id, r); break;
    default: vacate(s, id, r.local); break;
    }
    served.fail(done);
}

// An order to an actor, or an echo that one asks for.
template <class P>
DENIZEN_HD inline void serve_order(const Shared& s, uint32_t id, const Header& h,
                                   const LifeRequest& r, Served& served)
{
    const auto op = static_cast<SystemOp>(h.type);
    if (op == SystemOp::restart && restart_quietly<P>(s, id, h.sender, r)) {
        // and that was all
    } else if (op == SystemOp::failure) {
        child_failed<P>(s, id, r.local, r.rank, r.value, r.epoch);
    } else if (op == SystemOp::bounce) {
        send_system(s, id, SystemOp::drained, Address{r.rank}, h.sender, r);
        served.later = true; // the drain's end is the answer
    } else if (op == SystemOp::pass) {
        post_raw(s, id,
                 {r.rank, h.sender, static_cast<uint32_t>(SystemOp::passed), flag_system, sizeof r},
                 &r, Priority::data);
        served.later = true; // the last echo is the answer
    } else if (op == SystemOp::passed) {
        served.later = !passed(s, id, r);
    } else if (op == SystemOp::tell) {
        told<P>(s, id, r);
    } else if (pass_on(s, id, h, r, served.waits)) {
        served.later = true; // from where it is
    } else {
        served.report.life = static_cast<uint32_t>(Life::stopped);
        if (r.local < s.actors_per_worker) {
            served.report = report_of(record_of(s, id, r.local), Errc::ok);
        }
        served.fail(apply<P>(s, id, op, h.sender, r, served.later));
        if (op == SystemOp::look && r.local < s.actors_per_worker) {
            served.report.stashed = record_of(s, id, r.local).stashed;
        }
    }
}

// Answers into the reply cell that the host waits on, if it was the host who sent it. False if the
// message has to wait where it is.
template <class P>
DENIZEN_COLD bool run_system(const Shared& s, uint32_t id, const Header& h, const uint32_t* words)
{
    const auto op = static_cast<SystemOp>(h.type);
    Served served;
    if (op == SystemOp::spawn) {
        make_actors<P>(s, id, from_words<SpawnRequest>(words));
    } else if (is_topic_op(op)) {
        served.fail(change_topics(s, id, op, h.sender, words, served.later));
    } else if (lanes::id() == 0 && op != SystemOp::none) {
        if (op == SystemOp::supervise) {
            open_supervisor(s, id, from_words<SuperviseRequest>(words));
        } else if (op == SystemOp::adopt) {
            adopt(s, id, from_words<AdoptRequest>(words));
        } else if (is_move_op(op)) {
            serve_move<P>(s, id, op, h.sender, from_words<MoveRequest>(words), served);
        } else {
            serve_order<P>(s, id, h, from_words<LifeRequest>(words), served);
        }
    }
    lanes::rejoin();
    const bool waits = lanes::ballot(served.waits) != 0;
    if (lanes::id() == 0 && op != SystemOp::none && !(served.later && served.done())) {
        if (op == SystemOp::look || !served.done()) {
            answer(s, h.sender, op, served.report);
        } else {
            acknowledge(s, h.sender, op);
        }
    }
    return !waits;
}

} // namespace detail

} // namespace denizen
