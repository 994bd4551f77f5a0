// SPDX-License-Identifier: Apache-2.0
// A worker's outbox: where a message waits, slot by slot and with its ticket, until the ring it is
// bound for has room. While any worker has something parked, none takes messages from the host:
// that is the back-pressure, and it is what keeps outboxes from filling (tests/model/outbox.pml).
// But a program whose own messages are more than its rings hold has always something parked, and
// must hear of a stop all the same: see jams_itself().
//
// Everything here belongs to worker `id` and is called by its lanes.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/report.hpp>
#include <denizen/actor/detail/target.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

DENIZEN_HD inline uint32_t parked(const Shared& s, uint32_t id)
{
    return lanes::shuffle(load<Scope::block>(&s.status[id].outbox), 0);
}

namespace detail {

// Parked::state.
inline constexpr uint32_t entry_free = 0;
inline constexpr uint32_t entry_filling = 1;
inline constexpr uint32_t entry_filled = 2;

// All of a parked message's entry but the message.
struct ParkedWords {
    uint32_t state = entry_free;
    uint32_t kind = 0;
    uint32_t index = 0;
    uint32_t ticket = 0;
};

DENIZEN_HD inline ParkedWords words_of(const Parked& p)
{
    return {p.state, p.kind, p.index, p.ticket};
}

// Where the reader of a ring in global memory gives back room. Without a branch, so that many are
// asked at a time.
DENIZEN_HD inline const uint32_t* credit_word(const Shared& s, RingKind kind, uint32_t index)
{
    const uint32_t* word = &s.inbox[kind == RingKind::inbox ? index : 0].credit;
    word = kind == RingKind::urgent ? &s.urgent_inbox[index].credit : word;
    word = kind == RingKind::egress ? s.egress_credit : word;
    if (kind == RingKind::peer || kind == RingKind::peer_urgent) {
        const uint32_t data = data_rings_to(s, index / max_workers);
        const uint32_t first = kind == RingKind::peer_urgent ? data : 0;
        word = s.peer[index / max_workers].credits + (first + index % max_workers) * credit_stride;
    }
    return word;
}

// What the reader of a parked message's ring has given back.
DENIZEN_HD inline uint32_t credit_for(const Shared& s, uint32_t id, const ParkedWords& p)
{
    const auto kind = static_cast<RingKind>(p.kind);
    // Acquire on the host: partner of the consumer's release of its credit.
    return kind == RingKind::near
               ? cluster::load(box::credit(own_box(s, id), p.index))
               : load<Scope::system, host_acquire>(credit_word(s, kind, p.index));
}

DENIZEN_HD inline bool has_room(const Shared& s, uint32_t id, const ParkedWords& p, uint32_t credit)
{
    const auto kind = static_cast<RingKind>(p.kind);
    const bool urgent = kind == RingKind::urgent || kind == RingKind::peer_urgent;
    uint32_t mask = urgent                     ? s.urgent_mask
                    : kind == RingKind::egress ? s.egress_mask
                                               : s.inbox_mask;
    if (kind == RingKind::near) {
        const cluster::Address b = own_box(s, id);
        mask = cluster::load(box::own(b)) == p.index ? s.local_mask : s.near_mask;
    }
    return p.ticket - credit <= mask;
}

// The same of one after the other, in the middle of a handler. What lies behind each other is
// mostly bound for one ring, whose credit is read once for all of these; the host's lies across the
// bus and is read once.
struct RingSeen {
    uint32_t kind = ~0u;
    uint32_t index = 0;
    uint32_t credit = 0;
    uint32_t host_credit = 0;
    bool host_asked = false;

    DENIZEN_HD bool has_room(const Shared& s, uint32_t id, const Parked& p)
    {
        const ParkedWords mine = words_of(p);
        if (mine.kind != kind || mine.index != index) {
            kind = mine.kind;
            index = mine.index;
            const bool host = kind == static_cast<uint32_t>(RingKind::egress);
            credit = host && host_asked ? host_credit : credit_for(s, id, mine);
            host_credit = host ? credit : host_credit;
            host_asked |= host;
        }
        return detail::has_room(s, id, mine, credit);
    }
};

// Whether the jam is the program's own: nothing is parked for the host (which may not be receiving,
// and then each further message of its own would only be one more that waits for it), no outbox is
// more than half full, and all together hold no more than an eighth of their room, or half of one
// where workers are few. Then a host message now and then does no harm: what it adds has room, and
// there are limits to how much is added. All lanes; as read one after the other, while they change.
DENIZEN_COLD inline bool jams_itself(const Shared& s)
{
    uint32_t sum = 0;
    bool otherwise = false;
    for (uint32_t w = lanes::id(); w < s.workers; w += lanes::size) {
        const uint32_t n = load<Scope::gpu>(&s.status[w].outbox);
        otherwise |= n > s.outbox_capacity / 2 || load<Scope::gpu>(&s.status[w].for_host) != 0;
        sum += n < s.outbox_capacity ? n : s.outbox_capacity;
    }
    const uint64_t room = uint64_t{s.outbox_capacity} * (s.workers > 4 ? s.workers : 4);
    return lanes::ballot(otherwise) == 0 && lanes::sum(sum) <= room / 8;
}

// While messages are parked and the host has some: when this was looked at last, in 512 ns, and in
// its last bit whether the host may send one in now. That is so once in about a millisecond, or
// breath (0: not yet), if the jam is the program's own, which may not end before the host says so.
DENIZEN_COLD inline uint32_t look_at_jam(const Shared& s, uint32_t before)
{
    constexpr uint32_t every = 2000; // of 512 ns
    const auto now = lanes::shuffle(static_cast<uint32_t>(now_ns() >> 9) & ~1u, 0);
    if (before != 0 && now - (before & ~1u) < every) {
        return before & ~1u;
    }
    return now | (jams_itself(s) ? 1u : 0u);
}

DENIZEN_COLD inline void write_parked(const Shared& s, uint32_t id, const Parked& p)
{
    const Target t = target(s, id, static_cast<RingKind>(p.kind), p.index);
    write_slot(t, p.ticket, p.slot);
    wake(t);
}

DENIZEN_HD inline bool to_self(const Shared& s, uint32_t id, const Parked& p)
{
    switch (static_cast<RingKind>(p.kind)) {
    case RingKind::near:
        return cluster::load(box::first(own_box(s, id))) % max_workers + p.index == id;
    case RingKind::inbox:
    case RingKind::urgent: return p.index == id;
    default: return false;
    }
}

// In a full outbox one handler may have to find entries for thousands of messages more. They are
// looked for in a circle, on from where the last one was found, and so are those that can be
// written: the entries of one ring lie in the order of its tickets then, and the next one that has
// room, or is free, is the next one to be looked at.
inline constexpr uint32_t entries_per_look = 64;

DENIZEN_HD inline uint32_t in_circle(const Shared& s, uint32_t at)
{
    return at < s.outbox_capacity ? at : 0;
}

enum class Progress { freed, moving, only_to_self };

// One lane, in the middle of a handler, looks through a full outbox up to the next entry that is
// free or whose message has room, and a few further. What has room is written, and its entry is
// free for what is sent next. The list keeps its length: other lanes may be adding to it.
DENIZEN_COLD inline Progress flush_during_handler(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    uint32_t open = 0;
    // Acquire: partner of the release below.
    if (!compare_exchange<Scope::block, Order::acquire>(&status.outbox_lock, open, 1u)) {
        return Progress::moving; // another lane is at it
    }
    Progress progress = Progress::only_to_self;
    RingSeen seen;
    uint32_t at = in_circle(s, load<Scope::block>(&status.outbox_next));
    DENIZEN_ROLLED
    for (uint32_t left = s.outbox_capacity; left != 0; --left, at = in_circle(s, at + 1)) {
        Parked& p = outbox[at];
        // Acquire: partner of the release in park(); the rest of the entry is complete.
        const uint32_t state = load<Scope::block, Order::acquire>(&p.state);
        const bool filled = state == entry_filled;
        const bool room = filled && seen.has_room(s, id, p);
        if (room) {
            write_parked(s, id, p);
            store<Scope::block, Order::release>(&p.state, entry_free); // partner: claim()
        }
        if (progress != Progress::freed) {
            if (room || state == entry_free) {
                progress = Progress::freed;
                store<Scope::block>(&status.outbox_next, at);
                left = left < entries_per_look ? left : entries_per_look;
            } else if (!filled || !to_self(s, id, p)) {
                progress = Progress::moving;
            }
        }
    }
    store<Scope::block, Order::release>(&status.outbox_lock, 0u);
    return progress;
}

DENIZEN_HD inline bool claim(Parked& p)
{
    uint32_t found = entry_free;
    return compare_exchange<Scope::block, Order::acquire>(&p.state, found, entry_filling);
}

// An entry for one more message: the next one, or of a full outbox one that is free by now and lies
// near the last one. Null if there is none.
DENIZEN_HD inline Parked* find_entry(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    const uint32_t place = fetch_add<Scope::block>(&status.outbox, 1u);
    cluster::store_own(box::parked(own_box(s, id)), 1);
    if (place == 0) {
        fetch_add<Scope::gpu>(&s.board->jammed, 1u);
    }
    if (place < s.outbox_capacity && claim(outbox[place])) {
        return &outbox[place];
    }
    if (place >= s.outbox_capacity) {
        fetch_add<Scope::block>(&status.outbox, ~0u);
    }
    uint32_t at = in_circle(s, load<Scope::block>(&status.outbox_next));
    DENIZEN_ROLLED
    for (uint32_t i = 0; i < entries_per_look; ++i, at = in_circle(s, at + 1)) {
        // Looked at first: to exchange takes ten times as long, and mostly all of them are taken.
        if (load<Scope::block>(&outbox[at].state) == entry_free && claim(outbox[at])) {
            store<Scope::block>(&status.outbox_next, at + 1);
            return &outbox[at];
        }
    }
    return nullptr;
}

} // namespace detail

// Keeps one slot of a message whose ticket has no room yet.
DENIZEN_COLD inline void park(const Shared& s, uint32_t id, const Slot& content, RingKind kind,
                              uint32_t index, uint32_t ticket, const Header& h)
{
    uint64_t begin = 0;
    Parked* p = nullptr;
    for (;;) {
        p = detail::find_entry(s, id);
        if (p != nullptr) {
            break;
        }
        // The outbox is full too. Ends: when something parked has left, by the stop command, or
        // with an error: at once if all of it waits for this very worker, which cannot make room
        // before this handler ends, and after two seconds if nobody else makes room either. The
        // program then stops, instead of hanging or losing the message silently.
        const detail::Progress progress = detail::flush_during_handler(s, id);
        if (progress == detail::Progress::freed) {
            continue; // ends: other lanes that took it have what they wanted
        }
        if (load<Scope::gpu>(&s.board->command) == static_cast<uint32_t>(Command::stop)) {
            return;
        }
        const uint64_t now = now_ns();
        begin = begin == 0 ? now : begin;
        if (progress == detail::Progress::only_to_self || now - begin > 2'000'000'000) {
            const ErrorRecord record{static_cast<uint32_t>(Errc::exhausted), id, h.sender, h.type,
                                     h.destination};
            report_error(s, record);
            keep_first(s.board->fatal, record);
            store<Scope::gpu>(&s.board->command, static_cast<uint32_t>(Command::stop));
            return;
        }
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
        if (s.links == nullptr || !s.links->see(*s.links, s.node, id, Duty::no_room)) {
            sched_yield(); // who makes room may need this core
        }
#else
        relax();
#endif
    }
    if (kind == RingKind::egress) {
        store<Scope::gpu>(&s.status[id].for_host, 1u);
    }
    p->slot = content;
    p->kind = static_cast<uint32_t>(kind);
    p->index = index;
    p->ticket = ticket;
    // Release: partner of the acquire in flush_during_handler().
    store<Scope::block, Order::release>(&p->state, detail::entry_filled);
}

namespace detail {

inline constexpr uint32_t flush_groups = 4; // of as many entries as there are lanes

// flush() of a thread, whose entries lie near: what is written leaves its place to the last one, so
// that few are moved where few had room.
DENIZEN_COLD inline bool flush_alone(const Shared& s, uint32_t id)
{
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    const uint32_t n = parked(s, id);
    uint32_t kept = n;
    bool for_host = false;
    RingSeen seen;
    for (uint32_t i = 0; i < kept;) { // ends: each turn there is one less, or `i` is one more
        Parked& p = outbox[i];
        const bool filled = p.state != entry_free;
        if (filled && !seen.has_room(s, id, p)) {
            for_host |= p.kind == static_cast<uint32_t>(RingKind::egress);
            ++i;
            continue;
        }
        if (filled) {
            write_parked(s, id, p);
        }
        --kept;
        if (i != kept) {
            p = outbox[kept];
        }
        outbox[kept].state = entry_free;
    }
    store<Scope::gpu>(&status.for_host, for_host ? 1u : 0u);
    store<Scope::block>(&status.outbox, kept);
    if (kept == 0) {
        fetch_add<Scope::gpu>(&s.board->jammed, ~0u);
    }
    return kept != n;
}

} // namespace detail

// Between handlers, all lanes: writes the parked messages that have room. The rest stay together at
// the front of the outbox; their tickets hold their order. What lies far away, entries and credits,
// is asked for in groups: hundreds of entries are looked at in the time of a few.
DENIZEN_COLD inline bool flush(const Shared& s, uint32_t id)
{
    using namespace detail;
#if !DENIZEN_ON_DEVICE
    return flush_alone(s, id);
#else
    Status& status = s.status[id];
    Parked* outbox = s.outboxes + static_cast<uint64_t>(id) * s.outbox_capacity;
    const uint32_t n = parked(s, id);
    uint32_t kept = 0;
    bool for_host = false; // of what this lane keeps
    DENIZEN_ROLLED
    for (uint32_t base = 0; base < n; base += flush_groups * lanes::size) {
        ParkedWords words[flush_groups];
        uint32_t credit[flush_groups] = {};
        DENIZEN_UNROLL
        for (uint32_t g = 0; g < flush_groups; ++g) {
            const uint32_t i = base + g * lanes::size + lanes::id();
            if (i < n) {
                words[g] = words_of(outbox[i]);
            }
        }
        DENIZEN_UNROLL
        for (uint32_t g = 0; g < flush_groups; ++g) {
            if (words[g].state != entry_free) {
                credit[g] = credit_for(s, id, words[g]);
            }
        }
        DENIZEN_ROLLED
        for (uint32_t g = 0; g < flush_groups; ++g) {
            ParkedWords mine = words[0];
            uint32_t room_at = credit[0];
            DENIZEN_UNROLL
            for (uint32_t k = 1; k < flush_groups; ++k) {
                mine = g == k ? words[k] : mine;
                room_at = g == k ? credit[k] : room_at;
            }
            const uint32_t first = base + g * lanes::size;
            if (first >= n) {
                break;
            }
            const uint32_t i = first + lanes::id();
            const bool filled = mine.state != entry_free;
            const bool keep = filled && !has_room(s, id, mine, room_at);
            if (filled && !keep) {
                write_parked(s, id, outbox[i]);
            }
            for_host |= keep && mine.kind == static_cast<uint32_t>(RingKind::egress);
            const uint32_t staying = lanes::ballot(keep);
            const uint32_t place = kept + lanes::popcount(staying & lanes::below());
            kept += lanes::popcount(staying);
            if (kept == first + (n - first < lanes::size ? n - first : lanes::size)) {
                continue; // no entry has moved yet
            }
            Parked p{};
            if (keep) {
                p = from_words<Parked>(reinterpret_cast<const uint32_t*>(outbox + i));
            }
            lanes::sync(); // every entry of this group has been read before one is overwritten
            if (i < n) {
                outbox[i].state = entry_free;
            }
            lanes::sync();
            if (keep) {
                to_words(reinterpret_cast<uint32_t*>(outbox + place), p);
            }
            lanes::sync();
        }
    }
    const bool any_for_host = lanes::ballot(for_host) != 0;
    if (lanes::id() == 0) {
        store<Scope::gpu>(&status.for_host, any_for_host ? 1u : 0u);
        store<Scope::block>(&status.outbox, kept);
        if (kept == 0) {
            fetch_add<Scope::gpu>(&s.board->jammed, ~0u);
        }
    }
    lanes::sync();
    return kept != n;
#endif
}

namespace detail {

// Of the outbox, looked at for each round that handles messages: with hundreds parked, looking at
// all of them after every message would cost many times what the message does. And a warp lets a
// few rounds go by in any case: a look takes as long as a round, and rings that are full hold work
// for many.
inline constexpr uint32_t entries_per_round = 8 * lanes::size;
inline constexpr uint32_t rounds_per_flush = lanes::size > 1 ? 4 : 1;

// What do_what_is_rare() (worker.hpp) answers.
inline constexpr uint32_t rare_worked = 1; // the round did something, or this has
inline constexpr uint32_t rare_parked = 2; // messages may be parked still
inline constexpr uint32_t rare_looked = 4; // what is parked was looked at
inline constexpr uint32_t rare_chores = 8; // chores are left
inline constexpr uint32_t rare_turn = 16;  // it took a turn: Status::turn is two more

// At the end of a round with messages parked, all lanes: writes what has room, if it is time to
// look. `worked`: the round did something; `unflushed`: rounds since the last look. Bits of what
// do_what_is_rare() answers (worker.hpp).
DENIZEN_COLD inline uint32_t see_to_outbox(const Shared& s, uint32_t id, bool worked,
                                           uint32_t unflushed)
{
    const uint32_t waiting = parked(s, id);
    if (waiting == 0) {
        return 0;
    }
    if (worked && unflushed < rounds_per_flush + waiting / entries_per_round) {
        return rare_parked;
    }
    return rare_parked | rare_looked | (flush(s, id) ? rare_worked : 0);
}

} // namespace detail

} // namespace denizen
