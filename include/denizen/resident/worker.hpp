// SPDX-License-Identifier: Apache-2.0
// The worker: a warp on the GPU, a thread on the CPU, from one text. It owns its actors, so their
// state needs no lock, and two rings to read: its host lane and its inbox. A round looks at both,
// runs the handlers of what has arrived, and writes what other rings had no room for.
//
// On a warp each lane takes one message: 32 different actors are served side by side. Messages to
// the same actor are served in ring order, one after the other. Messages that need the whole warp
// (longer than a slot, to a whole-warp actor, to all actors of a type, or the runtime's own) are
// taken one at a time.
//
// Rings that are full both ways do not deadlock: a send draws its ticket and, if the slot is not
// free yet, is parked in the sender's outbox; the handler goes on and so does the worker. While any
// worker has something parked, none takes messages from the host: that is the back-pressure, and it
// is what keeps outboxes from filling (tests/model/outbox.pml).
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/resident/layout.hpp>
#include <denizen/resident/program.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

// Keeps the first error of a kind, for the host.
DENIZEN_HD inline void keep_first(FirstError& first, const ErrorRecord& record)
{
    uint32_t none = 0;
    if (compare_exchange<Scope::gpu>(&first.set, none, 1u)) {
        first.record = record;
        // Release: partner of the monitor's acquire in scan().
        store<Scope::gpu, Order::release>(&first.set, 2u);
    }
}

DENIZEN_HD inline void report_error(const Shared& s, const ErrorRecord& record)
{
    fetch_add<Scope::gpu>(&s.board->errors, uint64_t{1});
    keep_first(s.board->first, record);
}

template <class P>
class Worker {
public:
    DENIZEN_HD Worker(const Shared& shared, uint32_t id)
        : s_(shared), id_(id), status_(shared.status[id]),
          actors_(shared.actors + static_cast<uint64_t>(id) * shared.actors_per_worker),
          outbox_(shared.outboxes + static_cast<uint64_t>(id) * shared.outbox_capacity)
    {
        lane_.slots = shared.lanes + static_cast<uint64_t>(id) * (shared.lane_mask + 1);
        lane_.mask = shared.lane_mask;
        lane_.head = lane_.credited = load<Scope::gpu>(&status_.lane_done);
        lane_.credit = shared.lane_credit + id * credit_stride;
        inbox_.slots = shared.inboxes + static_cast<uint64_t>(id) * (shared.inbox_mask + 1);
        inbox_.mask = shared.inbox_mask;
        inbox_.head = inbox_.credited = load<Scope::gpu>(&status_.inbox_done);
        inbox_.credit = &shared.inbox[id].credit;
        handled_ = load<Scope::gpu>(&status_.handled);
        actor_count_ = load<Scope::gpu>(&status_.actors);
        egress_credit_ = load<Scope::system>(shared.egress_credit);
    }

    DENIZEN_HD uint32_t id() const { return id_; }
    DENIZEN_HD uint32_t count() const { return s_.workers; }

    // One round; true if a message was handled or a parked one written. Also has a look at the
    // program's command.
    DENIZEN_HD bool round(Command& command)
    {
        // All loads are on their way before any is looked at.
        Arrival in;
        Arrival from_host;
        fetch<Scope::gpu>(inbox_, in);
        fetch<Scope::system>(lane_, from_host);
        const uint32_t jammed = load<Scope::gpu>(&s_.board->jammed);
        const uint32_t word = load<Scope::gpu>(&s_.board->command);
        const uint32_t n_in = arrived(inbox_, in);
        const uint32_t n_host = lanes::shuffle(jammed, 0) == 0 ? arrived(lane_, from_host) : 0;
        bool worked = false;
        if (n_in != 0 || n_host != 0) {
            // The inbox first, so that work under way ends before new work is let in; but the host
            // is never shut out for good.
            const bool take_host = n_host != 0 && (n_in == 0 || host_waited_ >= max_host_wait);
            host_waited_ = take_host ? 0 : host_waited_ + 1;
            if (take_host) {
                in = from_host;
            }
            const uint32_t served =
                serve(take_host ? lane_ : inbox_, in, take_host ? n_host : n_in);
            if (take_host) {
                advance<Scope::system>(lane_, served, &status_.lane_done);
            } else {
                advance<Scope::gpu>(inbox_, served, &status_.inbox_done);
            }
            worked = served != 0;
        }
        if (worked || outbox_used_) {
            outbox_used_ = parked() != 0;
            if (outbox_used_) {
                worked |= flush();
            }
        }
        command = static_cast<Command>(lanes::shuffle(word, 0));
        return worked;
    }

    // True if a message waits or is being written, by the first packet of each ring (the sleeping
    // CPU worker's last look).
    DENIZEN_HD bool something_arrived() const
    {
        return load_packet<Scope::gpu>(&inbox_.slots[inbox_.head & inbox_.mask].packet[0])
                       .sequence == inbox_.head + 1 ||
               load_packet<Scope::system>(&lane_.slots[lane_.head & lane_.mask].packet[0])
                       .sequence == lane_.head + 1 ||
               parked() != 0;
    }

    // Told when there was nothing to do: the producers learn all the room there is.
    DENIZEN_HD void idle()
    {
        if (lanes::id() == 0) {
            give_credit<Scope::system>(lane_);
            give_credit<Scope::gpu>(inbox_);
        }
    }

    DENIZEN_HD void set_mode(Mode mode)
    {
        if (lanes::id() == 0) {
            if (mode == Mode::left) {
                give_credit<Scope::system>(lane_);
                give_credit<Scope::gpu>(inbox_);
            }
            publish(&status_.mode, static_cast<uint32_t>(mode));
        }
        lanes::sync();
    }

    // Sends one message; called by one thread, in a handler.
    template <class M>
    DENIZEN_HD void post(Address to, uint32_t self, const M& message)
    {
        constexpr uint32_t type = P::template message_id<M>;
        const Header h{to.value, self, type, 0, sizeof(M)};
        if (to.is_reply_cell() && to.cell() < s_.cell_count) {
            // The sequence of a reply is its address: nobody else was given it.
            Slot* cell = s_.cells + static_cast<uint64_t>(to.cell()) * s_.cell_slots;
            write<Scope::system>(cell, s_.cell_slots - 1, to.value, h, message);
        } else if (to.is_host() && !to.is_reply_cell()) {
            const uint32_t ticket = fetch_add<Scope::gpu>(&s_.board->egress_tail, slots_of<M>);
            if (ticket + slots_of<M> - egress_credit_ > s_.egress_mask + 1) {
                egress_credit_ = load<Scope::system>(s_.egress_credit);
            }
            write_or_park<Scope::system>(s_.egress, s_.egress_mask, s_.egress_credit,
                                         egress_credit_, ticket, h, message);
        } else if (to.worker() < s_.workers && to.node() == 0) {
            Inbox& inbox = s_.inbox[to.worker()];
            // Acquire on the host: partner of the owner's release in give_credit().
            const uint32_t credit = load<Scope::gpu, host_acquire>(&inbox.credit);
            const uint32_t ticket = fetch_add<Scope::gpu>(&inbox.tail, slots_of<M>);
            Slot* slots = s_.inboxes + static_cast<uint64_t>(to.worker()) * (s_.inbox_mask + 1);
            write_or_park<Scope::gpu>(slots, s_.inbox_mask, &inbox.credit, credit, ticket, h,
                                      message);
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
            ring_bell(&s_.bells[to.worker()].bell, &s_.bells[to.worker()].sleeping);
#endif
        } else {
            dead_letter(Errc::no_actor, to.value, type, self);
        }
    }

private:
    // Device: relaxed is enough, packets carry their own arrival and an index is only a hint. Host:
    // ordering costs nothing on x86 and tells ThreadSanitizer about the slots' reuse.
    static constexpr Order host_acquire = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;
    static constexpr Order host_release = DENIZEN_ON_DEVICE ? Order::relaxed : Order::release;

    template <class M>
    static constexpr uint32_t slots_of = slots_for(sizeof(M));

    // A ring this worker consumes.
    struct Source {
        const Slot* slots = nullptr;
        uint32_t mask = 0;
        uint32_t head = 0;
        uint32_t credited = 0;
        uint32_t width = 1; // slots looked at in one round: grows with what arrives
        uint32_t* credit = nullptr;
    };

    // A slot's payload words, sequences left out: three of the header, nine of the message.
    struct Words {
        uint32_t word[12];

        DENIZEN_HD Header header() const { return decode({{word[0], word[1], word[2]}, 0}); }
    };

    static constexpr uint32_t max_host_wait = 16; // rounds

#if DENIZEN_ON_DEVICE

    // Slots as fetched: lane l holds packet l % 4 of slots l / 4, 8 + l / 4, ... so that one access
    // of the warp reads 512 bytes in a row. Over PCIe that is one request, not 32.
    struct Arrival {
        Packet packet[4];
    };

    // Starts reading the next `width` slots.
    template <Scope S>
    __device__ void fetch(const Source& source, Arrival& a) const
    {
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t slot = 8 * k + lanes::id() / 4;
            a.packet[k].sequence = source.head + slot; // never the sequence expected
            if (slot < source.width) {
                a.packet[k] = load_packet<S>(
                    &source.slots[(source.head + slot) & source.mask].packet[lanes::id() % 4]);
            }
        }
    }

    // How many whole slots have arrived, counted from the head.
    __device__ uint32_t arrived(Source& source, const Arrival& a) const
    {
        uint32_t n = 0;
        for (uint32_t k = 0; k < 4; ++k) {
            if (n == 8 * k && n < source.width) {
                const uint32_t slot = 8 * k + lanes::id() / 4;
                uint32_t b = lanes::ballot(a.packet[k].sequence == source.head + slot + 1);
                b &= b >> 2;
                b &= b >> 1; // bit 4 i: all four packets of slot 8 k + i
                n += lanes::first(~b & 0x11111111u) / 4;
            }
        }
        adapt(source, n);
        return n;
    }

    // Lane i gets the message of slot i, for the first n.
    __device__ Words words_of(const Arrival& a, uint32_t n) const
    {
        Words mine{};
        for (uint32_t k = 0; k < 4; ++k) {
            if (8 * k < n) {
                for (uint32_t p = 0; p < 4; ++p) {
                    for (uint32_t w = 0; w < 3; ++w) {
                        const uint32_t word =
                            lanes::shuffle(a.packet[k].word[w], 4 * (lanes::id() % 8) + p);
                        if (lanes::id() / 8 == k) {
                            mine.word[3 * p + w] = word;
                        }
                    }
                }
            }
        }
        return mine;
    }

#else

    struct Arrival {
        Packet packet[4];
    };

    template <Scope S>
    DENIZEN_HD void fetch(const Source& source, Arrival& a) const
    {
        const Slot& slot = source.slots[source.head & source.mask];
        for (int k = 0; k < 4; ++k) {
            a.packet[k] = load_packet<S>(&slot.packet[k]);
        }
    }

    DENIZEN_HD uint32_t arrived(Source& source, const Arrival& a) const
    {
        for (const Packet& p : a.packet) {
            if (p.sequence != source.head + 1) {
                return 0;
            }
        }
        return 1;
    }

    DENIZEN_HD Words words_of(const Arrival& a, uint32_t) const
    {
        Words mine;
        for (uint32_t p = 0; p < 4; ++p) {
            for (uint32_t w = 0; w < 3; ++w) {
                mine.word[3 * p + w] = a.packet[p].word[w];
            }
        }
        return mine;
    }

#endif

    // Settles how many slots to fetch next time: twice as many after a full house, half as many
    // when most came in vain.
    DENIZEN_HD static void adapt(Source& source, uint32_t n)
    {
        if (n == source.width) {
            source.width = source.width * 2 > lanes::size ? lanes::size : source.width * 2;
        } else if (n * 2 < source.width) {
            source.width = source.width > 1 ? source.width / 2 : 1;
        }
    }

    // Handles the first of the `n` messages that have arrived, or as many of them as can be handled
    // side by side. Returns the slots consumed; 0 if a long message is not complete yet.
    DENIZEN_HD uint32_t serve(const Source& source, const Arrival& a, uint32_t n)
    {
        const Words words = words_of(a, n);
        const Header h = words.header();
        const uint32_t local = Address{h.destination}.local();
        bool mine = lanes::id() < n;
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
        if (n == 0) {
            return serve_alone(source, words);
        }
        mine = lanes::id() < n;
        begin_turn();
        // Lanes whose messages go to the same actor take turns, in ring order.
        const uint32_t same = n > 1 ? lanes::match(mine ? local : ~lanes::id()) : 0;
        const uint32_t rank = mine ? lanes::popcount(same & lanes::below()) : 0;
        bool todo = mine;
        for (uint32_t r = 0; lanes::ballot(todo) != 0; ++r) { // ends: r reaches every rank
            if (todo && rank == r) {
                todo = false;
                handle(entry, h, words.word + 3, false);
            }
            lanes::sync();
        }
        handled_ += n;
        return n;
    }

    // Takes the message at the head, which lane 0 holds, with all lanes.
    DENIZEN_HD uint32_t serve_alone(const Source& source, const Words& of_lane)
    {
        Words words;
        for (uint32_t i = 0; i < 12; ++i) {
            words.word[i] = lanes::shuffle(of_lane.word[i], 0);
        }
        const Header h = words.header();
        const void* payload = words.word + 3;
        bool readable = true;
        if (h.length > first_payload && h.length <= s_.scratch_bytes) {
            unsigned char* scratch = s_.scratch + static_cast<uint64_t>(id_) * s_.scratch_bytes;
            if (!gather(source, h.length, scratch)) {
                return 0;
            }
            payload = scratch;
        } else if (h.length > first_payload) {
            readable = false; // the host refuses such a message before it is sent
            if (lanes::id() == 0) {
                dead_letter(Errc::oversize, h.destination, h.type, h.sender);
            }
        }
        begin_turn();
        if ((h.flags & flag_system) != 0) {
            run_system(h, words.word + 3);
        } else if (readable) {
            deliver(h, payload);
        }
        ++handled_;
        return slots_for(h.length);
    }

    // To one actor, or to all of a type: on a warp one actor per lane, or all lanes on one actor.
    DENIZEN_HD void deliver(Header h, const void* payload)
    {
        const bool all = (h.flags & flag_broadcast) != 0;
        const uint32_t named = Address{h.destination}.local();
        const uint32_t begin = all ? 0 : named;
        const uint32_t end = all ? actor_count_ : named + 1;
        for (uint32_t base = begin; base < end;) {
            ActorEntry entry;
            if (base < s_.actors_per_worker) {
                entry = actors_[base];
            }
            const bool whole = P::has_warp_actors && entry.kind != 0 &&
                               P::grain(all ? named : entry.type()) == Grain::warp;
            const uint32_t local = whole ? base : base + lanes::id();
            if (!whole && local < end && local != base) {
                entry = actors_[local];
            }
            if (local < end && (!all || entry.type() == named)) {
                h.destination = Address::actor(id_, local).value;
                handle(entry, h, payload, whole);
            }
            lanes::sync();
            base += whole ? 1 : lanes::size;
        }
    }

    // Collects a message over several slots; false while some part is on its way.
    DENIZEN_HD bool gather(const Source& source, uint32_t length, unsigned char* to) const
    {
        const uint32_t packets = 4 * slots_for(length) - 1; // all of them: see slot.hpp
        bool complete = true;
        for (uint32_t i = lanes::id(); i < packets; i += lanes::size) {
            const uint32_t place = i + 1; // behind the header packet
            const uint32_t ticket = source.head + place / 4;
            const Packet p =
                load_packet<Scope::system>(&source.slots[ticket & source.mask].packet[place % 4]);
            complete &= p.sequence == ticket + 1;
            auto* words = reinterpret_cast<uint32_t*>(to + static_cast<size_t>(i) * packet_payload);
            for (int w = 0; w < 3; ++w) { // scratch is rounded up to whole slots
                words[w] = p.word[w];
            }
        }
        const bool all = lanes::ballot(!complete) == 0;
        lanes::sync();
        return all;
    }

    DENIZEN_HD void handle(const ActorEntry& entry, const Header& h, const void* payload,
                           bool whole)
    {
        if (entry.kind == 0) {
            dead_letter(Errc::no_actor, h.destination, h.type, h.sender);
            return;
        }
        // The monitor looks on, and names this handler if it never returns.
        uint64_t* running = &status_.running[whole ? 0 : lanes::id()];
        store<Scope::gpu>(running, h.destination | static_cast<uint64_t>(h.type + 1) << 32);
        Context<P> context(*this, h.destination, h.sender, whole);
        if (!P::dispatch(entry.type(), h.type, entry.state, payload, context) &&
            (!whole || lanes::id() == 0)) {
            dead_letter(Errc::wrong_type, h.destination, h.type, h.sender);
        }
        store<Scope::gpu>(running, uint64_t{0});
    }

    DENIZEN_HD void run_system(const Header& h, const uint32_t* words)
    {
        if (h.type == static_cast<uint32_t>(SystemOp::spawn)) {
            SpawnRequest r;
            copy_bytes(&r, words, sizeof r);
            for (uint32_t i = lanes::id(); i < r.count; i += lanes::size) {
                void* state = s_.heap + r.offset + static_cast<uint64_t>(i) * r.stride;
                P::construct(r.type, state);
                actors_[r.first + i] = {r.type + 1, 0, state};
            }
            actor_count_ = r.first + r.count > actor_count_ ? r.first + r.count : actor_count_;
            store<Scope::gpu>(&status_.actors, actor_count_); // for the next launch
        } else if (h.type == static_cast<uint32_t>(SystemOp::stop)) {
            StopRequest r;
            copy_bytes(&r, words, sizeof r);
            if (lanes::id() == 0) {
                actors_[r.local].kind = 0;
            }
        }
        lanes::sync();
        if (lanes::id() == 0) {
            Slot* cell = s_.cells + static_cast<uint64_t>(Address{h.sender}.cell()) * s_.cell_slots;
            store_short<Scope::system, 0>(cell, h.sender - 1, {h.sender, 0, h.type, flag_system, 0},
                                          words);
        }
    }

    // Writes a message whose slots are known to be free. Its first packet's sequence is
    // `sequence` if it fits in one slot (a reply cell), else counts up from it.
    template <Scope S, class M>
    DENIZEN_HD void write(Slot* slots, uint32_t mask, uint32_t sequence, const Header& h,
                          const M& message)
    {
        if constexpr (sizeof(M) <= first_payload) {
            store_short<S, sizeof(M)>(slots, sequence - 1, h, &message);
        } else {
            // Slot i of the cell, whatever the sequence: shift the slots so that ticket & mask
            // starts at 0.
            for (uint32_t i = 0; i < slots_of<M>; ++i) {
                store_slot<S>(&slots[i & mask], i, sequence + i, h, message);
            }
        }
    }

    // Slot i of a long message.
    template <Scope S, class M>
    DENIZEN_HD static void store_slot(Slot* slot, uint32_t i, uint32_t sequence, const Header& h,
                                      const M& message)
    {
        const auto* bytes = reinterpret_cast<const unsigned char*>(&message);
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t place = 4 * i + k;
            store_packet<S>(&slot->packet[k],
                            place == 0 ? encode(h, sequence)
                                       : detail::pack(bytes, sizeof(M),
                                                      (place - 1) * packet_payload, sequence));
        }
    }

    template <Scope S, class M>
    DENIZEN_HD void write_or_park(Slot* slots, uint32_t mask, const uint32_t* credit_word,
                                  uint32_t credit, uint32_t ticket, const Header& h,
                                  const M& message)
    {
        for (uint32_t i = 0; i < slots_of<M>; ++i) {
            Slot* slot = &slots[(ticket + i) & mask];
            if (ticket + i - credit > mask) {
                park(slot, credit_word, mask + 1, ticket + i, i, h, message);
            } else if constexpr (sizeof(M) <= first_payload) {
                store_short<S, sizeof(M)>(slot, ticket, h, &message);
            } else {
                store_slot<S>(slot, i, ticket + i + 1, h, message);
            }
        }
    }

    template <class M>
    DENIZEN_HD void park(Slot* target, const uint32_t* credit, uint32_t capacity, uint32_t ticket,
                         uint32_t i, const Header& h, const M& message)
    {
        const uint32_t place = fetch_add<Scope::block>(&status_.outbox, 1u);
        if (place < s_.outbox_capacity) {
            if (place == 0) {
                fetch_add<Scope::gpu>(&s_.board->jammed, 1u);
            }
            Parked& p = outbox_[place];
            store_slot<Scope::gpu>(&p.slot, i, ticket + 1, h, message);
            p.credit = credit;
            p.ticket = ticket;
            p.capacity = capacity;
            // Release: partner of the acquire in flush_during_handler().
            store<Scope::block, Order::release>(&p.target, reinterpret_cast<uintptr_t>(target));
            return;
        }
        // The outbox is full too: write what is parked from here until our own slot is free. If
        // nobody makes room for two seconds the program is deadlocked by its own sends; it stops
        // with an error, instead of hanging or losing the message silently. Room in our own inbox
        // cannot come before this handler ends, so that is an error at once.
        fetch_add<Scope::block>(&status_.outbox, ~0u);
        const uint64_t patience_ns = credit == inbox_.credit ? 0 : 2'000'000'000;
        const uint64_t begin = now_ns();
        while (ticket - load<Scope::system, host_acquire>(credit) >= capacity) {
            // Ends: by credit, by the stop command, or after two seconds.
            if (load<Scope::gpu>(&s_.board->command) == static_cast<uint32_t>(Command::stop)) {
                return;
            }
            if (now_ns() - begin >= patience_ns) {
                const ErrorRecord record{static_cast<uint32_t>(Errc::exhausted), id_, h.sender,
                                         h.type, h.destination};
                report_error(s_, record);
                keep_first(s_.board->fatal, record);
                store<Scope::gpu>(&s_.board->command, static_cast<uint32_t>(Command::stop));
                return;
            }
            flush_during_handler();
            relax();
        }
        store_slot<Scope::system>(target, i, ticket + 1, h, message);
    }

    DENIZEN_HD uint32_t parked() const
    {
        return lanes::shuffle(load<Scope::block>(&status_.outbox), 0);
    }

    // One lane, in the middle of a handler, writes the parked messages that have room. The list
    // keeps its length: other lanes may be adding to it.
    DENIZEN_HD void flush_during_handler()
    {
        uint32_t open = 0;
        // Acquire: partner of the release below.
        if (!compare_exchange<Scope::block, Order::acquire>(&status_.outbox_lock, open, 1u)) {
            return; // another lane is at it
        }
        for (uint32_t i = 0; i < s_.outbox_capacity; ++i) {
            Parked& p = outbox_[i];
            // Acquire: partner of the release in park(); the rest of the entry is complete.
            const uintptr_t target = load<Scope::block, Order::acquire>(&p.target);
            if (target != 0 && has_room(p)) {
                write_parked(p);
                store<Scope::block>(&p.target, uintptr_t{0});
            }
        }
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
        ring_every_bell();
#endif
        store<Scope::block, Order::release>(&status_.outbox_lock, 0u);
    }

    DENIZEN_HD static bool has_room(const Parked& p)
    {
        // Acquire on the host: partner of the consumer's release of its credit.
        return p.ticket - load<Scope::system, host_acquire>(p.credit) < p.capacity;
    }

    DENIZEN_HD static void write_parked(const Parked& p)
    {
        for (int k = 0; k < 4; ++k) {
            store_packet<Scope::system>(&reinterpret_cast<Slot*>(p.target)->packet[k],
                                        p.slot.packet[k]);
        }
    }

    // Between handlers, all lanes: writes the parked messages that have room; keeps the rest in
    // order.
    DENIZEN_HD bool flush()
    {
        const uint32_t n = parked();
        uint32_t kept = 0;
        for (uint32_t base = 0; base < n; base += lanes::size) {
            const uint32_t i = base + lanes::id();
            bool keep = false;
            Parked p{};
            if (i < n) {
                p = outbox_[i];
                keep = p.target != 0 && !has_room(p);
                if (p.target != 0 && !keep) {
                    write_parked(p);
                }
            }
            lanes::sync(); // every entry of this group has been read before one is overwritten
            const uint32_t staying = lanes::ballot(keep);
            if (i < n) {
                outbox_[i].target = 0;
            }
            lanes::sync();
            if (keep) {
                outbox_[kept + lanes::popcount(staying & lanes::below())] = p;
            }
            kept += lanes::popcount(staying);
            lanes::sync();
        }
        if (lanes::id() == 0) {
            store<Scope::block>(&status_.outbox, kept);
            if (kept == 0) {
                fetch_add<Scope::gpu>(&s_.board->jammed, ~0u);
            }
        }
        lanes::sync();
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
        if (kept != n) {
            ring_every_bell();
        }
#endif
        return kept != n;
    }

#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
    // A parked message does not remember whose it is; this path is rare.
    void ring_every_bell()
    {
        for (uint32_t w = 0; w < s_.workers; ++w) {
            ring_bell(&s_.bells[w].bell, &s_.bells[w].sleeping);
        }
    }
#endif

    DENIZEN_HD void begin_turn()
    {
        if (lanes::id() == 0) {
            store<Scope::gpu>(&status_.turn, ++turn_);
        }
        lanes::sync();
    }

    // Ends the turn, `served` slots further on.
    template <Scope S>
    DENIZEN_HD void advance(Source& source, uint32_t served, uint32_t* done)
    {
        if (served == 0) {
            return;
        }
        source.head += served;
        if (lanes::id() == 0) {
            store<Scope::gpu>(&status_.turn, ++turn_);
            store<Scope::gpu>(&status_.handled, handled_);
            // The handlers' sends have drawn their tickets before this is seen (they used the
            // values), which is what the monitor's quiet check rests on.
            publish(done, source.head);
            if (source.head - source.credited > source.mask >> 2) {
                give_credit<S>(source);
            }
        }
    }

    template <Scope S>
    DENIZEN_HD void give_credit(Source& source)
    {
        if (source.credited != source.head) {
            // Release on the host: partner of the producers' acquire of the credit.
            store<S, host_release>(source.credit, source.head);
            source.credited = source.head;
        }
    }

    template <class T>
    DENIZEN_HD static void publish(T* word, T value)
    {
        store<Scope::gpu, host_release>(word, value);
    }

    DENIZEN_HD void dead_letter(Errc code, uint32_t to, uint32_t type, uint32_t sender)
    {
        fetch_add<Scope::block>(&status_.dead_letters, uint64_t{1});
        report_error(s_, {static_cast<uint32_t>(code), id_, to, type, sender});
    }

    const Shared& s_;
    uint32_t id_;
    Status& status_;
    ActorEntry* actors_;
    Parked* outbox_;
    Source lane_;
    Source inbox_;
    uint64_t handled_ = 0;
    uint32_t turn_ = 0;
    uint32_t actor_count_ = 0;
    uint32_t egress_credit_ = 0;
    bool outbox_used_ = true;  // at the end of the last round
    uint32_t host_waited_ = 0; // rounds in which the inbox went first
};

} // namespace denizen
