// SPDX-License-Identifier: Apache-2.0
// What a group on GPUs launches for a call, over a driver that is not there
// (tests/device/fake_driver.cpp).
#include "device/load_fake_driver.hpp"

#include <denizen/group/group.hpp>

#include <gtest/gtest.h>

namespace {

using namespace denizen;
using group::Algorithm;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

// Keeps the last call that was launched.
struct Gpu final : FakeGpu {
    group::Call call;

    bool refuses(Call) override { return false; }
    void launch(void*, void*, void** parameters) override
    {
        call = *static_cast<group::Call*>(parameters[1]);
    }
    void set(void*, unsigned long long, unsigned) override {}
    bool busy(void*) override { return false; }
    void synchronize(void*) override {}
    void wrote(void*, unsigned long long) override {}
};

class group_launched : public testing::Test {
protected:
    static constexpr uint64_t count = 4 << 20; // 16 MiB of f32 from each rank

    void SetUp() override
    {
        ASSERT_NE(fake, nullptr);
        *fake = {};
        GroupOptions options;
        options.heap_bytes = 4 * 4 * count;
        options.least_gbs = 0;
        ranks = Group::local(2, Device::gpu(0), options, {std::vector<char>(64), nullptr});
        fake->gpu = &gpu;
    }
    void TearDown() override
    {
        fake->gpu = nullptr;
        ranks.clear();
    }

    group::Call launched(Algorithm algorithm, const void* in, void* out)
    {
        group::Call call;
        call.kind = group::Kind::all_gather;
        call.algorithm = algorithm;
        call.channels = 0;
        call.count = count;
        call.in = in;
        call.out = out;
        ranks[0].run(call);
        return gpu.call;
    }

    Gpu gpu;
    std::vector<Group> ranks;
};

TEST_F(group_launched, automatic_pulls_only_what_lies_in_symmetric_memory)
{
    const void* const in = ranks[0].allocate(4 * count);
    void* const out = ranks[0].allocate(2 * 4 * count);
    const group::Call there = launched(Algorithm::automatic, in, out);
    EXPECT_EQ(there.algorithm, Algorithm::pull);
    EXPECT_NE(there.in_place, 0);

    std::vector<float> elsewhere(count), all(2 * count);
    const group::Call pushed = launched(Algorithm::automatic, elsewhere.data(), all.data());
    EXPECT_EQ(pushed.algorithm, Algorithm::push);
    EXPECT_EQ(pushed.in_place, 0);
    EXPECT_EQ(launched(Algorithm::pull, elsewhere.data(), all.data()).algorithm, Algorithm::pull)
        << "who names one gets it";
}

} // namespace
