// SPDX-License-Identifier: Apache-2.0
// Breadth-first search by asynchronous tasks (task/): each visit of a vertex lowers its neighbours'
// distances and spawns their visits, in no order but that of priorities, and a vertex whose
// distance falls again is visited again. A vertex's distance and parent are one word that only
// falls, so the last visit of each is right whatever the order was.
//
// Priority by level. Deques run the newest first, which left alone walks a graph in depth and finds
// every vertex many times over. So the search goes by windows of levels: a visit within the window
// has the first, second or last priority as its level lies in the window's first, second or last
// third; what lies behind the window is piled up, and the visit that ends the window, which a
// counter of pending visits shows, opens the next one. Nobody waits at a barrier. A visit for which
// the queues have no room waits for the next window, too.
//
// It pays some ten atomics for each visit, and visits some vertices twice: a level must be too
// large for one block (narrow.hpp) and so small that a barrier costs more than that (wide.hpp)
// before it could win. It is never chosen by itself.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/error.hpp>
#include <denizen/graph/detail/view.hpp>
#include <denizen/task/program.hpp>

namespace denizen::graph {

// What all visits of a search see, in the memory of its device.
struct Visits {
    View g;
    unsigned long long* best; // by vertex: distance << 32 | parent
    uint32_t* queued;  // a bit per vertex: a visit of it is on its way, so there is one at most
    uint32_t* pile[2]; // for the next window, and of the last: two places for each vertex
    uint32_t width;    // levels of a window
    // These change between windows only.
    uint32_t side; // of the pile that grows
    uint32_t end;  // first level behind the window
    uint32_t windows;
    alignas(line) uint32_t pending; // visits of the window that have not ended
    uint32_t opened;                // with that many entries of the last pile
    alignas(line) uint32_t piled;   // on the pile that grows
};

inline constexpr uint32_t visit_window = 6; // levels: two for each priority
inline constexpr uint32_t visit_hub = 128;  // a vertex with more neighbours is visited by a warp

namespace detail {

// A pointer in two words: tasks of at most 12 bytes have the smallest slots.
struct VisitsAt {
    uint32_t low = 0;
    uint32_t high = 0;

    VisitsAt() = default;
    DENIZEN_HD explicit VisitsAt(Visits* p)
        : low(static_cast<uint32_t>(reinterpret_cast<uint64_t>(p))),
          high(static_cast<uint32_t>(reinterpret_cast<uint64_t>(p) >> 32))
    {
    }
    DENIZEN_HD Visits& operator*() const
    {
        return *reinterpret_cast<Visits*>(static_cast<uint64_t>(high) << 32 | low);
    }
};

inline constexpr uint32_t resumed = 256; // vertices of the pile for a task

} // namespace detail

template <task::Priority P, task::Grain G>
struct Visit {
    static constexpr auto priority = P;
    static constexpr auto grain = G;
    detail::VisitsAt search;
    uint32_t vertex;
    DENIZEN_HD void run(auto& ctx) const;
};

// The entries of the last pile from `first` on.
struct Resume {
    static constexpr auto priority = task::Priority::high;
    detail::VisitsAt search;
    uint32_t first;
    DENIZEN_HD void run(auto& ctx) const;
    DENIZEN_HD uint32_t visit(auto& ctx, Visits& s) const;
};

namespace detail {

template <task::Priority P>
using OneVisit = Visit<P, task::Grain::thread>;

// An entry of a pile whose visit found no room, in whatever window; else it is at the window's end.
inline constexpr uint32_t refused = 1u << 31;

DENIZEN_HD inline void pile_up(Visits& s, uint32_t entry)
{
    store<Scope::gpu>(&s.pile[s.side][fetch_add<Scope::gpu>(&s.piled, 1u)], entry);
}

// The calling lane's visit: its bit is set and it is pending. False if it had to go on the pile,
// and is not pending any more for the caller: who has a visit of its own that is.
template <class Context>
DENIZEN_HD inline bool spawn_visit(Context& ctx, Visits& s, uint32_t w, uint32_t distance)
{
    using task::Priority;
    const uint32_t begin = s.end - s.width;
    const uint32_t place = distance < begin ? 0 : distance - begin;
    Errc taken = Errc::ok;
    if (3 * place < s.width) {
        taken = ctx.spawn_by_lane(OneVisit<Priority::high>{VisitsAt(&s), w});
    } else if (3 * place < 2 * s.width) {
        taken = ctx.spawn_by_lane(OneVisit<Priority::normal>{VisitsAt(&s), w});
    } else {
        taken = ctx.spawn_by_lane(OneVisit<Priority::low>{VisitsAt(&s), w});
    }
    if (taken != Errc::ok) pile_up(s, w | refused); // its bit stays: it is there once
    return taken == Errc::ok;
}

// `n` of the pending visits have ended. One thread calls it.
template <class Context>
DENIZEN_HD inline void end_visits(Context& ctx, Visits& s, uint32_t n)
{
    // Release and acquire: who ends the window sees what all its visits have done.
    while (n != 0 && fetch_add<Scope::gpu, Order::acq_rel>(&s.pending, ~n + 1) == n) {
        n = 0;
        const uint32_t piled = load<Scope::gpu>(&s.piled);
        if (piled == 0) return; // the end: nobody has anything to do any more
        s.side ^= 1;
        s.end += s.width;
        ++s.windows;
        s.opened = piled;
        store<Scope::gpu>(&s.piled, 0u);
        // One more, that the window is still open when the last Resume has been spawned.
        store<Scope::gpu>(&s.pending, piled + 1);
        n = 1;
        for (uint32_t first = 0; first < piled; first += resumed) {
            const Resume part{VisitsAt(&s), first};
            if (ctx.spawn_by_lane(part) != Errc::ok) n += part.visit(ctx, s);
        }
    }
}

// The arc from v, at `distance` - 1, to w.
template <class Context>
DENIZEN_HD inline void look_at(Context& ctx, Visits& s, uint32_t v, uint32_t w, uint32_t distance)
{
    if (load<Scope::gpu>(&s.best[w]) >> 32 <= distance) return;
    const unsigned long long value = static_cast<unsigned long long>(distance) << 32 | v;
    if (fetch_min<Scope::gpu>(&s.best[w], value) >> 32 <= distance) return;
    if (distance >= s.end) { // it comes to this distance once: the pile has room
        pile_up(s, w);
        return;
    }
    const uint32_t bit = 1u << w % 32;
    // Release: partner of the acquire in run(). Either the visit on its way sees the new distance,
    // or its bit is off already and there is another visit.
    if ((fetch_or<Scope::gpu, Order::acq_rel>(&s.queued[w / 32], bit) & bit) != 0) return;
    fetch_add<Scope::gpu>(&s.pending, 1u);
    if (!spawn_visit(ctx, s, w, distance)) fetch_add<Scope::gpu>(&s.pending, ~0u);
}

} // namespace detail

template <task::Priority P, task::Grain G>
DENIZEN_HD void Visit<P, G>::run(auto& ctx) const
{
    Visits& s = *search;
    const uint32_t end = s.g.offsets[vertex + 1];
    uint32_t c = s.g.offsets[vertex];
    if constexpr (G == task::Grain::thread) {
        if (end - c > visit_hub &&
            ctx.spawn_by_lane(Visit<P, task::Grain::warp>{search, vertex}) == Errc::ok) {
            return; // it is still pending
        }
    }
    if (ctx.lane() == 0) {
        fetch_and<Scope::gpu, Order::acq_rel>(&s.queued[vertex / 32], ~(1u << vertex % 32));
    }
    ctx.sync();
    // If it falls after this, there will be another visit.
    const auto distance = static_cast<uint32_t>(load<Scope::gpu>(&s.best[vertex]) >> 32) + 1;
    for (c += ctx.lane(); c < end; c += ctx.lanes()) {
        detail::look_at(ctx, s, vertex, s.g.neighbours[c], distance);
    }
    ctx.sync();
    if (ctx.lane() == 0) detail::end_visits(ctx, s, 1);
}

DENIZEN_HD void Resume::run(auto& ctx) const
{
    detail::end_visits(ctx, *search, visit(ctx, *search));
}

// Of its entries, how many are not pending any more.
DENIZEN_HD uint32_t Resume::visit(auto& ctx, Visits& s) const
{
    const uint32_t* pile = s.pile[s.side ^ 1];
    const uint32_t end = s.opened - first < detail::resumed ? s.opened : first + detail::resumed;
    const uint32_t begin = s.end - s.width;
    uint32_t ended = 0;
    for (uint32_t i = first; i < end; ++i) {
        const uint32_t entry = load<Scope::gpu>(&pile[i]);
        const uint32_t w = entry & ~detail::refused;
        const auto distance = static_cast<uint32_t>(load<Scope::gpu>(&s.best[w]) >> 32);
        if (entry == w) {
            // Found nearer before its window ended, or on its way by another entry.
            const uint32_t bit = 1u << w % 32;
            if (distance != begin ||
                (fetch_or<Scope::gpu, Order::acq_rel>(&s.queued[w / 32], bit) & bit) != 0) {
                ++ended;
                continue;
            }
        }
        ended += detail::spawn_visit(ctx, s, w, distance) ? 0 : 1;
    }
    return ended;
}

using VisitProgram = task::Program<Visit<task::Priority::high, task::Grain::thread>,
                                   Visit<task::Priority::normal, task::Grain::thread>,
                                   Visit<task::Priority::low, task::Grain::thread>,
                                   Visit<task::Priority::high, task::Grain::warp>,
                                   Visit<task::Priority::normal, task::Grain::warp>,
                                   Visit<task::Priority::low, task::Grain::warp>, Resume>;

} // namespace denizen::graph
