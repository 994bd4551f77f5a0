// SPDX-License-Identifier: Apache-2.0
// Breadth-first search as it is written without a resident kernel: a launch per level, the size of
// the next frontier read back by the host. It leaves distances and parents by vertex, and is timed
// with their clearing.
#pragma once

#include <denizen/graph/csr.hpp>

#include "cuda.cuh"

namespace denizen::bench {

// The graph and the results in device memory.
struct BfsMemory {
    explicit BfsMemory(const graph::Csr& g)
        : vertices(g.vertices()), offsets(g.offsets.size()), neighbours(g.neighbours.size() + 1),
          distance(vertices), parent(vertices), queues(2 * std::size_t{vertices}), counts(2)
    {
        copy(offsets, g.offsets);
        copy(neighbours, g.neighbours);
    }

    static void copy(const DeviceBuffer<uint32_t>& to, const std::vector<uint32_t>& from)
    {
        check_cuda(cudaMemcpy(to.get(), from.data(), from.size() * sizeof(uint32_t),
                              cudaMemcpyHostToDevice),
                   "cudaMemcpy");
    }

    uint32_t vertices;
    DeviceBuffer<uint32_t> offsets;
    DeviceBuffer<uint32_t> neighbours;
    DeviceBuffer<int32_t> distance;
    DeviceBuffer<int32_t> parent;
    DeviceBuffer<uint32_t> queues; // two frontiers, one after the other
    DeviceBuffer<uint32_t> counts; // of what each has found
};

namespace kernels {

static __global__ void bfs_begin(int32_t* distance, int32_t* parent, uint32_t* queue,
                                 uint32_t* counts, uint32_t vertices, uint32_t source)
{
    const uint32_t stride = gridDim.x * blockDim.x;
    for (uint32_t v = blockIdx.x * blockDim.x + threadIdx.x; v < vertices; v += stride) {
        distance[v] = v == source ? 0 : -1;
        parent[v] = v == source ? static_cast<int32_t>(v) : -1;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        queue[0] = source;
        counts[0] = counts[1] = 0;
    }
}

// A vertex of the frontier for each thread.
static __device__ inline void bfs_expand(const uint32_t* offsets, const uint32_t* neighbours,
                                         int32_t* distance, int32_t* parent, uint32_t v,
                                         int32_t level, uint32_t* next, uint32_t* count)
{
    for (uint32_t c = offsets[v]; c < offsets[v + 1]; ++c) {
        const uint32_t w = neighbours[c];
        if (distance[w] == -1 && atomicCAS(&distance[w], -1, level) == -1) {
            parent[w] = static_cast<int32_t>(v);
            next[atomicAdd(count, 1)] = w;
        }
    }
}

static __global__ void bfs_level(const uint32_t* offsets, const uint32_t* neighbours,
                                 int32_t* distance, int32_t* parent, const uint32_t* frontier,
                                 uint32_t size, int32_t level, uint32_t* next, uint32_t* count,
                                 uint32_t* count_after)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *count_after = 0; // the next level's count, which nobody uses meanwhile
    if (i < size)
        bfs_expand(offsets, neighbours, distance, parent, frontier[i], level, next, count);
}

} // namespace kernels

// A launch per level.
class LevelBfs {
public:
    explicit LevelBfs(const graph::Csr& g) : memory(g), count_(1)
    {
        preload(kernels::bfs_begin);
        preload(kernels::bfs_level);
    }

    // The number of levels.
    uint32_t run(uint32_t source)
    {
        BfsMemory& m = memory;
        kernels::bfs_begin<<<264, 512, 0, stream>>>(
            m.distance.get(), m.parent.get(), m.queues.get(), m.counts.get(), m.vertices, source);
        uint32_t size = 1;
        int32_t level = 0;
        while (size != 0) { // ends: every vertex is found once
            const auto turn = static_cast<uint32_t>(level % 2);
            ++level;
            uint32_t* count = &m.counts.get()[turn];
            kernels::bfs_level<<<(size + 255) / 256, 256, 0, stream>>>(
                m.offsets.get(), m.neighbours.get(), m.distance.get(), m.parent.get(),
                m.queues.get() + std::size_t{turn} * m.vertices, size, level,
                m.queues.get() + std::size_t{turn ^ 1} * m.vertices, count,
                &m.counts.get()[turn ^ 1]);
            check_cuda(
                cudaMemcpyAsync(count_.get(), count, sizeof size, cudaMemcpyDeviceToHost, stream),
                "cudaMemcpyAsync");
            stream.synchronize();
            size = count_[0];
        }
        return static_cast<uint32_t>(level);
    }

    BfsMemory memory;
    OwnStream stream;

private:
    PinnedBuffer<uint32_t> count_;
};

} // namespace denizen::bench
