// SPDX-License-Identifier: Apache-2.0
// A graph as compressed sparse rows, and how it comes out of a list of edges. Host only; read.hpp
// and generate.hpp make them, search.hpp takes them.
#pragma once

#include <denizen/base/error.hpp>

#include <cstdint>
#include <vector>

namespace denizen::graph {

inline constexpr uint64_t most_vertices = (uint64_t{1} << 31) - 1;

// The neighbours of v are neighbours[offsets[v] .. offsets[v + 1]), ascending, each once and never
// v itself. Vertices and arcs are counted in 32 bits.
struct Csr {
    std::vector<uint32_t> offsets{0};
    std::vector<uint32_t> neighbours;
    std::vector<uint32_t> weights; // one per arc, or none at all
    bool undirected = false;       // every arc has its twin of the same weight

    uint32_t vertices() const { return static_cast<uint32_t>(offsets.size() - 1); }
    uint32_t arcs() const { return static_cast<uint32_t>(neighbours.size()); }
    uint32_t degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
    bool weighted() const { return !weights.empty(); }
};

// What a file says or a generator draws.
struct Edges {
    uint64_t vertices = 0;
    std::vector<uint32_t> from;
    std::vector<uint32_t> to;
    std::vector<uint32_t> weights; // one per edge, or none at all
};

// Loops are dropped; of parallel arcs the lightest stays. `undirected` adds the twin of every edge.
// Errc::oversize for 2^31 vertices or 2^32 arcs and more, Errc::bad_argument for an end that is no
// vertex.
Csr csr_of(const Edges& edges, bool undirected);

// Throws Errc::bad_argument unless the arrays are what Csr says (order and twins are not looked
// at).
void check_arrays(const Csr& graph);

} // namespace denizen::graph
