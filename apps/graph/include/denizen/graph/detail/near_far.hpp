// SPDX-License-Identifier: Apache-2.0
// Shortest paths over arcs of integer weights by one block or by all: the near-far method
// (Davidson, Baxter, Garland, Owens: Work-Efficient Parallel GPU Methods for Single-Source Shortest
// Paths, IPDPS 2014). Vertices nearer than a threshold are expanded in rounds, in any order, and
// again when they turn out to be nearer; the others wait in a pile until nothing near is left and
// the threshold rises. How far it rises follows the number of vertices that it brings: enough for
// every thread of the team, few enough that little is expanded twice. One block has the near ones
// and the counters in its own memory; all blocks of a resident kernel, or threads of the host, have
// them in memory that all reach, and the barrier is that of the grid.
//
// A vertex's distance and parent are one word that only falls, so no lock is needed and whoever
// lowers it expands it. An entry whose vertex has been lowered since is skipped.
#pragma once

#include <denizen/graph/detail/own.hpp>
#include <denizen/graph/detail/spread.hpp>

namespace denizen::graph {

// A vertex to expand, and the distance it had when it was put here.
struct alignas(8) Entry {
    uint32_t vertex;
    uint32_t distance;
};

struct NearFarMemory {
    unsigned long long* best; // by vertex: distance << 32 | parent
    Entry* queue;             // twice `slots`, in the block's own memory
    uint32_t slots;           // 0 for all blocks
    Entry* spill[2];          // what does not fit into a queue: `room` entries each
    Entry* pile[2];           // what is far, `room` entries each
    uint32_t room;            // vertices + arcs or more
    uint32_t zero_weights;    // whether there are any
    uint32_t* counters;       // 6, in the block's own memory or in memory that all reach
};

inline constexpr uint32_t unreached = ~0u; // a distance

namespace detail {

// The first three count what is pushed near, in turn.
enum : uint32_t { far_count = 3, least_far, lost };

// How counters are reached: in one block's own memory,
struct OfBlock {
    static DENIZEN_HD uint32_t add(uint32_t* p, uint32_t n) { return own::fetch_add(p, n); }
    static DENIZEN_HD void lower(uint32_t* p, uint32_t value) { own::lower(p, value); }
    static DENIZEN_HD uint32_t get(const uint32_t* p) { return *p; }
    static DENIZEN_HD void set(uint32_t* p, uint32_t value) { *p = value; }
};
// or by all. Relaxed: barriers are between what is written and read.
struct OfAll {
    static DENIZEN_HD uint32_t add(uint32_t* p, uint32_t n) { return fetch_add<Scope::gpu>(p, n); }
    static DENIZEN_HD void lower(uint32_t* p, uint32_t value)
    {
        if (load<Scope::gpu>(p) > value) fetch_min<Scope::gpu>(p, value);
    }
    static DENIZEN_HD uint32_t get(const uint32_t* p) { return load<Scope::gpu>(p); }
    static DENIZEN_HD void set(uint32_t* p, uint32_t value) { store<Scope::gpu>(p, value); }
};

template <class Counters>
struct NearFar {
    const View& g;
    const WeightedRecord* records;
    const NearFarMemory& memory;
    uint32_t* counters;

    uint32_t threshold; // nearer than this is near
    uint32_t parity;    // which half of the queue is read
    uint32_t side;      // which pile is written
    uint32_t next;      // which counter counts what is pushed near: round % 3
    uint32_t overflow;

    DENIZEN_HD Entry near(uint32_t i) const
    {
        return i < memory.slots
                   ? memory.queue[parity * memory.slots + i]
                   : (parity != 0 ? memory.spill[1] : memory.spill[0])[i - memory.slots];
    }

    DENIZEN_HD uint32_t distance(uint32_t v) const
    {
        return static_cast<uint32_t>(load<Scope::gpu>(&memory.best[v]) >> 32);
    }

    // Room for what the lanes with `wanted` put somewhere: the caller's place.
    DENIZEN_HD uint32_t reserve(bool wanted, uint32_t which) const
    {
        const uint32_t any = lanes::ballot(wanted);
        uint32_t at = 0;
        if (any != 0) {
            if (lanes::id() == 0) at = Counters::add(&counters[which], lanes::popcount(any));
            at = lanes::shuffle(at, 0);
        }
        return at + lanes::popcount(any & lanes::below());
    }

    // Every lane of a warp calls it.
    DENIZEN_HD void push(bool wanted, Entry entry)
    {
        const bool is_near = wanted && entry.distance < threshold;
        const uint32_t at = reserve(is_near, next);
        if (is_near) {
            if (at < memory.slots) {
                memory.queue[(parity ^ 1) * memory.slots + at] = entry;
            } else {
                (parity != 0 ? memory.spill[0] : memory.spill[1])[at - memory.slots] = entry;
            }
        }
        const bool is_far = wanted && !is_near;
        const uint32_t place = reserve(is_far, far_count);
        if (is_far) {
            // A full pile is made anew from all vertices when its turn comes.
            if (place < memory.room) {
                (side != 0 ? memory.pile[1] : memory.pile[0])[place] = entry;
            } else {
                Counters::set(&counters[lost], 1); // whoever writes it, it is 1
            }
            Counters::lower(&counters[least_far], entry.distance);
        }
    }

    // True if a path by way of `from` is shorter than all before.
    DENIZEN_HD bool lower(uint32_t from, uint64_t distance, uint32_t to)
    {
        if (to == no_vertex) return false;
        if (distance >= unreached) {
            overflow = 1;
            return false;
        }
        // Of two parents at the same distance the lesser number wins. With arcs of weight 0 that
        // could be a vertex that was itself found by way of `to`: a circle. Such a one sees here
        // that `to` is near enough already.
        if (memory.zero_weights && this->distance(to) <= distance) return false;
        const unsigned long long value = static_cast<unsigned long long>(distance) << 32 | from;
        return fetch_min<Scope::gpu>(&memory.best[to], value) >> 32 > distance;
    }

    static constexpr uint32_t capacity = WeightedRecord::capacity;
    static constexpr uint32_t group = lanes::size < capacity ? 1 : capacity; // lanes to an entry
    static constexpr uint32_t per_lane = capacity / group;

    // Every lane of a warp calls it, with its group's entry or without.
    DENIZEN_HD void expand(Entry entry)
    {
        const bool here = entry.vertex != no_vertex;
        const uint32_t lane = lanes::id() % group;
        const WeightedRecord& record = records[here ? entry.vertex : 0];
        const uint32_t now = here ? distance(entry.vertex) : 0; // on its way with the record
        uint32_t to[per_lane];
        uint32_t weight[per_lane];
        load_constant<per_lane>(&record.id[lane * per_lane], to);
        load_constant<per_lane>(&record.weight[lane * per_lane], weight);
        const bool current = here && now == entry.distance;
        const bool more = lane == 0 && (to[0] & ~WeightedRecord::mask) != 0;
        bool shorter[per_lane];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < per_lane; ++k) {
            to[k] &= WeightedRecord::mask;
            if (!current || to[k] == WeightedRecord::mask) to[k] = no_vertex;
            shorter[k] = lower(entry.vertex, uint64_t{entry.distance} + weight[k], to[k]);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < per_lane; ++k) {
            if (lanes::ballot(shorter[k]) != 0) {
                push(shorter[k], {to[k], entry.distance + weight[k]});
            }
        }
        for (uint32_t rest = lanes::ballot(current && more); rest != 0; rest &= rest - 1) {
            const uint32_t from = lanes::first(rest);
            const uint32_t u = lanes::shuffle(entry.vertex, from);
            const uint32_t distance_u = lanes::shuffle(entry.distance, from);
            const uint32_t end = g.offsets[u + 1];
            for (uint32_t c = g.offsets[u] + WeightedRecord::capacity; c < end; c += lanes::size) {
                const bool arc = c + lanes::id() < end;
                const uint32_t w = arc ? g.neighbours[c + lanes::id()] : no_vertex;
                const uint64_t distance_to =
                    distance_u + uint64_t{arc ? g.weights[c + lanes::id()] : 0};
                const bool less = lower(u, distance_to, w);
                if (lanes::ballot(less) != 0) push(less, {w, static_cast<uint32_t>(distance_to)});
            }
        }
    }
};

} // namespace detail

// Searches from `source` until every path is as short as it can be, or `deadline` (now_ns()) has
// passed. `best` must be all ones. `step`: how far the threshold rises at first. `Counters`:
// OfBlock for a Block, OfAll for a Grid, which must have that deadline.
template <class Counters, class Team>
DENIZEN_HD void near_far(Team& team, const View& g, const WeightedRecord* records,
                         const NearFarMemory& memory, Progress* progress, uint32_t source,
                         uint32_t step, uint32_t few, uint32_t many, uint64_t deadline)
{
    using namespace detail;
    uint32_t* const counters = memory.counters;
    if (team.rank() == 0) {
        memory.best[source] = source;
        (memory.slots != 0 ? memory.queue : memory.spill[0])[0] = {source, 0};
        for (const uint32_t zero : {0u, 1u, 2u, +far_count, +lost}) {
            Counters::set(&counters[zero], 0);
        }
        Counters::set(&counters[least_far], unreached);
    }
    NearFar<Counters> search{g, records, memory, counters, step, 0, 0, 0, 0};
    team.sync();
    uint32_t count = 1;
    uint32_t rounds = 0;
    bool late = false;
    for (;;) {
        // Expands the near ones, round by round.
        while (count != 0) {
            constexpr uint32_t group = NearFar<Counters>::group;
            for (uint32_t i = team.rank(); i - lanes::id() < count * group; i += team.size()) {
                if (leaves(team, i)) break;
                search.expand(i / group < count ? search.near(i / group) : Entry{no_vertex, 0});
            }
            // Was read by the last a barrier ago.
            if (team.rank() == 0) {
                Counters::set(&counters[(search.next + 1) % 3], 0);
                if (rounds % 64 == 0 && past(deadline)) store<Scope::gpu>(&progress->late, 1u);
            }
            team.sync();
            count = Counters::get(&counters[search.next]);
            search.next = (search.next + 1) % 3;
            search.parity ^= 1;
            ++rounds;
            if (rounds % 64 == 1) late = late || load<Scope::gpu>(&progress->late) != 0;
            late = late || team.late();
            if (late) break;
        }
        uint32_t far = Counters::get(&counters[far_count]);
        const bool was_lost = Counters::get(&counters[lost]) != 0;
        const uint32_t least = Counters::get(&counters[least_far]);
        if (far == 0 || late) break; // ends: the threshold rises past the least of the far ones
        // Splits the pile at the next threshold.
        const uint32_t base = least > search.threshold ? least : search.threshold;
        const uint32_t last = search.threshold;
        search.threshold = unreached - base > step ? base + step : unreached;
        team.sync();
        if (team.rank() == 0) {
            Counters::set(&counters[far_count], 0);
            Counters::set(&counters[lost], 0);
            Counters::set(&counters[least_far], unreached);
        }
        team.sync();
        const Entry* pile = search.side != 0 ? memory.pile[1] : memory.pile[0];
        search.side ^= 1;
        if (was_lost) far = g.vertices;
        for (uint32_t i = team.rank(); i - lanes::id() < far; i += team.size()) {
            if (leaves(team, i)) break;
            Entry entry{0, 0};
            bool wanted = i < far;
            if (wanted && was_lost) { // whatever is not near is far
                entry = {i, search.distance(i)};
                wanted = entry.distance >= last && entry.distance != unreached;
            } else if (wanted) {
                entry = pile[i];
                wanted = search.distance(entry.vertex) == entry.distance;
            }
            search.push(wanted, entry);
        }
        team.sync();
        count = Counters::get(&counters[search.next]);
        if (team.rank() == 0) Counters::set(&counters[(search.next + 1) % 3], 0);
        team.sync();
        search.next = (search.next + 1) % 3;
        search.parity ^= 1;
        if (count < few && step < unreached / 2) step *= 2;
        if (count > many && step > 1) step /= 2;
    }
    if (search.overflow != 0) store<Scope::gpu>(&progress->overflow, 1u);
    if (team.rank() == 0) {
        progress->done = late ? 0 : 1;
        progress->late = late ? 1 : 0;
        progress->rounds = rounds;
    }
}

// The words of near_far() as arrays; a distance does not fit above 2^31 - 1.
template <class Team>
DENIZEN_HD void unpack(const Team& team, const unsigned long long* best, const Found& found,
                       uint32_t vertices, Progress* progress)
{
    for (uint32_t v = team.rank(); v < vertices && !leaves(team, v); v += team.size()) {
        const auto distance = static_cast<uint32_t>(best[v] >> 32);
        const bool reached = distance != unreached;
        if (reached && distance >> 31 != 0) store<Scope::gpu>(&progress->overflow, 1u);
        found.distance[v] = reached ? static_cast<int32_t>(distance) : -1;
        found.parent[v] = reached ? static_cast<int32_t>(best[v]) : -1;
    }
}

} // namespace denizen::graph
