// SPDX-License-Identifier: Apache-2.0
// Collectives on GPUs, bit by bit: as kernels, in a captured graph, from inside a kernel, by
// messages to a resident group; and a rank that does not come. All but the group of one rank are
// skipped with fewer than two GPUs that reach each other.
#include "group/calls.hpp"
#include "support/threads.hpp"
#include <denizen/device/driver.hpp>

#include <denizen/group/persistent.hpp>
#include <denizen/group/resident.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cuda_runtime.h>
#include <memory>
#include <set>
#include <utility>

using namespace denizen;
using namespace denizen::group;

namespace {

void ok(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// In the middle of a kernel of one's own: a chain of sums, each of the last.
__global__ void chain(const __grid_constant__ GroupRef group, float* x, uint32_t count,
                      uint32_t rounds, uint32_t* good)
{
    Channel<> channel(group, blockIdx.x);
    bool fine = true;
    for (uint32_t i = 0; i < rounds / 2; ++i) {
        fine = fine && all_reduce(channel, gridDim.x, x, x, count, Op::avg, Algorithm::one_shot);
    }
    const AllReduce<float> average(channel, gridDim.x, x, x, count, Op::avg, Algorithm::one_shot);
    for (uint32_t i = rounds / 2; fine && i < rounds; ++i) fine = average(channel);
    fine = fine && barrier(channel, gridDim.x);
    channel.close();
    if (!fine && threadIdx.x == 0) *good = 0;
}

// A kernel of the user's that lets the next one on its stream come before it has written.
__global__ void write_late(int32_t* x, uint32_t count, int32_t value)
{
    asm volatile("griddepcontrol.launch_dependents;");
    const uint64_t begin = now_ns();
    while (now_ns() - begin < 20'000) { // ends with the time
    }
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) x[i] = value;
}

class OnAGpu : public testing::Test {
protected:
    void SetUp() override
    {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1) GTEST_SKIP() << "no GPU";
    }
    void TearDown() override
    {
        for (const auto& [device, at] : memory_) {
            cudaSetDevice(device);
            cudaFree(at);
        }
    }

    unsigned char* device_memory(uint32_t device, uint64_t bytes)
    {
        void* at = nullptr;
        cudaSetDevice(static_cast<int>(device));
        ok(cudaMalloc(&at, bytes));
        memory_.emplace_back(static_cast<int>(device), at);
        return static_cast<unsigned char*>(at);
    }

    void every_algorithm_is_exact(uint32_t ranks);

    std::vector<std::pair<int, void*>> memory_;
};

class OnGpus : public OnAGpu {
protected:
    void SetUp() override
    {
        int count = 0;
        int can = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
            GTEST_SKIP() << "fewer than two GPUs";
        }
        cudaDeviceCanAccessPeer(&can, 0, 1);
        if (can == 0) GTEST_SKIP() << "GPU 0 and 1 do not reach each other";
        gpus_ = count >= 8 ? 8 : count >= 4 ? 4 : 2;
    }

    uint32_t gpus_ = 2;
};

void OnAGpu::every_algorithm_is_exact(uint32_t n)
{
    GroupOptions o;
    o.channels = 16;
    o.heap_bytes = 64 << 20;
    o.renew = 30;
    auto groups = Group::local(n, Device::gpu(), o);
    const uint64_t room = 8 << 20;
    std::vector<unsigned char*> a, b, c, d;
    for (uint32_t r = 0; r < n; ++r) {
        a.push_back(device_memory(r, room));
        b.push_back(device_memory(r, room));
        c.push_back(static_cast<unsigned char*>(groups[r].allocate(room)));
        d.push_back(static_cast<unsigned char*>(groups[r].allocate(room)));
    }
    uint32_t turn = 0;
    for (Call call : all_calls()) {
        std::set<std::pair<Type, Op>> pairs;
        for (const uint64_t count : {1, 7, 1000, 4099, 100'000}) {
            for (uint32_t which = 0; which < types; ++which, ++turn) {
                // From count to count each type has another operation and another memory.
                const uint32_t pass = turn / types;
                call.count = count;
                call.type = static_cast<Type>(which);
                call.op = static_cast<Op>((pass + which) % ops);
                call.channels = 1 + turn % 16;
                call.root = turn % n;
                const bool symmetric = pass % 2 == 0;
                pairs.emplace(call.type, call.op);
                const uint64_t size = size_of(call.type);
                const uint64_t shift = turn % 3 == 0 ? size : 0;
                std::vector<Bytes> in;
                for (uint32_t r = 0; r < n; ++r) {
                    in.push_back(input(call.type, r, in_elements(call.kind, count, n), turn));
                    ok(cudaMemcpy((symmetric ? c : a)[r] + shift, in[r].data(), in[r].size(),
                                  cudaMemcpyHostToDevice));
                }
                for (uint32_t r = 0; r < n; ++r) {
                    call.in = (symmetric ? c : a)[r] + shift;
                    call.out = (symmetric ? d : b)[r] + shift;
                    groups[r].run(call);
                }
                for (uint32_t r = 0; r < n; ++r) {
                    groups[r].wait();
                    const Bytes wanted = expected(call, in, r);
                    Bytes out(wanted.size());
                    ok(cudaMemcpy(out.data(), (symmetric ? d : b)[r] + shift, out.size(),
                                  cudaMemcpyDeviceToHost));
                    ASSERT_EQ(out, wanted) << describe(call, n) << " rank " << r;
                }
            }
        }
        EXPECT_EQ(pairs.size(), types * ops)
            << to_string(call.kind) << " " << to_string(call.algorithm) << " ranks " << n;
    }
}

} // namespace

TEST_F(OnAGpu, EveryAlgorithmIsExact) { every_algorithm_is_exact(1); }

TEST_F(OnGpus, EveryAlgorithmIsExact)
{
    for (uint32_t n = 2; n <= gpus_ && !HasFatalFailure(); n *= 2) every_algorithm_is_exact(n);
}

TEST_F(OnGpus, FromInsideAKernel)
{
    for (const uint32_t count : {5u, 6000u, 10'000u}) { // by one packet a thread, and by more
        auto groups = Group::local(gpus_, Device::gpu());
        std::vector<float*> x;
        std::vector<uint32_t*> good;
        for (uint32_t r = 0; r < gpus_; ++r) {
            x.push_back(reinterpret_cast<float*>(device_memory(r, count * 4)));
            good.push_back(reinterpret_cast<uint32_t*>(device_memory(r, 4)));
            const std::vector<float> values(count, static_cast<float>(2 * r));
            const uint32_t one = 1;
            ok(cudaMemcpy(x[r], values.data(), count * 4, cudaMemcpyHostToDevice));
            ok(cudaMemcpy(good[r], &one, 4, cudaMemcpyHostToDevice));
        }
        for (uint32_t r = 0; r < gpus_; ++r) {
            cudaSetDevice(static_cast<int>(r));
            chain<<<8, 256>>>(groups[r].ref(), x[r], count, 1000, good[r]);
        }
        for (uint32_t r = 0; r < gpus_; ++r) {
            cudaSetDevice(static_cast<int>(r));
            ok(cudaDeviceSynchronize());
            std::vector<float> values(count);
            uint32_t fine = 0;
            ok(cudaMemcpy(values.data(), x[r], count * 4, cudaMemcpyDeviceToHost));
            ok(cudaMemcpy(&fine, good[r], 4, cudaMemcpyDeviceToHost));
            EXPECT_EQ(fine, 1u);
            EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(gpus_ - 1)));
        }
    }
}

TEST_F(OnGpus, InACapturedGraph)
{
    auto groups = Group::local(gpus_, Device::gpu());
    const uint32_t count = 5000;
    std::vector<int32_t*> x;
    std::vector<cudaGraphExec_t> graphs(gpus_);
    std::vector<cudaStream_t> streams(gpus_);
    for (uint32_t r = 0; r < gpus_; ++r) {
        x.push_back(reinterpret_cast<int32_t*>(device_memory(r, count * 4)));
        const std::vector<int32_t> ones(count, 1);
        ok(cudaMemcpy(x[r], ones.data(), count * 4, cudaMemcpyHostToDevice));
        ok(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
        cudaGraph_t graph = nullptr;
        ok(cudaStreamBeginCapture(streams[r], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < 3; ++i) {
            groups[r].all_reduce(x[r], x[r], count, Type::i32, Op::sum, streams[r]);
        }
        ok(cudaStreamEndCapture(streams[r], &graph));
        ok(cudaGraphInstantiate(&graphs[r], graph, 0));
        cudaGraphDestroy(graph);
    }
    for (int i = 0; i < 5; ++i) {
        for (uint32_t r = 0; r < gpus_; ++r) {
            cudaSetDevice(static_cast<int>(r));
            ok(cudaGraphLaunch(graphs[r], streams[r]));
        }
    }
    for (uint32_t r = 0; r < gpus_; ++r) {
        groups[r].wait(streams[r]);
        std::vector<int32_t> values(count);
        ok(cudaMemcpy(values.data(), x[r], count * 4, cudaMemcpyDeviceToHost));
        uint32_t wanted = 1; // wraps around
        for (int i = 0; i < 15; ++i) wanted *= gpus_;
        EXPECT_EQ(values, std::vector<int32_t>(count, static_cast<int32_t>(wanted)));
        cudaGraphExecDestroy(graphs[r]);
        cudaStreamDestroy(streams[r]);
    }
}

TEST_F(OnGpus, WaitsForTheKernelBefore)
{
    auto groups = Group::local(gpus_, Device::gpu());
    constexpr uint32_t count = 3000;
    constexpr int32_t rounds = 20;
    std::vector<int32_t*> x, sums;
    std::vector<cudaStream_t> streams(gpus_);
    for (uint32_t r = 0; r < gpus_; ++r) {
        x.push_back(reinterpret_cast<int32_t*>(device_memory(r, count * 4)));
        sums.push_back(reinterpret_cast<int32_t*>(device_memory(r, rounds * count * 4)));
        ok(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
    }
    for (int32_t i = 0; i < rounds; ++i) {
        for (uint32_t r = 0; r < gpus_; ++r) {
            cudaSetDevice(static_cast<int>(r));
            write_late<<<1, 256, 0, streams[r]>>>(x[r], count, i);
            groups[r].all_reduce(x[r], sums[r] + i * static_cast<int32_t>(count), count, Type::i32,
                                 Op::sum, streams[r]);
        }
    }
    for (uint32_t r = 0; r < gpus_; ++r) {
        groups[r].wait(streams[r]);
        std::vector<int32_t> values(rounds * count), wanted;
        ok(cudaMemcpy(values.data(), sums[r], values.size() * 4, cudaMemcpyDeviceToHost));
        for (int32_t i = 0; i < rounds; ++i) {
            wanted.insert(wanted.end(), count, i * static_cast<int32_t>(gpus_));
        }
        EXPECT_EQ(values, wanted);
        cudaStreamDestroy(streams[r]);
    }
}

TEST_F(OnGpus, ByMessages)
{
    auto groups = Group::local(gpus_, Device::gpu());
    const uint32_t count = 16'384;
    std::vector<float*> x;
    for (uint32_t r = 0; r < gpus_; ++r) {
        x.push_back(reinterpret_cast<float*>(device_memory(r, count * 4)));
        const std::vector<float> ones(count, 1);
        ok(cudaMemcpy(x[r], ones.data(), count * 4, cudaMemcpyHostToDevice));
    }
    {
        std::vector<std::unique_ptr<ResidentGroup>> residents;
        for (Group& g : groups) residents.push_back(std::make_unique<ResidentGroup>(g, 16));
        test::on_threads(gpus_, [&](uint32_t r) {
            for (int i = 0; i < 10; ++i) residents[r]->all_reduce(x[r], x[r], count, Type::f32);
            // Data otherwise divided among the teams: what is under way is waited for.
            residents[r]->all_reduce(x[r], x[r], count / 2, Type::f32, Op::avg);
            residents[r]->all_reduce(x[r] + 100, x[r] + 100, 7, Type::f32, Op::max);
            residents[r]->wait();
            EXPECT_EQ(residents[r]->launches(), 1u);
        });
    }
    for (uint32_t r = 0; r < gpus_; ++r) {
        std::vector<float> values(count);
        ok(cudaMemcpy(values.data(), x[r], count * 4, cudaMemcpyDeviceToHost));
        EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(std::pow(gpus_, 10))));
    }
}

TEST_F(OnGpus, WhoDoesNotCome)
{
    GroupOptions o;
    o.timeout = std::chrono::milliseconds(200);
    auto groups = Group::local(gpus_, Device::gpu(), o);
    for (uint32_t r = 0; r + 1 < gpus_; ++r) {
        auto* const x = device_memory(r, 4000);
        groups[r].all_reduce(x, x, 1000, Type::f32);
    }
    std::string first;
    for (uint32_t r = 0; r + 1 < gpus_; ++r) {
        try {
            groups[r].wait();
            FAIL() << "without the last rank";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::peer_dead) << error.what();
            if (first.empty()) first = error.what();
            EXPECT_EQ(error.what(), first);
        }
    }
    auto* const y = device_memory(gpus_ - 1, 4000);
    groups[gpus_ - 1].all_reduce(y, y, 1000, Type::f32);
    EXPECT_THROW(groups[gpus_ - 1].wait(), Error);
}
