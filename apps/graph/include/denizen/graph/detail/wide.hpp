// SPDX-License-Identifier: Apache-2.0
// Breadth-first search by the whole GPU in one resident kernel, or by threads of the host, with a
// barrier of all after each level: for graphs of few, large levels. Goes on where narrow.hpp handed
// over. Levels that hold most of the edges are searched from below: each unseen vertex looks for a
// neighbour in the frontier and stops at the first (Beamer, Asanović, Patterson: Direction-
// Optimizing Breadth-First Search, SC 2012, with its alpha 14 and beta 24). That needs an
// undirected graph.
#pragma once

#include <denizen/graph/detail/spread.hpp>

namespace denizen::graph {

// A piece of a row: `vertex`'s arcs from `first` on, at most `piece_arcs` of them. Rows are cut so
// that a vertex with a million neighbours is everybody's work.
struct Piece {
    uint32_t vertex;
    uint32_t first;
};
inline constexpr uint32_t piece_arcs = 64;

// Pieces that a queue must have room for.
DENIZEN_HD inline uint64_t most_pieces(uint64_t vertices, uint64_t arcs)
{
    return vertices + arcs / piece_arcs;
}

// Sums of a level over all threads, zero at the start; three, used in turn.
struct alignas(line) Tally {
    uint32_t pieces;         // in the next queue
    uint32_t vertices;       // found
    unsigned long long arcs; // of the vertices found
};

struct WideMemory {
    Piece* queue[2];    // most_pieces() each
    uint32_t* seen;     // a bit per vertex
    uint32_t* front[2]; // a bit per vertex of a level that is searched from below, and the next
    Tally* tally;       // 3
};

namespace detail {

// Pieces may be counted on already, by a thread that is faster.
DENIZEN_HD inline Tally sums(const Tally& tally)
{
    return {load<Scope::gpu>(&tally.pieces), tally.vertices, tally.arcs};
}

template <class Team>
struct Wide {
    Team& team;
    const View& g;
    const Found& found;
    const WideMemory& memory;

    Tally* tally = nullptr; // of the level that is being found
    Piece* next = nullptr;  // its queue; null: searched from below, no queue is made
    int32_t distance = 0;   // its distance
    uint32_t my_vertices = 0;
    unsigned long long my_arcs = 0;

    static constexpr uint32_t group = lanes::size < 8 ? lanes::size : 8; // lanes to a piece

    DENIZEN_HD bool unseen(uint32_t w) const
    {
        return (load<Scope::gpu>(&memory.seen[w / 32]) >> w % 32 & 1) == 0;
    }

    // Every lane of a warp calls it; `fresh` if the lane has found `w`.
    DENIZEN_HD void push(bool fresh, uint32_t w)
    {
        const uint32_t first = fresh ? g.offsets[w] : 0;
        const uint32_t arcs = fresh ? g.offsets[w + 1] - first : 0;
        my_vertices += fresh ? 1 : 0;
        my_arcs += arcs;
        const uint32_t any = lanes::ballot(arcs != 0 && arcs <= piece_arcs);
        uint32_t at = 0;
        if (any != 0 && lanes::id() == lanes::first(any)) {
            at = fetch_add<Scope::gpu>(&tally->pieces, lanes::popcount(any));
        }
        if (any != 0) at = lanes::shuffle(at, lanes::first(any));
        if (arcs != 0 && arcs <= piece_arcs) {
            next[at + lanes::popcount(any & lanes::below())] = {w, first};
        }
        // Long rows, one after the other, all lanes writing pieces.
        for (uint32_t rest = lanes::ballot(arcs > piece_arcs); rest != 0; rest &= rest - 1) {
            const uint32_t lane = lanes::first(rest);
            const uint32_t vertex = lanes::shuffle(w, lane);
            const uint32_t from = lanes::shuffle(first, lane);
            const uint32_t pieces = (lanes::shuffle(arcs, lane) + piece_arcs - 1) / piece_arcs;
            uint32_t place = 0;
            if (lanes::id() == lane) place = fetch_add<Scope::gpu>(&tally->pieces, pieces);
            place = lanes::shuffle(place, lane);
            for (uint32_t p = lanes::id(); p < pieces; p += lanes::size) {
                next[place + p] = {vertex, from + p * piece_arcs};
            }
        }
    }

    // From the frontier's pieces outwards.
    DENIZEN_HD void down(const Piece* queue, uint32_t pieces)
    {
        constexpr uint32_t per_warp = lanes::size / group;
        const uint32_t warp = team.rank() / lanes::size;
        const uint32_t warps = team.size() / lanes::size;
        for (uint32_t base = warp * per_warp; base < pieces; base += warps * per_warp) {
            if (leaves(team, base)) break;
            const uint32_t i = base + lanes::id() / group;
            const Piece piece = i < pieces ? queue[i] : Piece{0, 0};
            const uint32_t row_end = i < pieces ? g.offsets[piece.vertex + 1] : 0;
            const uint32_t end =
                row_end - piece.first < piece_arcs ? row_end : piece.first + piece_arcs;
            uint32_t c = piece.first + lanes::id() % group;
            while (lanes::ballot(i < pieces && c < end) != 0) { // ends: c grows
                const uint32_t w = i < pieces && c < end ? g.neighbours[c] : no_vertex;
                bool fresh = false;
                if (w != no_vertex && unseen(w)) {
                    const uint32_t bit = 1u << w % 32;
                    fresh = (fetch_or<Scope::gpu>(&memory.seen[w / 32], bit) & bit) == 0;
                }
                if (fresh) {
                    found.distance[w] = distance;
                    found.parent[w] = static_cast<int32_t>(piece.vertex);
                }
                if (lanes::ballot(fresh) != 0) push(fresh, w);
                c += group;
            }
        }
    }

    DENIZEN_HD static bool in(const uint32_t* bits, uint32_t v)
    {
        return (bits[v / 32] >> v % 32 & 1) != 0;
    }

    // From the unseen vertices back to the frontier. Every word of bits has one writer.
    DENIZEN_HD void up(const uint32_t* front, uint32_t* next_front)
    {
        const uint32_t words = (g.vertices + 31) / 32;
        const uint32_t warp = team.rank() / lanes::size;
        const uint32_t warps = team.size() / lanes::size;
        constexpr uint32_t alone = 32; // arcs that a lane looks through by itself
        for (uint32_t word = warp; word < words; word += warps) {
            if (leaves(team, word)) break;
            const uint32_t seen = memory.seen[word];
            uint32_t hits = 0;
            for (uint32_t b = lanes::id(); seen != ~0u && b - lanes::id() < 32; b += lanes::size) {
                const uint32_t v = word * 32 + b;
                const bool wanted = v < g.vertices && (seen >> b & 1) == 0;
                const uint32_t first = wanted ? g.offsets[v] : 0;
                const uint32_t end = wanted ? g.offsets[v + 1] : 0;
                uint32_t from = no_vertex;
                uint32_t c = first;
                for (; c < end && c - first < alone && from == no_vertex; ++c) {
                    const uint32_t u = g.neighbours[c];
                    if (in(front, u)) from = u;
                }
                for (uint32_t rest = lanes::ballot(c < end && from == no_vertex); rest != 0;
                     rest &= rest - 1) {
                    const uint32_t lane = lanes::first(rest);
                    const uint32_t stop = lanes::shuffle(end, lane);
                    for (uint32_t i = lanes::shuffle(c, lane); i < stop; i += lanes::size) {
                        const uint32_t u =
                            i + lanes::id() < stop ? g.neighbours[i + lanes::id()] : no_vertex;
                        const uint32_t any = lanes::ballot(u != no_vertex && in(front, u));
                        if (any == 0) continue;
                        const uint32_t parent = lanes::shuffle(u, lanes::first(any));
                        if (lanes::id() == lane) from = parent;
                        break;
                    }
                }
                if (from != no_vertex) {
                    found.distance[v] = distance;
                    found.parent[v] = static_cast<int32_t>(from);
                    ++my_vertices;
                    my_arcs += end - first;
                }
                hits |= lanes::ballot(from != no_vertex) << (b - lanes::id());
            }
            if (lanes::id() == 0) {
                next_front[word] = hits;
                if (hits != 0) memory.seen[word] = seen | hits;
            }
        }
    }

    // A queue out of bits: pieces for all vertices of `front`.
    DENIZEN_HD void queue_of(const uint32_t* front)
    {
        const uint32_t words = (g.vertices + 31) / 32;
        const uint32_t warp = team.rank() / lanes::size;
        const uint32_t warps = team.size() / lanes::size;
        for (uint32_t word = warp; word < words; word += warps) {
            if (leaves(team, word)) break;
            const uint32_t bits = front[word];
            for (uint32_t b = lanes::id(); bits != 0 && b - lanes::id() < 32; b += lanes::size) {
                push((bits >> b & 1) != 0, word * 32 + b);
            }
        }
    }

    // Adds this thread's sums to the level's: one atomic per block, not per warp, since all of them
    // go to one address.
    DENIZEN_HD void count()
    {
#if DENIZEN_ON_DEVICE
        __shared__ uint32_t vertices;
        __shared__ unsigned long long arcs;
        if (threadIdx.x == 0) {
            vertices = 0;
            arcs = 0;
        }
        __syncthreads();
        for (uint32_t step = lanes::size / 2; step != 0; step /= 2) {
            my_vertices += lanes::shuffle(my_vertices, lanes::id() ^ step);
            my_arcs += lanes::shuffle(my_arcs, lanes::id() ^ step);
        }
        if (lanes::id() == 0 && my_vertices != 0) {
            fetch_add<Scope::block>(&vertices, my_vertices);
            fetch_add<Scope::block>(&arcs, my_arcs);
        }
        __syncthreads();
        my_vertices = vertices;
        my_arcs = arcs;
        if (threadIdx.x == 0 && my_vertices != 0)
#endif
        {
            fetch_add<Scope::gpu>(&tally->vertices, my_vertices);
            fetch_add<Scope::gpu>(&tally->arcs, my_arcs);
        }
        my_vertices = 0;
        my_arcs = 0;
    }
};

} // namespace detail

// Searches on from the last level of the journal, whose vertices are in `found` and `seen` already.
// Every thread of the team calls it. `undirected` allows the search from below.
template <class Team>
DENIZEN_HD void wide(Team& team, const View& g, const Journal& journal, const Found& found,
                     const WideMemory& memory, Progress* progress, bool undirected)
{
    const Progress before = *progress;
    if (before.done != 0 || before.late != 0) return;
    detail::Wide<Team> level{team, g, found, memory};
    const uint32_t begin = journal.start[before.levels - 1];
    uint32_t reached = before.reached;
    uint32_t turn = 0; // of queues and tallies
    level.tally = &memory.tally[0];
    level.next = memory.queue[0];
    for (uint32_t i = begin + team.rank(); i - lanes::id() < before.reached; i += team.size()) {
        const uint32_t v = i < before.reached ? journal.steps[i].vertex : no_vertex;
        level.push(v < g.vertices, v);
    }
    level.count();
    team.sync();

    unsigned long long unexplored = g.arcs;
    uint32_t levels = before.levels;
    bool below = false; // the frontier is bits, not a queue
    Tally frontier = detail::sums(memory.tally[0]);
    while (frontier.vertices != 0 && !team.late()) { // ends: every vertex is found once
        unexplored -= frontier.arcs < unexplored ? frontier.arcs : unexplored;
        const bool go_below = undirected && (below ? frontier.vertices > g.vertices / 24
                                                   : frontier.arcs > unexplored / 14);
        Tally& old = memory.tally[(turn + 2) % 3]; // read a barrier ago by the last
        if (below && !go_below) {
            // Pieces are counted anew; the sums are known.
            level.tally = &memory.tally[turn % 3];
            level.next = memory.queue[turn % 2];
            level.queue_of(memory.front[turn % 2]);
            level.my_vertices = 0;
            level.my_arcs = 0;
            team.sync();
            frontier.pieces = load<Scope::gpu>(&memory.tally[turn % 3].pieces);
        } else if (!below && go_below) {
            uint32_t* front = memory.front[turn % 2];
            for (uint32_t i = team.rank(); i < (g.vertices + 31) / 32; i += team.size()) {
                front[i] = 0;
            }
            team.sync();
            const Piece* queue = memory.queue[turn % 2];
            for (uint32_t i = team.rank(); i < frontier.pieces && !leaves(team, i);
                 i += team.size()) {
                const uint32_t v = queue[i].vertex;
                fetch_or<Scope::gpu>(&front[v / 32], 1u << v % 32);
            }
            team.sync();
        }
        below = go_below;
        level.tally = &memory.tally[(turn + 1) % 3];
        level.next = memory.queue[(turn + 1) % 2];
        level.distance = static_cast<int32_t>(levels);
        if (below) {
            level.up(memory.front[turn % 2], memory.front[(turn + 1) % 2]);
        } else {
            level.down(memory.queue[turn % 2], frontier.pieces);
        }
        level.count();
        if (team.rank() == 0) old = Tally{};
        team.sync();
        ++turn;
        frontier = detail::sums(memory.tally[turn % 3]);
        reached += frontier.vertices;
        ++levels;
    }
    if (team.rank() == 0) {
        progress->reached = reached;
        progress->levels = frontier.vertices == 0 ? levels - 1 : levels;
        progress->done = team.late() ? 0 : 1;
        progress->late = team.late() ? 1 : 0;
        progress->rounds = team.round;
    }
}

} // namespace denizen::graph
