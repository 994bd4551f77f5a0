// SPDX-License-Identifier: Apache-2.0
// The worker: a warp on the GPU, a thread on the CPU, from one text. It owns its actors, so their
// state needs no lock. A round takes messages from one of its rings, nearest first, runs their
// handlers, and writes what other rings had no room for.
//
// On a warp each lane takes one message: 32 different actors are served side by side. Messages to
// the same actor are served in ring order, one after the other. Messages that need the whole warp
// (longer than a slot, to a whole-warp actor, to all actors of a type, or the runtime's own) are
// taken one at a time, out of line.
//
// This file has the round and what a worker tells the monitor. worker_choice.hpp has which ring a
// round serves, worker_service.hpp how what was taken there is handled. kernel.hpp includes both.
#pragma once

#include <denizen/actor/detail/chores.hpp>
#include <denizen/actor/detail/near.hpp>
#include <denizen/actor/detail/sources.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/tasks.hpp>
#include <denizen/device/detail/resident.hpp>

namespace denizen {

// What a worker tells of itself: what changed while it had nothing to do; all of it, about to pause
// or to leave the processor; or all of it to its successor, when nobody else looks any more.
enum class Told : uint32_t { on_the_way, all, to_successor };

template <class P>
class Worker {
public:
    DENIZEN_HD Worker(const Shared& shared, uint32_t id)
        : s_(shared), id_(id), status_(shared.status[id]),
          actors_(shared.actors + static_cast<uint64_t>(id) * shared.actors_per_worker),
          handled_(load<Scope::gpu>(&status_.handled)), turn_(load<Scope::gpu>(&status_.turn)),
          sources_(shared, id), near_((detail::await_box(), shared), id),
          marks_(detail::marks(shared, id, lanes::id()))
    {
        keep_in_register(actors_);
        keep_in_register(marks_.running);
        keep_in_register(marks_.handled);
        sources_.open(shared, detail::own_box(shared, id));
        look_for_chores();
        observer_.go_on(s_, id_);
        if (observer_.tracing()) {
            near_.stamp_sends(detail::Stamps::all);
        }
    }

    // One round; true if a message was handled or a parked one written. Messages that come one at a
    // time are handled in a row, and the worker does nothing else between two of them. So a message
    // waits no longer than one handler, or one round that finds nothing, takes: after so many
    // looks.
    DENIZEN_HD bool round(uint32_t looks)
    {
        ++rounds_;
        blocked_ = row_ended_ = false;
        const uint64_t before = handled_;
        Arrivals arrivals;
        Batch batch;
        uint32_t from = nowhere;
        // Not where messages can be urgent: these need a look before every other one.
        const bool in_a_row = !P::has_urgent && !outbox_used_ && !chores_ && !hurried_;
        uint32_t left = in_a_row ? max_row : 0;
        Taken taken = row(looks, left, arrivals, from, batch);
        const uint32_t in_row = in_a_row ? max_row - left : 0;
        row_ended_ = in_row == max_row;
        local_rounds_ += in_row / (max_row / max_local_rounds);
        far_waited_ += in_row / (max_row / max_wait);
        if (taken == Taken::nothing) {
            uint32_t ready = arrivals.near;
            ActorEntry entry;
            from = pick(ready, arrivals);
            if (from != nowhere) {
                taken = take(from, ready, batch, entry);
            } else if (handled_ == before && !outbox_used_ && !chores_) {
                worked_ = false;
                return false;
            }
            if (taken == Taken::side_by_side) {
                side_by_side(batch, entry);
                handled_ += batch.n;
                worked_ = true;
                advance(from, batch);
            }
        }
        if (taken == Taken::for_all) {
            with_all(from, lanes::first(lanes::ballot(batch.mine)), batch);
        }
        bool worked = handled_ != before;
        end_turn();
        batches_ += worked ? 1 : 0;
        if (worked && lanes::id() == 0) {
            store<Scope::gpu>(&status_.handled, handled_);
        }
        dirty_ = true;
        if (outbox_used_ || chores_ || near_.parked_something()) {
            worked = do_what_is_rare(worked);
        }
        worked_ = worked;
        return worked || chores_;
    }

    // A batch of tasks, if any wait: between two rounds of messages there is one at most. None
    // while messages of this worker wait for room: it would be slow to make more. True if some were
    // run.
    DENIZEN_HD bool round_of_tasks()
    {
        if constexpr (P::has_tasks) {
            if (s_.pool == nullptr || outbox_used_ || !lanes::shuffle(detail::pool::waits(s_), 0)) {
                return false;
            }
            begin_turn();
            const uint32_t n = detail::run_tasks<P>(s_, id_);
            lanes::rejoin();
            end_turn();
            tasks_ += n;
            dirty_ = dirty_ || n != 0;
            outbox_used_ = near_.parked_something(); // the next round looks at what was parked
            return n != 0;
        } else {
            return false;
        }
    }

    // A look, every few rounds, at what changes rarely: Board::command.
    DENIZEN_HD uint32_t look()
    {
        const uint32_t command = load<Scope::gpu>(&s_.board->command);
        const uint32_t jammed = load<Scope::gpu>(&s_.board->jammed);
        const uint64_t due = load<Scope::block>(&s_.worker_states[id_].due);
        lanes::rejoin(); // after whatever handlers have done
        jammed_ = lanes::shuffle(jammed, 0);
        const bool traced = observer_.tracing();
        const bool observed = observer_.on();
        observer_.look(s_, id_, rounds_, batches_);
        rounds_ = batches_ = 0;
        if (observer_.on()) {
            tell_sent();
            near_.tell_tails(status_);
            observer_.tell_near(s_, id_, near_.handled());
        }
        const bool sample = observer_.on() && observer_.sample_due(s_, id_);
        if (sample || observer_.tracing() != traced || observer_.on() != observed) {
            near_.stamp_sends(observer_.tracing() ? detail::Stamps::all
                              : sample            ? detail::Stamps::next
                                                  : detail::Stamps::none);
        }
        const uint32_t told = lanes::shuffle(command, 0);
        // While a breath ends a round is one turn: the others wait for this worker at the gate.
        hurried_ = (told & ~command_bits) != 0;
        const bool due_now = due != detail::never && due <= now_ns();
        if (lanes::shuffle(due_now ? 1u : 0u, 0) != 0) {
            // Not in a pause, nor while a breath ends.
            const bool runs = told == static_cast<uint32_t>(Command::run);
            detail::fire<P>(s_, id_, runs, jammed_ != 0);
            lanes::rejoin();
            dirty_ = outbox_used_ = true; // the next round looks at what was parked
        }
        return told;
    }

    // How long a sleep may last, of at most `most` ns, before a timer is due.
    DENIZEN_HD uint64_t until_due(uint64_t most) const
    {
        const uint64_t due = load<Scope::block>(&s_.worker_states[id_].due);
        if (due == detail::never) {
            return most;
        }
        const uint64_t now = now_ns();
        return due <= now ? 0 : due - now < most ? due - now : most;
    }

    // The last round found a message that has to wait where it is: no bell will ring for it, and
    // there is no sleeping on it either.
    DENIZEN_HD bool blocked() const { return blocked_; }

    // The last round handled as many messages in a row as it may: a look is due.
    DENIZEN_HD bool row_ended() const { return row_ended_; }

    // Messages were parked when the last round ended.
    DENIZEN_HD bool waits_for_room() const { return outbox_used_; }

    // True if a message waits or is being written (the sleeping CPU worker's last look).
    DENIZEN_HD bool something_arrived()
    {
        if constexpr (P::has_tasks) {
            if (s_.pool != nullptr && detail::pool::waits(s_)) {
                return true;
            }
        }
        return near_.poll() != 0 || sources_.any_begun() || parked(s_, id_) != 0;
    }

    // The senders learn all the room there is, and the monitor how far we are.
    DENIZEN_HD void tell(Told what)
    {
        if (!dirty_ && what == Told::on_the_way) {
            return;
        }
        dirty_ = false;
        near_.give_all_credit();
        sources_.give_all_credit();
        near_.tell_tails(status_);
        tell_sent();
        // The tails before the heads: see Status.
#if DENIZEN_ON_DEVICE
        if (what != Told::to_successor) {
            __threadfence();
        }
#endif
        lanes::sync();
        near_.tell_heads(status_);
        sources_.tell(status_);
        if (P::has_tasks && lanes::id() == 0) {
            // Release on the host: partner of the monitor's acquire in check_quiet().
            store<Scope::gpu, detail::host_release>(&status_.tasks, tasks_);
        }
        if (what != Told::on_the_way) {
            near_.keep_heads();
        }
    }

    DENIZEN_HD void set_mode(Mode mode)
    {
        if (lanes::id() == 0) {
            if (mode == Mode::left) { // timers that are taken elsewhere count from here
                s_.worker_states[id_].left_ns = now_ns();
            }
            // Release on the host: partner of the monitor's acquire in scan().
            store<Scope::gpu, Order::release>(&status_.mode, static_cast<uint32_t>(mode));
        }
        lanes::sync();
    }

private:
    // Where a round takes its messages: a source, or one of these.
    static constexpr uint32_t nowhere = max_sources;
    static constexpr uint32_t local = max_sources + 1;
    static constexpr uint32_t near = max_sources + 2;

    // Whether there are messages that take all lanes besides the runtime's own.
    static constexpr bool takes_whole = P::has_long_messages || P::has_whole_actors;

    static constexpr uint32_t max_row = 64;          // messages that come one at a time
    static constexpr uint32_t max_local_rounds = 32; // before a look at the other rings
    static constexpr uint32_t max_wait = 16;         // rounds

    DENIZEN_HD void tell_sent()
    {
        const cluster::Address box = detail::own_box(s_, id_);
        for (uint32_t r = lanes::id(); r < routes; r += lanes::size) {
            const cluster::Address sent = detail::box::sent(box, static_cast<Route>(r));
            store<Scope::gpu>(&status_.sent[r],
                              load<Scope::gpu>(&status_.sent[r]) + cluster::load(sent));
            cluster::store_own(sent, 0);
        }
    }

    // Which rings have messages: near rings (bit i) and, if it has looked there, sources (bit g).
    struct Arrivals {
        uint32_t near = 0;
        uint32_t far = 0;
        bool parked = false; // by a handler, since do_what_is_rare()
        bool looked_far = false;
    };

    DENIZEN_HD Arrivals look_around(uint32_t looks);

    // What was taken from a ring: messages that a lane each can handle, or the first one, which
    // needs all lanes and which one of them has in `batch`. `stuck`: that one has to wait there.
    enum class Taken { nothing, side_by_side, for_all, stuck };

    // Handles messages that come one at a time, as long as each can be handled without further ado:
    // `left` counts them down to 0. Then `arrivals` is what a last look has found. Taken::for_all:
    // `from` and `batch` are a message that needs all lanes.
    DENIZEN_HD Taken row(uint32_t looks, uint32_t& left, Arrivals& arrivals, uint32_t& from,
                         Batch& batch);

    // Whether the first slot of near ring `g` is there whole.
    DENIZEN_HD bool has_come(uint32_t g) const;

    // The one message that there is, in the lane of its ring; false if it has to be taken another
    // way. `next`: whether what its handler sends here may be handed over. Sends go the short ways
    // then, and nothing else is in the ring to itself.
    DENIZEN_HD bool take_one(const Arrivals& arrivals, uint32_t left, Batch& batch,
                             detail::Handover& next);

    // What this round serves. `ready`: of the near rings or of the sources.
    DENIZEN_HD uint32_t pick(uint32_t& ready, Arrivals arrivals);

    // Urgent messages first. Then what is under way inside, so that it ends before new work is let
    // in from the host; but the host is never shut out for good: see also let_in().
    DENIZEN_HD uint32_t choose(uint32_t ready);

    // While messages are parked: whether one message of the host's may come in nevertheless.
    DENIZEN_HD bool let_in();

    // Takes what has arrived there: the first message of its ring, or as many as can be handled
    // side by side.
    DENIZEN_HD Taken take(uint32_t from, uint32_t ready, Batch& batch, ActorEntry& entry);

    // A message that needs all lanes, and is the first of its ring; it may have to wait there.
    // `leader`: the lane that has it.
    DENIZEN_HD void with_all(uint32_t from, uint32_t leader, const Batch& batch);

    // What was taken there has been handled.
    DENIZEN_HD void advance(uint32_t from, const Batch& batch)
    {
        if (from == near) {
            near_.advance_near(batch.mine ? 1 : 0);
        } else if (from == local) {
            near_.advance_local(batch.n);
        } else {
            sources_.advance(from, batch.n);
        }
    }

    // Whether this lane's message needs the whole warp; if not, `entry` is its actor's. Without a
    // branch: a lane that has no message looks up some actor in vain.
    DENIZEN_HD bool alone(const Header& h, ActorEntry& entry) const;

    // Each lane that has a message handles it. The words of the batch become those of the last one.
    DENIZEN_HD void side_by_side(Batch& batch, const ActorEntry& of);

    // Runs the handler of the one message of a row and, one after the other, of those that are
    // handed over. `words` and `of` become the last one's, whose outcome is returned; the others
    // came to a plain end. Called by one lane.
    DENIZEN_HD detail::Outcome run(Words& words, ActorEntry& of, detail::Handover& next,
                                   uint32_t left, uint32_t& handed);

    // What of a row's message did not come to a plain end, or was handed over.
    DENIZEN_HD void settle(const Batch& batch, const ActorEntry& of, const detail::Outcome& out,
                           const detail::Handover& next, uint32_t handed, uint32_t& left);

    // A handler came to another end than a plain one, or is observed.
    DENIZEN_HD void conclude(bool rest, const Words& words, const ActorEntry& of,
                             const detail::Outcome& out);

    // If an actor fails, those of its messages that come later in this batch have to wait: the
    // batch is cut to what there is room for.
    DENIZEN_HD void keep_room(Batch& batch) const;

    DENIZEN_HD void look_for_chores() { chores_ = detail::has_chores(s_, id_); }

    // Chores, and messages that are parked. `worked`: a message was handled in this round. True if
    // that, or if something was done.
    DENIZEN_HD bool do_what_is_rare(bool worked)
    {
        const uint32_t done =
            detail::do_what_is_rare<P>(s_, id_, turn_, worked, ++unflushed_, observer_.on());
        lanes::rejoin();
        turn_ += (done & detail::rare_turn) != 0 ? 2 : 0;
        chores_ = (done & detail::rare_chores) != 0;
        outbox_used_ = (done & detail::rare_parked) != 0;
        unflushed_ = (done & detail::rare_looked) != 0 ? 0 : unflushed_;
        return (done & detail::rare_worked) != 0;
    }

    DENIZEN_HD void begin_turn()
    {
        if ((turn_ & 1) == 0) {
            ++turn_;
            if (lanes::id() == 0) {
                store<Scope::gpu>(&status_.turn, turn_);
            }
            lanes::sync();
        }
    }

    DENIZEN_HD void end_turn()
    {
        if ((turn_ & 1) != 0) {
            ++turn_;
            if (lanes::id() == 0) {
                // Release on the host: partner of the acquire in Backend::read().
                store<Scope::gpu, detail::host_release>(&status_.turn, turn_);
            }
        }
    }

    const Shared& s_;
    uint32_t id_;
    Status& status_;
    ActorEntry* actors_;
    // In this order: what lies in global memory is on its way while the box is.
    uint64_t handled_;
    uint32_t turn_;
    Sources<!P::has_urgent> sources_;
    NearRings near_;
    detail::Marks marks_;
    // A worker begins with what is far and with the host: where the first message of a near ring
    // has to wait, all the rounds of a short breath would not be enough to come to them, and the
    // order to resume that it waits for comes from there.
    uint32_t local_rounds_ = max_local_rounds; // in a row
    uint32_t far_waited_ = max_wait;           // rounds in which near rings went first
    uint32_t host_waited_ = max_wait;          // rounds in which other rings went first
    uint32_t last_inside_ = source_node;
    Observer observer_;
    uint32_t rounds_ = 0;        // since the last look
    uint32_t batches_ = 0;       // of these, with a message handled
    uint32_t jammed_ = 0;        // workers with parked messages, as last read
    uint32_t looked_at_jam_ = 0; // see look_at_jam()
    bool worked_ = false;        // in the last round
    bool dirty_ = true;          // something was done since the monitor was told
    bool outbox_used_ = true;    // at the end of the last round
    uint32_t unflushed_ = 0;     // rounds since the last flush()
    uint32_t tasks_ = P::has_tasks ? load<Scope::gpu>(&status_.tasks) : 0; // run
    bool blocked_ = false;                                                 // see blocked()
    bool row_ended_ = false;                                               // see row_ended()
    bool chores_ = false;       // there is something to do besides messages
    bool hurried_ = false;      // a breath ends
    uint32_t waiting_near_ = 0; // near rings whose first message has to wait where it is
};

} // namespace denizen
