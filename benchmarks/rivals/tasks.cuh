// SPDX-License-Identifier: Apache-2.0
// Many small tasks by launching: N independent tasks (results[i] = 2*i) and N dependent pairs (a
// first kernel writes data[i] = i, a second makes it 2*data[i] + 1). Each way is one method that
// returns when the host knows that the work is done; reset() and verify() stay outside the timed
// region and cover every element.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda.cuh"

namespace denizen::bench {

namespace kernels {

constexpr uint32_t untouched = 0xffffffffu;

static __global__ void one_task(uint32_t* results, uint32_t i) { results[i] = 2 * i; }

// Node `place` of a graph: the number of the task is counted on the device, since a graph's
// arguments are frozen. The last node moves the base; nodes of a captured stream run in order.
static __global__ void graph_task(uint32_t* results, uint32_t n, uint32_t* base, uint32_t place,
                                  uint32_t nodes)
{
    const uint32_t i = *base + place;
    if (i < n) results[i] = 2 * i;
    if (place + 1 == nodes) *base += nodes;
}

static __global__ void all_tasks(uint32_t* results, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) results[i] = 2 * i;
}

static __global__ void pair_first(uint32_t* data, uint32_t i) { data[i] = i; }
static __global__ void pair_second(uint32_t* data, uint32_t i) { data[i] = 2 * data[i] + 1; }

static __global__ void graph_pair_first(uint32_t* data, const uint32_t* next)
{
    data[*next] = *next;
}
static __global__ void graph_pair_second(uint32_t* data, uint32_t* next)
{
    data[*next] = 2 * data[*next] + 1;
    *next += 1;
}

static __global__ void all_pairs_first(uint32_t* data, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = i;
}
static __global__ void all_pairs_second(uint32_t* data, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = 2 * data[i] + 1;
}

} // namespace kernels

constexpr uint32_t bulk_threads = 256;
inline uint32_t bulk_blocks(uint32_t n) { return (n + bulk_threads - 1) / bulk_threads; }

// The array that the work fills, and the check of all of it. `add` is 0 for tasks, 1 for pairs.
class Work {
public:
    Work(uint32_t n, uint32_t add) : n_(n), add_(add), array_(n), next_(1) { reset(); }

    void reset()
    {
        check_cuda(cudaMemsetAsync(array_.get(), 0xff, n_ * sizeof(uint32_t), stream_), "memset");
        check_cuda(cudaMemsetAsync(next_.get(), 0, sizeof(uint32_t), stream_), "memset");
        stream_.synchronize();
    }

    // Whether each of the first `count` elements is right and none of the others was touched.
    bool verify(uint32_t count) const
    {
        std::vector<uint32_t> found(n_);
        check_cuda(cudaMemcpyAsync(found.data(), array_.get(), n_ * sizeof(uint32_t),
                                   cudaMemcpyDeviceToHost, stream_),
                   "copy of the results");
        stream_.synchronize();
        for (uint32_t i = 0; i < n_; ++i)
            if (found[i] != (i < count ? 2 * i + add_ : kernels::untouched)) return false;
        return true;
    }
    bool verify() const { return verify(n_); }
    uint32_t size() const { return n_; }
    uint32_t* data() const { return array_.get(); } // for kernels

protected:
    ~Work() = default;
    void enqueued() const { check_cuda(cudaGetLastError(), "launch"); }

    uint32_t n_;
    uint32_t add_;
    OwnStream stream_;
    DeviceBuffer<uint32_t> array_;
    DeviceBuffer<uint32_t> next_;
};

// GROSR's experiment B: independent tasks. Each way does the first `count`, once per reset().
class TaskWork : public Work {
public:
    explicit TaskWork(uint32_t n, uint32_t graph_nodes = 1000)
        : Work(n, 0), nodes_(std::min(n, graph_nodes)),
          graph_(stream_, [this](cudaStream_t stream) {
              for (uint32_t place = 0; place < nodes_; ++place)
                  kernels::graph_task<<<1, 1, 0, stream>>>(array_.get(), n_, next_.get(), place,
                                                           nodes_);
          })
    {
        preload(kernels::one_task);
        preload(kernels::all_tasks);
    }

    // One launch and one synchronisation per task.
    void synchronous(uint32_t count)
    {
        for (uint32_t i = 0; i < count; ++i) {
            kernels::one_task<<<1, 1, 0, stream_>>>(array_.get(), i);
            stream_.synchronize();
        }
        enqueued();
    }

    // One launch per task, one synchronisation at the end.
    void batched(uint32_t count)
    {
        for (uint32_t i = 0; i < count; ++i)
            kernels::one_task<<<1, 1, 0, stream_>>>(array_.get(), i);
        enqueued();
        stream_.synchronize();
    }
    void batched() { batched(n_); }

    // A graph of graph_nodes() tasks, replayed as often as needed: `count` is a multiple of that,
    // or all.
    void graph(uint32_t count)
    {
        for (uint32_t done = 0; done < count; done += nodes_) graph_.launch(stream_);
        stream_.synchronize();
    }
    void graph() { graph(n_); }
    uint32_t graph_nodes() const { return nodes_; }

    // One thread per task, one launch: what to use when the work is uniform and known beforehand.
    void bulk(uint32_t count)
    {
        kernels::all_tasks<<<bulk_blocks(count), bulk_threads, 0, stream_>>>(array_.get(), count);
        enqueued();
        stream_.synchronize();
    }
    void bulk() { bulk(n_); }

private:
    uint32_t nodes_;
    Graph graph_;
};

// GROSR's experiment A: dependent pairs, one pair per call, i = 0, 1, 2, ... since reset().
class PairWork : public Work {
public:
    explicit PairWork(uint32_t n)
        : Work(n, 1), graph_(stream_, [this](cudaStream_t stream) {
              kernels::graph_pair_first<<<1, 1, 0, stream>>>(array_.get(), next_.get());
              kernels::graph_pair_second<<<1, 1, 0, stream>>>(array_.get(), next_.get());
          })
    {
        preload(kernels::pair_first);
        preload(kernels::pair_second);
        preload(kernels::all_pairs_first);
        preload(kernels::all_pairs_second);
    }

    // The host decides between the two: launch, synchronise, launch, synchronise.
    void two_syncs(uint32_t i)
    {
        kernels::pair_first<<<1, 1, 0, stream_>>>(array_.get(), i);
        stream_.synchronize();
        kernels::pair_second<<<1, 1, 0, stream_>>>(array_.get(), i);
        enqueued();
        stream_.synchronize();
    }

    // Where the host need not look in between: the stream orders the two.
    void one_sync(uint32_t i)
    {
        kernels::pair_first<<<1, 1, 0, stream_>>>(array_.get(), i);
        kernels::pair_second<<<1, 1, 0, stream_>>>(array_.get(), i);
        enqueued();
        stream_.synchronize();
    }

    // The same as a graph of two nodes, which counts i on the device.
    void graph_sync()
    {
        graph_.launch(stream_);
        stream_.synchronize();
    }

    // All pairs, two launches each, one synchronisation at the end.
    void batched(uint32_t count)
    {
        for (uint32_t i = 0; i < count; ++i) {
            kernels::pair_first<<<1, 1, 0, stream_>>>(array_.get(), i);
            kernels::pair_second<<<1, 1, 0, stream_>>>(array_.get(), i);
        }
        enqueued();
        stream_.synchronize();
    }
    void batched() { batched(n_); }

    // All pairs in two launches, where they are known beforehand.
    void bulk(uint32_t count)
    {
        const uint32_t blocks = bulk_blocks(count);
        kernels::all_pairs_first<<<blocks, bulk_threads, 0, stream_>>>(array_.get(), count);
        kernels::all_pairs_second<<<blocks, bulk_threads, 0, stream_>>>(array_.get(), count);
        enqueued();
        stream_.synchronize();
    }
    void bulk() { bulk(n_); }

private:
    Graph graph_;
};

} // namespace denizen::bench
