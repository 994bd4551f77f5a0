// SPDX-License-Identifier: Apache-2.0
// A graph in the memory of the device that searches it, and what a search leaves there.
//
// Where frontiers are small a level lasts as long as its dependent loads. Rows cost two (where the
// row is, what is in it); a *record* holds the first neighbours of a vertex in a place that is
// found by its number, so they cost one.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::graph {

inline constexpr uint32_t no_vertex = ~0u;

// Four neighbours. Vertex v with more has four more in the record of v + `vertices`, and then
// whoever finds v puts both numbers into the queue: each neighbour's place says whether v is such a
// one. What does not fit into two records is in v's row, and the second record says so.
struct alignas(16) Record {
    static constexpr uint32_t capacity = 4;
    static constexpr uint32_t mask = (1u << 30) - 1; // of a vertex
    static constexpr uint32_t none = mask;           // no neighbour here
    static constexpr uint32_t big = 1u << 31;        // this neighbour has two records
    static constexpr uint32_t more = 1u << 30;       // in the first place of a second record

    uint32_t place[capacity];
};

// Four neighbours with their weights. `mask` stands where there is none; a vertex with more has the
// highest bit of the first place set, and the rest in its row.
struct alignas(32) WeightedRecord {
    static constexpr uint32_t capacity = 4;
    static constexpr uint32_t mask = ~0u >> 1;

    uint32_t id[4];
    uint32_t weight[4];
};

// One, two or four words, aligned to as many, that do not change while a search runs.
template <uint32_t n>
DENIZEN_HD inline void load_constant(const uint32_t* at, uint32_t (&to)[n])
{
    static_assert(n == 1 || n == 2 || n == 4);
#if DENIZEN_ON_DEVICE
    if constexpr (n == 1) {
        to[0] = __ldg(at);
    } else if constexpr (n == 2) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(at));
        to[0] = two.x;
        to[1] = two.y;
    } else {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(at));
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    }
#else
    for (uint32_t k = 0; k < n; ++k) to[k] = at[k];
#endif
}

// The arrays of a Csr (csr.hpp) and its records.
struct View {
    uint32_t vertices;
    uint32_t arcs;
    const uint32_t* offsets;
    const uint32_t* neighbours;
    const uint32_t* weights;
};

struct alignas(8) Step {
    uint32_t vertex;
    uint32_t from; // the neighbour by which it was found
};

// Vertices in the order in which a search found them; level l is steps[start[l] .. start[l + 1]).
// Numbers from `vertices` on are second records and count for nothing.
struct Journal {
    Step* steps;     // a place for each vertex and each second record
    uint32_t* start; // vertices + 2 words
};

// How far a search has come. `reached` vertices in `levels` levels, the last of them not expanded
// unless `done`.
struct Progress {
    uint32_t reached;
    uint32_t levels;
    uint32_t done;
    uint32_t late;     // it stopped at its deadline
    uint32_t overflow; // a path is longer than 2^32 - 2
    uint32_t rounds;   // barriers of the whole team, or windows
    // By the device's clock, in nanoseconds: the results began to be cleared, were complete.
    unsigned long long began;
    unsigned long long ended;
};

// What a level's kernel leaves for its next run in a captured graph.
struct Repeated {
    uint32_t size;    // of the frontier
    uint32_t found;   // of the next one, so far
    uint32_t level;   // of the frontier
    uint32_t arrived; // blocks that have nothing left to do
};

} // namespace denizen::graph
