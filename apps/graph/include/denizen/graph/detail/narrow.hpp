// SPDX-License-Identifier: Apache-2.0
// Breadth-first search by one block, for graphs whose levels are many and small: roads, meshes,
// chains. A level is then a chain of latencies and nothing else, so everything that a level waits
// for is as near as it can be: the queue and one bit per vertex in shared memory, neighbours one
// load away (view.hpp), the barrier that of a block, and none at all while the frontier fits into a
// warp. What is found is written in order, which coalesces; spread() turns it into arrays later, on
// the whole GPU.
//
// The instructions between the loads count too: a warp issues a dependent one every five cycles or
// so, and the block four a cycle. Of 1024 threads four lanes expand a vertex while the frontier has
// 256 or fewer (a chain's level has then about sixty instructions in a row), two up to 512, else
// one: always as many as there are, and the fewest instructions for those who have the most to do.
// On an H100 a chain's level lasts 0.44 µs: queue 30 + record from L2 270 + bit 30 + claim 60 +
// place in the queue 90 cycles, and those instructions.
//
// A frontier wider than `widest` is handed over to wide.hpp: the journal says all that it needs.
#pragma once

#include <denizen/graph/detail/own.hpp>
#include <denizen/graph/detail/team.hpp>
#include <denizen/graph/detail/view.hpp>

namespace denizen::graph {

// The block's own memory. On the GPU it should be shared memory, `visited` too if that fits.
struct NarrowMemory {
    uint32_t* visited; // (vertices + 31) / 32 words
    uint32_t* queue;   // twice `slots`; the rest of a wider frontier is read from the journal
    uint32_t slots;
    uint32_t* counters; // 4
};

namespace detail {

template <bool visited_here>
struct Narrow {
    // The most lanes that can share a vertex.
    static constexpr uint32_t most_lanes = lanes::size < Record::capacity ? 1 : Record::capacity;

    const View& g;
    const Record* records;
    const Journal& journal;
    const NarrowMemory& memory;

    uint32_t begin;    // of this level in the journal
    uint32_t count;    // its vertices
    uint32_t parity;   // which half of the queue it lies in
    uint32_t* counter; // of the next level; null: one warp alone, and `found` counts
    uint32_t found;

    DENIZEN_HD uint32_t entry(uint32_t i) const
    {
        return i < memory.slots ? memory.queue[parity * memory.slots + i]
                                : journal.steps[begin + i].vertex;
    }

    DENIZEN_HD bool unseen(bool wanted, uint32_t w) const
    {
        const uint32_t* word = &memory.visited[w / 32];
        uint32_t bits = ~0u;
        if constexpr (visited_here) {
            bits = own::load_if(wanted, word, ~0u);
        } else {
            if (wanted) bits = load<Scope::gpu>(word);
        }
        return (bits >> w % 32 & 1) == 0;
    }

    // True for exactly one of those who want the same vertex.
    DENIZEN_HD bool claim(bool wanted, uint32_t w) const
    {
        uint32_t* word = &memory.visited[w / 32];
        const uint32_t bit = 1u << w % 32;
        uint32_t before = ~0u;
        if constexpr (visited_here) {
            before = own::fetch_or_if(wanted, word, bit, ~0u);
        } else {
            if (wanted) before = fetch_or<Scope::gpu>(word, bit);
        }
        return (before & bit) == 0;
    }

    // Room for `n` vertices of all lanes together: the number of the first.
    DENIZEN_HD uint32_t reserve(uint32_t n)
    {
        if (counter == nullptr) {
            const uint32_t at = found;
            found += n;
            return at;
        }
        uint32_t at = 0;
        if (lanes::id() == 0 && n != 0) at = own::fetch_add(counter, n);
        return lanes::shuffle(at, 0);
    }

    DENIZEN_HD void put(uint32_t at, uint32_t w, uint32_t from) const
    {
        if (at < memory.slots) memory.queue[(parity ^ 1) * memory.slots + at] = w;
        journal.steps[begin + count + at] = {w, from};
    }

    // Which vertex a number in the queue belongs to.
    DENIZEN_HD uint32_t vertex(uint32_t e) const { return e < g.vertices ? e : e - g.vertices; }

    // Entry `i` of the frontier by a group of lanes that share its places, if there is one. Every
    // lane of a warp calls it. Each loop is one step for all places, which wait for it together.
    template <uint32_t group>
    DENIZEN_HD void expand(uint32_t i)
    {
        constexpr uint32_t n = Record::capacity / group;
        const uint32_t e = i < count ? entry(i) : no_vertex;
        uint32_t w[n];
        if (e == no_vertex) {
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < n; ++k) w[k] = Record::none;
        } else {
            load_constant<n>(&records[e].place[lanes::id() % group * n], w);
        }
        bool fresh[n];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < n; ++k) {
            const uint32_t v = w[k] & Record::mask;
            fresh[k] = unseen(v != Record::none, v);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < n; ++k) fresh[k] = claim(fresh[k], w[k] & Record::mask);
        uint32_t any[n];
        uint32_t total = 0;
        bool special = false;
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < n; ++k) {
            any[k] = lanes::ballot(fresh[k]);
            total += lanes::popcount(any[k]);
            special =
                special || (fresh[k] && (w[k] & Record::big) != 0) || (w[k] & Record::more) != 0;
        }
        uint32_t at = reserve(total);
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < n; ++k) {
            if (any[k] == 0) continue; // an issued instruction is what this block has least of
            if (fresh[k]) {
                put(at + lanes::popcount(any[k] & lanes::below()), w[k] & Record::mask, vertex(e));
            }
            at += lanes::popcount(any[k]);
        }
        if (lanes::ballot(special) == 0) return;
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < n; ++k) {
            const bool big = fresh[k] && (w[k] & Record::big) != 0;
            const uint32_t bigs = lanes::ballot(big);
            const uint32_t place = reserve(lanes::popcount(bigs));
            if (big) {
                put(place + lanes::popcount(bigs & lanes::below()),
                    (w[k] & Record::mask) + g.vertices, vertex(e));
            }
            expand_rows(e, lanes::ballot((w[k] & Record::more) != 0));
        }
    }

    // What did not fit into the records of the vertices of the lanes in `long_rows`, row by row.
    DENIZEN_HD void expand_rows(uint32_t e, uint32_t long_rows)
    {
        for (; long_rows != 0; long_rows &= long_rows - 1) {
            const uint32_t u = vertex(lanes::shuffle(e, lanes::first(long_rows)));
            const uint32_t end = g.offsets[u + 1];
            for (uint32_t c = g.offsets[u] + 2 * Record::capacity; c < end; c += lanes::size) {
                const uint32_t w =
                    c + lanes::id() < end ? g.neighbours[c + lanes::id()] : no_vertex;
                const bool fresh = claim(unseen(w != no_vertex, w), w);
                const uint32_t any = lanes::ballot(fresh);
                uint32_t at = reserve(lanes::popcount(any));
                if (fresh) put(at + lanes::popcount(any & lanes::below()), w, u);
                const bool big = fresh && g.offsets[w + 1] - g.offsets[w] > Record::capacity;
                const uint32_t bigs = lanes::ballot(big);
                at = reserve(lanes::popcount(bigs));
                if (big) put(at + lanes::popcount(bigs & lanes::below()), w + g.vertices, u);
            }
        }
    }
};

} // namespace detail

// Searches from `source` until nothing new is found, a level is wider than `widest`, or
// `deadline` (now_ns()) has passed. Every thread of the block calls it. `visited_here`: the bits
// lie in the block's own memory too.
template <bool visited_here, class Team>
DENIZEN_HD void narrow(Team& team, const View& g, const Record* records, const Journal& journal,
                       const NarrowMemory& memory, Progress* progress, uint32_t source,
                       uint32_t widest, uint64_t deadline)
{
    for (uint32_t i = team.rank(); i < (g.vertices + 31) / 32; i += team.size()) {
        memory.visited[i] = 0;
    }
    team.sync();
    // The source's second record, too, if it has one.
    const uint32_t first_count =
        g.offsets[source + 1] - g.offsets[source] > Record::capacity ? 2 : 1;
    if (team.rank() == 0) {
        memory.visited[source / 32] = 1u << source % 32;
        memory.queue[0] = source;
        memory.counters[0] = memory.counters[1] = memory.counters[2] = 0;
        journal.steps[0] = {source, source};
        if (first_count == 2) {
            memory.queue[1] = source + g.vertices;
            journal.steps[1] = {source + g.vertices, source};
        }
        journal.start[0] = 0;
        journal.start[1] = first_count;
    }
    team.sync();

    using Level = detail::Narrow<visited_here>;
    Level level{g, records, journal, memory, 0, first_count, 0, nullptr, 0};
    // A warp's frontier, and the whole team's, by the most lanes.
    constexpr uint32_t in_warp = lanes::size / Level::most_lanes;
    constexpr uint32_t some_lanes = Level::most_lanes < 2 ? 1 : 2;
    uint32_t number = 0; // of the level that is expanded: the distance of its vertices
    uint32_t rounds = 0;
    bool late = false;
    while (level.count != 0 && level.count <= widest && !late) {
        ++rounds;
        if (level.count <= in_warp) {
            // The first warp goes on alone, the others wait at the barrier below.
            if (team.rank() < lanes::size) {
                level.counter = nullptr;
                do {
                    level.found = 0;
                    level.template expand<Level::most_lanes>(team.rank() / Level::most_lanes);
                    level.begin += level.count;
                    level.count = level.found;
                    level.parity ^= 1;
                    ++number;
                    if (lanes::id() == 0) {
                        journal.start[number + 1] = level.begin + level.count;
                        // The host says that it is late, too, when it is interrupted.
                        late = number % 1024 == 0 &&
                               (past(deadline) || load<Scope::gpu>(&progress->late) != 0);
                    }
                    late = lanes::shuffle(late ? 1u : 0u, 0) != 0;
                    lanes::sync();
                } while (level.count != 0 && level.count <= in_warp && !late);
                if (lanes::id() == 0) {
                    memory.counters[0] = level.count;
                    memory.counters[1] = number;
                    memory.counters[2] = late ? 1 : 0;
                    memory.counters[3] = level.begin;
                }
            }
            team.sync();
            level.count = memory.counters[0];
            number = memory.counters[1];
            late = memory.counters[2] != 0;
            level.begin = memory.counters[3];
            level.parity = number % 2;
            team.sync();
            if (team.rank() == 0) memory.counters[0] = memory.counters[1] = memory.counters[2] = 0;
            team.sync();
            continue;
        }
        level.counter = &memory.counters[number % 3];
        if (level.count <= team.size() / Level::most_lanes) {
            level.template expand<Level::most_lanes>(team.rank() / Level::most_lanes);
        } else if (level.count <= team.size() / some_lanes) {
            level.template expand<some_lanes>(team.rank() / some_lanes);
        } else {
            for (uint32_t i = team.rank(); i - lanes::id() < level.count; i += team.size()) {
                level.template expand<1>(i);
            }
        }
        // Was read two barriers ago by the last.
        if (team.rank() == 0) memory.counters[(number + 1) % 3] = 0;
        if (number % 64 == 0 && team.rank() == 0 && past(deadline)) progress->late = 1;
        team.sync();
        level.begin += level.count;
        level.count = *level.counter;
        level.parity ^= 1;
        ++number;
        if (team.rank() == 0) journal.start[number + 1] = level.begin + level.count;
        if (number % 64 == 1) late = load<Scope::gpu>(&progress->late) != 0;
    }
    if (team.rank() == 0) {
        progress->reached = level.begin + level.count;
        progress->levels = number + (level.count != 0 ? 1 : 0);
        progress->done = level.count == 0 ? 1 : 0;
        progress->late = late ? 1 : 0;
        progress->rounds = rounds;
    }
}

} // namespace denizen::graph
