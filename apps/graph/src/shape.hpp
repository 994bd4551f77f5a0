// SPDX-License-Identifier: Apache-2.0
// What the searches of a graph are like, and by whom they are answered sooner: a thread of the host
// or a GPU. How deep a graph is only a search tells, so the beginning of one is made.
#pragma once

#include <denizen/graph/csr.hpp>
#include <denizen/graph/search.hpp>

#include <cstdint>

namespace denizen::graph {

struct Shape {
    bool hubs;      // a vertex has more than `hub` neighbours
    uint64_t reach; // vertices of a search
    uint64_t levels;
    double host_ns; // of a breadth-first search by one thread of the host

    // A level is worth a barrier of all: few levels, or wide ones.
    bool shallow() const { return levels <= 64 || reach / levels >= 1024; }
    bool wide() const { return hubs && shallow(); }
};

// From the search of 262,144 arcs at most, twice, and as if the rest were like them. It begins at
// the first vertex that has neighbours, and where that reaches little at the one that has the most.
Shape shape_of(const Csr& graph);

// Microseconds from the call to having the answer in the host's memory, and with `use` for one
// search what makes the graph ready, too.
struct Estimate {
    double host_us;
    double gpu_us;

    // Estimates are wrong by a quarter, so where the GPU gains less the host answers.
    bool gpu() const { return gpu_us * 1.25 < host_us; }
};
Estimate estimate(const Csr& graph, const Shape& shape, Use use);

// sooner(), of a graph whose arrays have been checked.
Place place_of(const Csr& graph, const Shape& shape, Use use);

} // namespace denizen::graph
