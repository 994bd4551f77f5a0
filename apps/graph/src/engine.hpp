// SPDX-License-Identifier: Apache-2.0
// What Search asks of a device, and what the engines for CPU and GPU share.
#pragma once

#include <denizen/graph/detail/view.hpp>
#include <denizen/graph/detail/visits.hpp>
#include <denizen/graph/search.hpp>
#include <denizen/task/task_runtime.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace denizen::graph {

class Engine {
public:
    virtual ~Engine() = default;
    // The method is not automatic.
    virtual Paths bfs(uint32_t source, Method method) = 0;
    virtual Paths shortest_paths(uint32_t source, Method method) = 0;

    std::string device;
    bool on_gpu = false;
};

std::unique_ptr<Engine> make_cpu_engine(const Csr& graph, uint32_t threads);
std::unique_ptr<Engine> make_gpu_engine(const Csr& graph, int ordinal, const Code& code);

// A frontier that is wider than this is handed to the whole device: one block expands about two
// vertices in a nanosecond, and a barrier of the grid costs a thousand.
constexpr uint32_t hand_over = 8192;
constexpr uint32_t queue_slots = 4096; // of each half of narrow's queue
constexpr uint32_t near_slots = 6144;  // and of near_far's
constexpr uint32_t few_near = 128;     // near vertices that are too few for a block
constexpr uint32_t many_near = 4 * few_near;
constexpr uint32_t few_near_wide = 4096; // and too few for all blocks of a GPU
constexpr uint32_t many_near_wide = 4 * few_near_wide;
constexpr uint64_t limit_ns = 30'000'000'000; // a search that takes longer leaves

// A vertex with more neighbours than this is a hub: mostly a graph that has one is shallow and its
// levels are wide. A graph without may be either; a block searches it until it proves to be wide.
constexpr uint32_t hub = 64;

inline bool has_hub(const Csr& graph)
{
    for (uint32_t v = 0; v < graph.vertices(); ++v) {
        if (graph.degree(v) > hub) return true;
    }
    return false;
}

// Larger graphs than narrow's records can number are searched by wide alone.
inline bool fits_records(const Csr& graph) { return graph.vertices() < Record::none / 2; }

// Two for each vertex; the second half is touched where a vertex has more than four neighbours.
std::vector<Record> records_of(const Csr& graph);

// Places of the journal: a vertex with a second record takes two.
uint32_t journal_places(const Csr& graph);

// How far near_far's threshold rises at first: it is adapted within a few rounds.
inline uint32_t first_step(const Csr& graph)
{
    uint64_t sum = 0;
    for (const uint32_t weight : graph.weights) sum += weight;
    const uint64_t mean = graph.weights.empty() ? 1 : sum / graph.weights.size();
    return static_cast<uint32_t>(std::clamp<uint64_t>(mean, 1, 1u << 30));
}

inline uint32_t has_zero_weights(const Csr& graph)
{
    return std::find(graph.weights.begin(), graph.weights.end(), 0u) != graph.weights.end() ? 1 : 0;
}

std::vector<WeightedRecord> weighted_records_of(const Csr& graph);

// The workers that visit vertices of a graph (visits.hpp), for many searches.
class Visitors {
public:
    // `kernel`: a CUfunction in the current context; empty for the CPU.
    Visitors(const Csr& graph, const Device& device, uint32_t threads,
             std::function<void*()> kernel);

    // Visits until the end; `search` is in the device's memory, with the source's bit set and
    // pending. Returns seconds by the host's clock. Errc::timeout after 30 s.
    double run(Visits* search, uint32_t source);

private:
    task::TaskRuntime runtime_;
};

inline uint32_t levels_of(const Paths& paths)
{
    return static_cast<uint32_t>(1 +
                                 *std::max_element(paths.distances.begin(), paths.distances.end()));
}

// Throws what `progress` says went wrong.
void check_progress(const Progress& progress);

} // namespace denizen::graph
