// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>

#include <denizen/graph/validate.hpp>

#include <algorithm>

namespace denizen::graph {
namespace {

std::string of(uint32_t v) { return "vertex " + std::to_string(v); }

} // namespace

std::string broken_rule(const Csr& graph, uint32_t source, const Paths& paths, bool weighted)
{
    const uint32_t n = graph.vertices();
    const auto& distance = paths.distances;
    const auto& parent = paths.parents;
    if (distance.size() != n || parent.size() != n) return "an answer for another graph";
    if (distance[source] != 0 || parent[source] != static_cast<int32_t>(source)) {
        return "rule 1: the source " + std::to_string(source) + " has distance " +
               std::to_string(distance[source]) + " and parent " + std::to_string(parent[source]);
    }
    uint32_t flat = 0; // vertices no farther than their parents, by arcs of weight 0
    for (uint32_t v = 0; v < n; ++v) {
        if (v % items_per_check == 0) check_interrupt();
        const bool reached = distance[v] >= 0;
        if (!reached) {
            if (distance[v] != -1 || parent[v] != -1) {
                return "rule 4: " + of(v) + " is not reached and has distance " +
                       std::to_string(distance[v]) + " and parent " + std::to_string(parent[v]);
            }
            continue;
        }
        if (v == source) continue;
        if (parent[v] < 0 || static_cast<uint32_t>(parent[v]) >= n) {
            return "rule 1: " + of(v) + " has parent " + std::to_string(parent[v]);
        }
        const auto p = static_cast<uint32_t>(parent[v]);
        const auto begin = graph.neighbours.begin() + graph.offsets[p];
        const auto end = graph.neighbours.begin() + graph.offsets[p + 1];
        const auto arc = std::lower_bound(begin, end, v);
        if (arc == end || *arc != v) return "rule 2: no arc from parent " + of(p) + " to " + of(v);
        const int64_t length =
            weighted ? graph.weights[static_cast<size_t>(arc - graph.neighbours.begin())] : 1;
        if (distance[p] < 0 || int64_t{distance[v]} - distance[p] != length) {
            return "rule 2: " + of(v) + " is at distance " + std::to_string(distance[v]) +
                   " and its parent " + std::to_string(p) + " at " + std::to_string(distance[p]) +
                   ", an arc of " + std::to_string(length) + " away";
        }
        flat += length == 0 ? 1 : 0;
    }
    // Arcs of weight 0 alone can close a circle. Each walk ends after `flat` steps or shows one.
    uint64_t walked = 0;
    for (uint32_t v = 0; v < n && flat != 0; ++v) {
        uint32_t at = v;
        uint32_t steps = 0;
        while (distance[at] >= 0 && at != source &&
               distance[static_cast<uint32_t>(parent[at])] == distance[at]) {
            if (++walked % items_per_check == 0) check_interrupt();
            at = static_cast<uint32_t>(parent[at]);
            if (++steps > flat) return "rule 1: the parents of " + of(v) + " go round in a circle";
        }
    }
    for (uint32_t v = 0; v < n; ++v) {
        if (distance[v] < 0) continue;
        for (uint32_t i = graph.offsets[v]; i < graph.offsets[v + 1]; ++i) {
            if (i % items_per_check == 0) check_interrupt();
            const uint32_t w = graph.neighbours[i];
            if (distance[w] < 0) {
                return "rule 4: " + of(v) + " is reached and its neighbour " + std::to_string(w) +
                       " is not";
            }
            const int64_t length = weighted ? graph.weights[i] : 1;
            if (distance[w] > distance[v] + length) {
                return "rule 3: " + of(w) + " is at distance " + std::to_string(distance[w]) +
                       ", but its neighbour " + std::to_string(v) + " at " +
                       std::to_string(distance[v]) + " is " + std::to_string(length) + " away";
            }
        }
    }
    return {};
}

} // namespace denizen::graph
