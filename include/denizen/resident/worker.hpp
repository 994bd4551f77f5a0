// SPDX-License-Identifier: Apache-2.0
// The worker: a warp on the GPU, a thread on the CPU, from one text. It owns its actors, so their
// state needs no lock. A round takes messages from one of its rings, nearest first, runs their
// handlers, and writes what other rings had no room for.
//
// On a warp each lane takes one message: 32 different actors are served side by side. Messages to
// the same actor are served in ring order, one after the other. Messages that need the whole warp
// (longer than a slot, to a whole-warp actor, to all actors of a type, or the runtime's own) are
// taken one at a time, out of line.
#pragma once

#include <denizen/resident/handle.hpp>
#include <denizen/resident/near.hpp>

namespace denizen {

template <class P>
class Worker {
public:
    DENIZEN_HD Worker(const Shared& shared, uint32_t id)
        : s_(shared), id_(id), status_(shared.status[id]),
          actors_(shared.actors + static_cast<uint64_t>(id) * shared.actors_per_worker),
          near_(shared, id), sources_(shared, id)
    {
        handled_ = load<Scope::gpu>(&status_.handled);
    }

    // One round; true if a message was handled or a parked one written. The idle round is as short
    // as it can be: how long it takes is how late a message is seen.
    DENIZEN_HD bool round()
    {
        Batch batch;
        uint32_t near = near_.poll();
        // What the worker sends itself is served without a look at global memory, but not for ever.
        if ((near >> near_.own() & 1) != 0 && local_rounds_ < max_local_rounds) {
            ++local_rounds_;
            return served(serve_local(batch));
        }
        sources_.probe();
        if (near == 0) { // the probe takes as long as some of these
            for (uint32_t i = 0; i < near_polls && near == 0; ++i) {
                near = near_.poll();
            }
        }
        const bool look_far = far_waited_ >= max_wait; // near traffic must not shut the rest out
        if (near != 0 && !look_far) {
            ++far_waited_;
            if ((near >> near_.own() & 1) != 0 && local_rounds_ < max_local_rounds) {
                ++local_rounds_;
                return served(serve_local(batch));
            }
            local_rounds_ = 0;
            return served(serve_near(near & ~own_bit(), batch));
        }
        far_waited_ = 0;
        local_rounds_ = 0;
        // Only while there is work: all idle workers reading one word would slow everybody's reads.
        const uint32_t jammed = worked_ ? load<Scope::gpu>(&s_.board->jammed) : jammed_;
        const uint32_t ready = sources_.ready();
        if (ready == 0) {
            sources_.nothing_ready();
            if (near != 0) { // it was passed over for the far ones
                return served((near & own_bit()) != 0 ? serve_local(batch)
                                                      : serve_near(near, batch));
            }
            if (!outbox_used_) {
                worked_ = false;
                return false;
            }
        } else {
            jammed_ = lanes::shuffle(jammed, 0);
            const uint32_t g = choose(ready);
            if (g < max_sources) {
                return served(serve_source(g, ready, batch));
            }
        }
        return served(false);
    }

    // A look, every few rounds, at what changes rarely.
    DENIZEN_HD Command look()
    {
        const uint32_t command = load<Scope::gpu>(&s_.board->command);
        const uint32_t jammed = load<Scope::gpu>(&s_.board->jammed);
        jammed_ = lanes::shuffle(jammed, 0);
        return static_cast<Command>(lanes::shuffle(command, 0));
    }

    // True if a message waits or is being written (the sleeping CPU worker's last look).
    DENIZEN_HD bool something_arrived()
    {
        return near_.poll() != 0 || sources_.any_begun() || parked(s_, id_) != 0;
    }

    // Told when there was nothing to do for a while: the senders learn all the room there is, and
    // the monitor how far we are.
    DENIZEN_HD void idle()
    {
        if (!dirty_) {
            return;
        }
        dirty_ = false;
        near_.give_all_credit();
        sources_.give_all_credit();
        near_.tell_tails(status_);
        NearBox* box = detail::own_box(s_, id_);
        for (uint32_t r = lanes::id(); r < routes; r += lanes::size) {
            const uint64_t before = load<Scope::gpu>(&status_.sent[r]);
            store<Scope::gpu>(&status_.sent[r], before + load<Scope::block>(&box->sent[r]));
            store<Scope::block>(&box->sent[r], 0u);
        }
        // The tails before the heads: see Status.
        lanes::sync();
        near_.tell_heads(status_);
        sources_.tell(status_);
    }

    // Publishes everything; for a worker that is about to pause or leave.
    DENIZEN_HD void settle()
    {
        dirty_ = true;
        idle();
        near_.keep_heads();
    }

    DENIZEN_HD void set_mode(Mode mode)
    {
        if (lanes::id() == 0) {
            // Release on the host: partner of the monitor's acquire in scan().
            store<Scope::gpu, Order::release>(&status_.mode, static_cast<uint32_t>(mode));
        }
        lanes::sync();
    }

private:
    static constexpr uint32_t max_local_rounds = 32; // before a look at the other rings
    static constexpr uint32_t max_wait = 16;         // rounds
    static constexpr uint32_t near_polls = DENIZEN_ON_DEVICE ? 3 : 0;

    DENIZEN_HD uint32_t own_bit() const { return 1u << near_.own(); }

    // Urgent messages first. Then what is under way inside, so that it ends before new work is let
    // in from the host; but the host is never shut out for good. max_sources: none may be taken.
    DENIZEN_HD uint32_t choose(uint32_t ready)
    {
        constexpr uint32_t urgent = 1u << 4 * source_host_urgent | 1u << 4 * source_node_urgent;
        constexpr uint32_t lane = 1u << 4 * source_host;
        if ((ready & urgent) != 0) {
            return lanes::first(ready & urgent) / 4;
        }
        const uint32_t inside = ready & ~(urgent | lane);
        if ((ready & lane) != 0 && jammed_ == 0 && (inside == 0 || host_waited_ >= max_wait)) {
            host_waited_ = 0;
            return source_host;
        }
        ++host_waited_;
        if (inside == 0) {
            return max_sources;
        }
        // The node's ring and the peers' in turn.
        const uint32_t later = inside & ~((2u << 4 * last_inside_) - 1);
        last_inside_ = lanes::first(later != 0 ? later : inside) / 4;
        return last_inside_;
    }

    // The end of a round.
    DENIZEN_HD bool served(bool worked)
    {
        if (worked && lanes::id() == 0) {
            store<Scope::gpu>(&status_.turn, ++turn_);
            store<Scope::gpu>(&status_.handled, handled_);
        }
        if (worked || outbox_used_) {
            dirty_ = true;
            outbox_used_ = parked(s_, id_) != 0;
            if (outbox_used_) {
                worked |= flush(s_, id_);
            }
        }
        worked_ = worked;
        return worked;
    }

    DENIZEN_HD bool serve_local(Batch& batch)
    {
        near_.take_local(batch);
        const uint32_t n = batch.n == 0 ? 0 : serve_in_order(batch);
        near_.advance_local(n);
        return n != 0;
    }

    DENIZEN_HD bool serve_source(uint32_t g, uint32_t ready, Batch& batch)
    {
        sources_.take(g, ready, batch);
        const uint32_t n = serve_in_order(batch);
        sources_.advance(g, n);
        return n != 0;
    }

    // Handles the first of the messages of one ring, or as many as can be handled side by side.
    // Returns the slots consumed; 0 if a long message is not complete yet.
    DENIZEN_HD uint32_t serve_in_order(Batch& batch)
    {
        const Header h = batch.words.header();
        ActorEntry entry;
        const uint32_t leading = lanes::first(lanes::ballot(batch.mine && alone(h, entry)));
        if (leading == 0) {
            return serve_alone(batch, 0);
        }
        batch.n = leading < batch.n ? leading : batch.n;
        batch.mine = lanes::id() < batch.n;
        side_by_side(batch, h, entry);
        return batch.n;
    }

    // Handles one message of each near ring that `ready` names.
    DENIZEN_HD bool serve_near(uint32_t ready, Batch& batch)
    {
        near_.take_near(ready, batch);
        if (batch.n == 0) {
            return false;
        }
        const Header h = batch.words.header();
        ActorEntry entry;
        const uint32_t alones = lanes::ballot(batch.mine && alone(h, entry));
        if (alones != 0) { // one at a time; the others wait for the next round
            const uint32_t leader = lanes::first(alones);
            batch.ring = near_.ring_of(leader);
            const uint32_t n = serve_alone(batch, leader);
            near_.advance_near(lanes::id() == leader ? n : 0);
            return n != 0;
        }
        side_by_side(batch, h, entry);
        near_.advance_near(batch.mine ? 1 : 0);
        return true;
    }

    // Whether this lane's message needs the whole warp; if not, `entry` is its actor's.
    DENIZEN_HD bool alone(const Header& h, ActorEntry& entry) const
    {
        if (h.flags != 0 || h.length > first_payload) {
            return true;
        }
        const uint32_t local = Address{h.destination}.local();
        if (local < s_.actors_per_worker) {
            entry = actors_[local];
            return P::has_warp_actors && entry.kind != 0 && P::grain(entry.type()) == Grain::warp;
        }
        return false;
    }

    DENIZEN_HD uint32_t serve_alone(const Batch& batch, uint32_t leader)
    {
        Words words;
        for (uint32_t i = 0; i < 12; ++i) {
            words.word[i] = lanes::shuffle(batch.words.word[i], leader);
        }
        begin_turn();
        const uint32_t n = detail::serve_alone<P>(s_, id_, batch.ring, words);
        handled_ += n != 0 ? 1 : 0;
        return n;
    }

    // Each lane that has a message handles it.
    DENIZEN_HD void side_by_side(const Batch& batch, const Header& h, const ActorEntry& entry)
    {
        begin_turn();
        bool todo = batch.mine;
        // Lanes whose messages go to the same actor take turns, in ring order.
        uint32_t rank = 0;
        if (batch.n > 1) {
            const uint32_t same =
                lanes::match(todo ? Address{h.destination}.local() : ~lanes::id());
            rank = lanes::popcount(same & lanes::below());
        }
        uint32_t r = 0;
        do { // ends: r reaches every rank
            if (todo && rank == r) {
                todo = false;
                detail::handle<P>(s_, id_, entry, h, batch.words.word + 3, false);
            }
            ++r;
            lanes::sync();
        } while (batch.n > 1 && lanes::ballot(todo) != 0);
        handled_ += batch.n;
    }

    DENIZEN_HD void begin_turn()
    {
        if (lanes::id() == 0) {
            store<Scope::gpu>(&status_.turn, ++turn_);
        }
        lanes::sync();
    }

    const Shared& s_;
    uint32_t id_;
    Status& status_;
    ActorEntry* actors_;
    NearRings near_;
    Sources sources_;
    uint64_t handled_ = 0;
    uint64_t told_[routes] = {}; // messages sent by route, as last told
    uint32_t turn_ = 0;
    uint32_t local_rounds_ = 0; // in a row
    uint32_t far_waited_ = 0;   // rounds in which near rings went first
    uint32_t host_waited_ = 0;  // rounds in which other rings went first
    uint32_t last_inside_ = source_node;
    uint32_t jammed_ = 0;     // workers with parked messages, as last read
    bool worked_ = false;     // in the last round
    bool dirty_ = true;       // something was done since the monitor was told
    bool outbox_used_ = true; // at the end of the last round
};

} // namespace denizen
