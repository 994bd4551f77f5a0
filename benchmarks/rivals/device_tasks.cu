// SPDX-License-Identifier: Apache-2.0
#include "device_tasks.hpp"

#include <vector>

#include "cuda.cuh"

namespace denizen::bench {
namespace {

struct State {
    cudaGraphExec_t task[DeviceTasks::round];
    uint32_t next[DeviceTasks::round]; // the task that instance k does next
    uint32_t left;                     // rounds
    uint32_t error;                    // the first cudaError_t
};

__global__ void graph_task(uint32_t* results, uint32_t* next)
{
    const uint32_t i = *next;
    results[i] = 2 * i;
    *next = i + DeviceTasks::round;
}

// One round; launches itself again until none is left.
__global__ void graph_round(State* state)
{
    if (state->left == 0 || state->error != 0) return;
    for (const cudaGraphExec_t task : state->task) {
        const cudaError_t status = cudaGraphLaunch(task, cudaStreamGraphFireAndForget);
        if (status != cudaSuccess) state->error = static_cast<uint32_t>(status);
    }
    if (--state->left == 0) return;
    const cudaError_t status =
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
    if (status != cudaSuccess) state->error = static_cast<uint32_t>(status);
}

__global__ void child(uint32_t* results, uint32_t i) { results[i] = 2 * i; }

__global__ void parent(uint32_t* results, uint32_t first, uint32_t* error)
{
    for (uint32_t i = first; i < first + DeviceTasks::children; ++i)
        child<<<1, 1, 0, cudaStreamFireAndForget>>>(results, i);
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) *error = static_cast<uint32_t>(status);
}

} // namespace

struct DeviceTasks::Parts {
    uint32_t* results;
    uint32_t count;
    OwnStream stream;
    DeviceBuffer<State> state{1};
    DeviceBuffer<uint32_t> error{1};
    std::vector<Graph> tasks;
    std::unique_ptr<Graph> rounds;

    Parts(uint32_t* words, uint32_t n) : results(words), count(n)
    {
        for (uint32_t k = 0; k < round; ++k)
            tasks.emplace_back(
                stream,
                [&](cudaStream_t s) { graph_task<<<1, 1, 0, s>>>(results, &state.get()->next[k]); },
                cudaGraphInstantiateFlagDeviceLaunch);
        rounds = std::make_unique<Graph>(
            stream, [&](cudaStream_t s) { graph_round<<<1, 1, 0, s>>>(state.get()); },
            cudaGraphInstantiateFlagDeviceLaunch);
        preload(parent);
    }

    void fail_if(uint32_t code, const char* what) const
    {
        check_cuda(static_cast<cudaError_t>(code), what);
    }
};

DeviceTasks::DeviceTasks(uint32_t* results, uint32_t count)
{
    try {
        parts_ = std::make_unique<Parts>(results, count);
    } catch (const std::runtime_error& error) {
        problem_ = error.what();
    }
}

DeviceTasks::~DeviceTasks() = default;

void DeviceTasks::by_graphs()
{
    Parts& p = *parts_;
    State state{};
    for (uint32_t k = 0; k < round; ++k) {
        state.task[k] = p.tasks[k].exec();
        state.next[k] = k;
    }
    state.left = p.count / round;
    check_cuda(
        cudaMemcpyAsync(p.state.get(), &state, sizeof state, cudaMemcpyHostToDevice, p.stream),
        "copy of the rounds' state");
    p.rounds->launch(p.stream);
    check_cuda(
        cudaMemcpyAsync(&state, p.state.get(), sizeof state, cudaMemcpyDeviceToHost, p.stream),
        "copy of the rounds' state");
    p.stream.synchronize(); // waits for the rounds and for everything they launched
    p.fail_if(state.error, "device graph launch");
}

void DeviceTasks::by_children()
{
    Parts& p = *parts_;
    for (uint32_t first = 0; first < p.count; first += children)
        parent<<<1, 1, 0, p.stream>>>(p.results, first, p.error.get());
    check_cuda(cudaGetLastError(), "launch");
    uint32_t error = 0;
    check_cuda(
        cudaMemcpyAsync(&error, p.error.get(), sizeof error, cudaMemcpyDeviceToHost, p.stream),
        "copy of the error");
    p.stream.synchronize();
    p.fail_if(error, "child launch");
}

} // namespace denizen::bench
