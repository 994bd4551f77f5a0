// SPDX-License-Identifier: Apache-2.0
// A resident group on GPUs that breathes: every call is done over many breaths, whoever waits for
// the whole device gets its turn meanwhile, teams leave at the end of the lease and come back. With
// as many ranks as there are GPUs that reach each other, and with one.
#include "group/calls.hpp"
#include "support/threads.hpp"
#include <denizen/device/driver.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/group/resident.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cuda_runtime.h>
#include <memory>
#include <thread>

using namespace denizen;
using namespace denizen::group;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

void ok(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

uint32_t gpus()
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) return 0;
    for (int a = 1; a < n; ++a) {
        int can = 0;
        if (cudaDeviceCanAccessPeer(&can, 0, a) != cudaSuccess || can == 0) return 1;
    }
    return static_cast<uint32_t>(n < 8 ? n : 8);
}

// With one rank, then with one on each GPU.
class ResidentOnGpus : public testing::TestWithParam<bool> {
protected:
    void SetUp() override
    {
        ranks_ = GetParam() ? gpus() : 1;
        if (gpus() == 0) GTEST_SKIP() << "this machine has no CUDA device";
        if (GetParam() && ranks_ < 2) GTEST_SKIP() << "fewer than two GPUs reach each other";
        for (uint32_t r = 0; r < ranks_; ++r) {
            ok(cudaSetDevice(static_cast<int>(r)));
            for (auto* const to : {&x_, &y_}) {
                void* p = nullptr;
                ok(cudaMalloc(&p, count * sizeof(int32_t)));
                to->push_back(static_cast<int32_t*>(p));
            }
            fill(r);
        }
    }
    void TearDown() override
    {
        for (uint32_t r = 0; r < x_.size(); ++r) {
            cudaSetDevice(static_cast<int>(r));
            cudaFree(x_[r]);
            cudaFree(y_[r]);
        }
    }
    void fill(uint32_t r)
    {
        ok(cudaSetDevice(static_cast<int>(r)));
        const std::vector<int32_t> values(count, static_cast<int32_t>(r + 1));
        ok(cudaMemcpy(x_[r], values.data(), count * sizeof(int32_t), cudaMemcpyHostToDevice));
        ok(cudaStreamSynchronize(nullptr)); // from pageable memory it may return before its end
    }
    std::vector<int32_t> values(const int32_t* from, uint32_t r) const
    {
        std::vector<int32_t> v(count);
        cudaSetDevice(static_cast<int>(r));
        EXPECT_EQ(cudaMemcpy(v.data(), from, count * sizeof(int32_t), cudaMemcpyDeviceToHost),
                  cudaSuccess);
        return v;
    }
    int32_t sum() const { return static_cast<int32_t>(ranks_ * (ranks_ + 1) / 2); }

    static constexpr uint32_t count = 20'000 * 64;
    uint32_t ranks_ = 1;
    std::vector<int32_t*> x_;
    std::vector<int32_t*> y_;
};

// As many calls under way as may be, with some pauses, each for a slice of its own: in place, where
// a call that is done twice shows, or to another place, where one that is not done shows.
TEST_P(ResidentOnGpus, DoesEveryCallOverManyBreaths)
{
    constexpr uint32_t slice = 64;
    constexpr uint32_t calls = count / slice;
    for (const uint32_t channels : {1u, 7u, 64u}) {
        auto groups = Group::local(ranks_, Device::gpu());
        std::vector<std::unique_ptr<ResidentGroup>> residents;
        for (Group& g : groups) {
            residents.push_back(
                std::make_unique<ResidentGroup>(g, channels, milliseconds(500), microseconds(300)));
        }
        for (uint32_t r = 0; r < ranks_; ++r) {
            fill(r);
            ok(cudaMemset(y_[r], 0, count * sizeof(int32_t)));
            ok(cudaDeviceSynchronize());
        }
        test::on_threads(ranks_, [&](uint32_t r) {
            for (uint32_t i = 0; i < calls; ++i) {
                int32_t* const in = x_[r] + i * slice;
                residents[r]->all_reduce(in, i % 2 == 0 ? in : y_[r] + i * slice, slice, Type::i32);
                if (i % 1000 == 0) {
                    residents[r]->wait();
                    std::this_thread::sleep_for(microseconds(100 * (i / 1000 % 7)));
                }
            }
            residents[r]->wait();
        });
        for (uint32_t r = 0; r < ranks_; ++r) {
            EXPECT_EQ(residents[r]->launches(), 1u);
            EXPECT_GT(residents[r]->incarnations(), 20u);
            std::vector<int32_t> in_place(count);
            std::vector<int32_t> elsewhere(count, 0);
            for (uint32_t i = 0; i < count; ++i) {
                const bool here = i / slice % 2 == 0;
                in_place[i] = here ? sum() : static_cast<int32_t>(r + 1);
                elsewhere[i] = here ? 0 : sum();
            }
            EXPECT_EQ(values(x_[r], r), in_place);
            EXPECT_EQ(values(y_[r], r), elsewhere);
        }
    }
}

// What waits for the whole device returns while the group is called all the time.
TEST_P(ResidentOnGpus, StandsInNobodysWay)
{
    auto groups = Group::local(ranks_, Device::gpu());
    std::vector<std::unique_ptr<ResidentGroup>> residents;
    for (Group& g : groups) residents.push_back(std::make_unique<ResidentGroup>(g, 16));
    std::atomic<bool> ended = false;
    std::atomic<uint32_t> called = 0;
    std::vector<std::thread> callers;
    // All ranks post the same: the first says how often.
    constexpr uint32_t most = 4'000'000;
    std::atomic<uint32_t> goal = most;
    for (uint32_t r = 0; r < ranks_; ++r) {
        callers.emplace_back([&, r] {
            for (uint32_t i = 0; i < goal.load(); ++i) { // ends as the first rank says
                if (r == 0 && ended.load() && goal.load() == most) goal = i + 1000;
                residents[r]->all_reduce(x_[r], x_[r], 512, Type::i32, i == 0 ? Op::sum : Op::max);
                residents[r]->wait();
                if (r == 0) ++called;
            }
        });
    }
    const uint64_t begin = now_ns();
    for (int round = 0; round < 20; ++round) {
        const uint32_t before = called;
        for (uint32_t r = 0; r < ranks_; ++r) {
            ok(cudaSetDevice(static_cast<int>(r)));
            ok(cudaDeviceSynchronize());
            void* memory = nullptr;
            ok(cudaMalloc(&memory, 64 << 20));
            ok(cudaMemset(memory, 1, 64 << 20));
            ok(cudaFree(memory));
            ok(cudaHostAlloc(&memory, 1 << 20, cudaHostAllocDefault));
            ok(cudaFreeHost(memory));
        }
        while (called == before) std::this_thread::yield(); // ends: it goes on
    }
    EXPECT_LT(now_ns() - begin, 60'000'000'000u);
    ended = true;
    for (std::thread& t : callers) t.join();
    for (uint32_t r = 0; r < ranks_; ++r) {
        const std::vector<int32_t> got = values(x_[r], r);
        EXPECT_EQ(got[0], sum());
        EXPECT_EQ(got[511], sum());
        EXPECT_EQ(got[512], static_cast<int32_t>(r + 1));
    }
}

// The lease outlasts breaths, and runs out; with a breath, and without.
TEST_P(ResidentOnGpus, LeavesAfterTheLeaseAndComesBack)
{
    for (const auto breath : {microseconds(300), microseconds(0)}) {
        auto groups = Group::local(ranks_, Device::gpu());
        std::vector<std::unique_ptr<ResidentGroup>> residents;
        for (Group& g : groups) {
            residents.push_back(std::make_unique<ResidentGroup>(g, 16, milliseconds(20), breath));
        }
        test::on_threads(ranks_, [&](uint32_t r) {
            for (int i = 0; i < 10; ++i) {
                fill(r);
                residents[r]->all_reduce(x_[r], x_[r], count, Type::i32);
                residents[r]->wait();
                EXPECT_EQ(values(x_[r], r), std::vector<int32_t>(count, sum()));
                std::this_thread::sleep_for(milliseconds(i < 5 ? 1 : 100)); // or the lease is over
            }
        });
        for (uint32_t r = 0; r < ranks_; ++r) {
            EXPECT_GE(residents[r]->launches(), 4u);
            EXPECT_LE(residents[r]->launches(), 11u);
            const uint64_t before = residents[r]->incarnations();
            std::this_thread::sleep_for(milliseconds(50)); // off the GPU
            EXPECT_EQ(residents[r]->incarnations(), before);
            ok(cudaSetDevice(static_cast<int>(r)));
            ok(cudaDeviceSynchronize());
        }
    }
}

// Calls come just as the lease runs out, over and over: none is lost.
TEST_P(ResidentOnGpus, LosesNoCallAsItLeaves)
{
    auto groups = Group::local(ranks_, Device::gpu());
    std::vector<std::unique_ptr<ResidentGroup>> residents;
    for (Group& g : groups) {
        residents.push_back(
            std::make_unique<ResidentGroup>(g, 16, microseconds(200), microseconds(300)));
    }
    test::on_threads(ranks_, [&](uint32_t r) {
        for (uint32_t i = 0; i < 2000; ++i) {
            residents[r]->all_reduce(x_[r], x_[r], count, Type::i32, i == 0 ? Op::sum : Op::max);
            residents[r]->wait();
            const uint64_t begin = now_ns();
            while (now_ns() - begin < 150'000 + i % 100 * 1000) { // ends: the clock goes on
            }
        }
    });
    for (uint32_t r = 0; r < ranks_; ++r) {
        EXPECT_GT(residents[r]->launches(), 10u);
        EXPECT_EQ(values(x_[r], r), std::vector<int32_t>(count, sum()));
    }
}

INSTANTIATE_TEST_SUITE_P(ranks, ResidentOnGpus, testing::Values(false, true),
                         [](const auto& all) { return all.param ? "all" : "one"; });

} // namespace
