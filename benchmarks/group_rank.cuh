// SPDX-License-Identifier: Apache-2.0
// A rank of bench_group on a GPU: its stream, memory and clock, the kernels that fill and check
// that memory, and a graph of its calls. Times of kernels are those between two events of the
// rank's stream, those of calls inside a kernel by the device's clock, from when all ranks are
// there: who is launched first does not wait in what is measured.
#pragma once

#include "group_arms.hpp"
#include "rivals/cuda.cuh"

#include <denizen/group/persistent.hpp>

namespace denizen::bench {

// Of one rank, on its device.
struct Watch {
    unsigned long long wrong;
    unsigned long long begin; // of the first team, ns
    unsigned long long end;   // of the last one
    uint32_t failed;
};

// What a program that stays on the device does between its own steps: no launch for each sum.
static __global__ void __launch_bounds__(512)
    sums_inside(const __grid_constant__ GroupRef group, const float* in, float* out, uint64_t count,
                group::Algorithm algorithm, uint32_t rounds, Watch* watch)
{
    using namespace group;
    Channel<> channel(group, blockIdx.x);
    bool good = barrier(channel, gridDim.x);
    if (threadIdx.x == 0) atomicMin(&watch->begin, now_ns());
    const AllReduce<float> sum(channel, gridDim.x, in, out, count, Op::sum, algorithm);
    for (uint32_t i = 0; good && i < rounds; ++i) good = sum(channel);
    if (threadIdx.x == 0) {
        atomicMax(&watch->end, now_ns());
        if (!good) watch->failed = 1;
    }
    channel.close();
}

static __global__ void fill_ranks(float* x, uint64_t count, uint32_t rank)
{
    const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        x[i] = static_cast<float>(i % 1000) * static_cast<float>(rank + 1);
    }
}

// Elements of the result of `kind` that are not what fill_ranks() makes of them; broadcast: rank
// 0's.
static __global__ void count_wrong(const float* x, group::Kind kind, uint64_t count, uint32_t rank,
                                   uint32_t ranks, unsigned long long* wrong)
{
    using namespace group;
    const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
    const uint64_t elements = count * (gathers(kind) ? ranks : 1);
    const float all = static_cast<float>(ranks * (ranks + 1) / 2);
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) {
        const uint64_t place = i % count + (scatters(kind) ? rank * count : 0);
        const float factor = reduces(kind)   ? all
                             : gathers(kind) ? static_cast<float>(i / count + 1)
                                             : 1.0f;
        if (x[i] != static_cast<float>(place % 1000) * factor) atomicAdd(wrong, 1ull);
    }
}

// One rank's stream, events and memory.
struct GpuRank {
    int device = 0;
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    float* in = nullptr; // symmetric
    float* out = nullptr;
    Watch* watch = nullptr;

    GpuRank(int ordinal, Group& group, uint64_t bytes) : device(ordinal)
    {
        use();
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
        check_cuda(cudaEventCreate(&end), "cudaEventCreate");
        in = static_cast<float*>(group.allocate(bytes));
        out = static_cast<float*>(group.allocate(bytes));
        check_cuda(cudaMalloc(&watch, sizeof(Watch)), "cudaMalloc");
        check_cuda(cudaMemset(watch, 0, sizeof(Watch)), "cudaMemset");
        preload(sums_inside); // not while another GPU's kernel waits for this one's
        preload(fill_ranks);
        preload(count_wrong);
    }
    ~GpuRank()
    {
        cudaSetDevice(device);
        cudaFree(watch);
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
        cudaStreamDestroy(stream);
    }
    GpuRank(const GpuRank&) = delete;
    GpuRank& operator=(const GpuRank&) = delete;

    void use() const { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }
    // Seconds of a kernel that notes them in `watch`.
    template <class Work>
    double watched(Work work)
    {
        use();
        const unsigned long long times[2] = {~0ull, 0};
        check_cuda(
            cudaMemcpyAsync(&watch->begin, times, sizeof times, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
        work();
        Watch seen{};
        check_cuda(cudaMemcpyAsync(&seen, watch, sizeof seen, cudaMemcpyDeviceToHost, stream),
                   "cudaMemcpyAsync");
        check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        return static_cast<double>(seen.end - seen.begin) * 1e-9;
    }
    // Seconds of what `work` puts on the stream.
    template <class Work>
    double timed(Work work)
    {
        use();
        check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
        work();
        check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
        check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        float ms = 0;
        check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        return ms * 1e-3;
    }
};

// A graph of some calls, captured once.
class Captured {
public:
    template <class Enqueue>
    Captured(const GpuRank& rank, uint32_t calls, Enqueue enqueue)
    {
        rank.use();
        cudaGraph_t graph = nullptr;
        check_cuda(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture");
        for (uint32_t i = 0; i < calls; ++i) enqueue();
        check_cuda(cudaStreamEndCapture(rank.stream, &graph), "cudaStreamEndCapture");
        check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
        cudaGraphDestroy(graph);
    }
    ~Captured() { cudaGraphExecDestroy(graph_); }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    void launch(cudaStream_t stream) const
    {
        check_cuda(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
    }

private:
    cudaGraphExec_t graph_ = nullptr;
};

} // namespace denizen::bench
