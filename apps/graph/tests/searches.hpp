// SPDX-License-Identifier: Apache-2.0
// A second, plain search to compare with, for the tests and the benchmark, and graphs with a hub.
#pragma once

#include <denizen/graph/csr.hpp>

#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace denizen::graph {

// Distances by the textbook's queue.
inline std::vector<int32_t> plain_bfs(const Csr& graph, uint32_t source)
{
    std::vector<int32_t> distance(graph.vertices(), -1);
    std::vector<uint32_t> queue{source};
    distance[source] = 0;
    for (size_t head = 0; head < queue.size(); ++head) {
        const uint32_t v = queue[head];
        for (uint32_t i = graph.offsets[v]; i < graph.offsets[v + 1]; ++i) {
            const uint32_t w = graph.neighbours[i];
            if (distance[w] != -1) continue;
            distance[w] = distance[v] + 1;
            queue.push_back(w);
        }
    }
    return distance;
}

// Distances by Dijkstra's algorithm.
inline std::vector<int32_t> plain_shortest_paths(const Csr& graph, uint32_t source)
{
    using Item = std::pair<int64_t, uint32_t>;
    std::vector<int32_t> distance(graph.vertices(), -1);
    std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
    queue.push({0, source});
    while (!queue.empty()) {
        const auto [far, v] = queue.top();
        queue.pop();
        if (distance[v] != -1) continue;
        distance[v] = static_cast<int32_t>(far);
        for (uint32_t i = graph.offsets[v]; i < graph.offsets[v + 1]; ++i) {
            const uint32_t w = graph.neighbours[i];
            if (distance[w] == -1) queue.push({far + graph.weights[i], w});
        }
    }
    return distance;
}

// Vertex 0 has all others as neighbours but those of a chain, `links` long, that begins at it.
inline Csr star(uint32_t leaves, uint32_t links = 0)
{
    Edges edges;
    edges.vertices = uint64_t{leaves} + links + 1;
    for (uint32_t v = 1; v < edges.vertices; ++v) {
        edges.from.push_back(v <= leaves + 1 ? 0 : v - 1);
        edges.to.push_back(v);
    }
    return csr_of(edges, true);
}

} // namespace denizen::graph
