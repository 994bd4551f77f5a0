// SPDX-License-Identifier: Apache-2.0
#include "device_graph.hpp"

#include <limits>
#include <vector>

#include <denizen/base/clock.hpp>

#include "cuda.cuh"

namespace denizen::bench {
namespace {

constexpr uint32_t instances = 8;
constexpr uint32_t launches_per_round = 100; // CUDA allows 120
constexpr uint32_t stop_word = std::numeric_limits<uint32_t>::max();

// Pinned; each word on a line of its own.
struct Mailbox {
    alignas(128) uint32_t request; // host to scheduler: 1, 2, 3, ... or stop_word
    alignas(128) uint32_t answer;  // worker to host
    alignas(128) uint32_t left;    // scheduler to host: 1 when it will not come back
    uint32_t error;                // the cudaError_t that made it leave, or 0
    uint32_t launched;             // graphs launched since start()
};

// Device memory; outlives the scheduler's re-launches.
struct SchedulerState {
    cudaGraphExec_t worker[instances];
    uint32_t question[instances];
    uint32_t next;
    uint32_t launched;
    uint64_t started_ns;
};

__device__ uint32_t poll(const uint32_t* word)
{
    uint32_t value = 0;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ void leave(Mailbox* mailbox, const SchedulerState* state, uint32_t error)
{
    mailbox->error = error;
    mailbox->launched = state->launched;
    // Release: the host reads error and launched after it has seen `left` (call) or after the end
    // of the stream (stop).
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(&mailbox->left), "r"(1u) : "memory");
}

// The spin ends with the next request, with stop_word, or at the time limit.
__global__ void schedule(SchedulerState* state, Mailbox* mailbox)
{
    if (state->started_ns == 0) state->started_ns = now_ns();
    for (uint32_t round = 0; round < launches_per_round; ++round) {
        const uint32_t next = state->next;
        for (uint32_t polls = 1;; ++polls) {
            const uint32_t value = poll(&mailbox->request);
            if (value == next) break;
            if (value == stop_word ||
                (polls % 1024 == 0 && now_ns() - state->started_ns > kernel_limit_ns)) {
                leave(mailbox, state, 0);
                return;
            }
        }
        const uint32_t turn = next % instances;
        state->question[turn] = next;
        __threadfence(); // the worker reads the question
        const cudaError_t status =
            cudaGraphLaunch(state->worker[turn], cudaStreamGraphFireAndForget);
        if (status != cudaSuccess) {
            leave(mailbox, state, static_cast<uint32_t>(status));
            return;
        }
        state->next = next + 1;
        ++state->launched;
    }
    const cudaError_t status =
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
    if (status != cudaSuccess) leave(mailbox, state, static_cast<uint32_t>(status));
}

__global__ void work(const uint32_t* question, uint32_t* answer)
{
    const uint32_t value = 2 * poll(question) + 1;
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(answer), "r"(value) : "memory");
}

} // namespace

struct DeviceGraph::Parts {
    OwnStream stream;
    PinnedBuffer<Mailbox> mailbox{1};
    DeviceBuffer<SchedulerState> state{1};
    std::vector<Graph> workers;
    std::unique_ptr<Graph> scheduler;
    uint32_t last = 0;
    uint32_t first = 1;
    bool running = false;

    Parts()
    {
        workers.reserve(instances);
        for (uint32_t i = 0; i < instances; ++i)
            workers.emplace_back(
                stream,
                [&](cudaStream_t s) {
                    work<<<1, 1, 0, s>>>(&state.get()->question[i], &mailbox.get()->answer);
                },
                cudaGraphInstantiateFlagDeviceLaunch);
        scheduler = std::make_unique<Graph>(
            stream, [&](cudaStream_t s) { schedule<<<1, 1, 0, s>>>(state.get(), mailbox.get()); },
            cudaGraphInstantiateFlagDeviceLaunch);
    }

    void send(uint32_t value)
    {
        __atomic_store_n(&mailbox.get()->request, value, __ATOMIC_RELAXED);
    }

    [[noreturn]] void fail() const
    {
        const auto error = static_cast<cudaError_t>(mailbox[0].error);
        throw std::runtime_error(
            std::string("device graph launch: the scheduler has left: ") +
            (error == cudaSuccess ? "its time was over" : cudaGetErrorName(error)));
    }
};

DeviceGraph::DeviceGraph()
{
    try {
        parts_ = std::make_unique<Parts>();
    } catch (const std::runtime_error& error) {
        problem_ = error.what();
    }
}

DeviceGraph::~DeviceGraph()
{
    if (parts_ == nullptr || !parts_->running) return;
    parts_->send(stop_word);
    cudaStreamSynchronize(parts_->stream); // ends with the stop word, or at the time limit
}

const std::string& DeviceGraph::problem() const { return problem_; }

void DeviceGraph::start()
{
    Parts& p = *parts_;
    p.first = p.last + 1;
    p.send(p.last);
    p.mailbox[0].left = 0;
    p.mailbox[0].error = 0;
    p.mailbox[0].launched = 0;
    SchedulerState state{};
    for (uint32_t i = 0; i < instances; ++i) state.worker[i] = p.workers[i].exec();
    state.next = p.first;
    check_cuda(
        cudaMemcpyAsync(p.state.get(), &state, sizeof state, cudaMemcpyHostToDevice, p.stream),
        "copy of the scheduler's state");
    p.stream.synchronize();
    p.scheduler->launch(p.stream);
    p.running = true;
}

uint32_t DeviceGraph::call()
{
    Parts& p = *parts_;
    const uint32_t wanted = 2 * ++p.last + 1;
    p.send(p.last);
    uint64_t give_up = 0;
    for (uint32_t polls = 1;; ++polls) { // ends with the answer, or when the device is silent
        const uint32_t value = __atomic_load_n(&p.mailbox.get()->answer, __ATOMIC_RELAXED);
        if (value == wanted) return value;
        if (polls % 65536 == 0) {
            // Acquire: pairs with the release in leave().
            if (__atomic_load_n(&p.mailbox.get()->left, __ATOMIC_ACQUIRE) != 0) p.fail();
            if (give_up == 0) give_up = now_ns() + 2'000'000'000;
            if (now_ns() > give_up)
                throw std::runtime_error("device graph launch: no answer for 2 s");
        }
    }
}

uint32_t DeviceGraph::expected() const { return 2 * parts_->last + 1; }

bool DeviceGraph::stop()
{
    Parts& p = *parts_;
    p.send(stop_word);
    p.stream.synchronize(); // waits for the scheduler and for everything it launched
    p.running = false;
    if (p.mailbox[0].error != 0) p.fail();
    return p.mailbox[0].left == 1 && p.mailbox[0].launched == p.last - p.first + 1;
}

} // namespace denizen::bench
