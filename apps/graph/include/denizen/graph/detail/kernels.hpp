// SPDX-License-Identifier: Apache-2.0
// The searches as kernels. search.hpp launches them; the same names are looked up in a cubin that
// was compiled at run time and among the functions that nvcc compiled into a program.
#pragma once

#include <denizen/graph/detail/narrow.hpp>
#include <denizen/graph/detail/near_far.hpp>
#include <denizen/graph/detail/visits.hpp>
#include <denizen/graph/detail/wide.hpp>
#include <denizen/task/kernel.hpp>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace denizen::graph {

// All blocks of a kernel that need not meet.
struct GridThreads {
    __device__ uint32_t rank() const { return blockIdx.x * blockDim.x + threadIdx.x; }
    __device__ uint32_t size() const { return gridDim.x * blockDim.x; }
};

extern __shared__ uint4 block_memory[];

// The vertices that v finds, at `distance`, go to the next frontier.
__device__ inline void expand(const View& g, const Found& found, uint32_t v, int32_t distance,
                              uint32_t* next, uint32_t* count)
{
    const uint32_t end = g.offsets[v + 1];
    for (uint32_t c = g.offsets[v]; c < end; ++c) {
        const uint32_t w = g.neighbours[c];
        if (found.distance[w] == -1 && atomicCAS(&found.distance[w], -1, distance) == -1) {
            found.parent[w] = static_cast<int32_t>(v);
            next[atomicAdd(count, 1)] = w;
        }
    }
}

// The last thing that a block of a search's last kernel does.
__device__ inline void stamp(Progress* progress)
{
    __syncthreads();
    if (threadIdx.x == 0) fetch_max<Scope::gpu>(&progress->ended, 0ull + now_ns());
}

} // namespace denizen::graph

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_GRAPH_KERNEL extern "C" __global__ void
#else
#define DENIZEN_GRAPH_KERNEL static __global__ void
#endif
// clang-format on

// Clears the results, brings the records into L2, and begins a journal with the source.
DENIZEN_GRAPH_KERNEL
denizen_graph_clear(denizen::graph::View g, const char* records, unsigned long long record_bytes,
                    denizen::graph::Journal journal, denizen::graph::Found found, uint32_t* seen,
                    denizen::graph::Progress* progress, uint32_t source, uint32_t begin)
{
    using namespace denizen::graph;
    const GridThreads grid;
    if (grid.rank() == 0) {
        *progress = {1, 1, 0, 0, 0, 0, denizen::now_ns(), 0};
        if (begin != 0) {
            journal.steps[0] = {source, source};
            journal.start[0] = 0;
            journal.start[1] = 1;
        }
    }
    clear(grid, found, seen, g.vertices, begin != 0 ? source : no_vertex);
    for (unsigned long long at = uint64_t{grid.rank()} * denizen::line; at < record_bytes;
         at += uint64_t{grid.size()} * denizen::line) {
        denizen::prefetch(records + at);
    }
}

// `visited`: null where the bits fit into the block's memory, behind the queue.
DENIZEN_GRAPH_KERNEL __launch_bounds__(1024, 1)
    denizen_graph_narrow(denizen::graph::View g, const denizen::graph::Record* records,
                         denizen::graph::Journal journal, uint32_t* visited,
                         denizen::graph::Progress* progress, uint32_t slots, uint32_t source,
                         uint32_t widest, unsigned long long limit_ns)
{
    using namespace denizen::graph;
    __shared__ uint32_t counters[4];
    auto* const words = reinterpret_cast<uint32_t*>(block_memory);
    Block block;
    const unsigned long long deadline = denizen::now_ns() + limit_ns;
    if (visited == nullptr) {
        narrow<true>(block, g, records, journal, {words + 2 * slots, words, slots, counters},
                     progress, source, widest, deadline);
    } else {
        narrow<false>(block, g, records, journal, {visited, words, slots, counters}, progress,
                      source, widest, deadline);
    }
}

DENIZEN_GRAPH_KERNEL denizen_graph_spread(denizen::graph::Journal journal,
                                          denizen::graph::Progress* progress,
                                          denizen::graph::Found found, uint32_t* seen,
                                          uint32_t vertices)
{
    using namespace denizen::graph;
    spread(GridThreads{}, journal, *progress, found, seen, vertices);
    stamp(progress);
}

// Launched cooperatively.
DENIZEN_GRAPH_KERNEL __launch_bounds__(1024, 1)
    denizen_graph_wide(denizen::graph::View g, denizen::graph::Journal journal,
                       denizen::graph::Found found, denizen::graph::WideMemory memory,
                       denizen::graph::Progress* progress, denizen::graph::Meeting* meeting,
                       uint32_t undirected, unsigned long long limit_ns)
{
    using namespace denizen::graph;
    Grid grid{meeting, blockIdx.x, gridDim.x, denizen::now_ns() + limit_ns};
    wide(grid, g, journal, found, memory, progress, undirected != 0);
    stamp(progress);
}

DENIZEN_GRAPH_KERNEL __launch_bounds__(1024, 1)
    denizen_graph_near_far(denizen::graph::View g, const denizen::graph::WeightedRecord* records,
                           denizen::graph::NearFarMemory memory, denizen::graph::Progress* progress,
                           uint32_t source, uint32_t step, uint32_t few, uint32_t many,
                           unsigned long long limit_ns)
{
    using namespace denizen::graph;
    __shared__ uint32_t counters[6];
    memory.queue = reinterpret_cast<Entry*>(block_memory);
    memory.counters = counters;
    Block block;
    near_far<detail::OfBlock>(block, g, records, memory, progress, source, step, few, many,
                              denizen::now_ns() + limit_ns);
}

// Launched cooperatively.
DENIZEN_GRAPH_KERNEL __launch_bounds__(1024, 1)
    denizen_graph_near_far_wide(denizen::graph::View g,
                                const denizen::graph::WeightedRecord* records,
                                denizen::graph::NearFarMemory memory,
                                denizen::graph::Progress* progress,
                                denizen::graph::Meeting* meeting, uint32_t source, uint32_t step,
                                uint32_t few, uint32_t many, unsigned long long limit_ns)
{
    using namespace denizen::graph;
    Grid grid{meeting, blockIdx.x, gridDim.x, denizen::now_ns() + limit_ns};
    near_far<detail::OfAll>(grid, g, records, memory, progress, source, step, few, many,
                            grid.deadline);
}

DENIZEN_GRAPH_KERNEL denizen_graph_unpack(const unsigned long long* best,
                                          denizen::graph::Found found, uint32_t vertices,
                                          denizen::graph::Progress* progress)
{
    using namespace denizen::graph;
    unpack(GridThreads{}, best, found, vertices, progress);
    stamp(progress);
}

// Resident: the workers of the visits.
DENIZEN_GRAPH_KERNEL __launch_bounds__(1024, 1)
    denizen_graph_tasks(const __grid_constant__ denizen::task::Shared shared)
{
    denizen::task::run_block<denizen::graph::VisitProgram>(shared);
}

// One level of the textbook's search: a thread for each vertex of the frontier, a launch per level.
// `count` has the number found.
DENIZEN_GRAPH_KERNEL denizen_graph_level(denizen::graph::View g, denizen::graph::Found found,
                                         const uint32_t* frontier, uint32_t size, uint32_t* next,
                                         uint32_t* count, int32_t distance,
                                         denizen::graph::Progress* progress)
{
    using namespace denizen::graph;
    const uint32_t i = GridThreads{}.rank();
    if (i < size) expand(g, found, frontier[i], distance, next, count);
    stamp(progress);
}

#if defined(__CUDACC_RTC__)
// The driver's: sets what a while node looks at. nvcc declares it, too.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned value);
#endif

// The same level as the body of a while node: repeated with the same arguments as long as it finds
// anything. Even levels are in frontier[0], odd ones in frontier[1].
DENIZEN_GRAPH_KERNEL denizen_graph_repeated(denizen::graph::View g, denizen::graph::Found found,
                                            uint32_t* even, uint32_t* odd,
                                            denizen::graph::Repeated* state,
                                            denizen::graph::Progress* progress,
                                            unsigned long long condition)
{
    using namespace denizen;
    using namespace denizen::graph;
    const GridThreads grid;
    const uint32_t size = state->size;
    const uint32_t level = state->level;
    const uint32_t* frontier = level % 2 == 0 ? even : odd;
    uint32_t* next = level % 2 == 0 ? odd : even;
    for (uint32_t i = grid.rank(); i < size; i += grid.size()) {
        expand(g, found, frontier[i], static_cast<int32_t>(level + 1), next, &state->found);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    // Acquire and release: the last block sees all that were found.
    if (fetch_add<Scope::gpu, Order::acq_rel>(&state->arrived, 1u) != gridDim.x - 1) return;
    const uint32_t count = load<Scope::gpu>(&state->found);
    *state = {count, 0, level + 1, 0};
    if (count == 0) {
        progress->levels = level + 1;
        progress->ended = now_ns();
    }
    const bool late = load<Scope::gpu>(&progress->late) != 0; // the host was interrupted
    cudaGraphSetConditional(condition, count != 0 && !late ? 1 : 0);
}

#endif
