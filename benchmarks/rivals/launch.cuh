// SPDX-License-Identifier: Apache-2.0
// A round trip by launching: the host asks, a kernel of one thread computes, the host reads the
// answer. One object per way; call() is the operation to be timed and returns the answer, which
// must equal expected(). The answer is written by the device to pinned memory and read by the host
// inside call(), so that each way ends with the same event: the host has seen the effect.
#pragma once

#include "cuda.cuh"

namespace denizen::bench {

namespace kernels {

// The question travels as a kernel argument, the cheapest way there is.
static __global__ void answer_argument(uint32_t question, uint32_t* answer)
{
    *answer = 2 * question + 1;
}

// A graph's arguments are frozen; the question is a counter that stays on the device, which spares
// the graph both an update of its node and a read across PCIe.
static __global__ void answer_counter(uint32_t* counter, uint32_t* answer)
{
    const uint32_t question = *counter + 1;
    *counter = question;
    *answer = 2 * question + 1;
}

} // namespace kernels

// Kernel launch and stream synchronisation.
class LaunchSync {
public:
    LaunchSync() : answer_(1) { preload(kernels::answer_argument); }

    uint32_t call()
    {
        kernels::answer_argument<<<1, 1, 0, stream_>>>(++question_, answer_.get());
        check_cuda(cudaGetLastError(), "launch");
        stream_.synchronize();
        return answer_[0];
    }
    uint32_t expected() const { return 2 * question_ + 1; }

private:
    OwnStream stream_;
    PinnedBuffer<uint32_t> answer_;
    uint32_t question_ = 0;
};

// What asks by a counter that stays on the device.
class CountedSync {
public:
    uint32_t expected() const { return 2 * question_ + 1; }

protected:
    CountedSync() : counter_(1), answer_(1) {}

    void launch(cudaStream_t stream)
    {
        kernels::answer_counter<<<1, 1, 0, stream>>>(counter_.get(), answer_.get());
    }
    uint32_t answered()
    {
        ++question_;
        stream_.synchronize();
        return answer_[0];
    }

    OwnStream stream_;

private:
    DeviceBuffer<uint32_t> counter_;
    PinnedBuffer<uint32_t> answer_;
    uint32_t question_ = 0;
};

// A graph of one kernel node and stream synchronisation.
class GraphSync : public CountedSync {
public:
    GraphSync() : graph_(stream_, [this](cudaStream_t stream) { launch(stream); }) {}

    uint32_t call()
    {
        graph_.launch(stream_);
        return answered();
    }

private:
    Graph graph_;
};

} // namespace denizen::bench
