// SPDX-License-Identifier: Apache-2.0
// A binary tree and a chain by launching: one launch for each level of the tree, which a user can
// only write where its shape is known beforehand; and for the chain a node or a launch for each
// link.
#pragma once

#include "cuda.cuh"

namespace denizen::bench {

namespace kernels {

static __global__ void tree_leaves(uint64_t* values, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[n + i] = i % 7 + 1;
}

static __global__ void tree_level(uint64_t* values, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[n + i] = values[2 * (n + i)] + values[2 * (n + i) + 1];
}

static __global__ void chain_link(uint32_t* count) { *count += 1; }

} // namespace kernels

// The sum over the leaves of a tree of `depth` levels below its root.
class LevelTree {
public:
    explicit LevelTree(uint32_t depth) : depth_(depth), values_(std::size_t{2} << depth), sum_(1)
    {
        preload(kernels::tree_leaves);
        preload(kernels::tree_level);
    }

    uint64_t sum()
    {
        constexpr uint32_t threads = 256;
        const auto blocks = [](uint32_t n) { return (n + threads - 1) / threads; };
        kernels::tree_leaves<<<blocks(1u << depth_), threads, 0, stream_>>>(values_.get(),
                                                                            1u << depth_);
        for (uint32_t level = depth_; level-- > 0;)
            kernels::tree_level<<<blocks(1u << level), threads, 0, stream_>>>(values_.get(),
                                                                              1u << level);
        check_cuda(cudaGetLastError(), "launch");
        check_cuda(cudaMemcpyAsync(sum_.get(), values_.get() + 1, sizeof(uint64_t),
                                   cudaMemcpyDeviceToHost, stream_),
                   "copy of the sum");
        stream_.synchronize();
        return sum_[0];
    }

private:
    uint32_t depth_;
    OwnStream stream_;
    DeviceBuffer<uint64_t> values_;
    PinnedBuffer<uint64_t> sum_;
};

// Links that run one after the other; each call does `links` and returns the count so far.
class LinkChain {
public:
    explicit LinkChain(uint32_t nodes)
        : nodes_(nodes), count_(1), seen_(1), graph_(stream_, [&](cudaStream_t stream) {
              for (uint32_t i = 0; i < nodes; ++i)
                  kernels::chain_link<<<1, 1, 0, stream>>>(count_.get());
          })
    {
        preload(kernels::chain_link);
    }

    uint32_t by_graph(uint32_t links) // a multiple of the graph's nodes
    {
        for (uint32_t done = 0; done < links; done += nodes_) graph_.launch(stream_);
        return look();
    }
    uint32_t by_launches(uint32_t links)
    {
        for (uint32_t i = 0; i < links; ++i)
            kernels::chain_link<<<1, 1, 0, stream_>>>(count_.get());
        check_cuda(cudaGetLastError(), "launch");
        return look();
    }

private:
    uint32_t look()
    {
        check_cuda(cudaMemcpyAsync(seen_.get(), count_.get(), sizeof(uint32_t),
                                   cudaMemcpyDeviceToHost, stream_),
                   "copy of the count");
        stream_.synchronize();
        return seen_[0];
    }

    uint32_t nodes_;
    OwnStream stream_;
    DeviceBuffer<uint32_t> count_;
    PinnedBuffer<uint32_t> seen_;
    Graph graph_;
};

} // namespace denizen::bench
