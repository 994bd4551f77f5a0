// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>

#include <denizen/graph/csr.hpp>

#include <algorithm>
#include <string>

namespace denizen::graph {
namespace {

constexpr uint64_t most_arcs = (uint64_t{1} << 32) - 1;

// A hub's row may be as long as all others together.
void sort_row(uint64_t* begin, uint64_t* end)
{
    if (end - begin < 1 << 16) {
        std::sort(begin, end);
        return;
    }
    size_t compared = 0;
    std::sort(begin, end, [&](uint64_t a, uint64_t b) {
        if (++compared % items_per_check == 0) check_interrupt();
        return a < b;
    });
}

} // namespace

Csr csr_of(const Edges& edges, bool undirected)
{
    const uint64_t arcs = edges.from.size() * (undirected ? 2 : 1);
    if (edges.vertices > most_vertices || arcs > most_arcs) {
        throw Error(Errc::oversize, "a graph of " + std::to_string(edges.vertices) +
                                        " vertices and " + std::to_string(arcs) +
                                        " arcs: at most 2^31 - 1 and 2^32 - 1 fit");
    }
    const bool weighted = !edges.weights.empty();
    if (edges.to.size() != edges.from.size() ||
        (weighted && edges.weights.size() != edges.from.size())) {
        throw Error(Errc::bad_argument, "lists of edges of different lengths");
    }
    Csr graph;
    graph.undirected = undirected;
    std::vector<uint32_t> start;
    assign_interruptibly(start, edges.vertices + 1, 0u);
    const auto ends = [&](auto each) {
        interruptibly(size_t{0}, edges.from.size(), [&](size_t i) {
            const uint32_t weight = weighted ? edges.weights[i] : 0;
            if (edges.from[i] == edges.to[i]) return;
            each(edges.from[i], edges.to[i], weight);
            if (undirected) each(edges.to[i], edges.from[i], weight);
        });
    };
    interruptibly(size_t{0}, edges.from.size(), [&](size_t i) {
        if (const uint32_t most = std::max(edges.from[i], edges.to[i]); most >= edges.vertices) {
            throw Error(Errc::bad_argument, "edge " + std::to_string(i) + " ends at vertex " +
                                                std::to_string(most) + " of " +
                                                std::to_string(edges.vertices));
        }
    });
    ends([&](uint32_t from, uint32_t, uint32_t) { ++start[from + 1]; });
    interruptibly(size_t{0}, size_t{edges.vertices}, [&](size_t v) { start[v + 1] += start[v]; });

    // One word an arc: sorted by neighbour, then by weight.
    std::vector<uint64_t> row;
    assign_interruptibly(row, start.back(), uint64_t{0});
    {
        std::vector<uint32_t> next(start.begin(), start.end() - 1);
        ends([&](uint32_t from, uint32_t to, uint32_t weight) {
            row[next[from]++] = uint64_t{to} << 32 | weight;
        });
    }
    assign_interruptibly(graph.offsets, edges.vertices + 1, 0u);
    graph.neighbours.reserve(row.size());
    interruptibly(size_t{0}, size_t{edges.vertices}, [&](size_t v) {
        sort_row(row.data() + start[v], row.data() + start[v + 1]);
        for (size_t i = start[v]; i < start[v + 1]; ++i) {
            const auto to = static_cast<uint32_t>(row[i] >> 32);
            if (i != start[v] && static_cast<uint32_t>(row[i - 1] >> 32) == to) continue;
            graph.neighbours.push_back(to);
            if (weighted) graph.weights.push_back(static_cast<uint32_t>(row[i]));
        }
        graph.offsets[v + 1] = static_cast<uint32_t>(graph.neighbours.size());
    });
    return graph;
}

void check_arrays(const Csr& graph)
{
    const auto wrong = [](const std::string& what) { throw Error(Errc::bad_argument, what); };
    if (graph.offsets.empty() || graph.offsets.front() != 0 ||
        graph.offsets.back() != graph.neighbours.size()) {
        wrong("offsets must begin with 0 and end with the number of arcs");
    }
    if (graph.offsets.size() - 1 > most_vertices || graph.neighbours.size() > most_arcs) {
        throw Error(Errc::oversize, "a graph may have 2^31 - 1 vertices and 2^32 - 1 arcs");
    }
    interruptibly(0u, graph.vertices(), [&](uint32_t v) {
        if (graph.offsets[v] > graph.offsets[v + 1]) {
            wrong("offsets fall at vertex " + std::to_string(v));
        }
    });
    interruptibly(size_t{0}, graph.neighbours.size(), [&](size_t i) {
        if (graph.neighbours[i] >= graph.vertices()) {
            wrong("arc " + std::to_string(i) + " ends at vertex " +
                  std::to_string(graph.neighbours[i]) + " of " + std::to_string(graph.vertices()));
        }
    });
    if (!graph.weights.empty() && graph.weights.size() != graph.neighbours.size()) {
        wrong(std::to_string(graph.weights.size()) + " weights for " +
              std::to_string(graph.neighbours.size()) + " arcs");
    }
}

} // namespace denizen::graph
