// SPDX-License-Identifier: Apache-2.0
// Where a worker's tasks come from: its own deques, its mailbox, the shelves, continuations that
// found no room, and other workers' deques. Each source fills the batch that is run next, or
// returns false. All lanes make these calls.
#pragma once

#include <denizen/base/out_of_sight.hpp>
#include <denizen/task/detail/settle.hpp>

namespace denizen::task {

// What the worker runs next: a thread task on each lane whose `mine` is true, or one task of a warp
// or block, which lane 0 holds.
template <class P>
struct Batch {
    typename P::Words words{};
    bool mine = false;
    Grain grain = Grain::thread;
    uint32_t tokens = 0; // that came with it
    uint32_t size = 1;   // tasks in it, at most
};

namespace sources {

inline constexpr uint32_t polls = 16; // of the mailbox, in a look at nothing else

// ---- the worker's own deques

// Takes the newest tasks of the highest priority that there is.
template <uint32_t C = 0, class P>
DENIZEN_HD inline bool own(const Station<P>& at, Batch<P>& batch)
{
    if constexpr (C < P::classes) {
        constexpr Grain grain = P::grain_of_class(C);
        constexpr uint32_t most = grain == Grain::thread ? denizen::lanes::size : 1;
        const uint64_t seen = at.local.seen[C];
        const uint32_t there = deque::size(seen) < most ? deque::size(seen) : most;
        if (there != 0) {
            // The owner may read its tasks before it takes them, so both accesses are under way at
            // once. Lane i reads the task after i newer ones. If a thief leaves fewer, the first
            // lanes have them.
            const uint32_t lane = denizen::lanes::id();
            if (lane < there) {
                task::detail::load_slot<P::slot>(
                    task::detail::slot_of(at.s, at.id, C, deque::bottom(seen) - 1 - lane, P::slot),
                    batch.words);
            }
            denizen::lanes::sync(); // all have read the word that lane 0 writes
            uint32_t n = 0;
            if (lane == 0) {
                uint64_t now = seen;
                n = deque::take(&at.s.deques[at.id].word[C], now, there);
                at.local.seen[C] = now;
            }
            n = denizen::lanes::shuffle(n, 0);
            denizen::lanes::sync();
            if (n != 0) {
                batch.mine = lane < n;
                batch.grain = grain;
                batch.size = n;
                return true;
            }
        }
        return own<C + 1>(at, batch);
    } else {
        return false;
    }
}

namespace detail {

// ---- what of a batch is run next

template <class P>
DENIZEN_HD inline Grain grain_of(uint32_t c)
{
    Grain grain = Grain::thread;
    for (uint32_t k = 0; k < P::classes; ++k) {
        grain = k == c ? P::grain_of_class(k) : grain;
    }
    return grain;
}

template <class P>
DENIZEN_HD inline void put_aside(Station<P>& at, bool other, const Batch<P>& batch)
{
    if (denizen::lanes::ballot(other) == 0) {
        return;
    }
    const uint32_t group = other ? group_of(batch.words.word[0]) : 0;
    Context<P> ctx(at.s, at.local, at.id, group, Grain::thread, other ? batch.tokens : 0);
    if (other) {
        keep(ctx, batch.words);
    }
    denizen::lanes::rejoin();
    settle(at, ctx, other, 0);
}

// For a batch of one class. Of a warp's or block's tasks only the first stays in the batch; the
// others go to the worker's own deque, where they can be stolen.
template <class P>
DENIZEN_HD inline void take_apart(Station<P>& at, [[maybe_unused]] uint32_t c, Batch<P>& batch)
{
    if constexpr (P::has_warps || P::has_blocks) {
        batch.grain = grain_of<P>(c);
        if (batch.grain != Grain::thread) {
            put_aside(at, batch.mine && denizen::lanes::id() != 0, batch);
            batch.mine = denizen::lanes::id() == 0;
        }
    }
}

// For a batch of many classes. Only the thread tasks stay in it.
template <class P>
DENIZEN_HD inline void sort_out(Station<P>& at, Batch<P>& batch)
{
    if constexpr (P::has_warps || P::has_blocks) {
        const bool other =
            batch.mine && grain_of<P>(class_of(batch.words.word[0])) != Grain::thread;
        put_aside(at, other, batch);
        batch.mine = batch.mine && !other;
    }
}

// ---- a look at all other sources in the time of one access to L2: all loads are under way at once

struct Probe {
    Packet first;        // of this lane's slot of the mailbox
    uint32_t letter = 0; // that slot
    bool mail = false;
    uint32_t shelves = 0; // bit c: there are crates of class c
    bool strand = false;
    bool some = false; // this lane has seen tasks of another worker:
    uint32_t victim = 0;
    uint32_t c = 0;
    uint64_t seen = 0;
};

template <class P>
DENIZEN_HD inline void see_mail(const Station<P>& at, Probe& probe)
{
    const Mailbox& box = at.s.mailboxes[at.id];
#if DENIZEN_ON_DEVICE
    probe.letter = denizen::lanes::id() % mail_slots;
    probe.mail =
        mailbox::arrived(box, probe.letter, probe.first) && denizen::lanes::id() < mail_slots;
#else
    while (probe.letter < mail_slots && !probe.mail) { // ends at the last slot
        probe.mail = mailbox::arrived(box, probe.letter++, probe.first);
    }
    probe.letter -= 1;
#endif
}

template <class P>
DENIZEN_HD inline void see_shelves(const Station<P>& at, Probe& probe, uint32_t classes)
{
    const Shared& s = at.s;
#if DENIZEN_ON_DEVICE
    const uint32_t c = denizen::lanes::id();
    const bool shelf = c < classes && index_queue::something(s.shelf[c < classes ? c : 0]);
    const bool strand = c == 0 && index_queue::something(s.stranded);
    probe.shelves = denizen::lanes::ballot(shelf);
    probe.strand = strand;
#else
    for (uint32_t c = 0; c < classes; ++c) {
        probe.shelves |= index_queue::something(s.shelf[c]) ? 1u << c : 0;
    }
    probe.strand = index_queue::something(s.stranded);
#endif
}

// Looks at as many other workers as there are lanes, from a random worker on.
template <class P>
DENIZEN_HD inline void see_victims(Station<P>& at, Probe& probe)
{
    const Shared& s = at.s;
    at.done.add(Count::looks, 1);
    at.random = at.random * 1664525u + 1013904223u;
    const uint32_t base = (at.random >> 8) % s.workers;
#if DENIZEN_ON_DEVICE
    constexpr uint32_t each = denizen::lanes::size / P::classes;
    probe.c = denizen::lanes::id() % P::classes;
    probe.victim = base + denizen::lanes::id() / P::classes % each;
    probe.victim -= probe.victim >= s.workers ? s.workers : 0;
    probe.victim %= s.workers; // fewer workers than lanes
    probe.seen = load<Scope::gpu>(&s.deques[probe.victim].word[probe.c]);
    probe.some = denizen::lanes::id() < each * P::classes;
#else
    for (uint32_t i = 0; i < s.workers * P::classes && deque::size(probe.seen) == 0; ++i) {
        probe.c = P::steal_order(i / s.workers);
        probe.victim = (base + i) % s.workers;
        probe.seen =
            probe.victim == at.id ? 0 : load<Scope::gpu>(&s.deques[probe.victim].word[probe.c]);
    }
    probe.some = true;
#endif
    probe.some = probe.some && probe.victim != at.id && deque::size(probe.seen) != 0 &&
                 (probe.seen & deque::busy) == 0;
}

// ---- and taken

// Tasks that spawn_on() has sent to this worker. `here`: the lanes that have seen one.
template <class P>
DENIZEN_HD inline bool mail(Station<P>& at, const Probe& probe, uint32_t here, Batch<P>& batch)
{
    if (here == 0) {
        return false;
    }
    if (probe.mail) {
        mailbox::take(at.s.mailboxes[at.id], probe.letter, probe.first, batch.words.word);
        batch.tokens = mailbox::tokens(probe.first) - 1; // beyond its own: for what it spawns
#if DENIZEN_ON_DEVICE
        if (!P::self_contained(type_of(batch.words.word[0]))) {
            __threadfence(); // partner: the sender's fence in mailbox::send()
        }
#endif
    }
    batch.size = denizen::lanes::popcount(here);
    at.done.add(Count::letters, batch.size);
    batch.mine = probe.mail;
    sort_out(at, batch);
    return true;
}

// A crate's thread tasks run at once if there are at most as many as lanes. Otherwise all of them
// go to the worker's own deque, which has room for them.
template <class P>
DENIZEN_HD inline void unpack(Station<P>& at, uint32_t c, uint32_t number, uint32_t n,
                              Batch<P>& batch)
{
    using task::detail::load_slot;
    unsigned char* from = crate::at(at.s, number);
    denizen::lanes::sync(); // one lane has acquired for all
    const uint32_t lane = denizen::lanes::id();
    at.done.add(Count::crates, 1);
    const bool at_once = n <= denizen::lanes::size;
    if (at_once && lane < n) {
        load_slot<P::slot>(crate::slot_in(from, lane, P::slot), batch.words);
    }
    batch.mine = at_once && lane < n;
    batch.size = n;
    if constexpr (denizen::lanes::size < crate_tasks) {
        if (!at_once) {
            Context<P> ctx(at.s, at.local, at.id, 0, Grain::thread);
            for (uint32_t i = lane; i < n; i += denizen::lanes::size) {
                typename P::Words words;
                load_slot<P::slot>(crate::slot_in(from, i, P::slot), words);
                keep(ctx, words);
            }
            denizen::lanes::rejoin();
            settle(at, ctx, false, 0);
        }
    }
    denizen::lanes::sync(); // all have copied
    if (lane == 0) {
        auto* const give = out_of_sight(&crate::give);
        give(at.s, number);
    }
    denizen::lanes::rejoin();
    if (at_once) {
        take_apart(at, c, batch);
    }
}

// A crate from a shelf: of spilled tasks, or of the host's.
template <class P>
DENIZEN_HD inline bool shelves(Station<P>& at, const Probe& probe, Batch<P>& batch)
{
    for (uint32_t full = probe.shelves; full != 0; full &= full - 1) {
        const uint32_t c = denizen::lanes::first(full);
        if (deque::room(at.local.seen[c], at.s.deque_mask) < crate_tasks) {
            continue;
        }
        uint32_t tasks = 0; // that it has
        uint32_t number = 0;
        if (denizen::lanes::id() == 0) {
            crate::unshelve(at.s, c, number, tasks);
        }
        tasks = denizen::lanes::shuffle(tasks, 0);
        if (tasks != 0) {
            unpack(at, c, denizen::lanes::shuffle(number, 0), tasks, batch);
            return true;
        }
    }
    return false;
}

// A continuation that found no room when its last arrival came; see Context::strand().
template <class P>
DENIZEN_HD inline bool stranded(Station<P>& at, const Probe& probe, Batch<P>& batch)
{
    uint32_t index = 0;
    const bool found = probe.strand && index_queue::pop(at.s.stranded, index);
    if (denizen::lanes::ballot(found) == 0) {
        return false;
    }
    if (found) {
        task::detail::load_slot<P::slot>(
            reinterpret_cast<const unsigned char*>(at.s.join[index].word), batch.words);
        index_queue::push(at.s.free_joins, index);
    }
    denizen::lanes::sync();
    batch.mine = found;
    batch.size = denizen::lanes::size;
    sort_out(at, batch);
    return true;
}

// Steals half of another worker's tasks, the oldest, and at most as many as there are lanes.
template <class P>
DENIZEN_HD inline bool steal(Station<P>& at, const Probe& probe, Batch<P>& batch)
{
    uint32_t candidates = denizen::lanes::ballot(probe.some);
    for (uint32_t k = 0; k + 1 < P::classes; ++k) { // those that come first
        const uint32_t of_class =
            denizen::lanes::ballot(probe.some && probe.c == P::steal_order(k));
        if (of_class != 0) {
            candidates = of_class;
            break;
        }
    }
    if (candidates == 0) {
        return false;
    }
    const uint32_t chosen = denizen::lanes::first(candidates);
    const uint32_t lane = denizen::lanes::id();
    const uint32_t c = denizen::lanes::shuffle(probe.c, chosen);
    const uint32_t victim = denizen::lanes::shuffle(probe.victim, chosen);
    const uint32_t top = denizen::lanes::shuffle(deque::top(probe.seen), chosen);
    uint64_t* word = &at.s.deques[victim].word[c];
    uint32_t n = 0;
    if (lane == chosen) {
        n = deque::steal(word, probe.seen,
                         denizen::lanes::size < steal_most ? denizen::lanes::size : steal_most);
    }
    n = denizen::lanes::shuffle(n, chosen);
    if (n == 0) {
        return false;
    }
    denizen::lanes::sync(); // one lane has acquired for all
    if (lane < n) {
        task::detail::load_slot<P::slot>(
            task::detail::slot_of(at.s, victim, c, top + lane, P::slot), batch.words);
    }
    denizen::lanes::sync(); // all have copied
    if (lane == 0) {
        deque::finish(word);
    }
    at.done.add(Count::steals, 1);
    at.done.add(Count::stolen, n);
    batch.mine = lane < n;
    batch.size = n;
    take_apart(at, c, batch);
    return true;
}

} // namespace detail

// For a worker that has tasks of its own: the mailbox, and shelves of a higher priority than these.
// Now and then all shelves, because a worker's own tasks may never end.
template <class P>
DENIZEN_HD inline bool urgent(Station<P>& at, Batch<P>& batch, bool all)
{
    detail::Probe probe;
    detail::see_mail(at, probe);
    uint32_t best = 0;
    while (best < P::classes && deque::size(at.local.seen[best]) == 0) {
        ++best; // ends at the last class
    }
    if (all) {
        detail::see_shelves(at, probe, P::classes);
    } else if (best != 0 && best < P::classes) {
        detail::see_shelves(at, probe, best);
    }
    return detail::mail(at, probe, denizen::lanes::ballot(probe.mail), batch) ||
           detail::shelves(at, probe, batch);
}

// For a worker without tasks of its own: all sources, or for a while the mailbox alone.
template <class P>
DENIZEN_HD inline bool elsewhere(Station<P>& at, Batch<P>& batch, bool all)
{
    detail::Probe probe;
    if (!all) {
        uint32_t here = 0;
        DENIZEN_ROLLED
        for (uint32_t i = 0; i < polls && here == 0; ++i) {
            detail::see_mail(at, probe);
            here = denizen::lanes::ballot(probe.mail);
        }
        return detail::mail(at, probe, here, batch);
    }
    detail::see_victims(at, probe);
    detail::see_mail(at, probe);
    detail::see_shelves(at, probe, P::classes);
    return detail::mail(at, probe, denizen::lanes::ballot(probe.mail), batch) ||
           detail::shelves(at, probe, batch) || detail::stranded(at, probe, batch) ||
           detail::steal(at, probe, batch);
}

// Whether any source has something. A worker on the CPU asks before it sleeps.
#if DENIZEN_HOSTED
template <class P>
bool something(const Station<P>& at)
{
    Packet first;
    bool some = index_queue::something(at.s.stranded);
    for (uint32_t slot = 0; slot < mail_slots; ++slot) {
        some = some || mailbox::arrived(at.s.mailboxes[at.id], slot, first);
    }
    for (uint32_t c = 0; c < P::classes; ++c) {
        some = some || index_queue::something(at.s.shelf[c]);
        for (uint32_t w = 0; w < at.s.workers; ++w) {
            some = some || deque::size(load<Scope::gpu>(&at.s.deques[w].word[c])) != 0;
        }
    }
    return some;
}
#endif

} // namespace sources

} // namespace denizen::task
