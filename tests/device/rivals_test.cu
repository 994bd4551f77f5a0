// SPDX-License-Identifier: Apache-2.0
// The rivals of the benchmarks do the work that they are timed for.
#include "benchmarks/rivals/device_graph.hpp"
#include "benchmarks/rivals/launch.cuh"
#include "benchmarks/rivals/ping_pong.cuh"
#include "benchmarks/rivals/tasks.cuh"
#include "device/mapped.hpp"

#include <gtest/gtest.h>

namespace {

using namespace denizen::bench;

template <class Rival>
void answers(Rival& rival, int calls)
{
    for (int i = 0; i < calls; ++i) {
        const uint32_t answer = rival.call();
        ASSERT_EQ(answer, rival.expected()) << "call " << i;
    }
}

TEST(rivals, launch_and_synchronise)
{
    LaunchSync rival;
    answers(rival, 100);
    EXPECT_EQ(rival.expected(), 201u);
}

TEST(rivals, graph_and_synchronise)
{
    GraphSync rival;
    answers(rival, 100);
    EXPECT_EQ(rival.expected(), 201u);
}

TEST(rivals, ping_pong_in_pinned_memory_starts_again)
{
    PingPong rival;
    for (int round = 0; round < 3; ++round) {
        rival.start();
        answers(rival, 1000);
        EXPECT_TRUE(rival.stop());
    }
    EXPECT_EQ(rival.expected(), 3000u);
}

TEST(rivals, ping_pong_in_mapped_memory)
{
    std::string why;
    auto memory =
        denizen::gpu::MappedMemory::try_create(0, denizen::gpu::device_info(0).uuid, 4096, &why);
    if (!memory) GTEST_SKIP() << why;
    PingPong rival(reinterpret_cast<uint32_t*>(memory->host()),
                   reinterpret_cast<uint32_t*>(memory->device()));
    rival.start();
    answers(rival, 1000);
    EXPECT_TRUE(rival.stop());
}

TEST(rivals, device_graph_past_its_own_relaunch)
{
    DeviceGraph rival;
    if (!rival.problem().empty()) GTEST_SKIP() << rival.problem();
    for (int round = 0; round < 2; ++round) {
        rival.start();
        answers(rival, 350);
        EXPECT_TRUE(rival.stop());
    }
}

TEST(rivals, tasks_each_way)
{
    TaskWork work(2500);
    EXPECT_EQ(work.graph_nodes(), 1000u);
    EXPECT_FALSE(work.verify()) << "nothing has been done yet";
    work.synchronous(10);
    EXPECT_TRUE(work.verify(10));
    EXPECT_FALSE(work.verify(11));
    work.reset();
    work.batched();
    EXPECT_TRUE(work.verify());
    work.reset();
    work.graph();
    EXPECT_TRUE(work.verify());
    work.reset();
    work.bulk();
    EXPECT_TRUE(work.verify());
}

TEST(rivals, dependent_pairs_each_way)
{
    PairWork work(300);
    for (uint32_t i = 0; i < 10; ++i) work.two_syncs(i);
    EXPECT_TRUE(work.verify(10));
    work.reset();
    for (uint32_t i = 0; i < 10; ++i) work.one_sync(i);
    EXPECT_TRUE(work.verify(10));
    work.reset();
    for (uint32_t i = 0; i < 10; ++i) work.graph_sync();
    EXPECT_TRUE(work.verify(10));
    work.reset();
    work.batched();
    EXPECT_TRUE(work.verify());
    work.reset();
    work.bulk();
    EXPECT_TRUE(work.verify());
}

} // namespace
