// SPDX-License-Identifier: Apache-2.0
// Barriers among the blocks of one running kernel. `timed` does nothing but pass them and reads the
// device's clock before and after; `checked` passes the same ones and finds out a barrier that lets
// a block through too early. `host_timed` is the loop that RingKernel's figures are of.
#pragma once

#include <cooperative_groups.h>

#include <denizen/base/clock.hpp>

#include "counting_barrier.hpp"
#include "rivals/cuda.cuh"

namespace denizen::bench {

// `none` synchronises the threads of each block only: the check must find it out.
enum class Barrier { none, cluster, grid, counting };

struct BlockTimes {
    uint64_t begin;
    uint64_t end;
};

namespace kernels {

// `round` counts the barriers from 1. Every thread of every block calls it.
template <Barrier B>
__device__ inline void pass(uint32_t* arrived, uint32_t round)
{
    if constexpr (B == Barrier::none) {
        __syncthreads();
    } else if constexpr (B == Barrier::cluster) {
#if __CUDA_ARCH__ >= 900
        // Release and acquire: each thread's stores before are seen by the cluster's threads after.
        asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                     "barrier.cluster.wait.acquire.aligned;" ::
                         : "memory");
#else
        __trap(); // no clusters before compute capability 9.0; the host does not launch it there
#endif
    } else if constexpr (B == Barrier::grid) {
        cooperative_groups::this_grid().sync();
    } else {
        __syncthreads();
        if (threadIdx.x == 0) arrive_and_wait(arrived, gridDim.x, round);
        __syncthreads();
    }
}

template <Barrier B>
__global__ void timed(uint32_t count, uint32_t* arrived, BlockTimes* times)
{
    constexpr uint32_t warm = 64; // all blocks run and have fetched their code
    for (uint32_t i = 1; i <= warm; ++i) pass<B>(arrived, i);
    const uint64_t begin = now_ns();
    for (uint32_t i = warm + 1; i <= warm + count; ++i) pass<B>(arrived, i);
    const uint64_t end = now_ns();
    if (threadIdx.x == 0) times[blockIdx.x] = {begin, end};
}

// Blocks come late to their barriers in turn, so that an early one would see a late one's old
// place. `group` blocks belong together; `places` is zero at the start.
template <Barrier B>
__global__ void checked(uint32_t count, uint32_t group, uint32_t* arrived, uint32_t* places,
                        unsigned long long* wrong)
{
    const uint32_t first = blockIdx.x / group * group;
    unsigned long long out_of_step = 0;
    for (uint32_t i = 1; i <= count; ++i) {
        if ((i * 5 + blockIdx.x) % group == 0) __nanosleep(1000);
        if (threadIdx.x == 0) store<Scope::gpu>(&places[blockIdx.x], i);
        pass<B>(arrived, i);
        for (uint32_t b = threadIdx.x; b < group; b += blockDim.x)
            out_of_step += in_step(&places[first + b], i) ? 0 : 1;
    }
    if (out_of_step != 0) atomicAdd(wrong, out_of_step);
}

template <Barrier B>
__global__ void host_timed(uint32_t count, uint32_t* arrived, uint32_t* counter)
{
    for (uint32_t i = 0; i < count; ++i) {
        atomicAdd(counter, 1);
        pass<B>(arrived, 2 * i + 1);
        pass<B>(arrived, 2 * i + 2);
    }
}

} // namespace kernels

constexpr uint32_t block_threads = 256;

// Which blocks pass which barrier.
struct Crowd {
    Barrier barrier = Barrier::grid;
    uint32_t blocks = 0;
    uint32_t group = 0; // blocks that wait for each other: a cluster's, or all

    bool clusters() const { return barrier == Barrier::cluster; }
};

// Runs the kernels for a crowd, one block on an SM.
class Barriers {
public:
    explicit Barriers(int device) : words_(2 + most_blocks), times_(most_blocks), wrong_(1)
    {
        const auto attribute = [&](cudaDeviceAttr name) {
            int value = 0;
            check_cuda(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
            return value;
        };
        sms_ = static_cast<uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
        has_clusters_ = attribute(cudaDevAttrClusterLaunch) != 0;
        // More than half of an SM's shared memory for each block: no two share an SM.
        const int half = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 + 1024;
        shared_ = std::min(half, attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
        if (sms_ > most_blocks) throw std::runtime_error("this GPU has more than 1024 SMs");
    }

    uint32_t sms() const { return sms_; }

    // How many clusters of `size` blocks run at the same time; 0 if this GPU has none.
    uint32_t clusters(uint32_t size)
    {
        if (!has_clusters_) return 0;
        int n = 0;
        with(Barrier::cluster, [&](auto b) {
            auto* kernel = kernels::timed<b()>;
            Launch launch(*this, kernel, {Barrier::cluster, size, size});
            check_cuda(cudaOccupancyMaxActiveClusters(&n, kernel, &launch.config),
                       "cudaOccupancyMaxActiveClusters");
        });
        return static_cast<uint32_t>(n);
    }

    // Microseconds of one barrier, by the device's clock; the slowest block's.
    double time(const Crowd& crowd, uint32_t count)
    {
        clear();
        with(crowd.barrier,
             [&](auto b) { run(crowd, kernels::timed<b()>, count, arrived(), times_.get()); });
        uint64_t ns = 0;
        for (uint32_t b = 0; b < crowd.blocks; ++b)
            ns = std::max(ns, times_[b].end - times_[b].begin);
        return static_cast<double>(ns) * 1e-3 / count;
    }

    // How often a block was seen out of step in `count` barriers.
    uint64_t out_of_step(const Crowd& crowd, uint32_t count)
    {
        clear();
        check_cuda(cudaMemsetAsync(wrong_.get(), 0, sizeof(unsigned long long), stream_), "memset");
        with(crowd.barrier, [&](auto b) {
            run(crowd, kernels::checked<b()>, count, crowd.group, arrived(), places(),
                wrong_.get());
        });
        return copied(wrong_.get());
    }

    // Microseconds of one iteration of two barriers, launch and synchronisation included, by the
    // host's clock.
    double host_time(const Crowd& crowd, uint32_t count, bool& right)
    {
        clear();
        uint64_t ns = 0;
        with(crowd.barrier, [&](auto b) {
            const uint64_t begin = now_ns();
            run(crowd, kernels::host_timed<b()>, count, arrived(), counter());
            ns = now_ns() - begin;
        });
        right &= copied(counter()) == count * crowd.blocks * block_threads;
        return static_cast<double>(ns) * 1e-3 / count;
    }

private:
    static constexpr uint32_t most_blocks = 1024;

    struct Launch {
        template <class Kernel>
        Launch(const Barriers& on, Kernel* kernel, const Crowd& crowd)
        {
            check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            on.shared_),
                       "cudaFuncSetAttribute");
            config.gridDim = dim3(crowd.blocks);
            config.blockDim = dim3(block_threads);
            config.dynamicSmemBytes = static_cast<size_t>(on.shared_);
            config.stream = on.stream_;
            config.attrs = &attribute;
            config.numAttrs = 1;
            if (crowd.clusters()) {
                attribute.id = cudaLaunchAttributeClusterDimension;
                attribute.val.clusterDim = {crowd.group, 1, 1};
            } else { // all blocks run at the same time, or the launch fails
                attribute.id = cudaLaunchAttributeCooperative;
                attribute.val.cooperative = 1;
            }
        }
        Launch(const Launch&) = delete;

        cudaLaunchAttribute attribute{};
        cudaLaunchConfig_t config{};
    };

    // Calls `body` with the barrier as a constant.
    template <class Body>
    static void with(Barrier barrier, Body body)
    {
        switch (barrier) {
        case Barrier::none: body(std::integral_constant<Barrier, Barrier::none>{}); break;
        case Barrier::cluster: body(std::integral_constant<Barrier, Barrier::cluster>{}); break;
        case Barrier::grid: body(std::integral_constant<Barrier, Barrier::grid>{}); break;
        case Barrier::counting: body(std::integral_constant<Barrier, Barrier::counting>{}); break;
        }
    }

    uint32_t* arrived() const { return words_.get(); }
    uint32_t* counter() const { return words_.get() + 1; }
    uint32_t* places() const { return words_.get() + 2; }
    void clear()
    {
        check_cuda(cudaMemsetAsync(words_.get(), 0, words_.size() * sizeof(uint32_t), stream_),
                   "memset");
        stream_.synchronize();
    }

    template <class T>
    T copied(const T* from) const
    {
        T value{};
        check_cuda(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, stream_),
                   "copy of a counter");
        stream_.synchronize();
        return value;
    }

    template <class... Parameters, class... A>
    void run(const Crowd& crowd, void (*kernel)(Parameters...), A... arguments)
    {
        Launch launch(*this, kernel, crowd);
        check_cuda(cudaLaunchKernelEx(&launch.config, kernel, Parameters(arguments)...), "launch");
        stream_.synchronize();
    }

    OwnStream stream_;
    DeviceBuffer<uint32_t> words_;
    PinnedBuffer<BlockTimes> times_;
    DeviceBuffer<unsigned long long> wrong_;
    uint32_t sms_ = 0;
    bool has_clusters_ = false;
    int shared_ = 0;
};

} // namespace denizen::bench
