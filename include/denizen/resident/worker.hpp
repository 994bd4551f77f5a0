// SPDX-License-Identifier: Apache-2.0
// The worker: a warp on the GPU, a thread on the CPU, from one text. It owns its actors, so their
// state needs no lock, and two rings to read: its host lane and its inbox. A round looks at both,
// runs the handlers of what has arrived, and writes what other rings had no room for.
//
// On a warp each lane takes one message: 32 different actors are served side by side. Messages to
// the same actor are served in ring order, one after the other. Messages that need the whole warp
// (longer than a slot, to a whole-warp actor, to all actors of a type, or the runtime's own) are
// taken one at a time, out of line.
#pragma once

#include <denizen/resident/handle.hpp>

namespace denizen {

template <class P>
class Worker {
public:
    DENIZEN_HD Worker(const Shared& shared, uint32_t id)
        : s_(shared), id_(id), status_(shared.status[id]),
          actors_(shared.actors + static_cast<uint64_t>(id) * shared.actors_per_worker)
    {
        lane_.slots = shared.lanes + static_cast<uint64_t>(id) * (shared.lane_mask + 1);
        lane_.mask = shared.lane_mask;
        lane_.head = lane_.credited = load<Scope::gpu>(&status_.done[source_host]);
        lane_.credit = shared.lane_credit + id * credit_stride;
        inbox_.slots = shared.inboxes + static_cast<uint64_t>(id) * (shared.inbox_mask + 1);
        inbox_.mask = shared.inbox_mask;
        inbox_.head = inbox_.credited = load<Scope::gpu>(&status_.done[source_node]);
        inbox_.credit = &shared.inbox[id].credit;
        handled_ = load<Scope::gpu>(&status_.handled);
    }

    // One round; true if a message was handled or a parked one written. The idle round is as short
    // as it can be: how long it takes is how late a message is seen.
    DENIZEN_HD bool round()
    {
        // All loads are on their way before any is looked at.
        Arrival in;
        Arrival from_host;
        fetch<Scope::gpu>(inbox_, in);
        fetch<Scope::system>(lane_, from_host);
        // Only while there is work: all idle workers reading one word would slow everybody's reads.
        const uint32_t jammed = worked_ ? load<Scope::gpu>(&s_.board->jammed) : jammed_;
        if (lanes::ballot(begins(inbox_, in) || begins(lane_, from_host)) == 0 && !outbox_used_) {
            adapt(inbox_, 0);
            adapt(lane_, 0);
            worked_ = false;
            return false;
        }
        jammed_ = lanes::shuffle(jammed, 0);
        const uint32_t n_in = arrived(inbox_, in);
        const uint32_t n_host = jammed_ == 0 ? arrived(lane_, from_host) : 0;
        adapt(inbox_, n_in);
        adapt(lane_, n_host);
        bool worked = false;
        if (n_in != 0 || n_host != 0) {
            // The inbox first, so that work under way ends before new work is let in; but the host
            // is never shut out for good.
            const bool take_host = n_host != 0 && (n_in == 0 || host_waited_ >= max_host_wait);
            host_waited_ = take_host ? 0 : host_waited_ + 1;
            // One call for both, so that there is one copy of the handlers. Picked word by word: a
            // reference to either would move both to local memory.
            const Source source{take_host ? lane_.slots : inbox_.slots,
                                take_host ? lane_.mask : inbox_.mask,
                                take_host ? lane_.head : inbox_.head};
            for (int k = 0; k < 4; ++k) {
                for (int w = 0; w < 3; ++w) {
                    in.packet[k].word[w] =
                        take_host ? from_host.packet[k].word[w] : in.packet[k].word[w];
                }
            }
            const uint32_t served = serve(source, in, take_host ? n_host : n_in);
            worked = served != 0;
            lane_.head += take_host ? served : 0;
            inbox_.head += take_host ? 0 : served;
            if (lanes::id() == 0) {
                publish(&status_.turn, ++turn_);
                store<Scope::gpu>(&status_.handled, handled_);
                // The handlers' sends have drawn their tickets before this is seen (they used the
                // values), which is what the monitor's quiet check rests on.
                publish(&status_.done[source_host], lane_.head);
                publish(&status_.done[source_node], inbox_.head);
                give_credit(lane_, lane_.mask >> 2);
                give_credit(inbox_, inbox_.mask >> 2);
            }
        }
        if (worked || outbox_used_) {
            outbox_used_ = parked(s_, id_) != 0;
            if (outbox_used_) {
                worked |= flush(s_, id_);
            }
        }
        worked_ = worked;
        return worked;
    }

    // A look, every few rounds, at what changes rarely.
    DENIZEN_HD Command look()
    {
        const uint32_t command = load<Scope::gpu>(&s_.board->command);
        const uint32_t jammed = load<Scope::gpu>(&s_.board->jammed);
        jammed_ = lanes::shuffle(jammed, 0);
        return static_cast<Command>(lanes::shuffle(command, 0));
    }

    // True if a message waits or is being written, by the first packet of each ring (the sleeping
    // CPU worker's last look).
    DENIZEN_HD bool something_arrived() const
    {
        return load_packet<Scope::gpu>(&inbox_.slots[inbox_.head & inbox_.mask].packet[0])
                       .sequence == inbox_.head + 1 ||
               load_packet<Scope::system>(&lane_.slots[lane_.head & lane_.mask].packet[0])
                       .sequence == lane_.head + 1 ||
               parked(s_, id_) != 0;
    }

    // Told when there was nothing to do: the producers learn all the room there is.
    DENIZEN_HD void idle()
    {
        if (lanes::id() == 0) {
            give_credit(lane_, 0);
            give_credit(inbox_, 0);
        }
    }

    DENIZEN_HD void set_mode(Mode mode)
    {
        if (mode == Mode::left) {
            idle();
        }
        if (lanes::id() == 0) {
            publish(&status_.mode, static_cast<uint32_t>(mode));
        }
        lanes::sync();
    }

private:
    static constexpr uint32_t max_host_wait = 16; // rounds

    // Handles the first of the `n` messages that have arrived, or as many of them as can be handled
    // side by side. Returns the slots consumed; 0 if a long message is not complete yet.
    DENIZEN_HD uint32_t serve(const Source& source, const Arrival& a, uint32_t n)
    {
        const Words words = words_of(a, n);
        const Header h = words.header();
        const uint32_t local = Address{h.destination}.local();
        const bool mine = lanes::id() < n;
        bool alone = false; // needs the whole warp
        ActorEntry entry;
        if (mine) {
            alone = h.flags != 0 || h.length > first_payload;
            if (!alone && local < s_.actors_per_worker) {
                entry = actors_[local];
                alone =
                    P::has_warp_actors && entry.kind != 0 && P::grain(entry.type()) == Grain::warp;
            }
        }
        const uint32_t leading = lanes::first(lanes::ballot(mine && alone));
        n = leading < n ? leading : n;
        begin_turn();
        if (n == 0) {
            const uint32_t served = detail::serve_alone<P>(s_, id_, source, words);
            handled_ += served != 0 ? 1 : 0;
            return served;
        }
        bool todo = lanes::id() < n;
        // Lanes whose messages go to the same actor take turns, in ring order.
        uint32_t rank = 0;
        if (n > 1) {
            const uint32_t same = lanes::match(todo ? local : ~lanes::id());
            rank = lanes::popcount(same & lanes::below());
        }
        uint32_t r = 0;
        do { // ends: r reaches every rank
            if (todo && rank == r) {
                todo = false;
                detail::handle<P>(s_, id_, entry, h, words.word + 3, false);
                P::drop_buffers(s_, h.type, words.word + 3);
            }
            ++r;
            lanes::sync();
        } while (n > 1 && lanes::ballot(todo) != 0);
        handled_ += n;
        return n;
    }

    DENIZEN_HD void begin_turn()
    {
        if (lanes::id() == 0) {
            store<Scope::gpu>(&status_.turn, ++turn_);
        }
        lanes::sync();
    }

    // Tells the producers how far we are, if that is more than `least` slots further than they
    // know.
    DENIZEN_HD static void give_credit(Source& source, uint32_t least)
    {
        if (source.head - source.credited > least) {
            // Release on the host: partner of the producers' acquire of the credit.
            store<Scope::system, detail::host_release>(source.credit, source.head);
            source.credited = source.head;
        }
    }

    template <class T>
    DENIZEN_HD static void publish(T* word, T value)
    {
        // Release on the host: partner of the monitor's acquire in scan().
        store<Scope::gpu, detail::host_release>(word, value);
    }

    const Shared& s_;
    uint32_t id_;
    Status& status_;
    ActorEntry* actors_;
    Source lane_;
    Source inbox_;
    uint64_t handled_ = 0;
    uint32_t turn_ = 0;
    uint32_t host_waited_ = 0; // rounds in which the inbox went first
    uint32_t jammed_ = 0;      // workers with parked messages, as last read
    bool worked_ = false;      // in the last round
    bool outbox_used_ = true;  // at the end of the last round
};

} // namespace denizen
