// SPDX-License-Identifier: Apache-2.0
// The searches by one thread of the host, as textbooks have them: for graphs whose levels are too
// small to share, where a barrier or a second look at a vertex costs more than the vertex.
#pragma once

#include <denizen/graph/csr.hpp>

#include <cstdint>
#include <vector>

namespace denizen::graph {

struct Visited {
    size_t vertices; // found
    uint64_t arcs;   // followed
    uint32_t levels;
    bool all; // that can be reached
};

// Breadth-first from `source`, until so many arcs or all have been followed. Each array has a place
// per vertex, `seen` a bit, which is zero.
Visited expand(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent,
               uint32_t* queue, uint64_t* seen, uint64_t most);

// The same of the whole graph: `distance` and `parent` have a word per vertex, -1 where it does not
// come. `queue` and `seen` are memory, kept for the next. Returns the levels.
uint32_t serial_bfs(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent,
                    std::vector<uint32_t>& queue, std::vector<uint64_t>& seen);

// Dijkstra's algorithm with a radix heap. False if a path is longer than 2^31 - 1.
bool serial_shortest_paths(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent);

} // namespace denizen::graph
