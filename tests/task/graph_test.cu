// SPDX-License-Identifier: Apache-2.0
// Random graphs of tasks: each node waits for its predecessors by a counter and combines what they
// have written, so a node that runs too early, twice or never is found out.
#include "tasks.hpp"

#include <random>

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Counter;

struct Graph {
    const uint32_t* first_in; // [nodes + 1]: where a node's predecessors begin
    const uint32_t* in;
    const uint32_t* first_out;
    const uint32_t* out;
    Counter* counter; // [nodes]
    uint64_t* value;  // [nodes], what is computed
    uint32_t* runs;   // [nodes]
};

DENIZEN_HD inline uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 29;
    return x;
}

DENIZEN_HD inline uint64_t combine(const Graph& g, uint32_t node)
{
    uint64_t value = node + 1;
    for (uint32_t i = g.first_in[node]; i < g.first_in[node + 1]; ++i) {
        value = mix(value + g.value[g.in[i]]);
    }
    return value;
}

struct Visit {
    Graph* graph;
    uint32_t node;
    DENIZEN_HD void run(auto& ctx) const
    {
        const Graph g = *graph;
        g.value[node] = combine(g, node);
        fetch_add<Scope::gpu>(&g.runs[node], 1u);
        for (uint32_t i = g.first_out[node]; i < g.first_out[node + 1]; ++i) {
            ctx.arrive(g.counter[g.out[i]]);
        }
    }
};

// Makes a node wait for its predecessors.
struct Plant {
    Graph* graph;
    uint32_t node;
    DENIZEN_HD void run(auto& ctx) const
    {
        const uint32_t before = graph->first_in[node + 1] - graph->first_in[node];
        if (before != 0) {
            graph->counter[node] = ctx.when(before, Visit{graph, node});
        }
    }
};

using Graphs = task::Program<Visit, Plant>;

class TaskGraph : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskGraph);

// Edges go from lower to higher numbers, at most `span` further.
void check_random(Device device, task::Options options, bool on_gpu, uint32_t nodes,
                  uint32_t edges_each, uint32_t span, uint32_t seed)
{
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<uint32_t>(engine()); };
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    for (uint32_t from = 0; from + 1 < nodes; ++from) {
        for (uint32_t e = random() % (edges_each + 1); e > 0; --e) {
            edges.emplace_back(from, from + 1 + random() % std::min(span, nodes - 1 - from));
        }
    }
    Array<uint32_t> first_in(on_gpu, nodes + 1);
    Array<uint32_t> first_out(on_gpu, nodes + 1);
    Array<uint32_t> in(on_gpu, edges.size() + 1);
    Array<uint32_t> out(on_gpu, edges.size() + 1);
    for (const auto& [from, to] : edges) {
        ++first_out[from + 1];
        ++first_in[to + 1];
    }
    for (uint32_t v = 0; v < nodes; ++v) {
        first_in[v + 1] += first_in[v];
        first_out[v + 1] += first_out[v];
    }
    std::vector<uint32_t> at_in(first_in.data(), first_in.data() + nodes);
    std::vector<uint32_t> at_out(first_out.data(), first_out.data() + nodes);
    for (const auto& [from, to] : edges) {
        out[at_out[from]++] = to;
        in[at_in[to]++] = from;
    }
    Array<Counter> counter(on_gpu, nodes);
    Array<uint64_t> value(on_gpu, nodes);
    Array<uint32_t> runs(on_gpu, nodes);
    Array<Graph> graph(on_gpu, 1);
    graph[0] = {first_in.data(), in.data(),    first_out.data(), out.data(),
                counter.data(),  value.data(), runs.data()};

    options.counters = nodes;
    task::Runtime<Graphs> rt(device, options);
    std::vector<Plant> plants;
    std::vector<Visit> roots;
    for (uint32_t v = 0; v < nodes; ++v) {
        plants.push_back({graph.data(), v});
        if (first_in[v] == first_in[v + 1]) {
            roots.push_back({graph.data(), v});
        }
    }
    rt.spawn_many(plants.data(), plants.size());
    rt.wait(120s);
    rt.spawn_many(roots.data(), roots.size());
    rt.wait(120s);
    rt.close();

    std::vector<uint64_t> expected(nodes); // one after the other
    Graph sequential = graph[0];
    sequential.value = expected.data();
    uint32_t wrong = 0;
    for (uint32_t v = 0; v < nodes; ++v) {
        expected[v] = combine(sequential, v);
        wrong += value[v] != expected[v] || runs[v] != 1 ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0u) << "of " << nodes << " nodes";
}

TEST_P(TaskGraph, Random)
{
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        check_random(device(), options(), on_gpu(), 200 + 700 * seed, seed, 1u << (3 * seed), seed);
    }
}

TEST_P(TaskGraph, OfAMillionTasks)
{
    check_random(device(), options(), on_gpu(), scaled(1'000'000), 3, 5000, 7);
}

} // namespace
