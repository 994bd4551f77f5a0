// SPDX-License-Identifier: Apache-2.0
#include "shape.hpp"

#include "engine.hpp"
#include "serial.hpp"

#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace denizen::graph {
namespace {

constexpr uint64_t sample = 1 << 18; // arcs: some 2 ms of a search

struct Ends {
    uint32_t first = 0; // that has neighbours
    uint32_t most = 0;  // that has the most
};

Ends ends_of(const Csr& graph)
{
    Ends ends;
    bool found = false;
    interruptibly(0u, graph.vertices(), [&](uint32_t v) {
        if (!found && graph.degree(v) != 0) {
            ends.first = v;
            found = true;
        }
        if (graph.degree(v) > graph.degree(ends.most)) ends.most = v;
    });
    return ends;
}

// Of this thread: what other threads take of its core is not in it.
double busy_ns()
{
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Sample {
    Visited visited;
    double ns; // of the faster of two: the first takes its memory from the system
};

Sample sample_from(const Csr& graph, uint32_t source)
{
    const size_t n = graph.vertices();
    // Only what the sample comes to is touched.
    const auto distance = std::make_unique_for_overwrite<int32_t[]>(n);
    const auto parent = std::make_unique_for_overwrite<int32_t[]>(n);
    const auto queue = std::make_unique_for_overwrite<uint32_t[]>(n);
    Sample best{};
    for (int i = 0; i < 2; ++i) {
        std::vector<uint64_t> seen((n + 63) / 64);
        const double begin = busy_ns();
        best.visited =
            expand(graph, source, distance.get(), parent.get(), queue.get(), seen.data(), sample);
        const double ns = busy_ns() - begin;
        best.ns = i == 0 ? ns : std::min(best.ns, ns);
    }
    return best;
}

std::string in_words(double us)
{
    char text[32];
    std::snprintf(text, sizeof text, us < 1000 ? "%.0f us" : "%.3g ms", us < 1000 ? us : us * 1e-3);
    return text;
}

} // namespace

Shape shape_of(const Csr& graph)
{
    if (graph.vertices() == 0) return {false, 0, 1, 0};
    const Ends ends = ends_of(graph);
    Sample found = sample_from(graph, ends.first);
    if (found.visited.all && found.visited.vertices < graph.vertices() / 4) {
        const Sample other = sample_from(graph, ends.most);
        if (other.visited.vertices > found.visited.vertices) found = other;
    }
    const Visited& visited = found.visited;
    if (visited.all) {
        return {graph.degree(ends.most) > hub, visited.vertices, visited.levels, found.ns};
    }
    const double vertices =
        static_cast<double>(graph.vertices()) / static_cast<double>(visited.vertices);
    const double arcs = static_cast<double>(graph.arcs()) / static_cast<double>(visited.arcs);
    return {graph.degree(ends.most) > hub, graph.vertices(),
            static_cast<uint64_t>(visited.levels * vertices), found.ns * arcs};
}

// Fitted to searches of chains, grids, random and Kronecker graphs and of the roads of New York and
// Florida by an H200 and by a core of the Xeon beside it; both ends are the host's memory.
Estimate estimate(const Csr& graph, const Shape& shape, Use use)
{
    const auto vertices = static_cast<double>(graph.vertices());
    const auto arcs = static_cast<double>(graph.arcs());
    const auto levels = static_cast<double>(shape.levels);
    const bool weighted = use == Use::one_shortest_paths || (use == Use::many && graph.weighted());
    const bool wide = shape.wide();

    double host_us = shape.host_ns * 1e-3;
    double gpu_us = 0;
    if (!weighted) {
        gpu_us = wide ? 60 + 4.1 * levels + 5e-5 * arcs : 60 + 0.7 * levels;
    } else {
        host_us *= 5; // a heap, and a vertex may be lowered again and again
        gpu_us = wide ? 500 + 1.4e-3 * arcs : 150 + 4.2 * levels;
    }
    // Clearing the answer, and bringing it.
    host_us += 1e-3 * vertices;
    gpu_us += 4e-3 * vertices;
    if (use != Use::many) { // the graph's arrays, and the records
        gpu_us += 3000 + (wide ? 1.3e-3 * arcs : 4e-2 * vertices);
        if (weighted) gpu_us += 6e-2 * vertices + 2.5e-3 * arcs;
    }
    return {host_us, gpu_us};
}

Place place_of(const Csr& graph, const Shape& shape, Use use)
{
    const Estimate found = estimate(graph, shape, use);
    std::string why = "a search of some " + std::to_string(shape.levels) + " levels takes " +
                      in_words(found.host_us) + " by a thread of the host and " +
                      in_words(found.gpu_us) + " by a GPU";
    if (use != Use::many) why += ", which has to be given the graph";
    return {found.gpu(), why + " (estimated)"};
}

Place sooner(const Csr& graph, Use use)
{
    check_arrays(graph);
    return place_of(graph, shape_of(graph), use);
}

} // namespace denizen::graph
