// SPDX-License-Identifier: Apache-2.0
// The check of a group's links at its start, over a driver that is not there
// (tests/device/fake_driver.cpp): what a reading took is what the test says.
#include "device/load_fake_driver.hpp"

#include <denizen/group/detail/links.hpp>
#include <denizen/group/group.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace {

using namespace denizen;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

constexpr uint64_t ms = 1'000'000;

// A GPU on which reading takes as long as `takes_ns` says.
struct Gpu final : FakeGpu {
    std::function<double(bool own, double bytes)> takes_ns;

    bool refuses(Call) override { return false; }
    void launch(void*, void*, void** parameters) override
    {
        const GroupRef& ref = *static_cast<GroupRef*>(parameters[0]);
        const uint32_t rank = *static_cast<uint32_t*>(parameters[1]);
        const auto bytes = static_cast<double>(*static_cast<unsigned long long*>(parameters[2]));
        auto* const reading = *static_cast<group::LinkReading**>(parameters[3]);
        EXPECT_EQ(reading->ended, 0) << "of the reading before";
        if (rank == group::max_ranks) return; // the patterns: none is wrong
        reading->not_begun = ~1'000ull;
        reading->ended = 1'000 + static_cast<uint64_t>(takes_ns(rank == ref.rank, bytes));
    }
    void set(void*, unsigned long long, unsigned) override {}
    bool busy(void*) override { return false; }
    void synchronize(void*) override {}
    void wrote(void*, unsigned long long) override {}
};

// At 400 GB/s; the rank's own memory at 2,000.
double whole_turn(bool own, double bytes) { return own ? bytes / 2000 : bytes / 400; }

std::vector<Group> open(const std::function<double(bool, double)>& takes_ns, double least_gbs = 10)
{
    *fake = {};
    Gpu gpu;
    gpu.takes_ns = takes_ns;
    fake->gpu = &gpu;
    GroupOptions options;
    options.least_gbs = least_gbs;
    const Code code{std::vector<char>(64), nullptr};
    std::vector<Group> ranks;
    try {
        ranks = Group::local(2, Device::gpu(0), options, code);
    } catch (...) {
        fake->gpu = nullptr;
        throw;
    }
    fake->gpu = nullptr;
    return ranks;
}

TEST(link_rate, is_what_the_gpu_says)
{
    ASSERT_NE(fake, nullptr);
    const auto ranks = open(whole_turn);
    for (const Group& rank : ranks) EXPECT_NEAR(rank.links().at(0).gbs, 400, 1);
}

// Other programs have the GPU most of the time: only a short reading may fit into one turn.
TEST(link_rate, counts_what_fits_into_a_turn)
{
    ASSERT_NE(fake, nullptr);
    uint32_t readings = 0;
    const auto ranks = open([&](bool own, double bytes) {
        const bool fits = ++readings % 10 < 2 && bytes <= 1 << 20;
        return whole_turn(own, bytes) + (fits ? 0 : 30.0 * ms);
    });
    for (const Group& rank : ranks) EXPECT_NEAR(rank.links().at(0).gbs, 400, 2);
}

TEST(link_rate, of_a_gpu_that_never_has_time_is_no_error)
{
    ASSERT_NE(fake, nullptr);
    const auto ranks =
        open([](bool own, double bytes) { return whole_turn(own, bytes) + 30.0 * ms; });
    for (const Group& rank : ranks) EXPECT_LT(rank.links().at(0).gbs, 10);
}

TEST(link_rate, of_a_broken_link_is_an_error)
{
    ASSERT_NE(fake, nullptr);
    const auto broken = [](bool own, double bytes) {
        return own ? whole_turn(own, bytes) : bytes / 2; // 2 GB/s
    };
    try {
        open(broken);
        ADD_FAILURE() << "nobody said that the link is broken";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::failed);
        EXPECT_STREQ(e.what(), "rank 0 (Fake GPU) reads rank 1 (Fake GPU) at 2 GB/s, less than 10: "
                               "the transport is broken (see nvidia-smi topo -m and -p2p), or "
                               "allow it by least_gbs");
    }
    EXPECT_NEAR(open(broken, 0)[0].links().at(0).gbs, 2, 0.1) << "allowed";
    EXPECT_EQ(fake->contexts, 0);
    EXPECT_EQ(fake->held, 0);
}

// Shared, and broken as well.
TEST(link_rate, of_a_broken_link_is_an_error_beside_other_programs)
{
    ASSERT_NE(fake, nullptr);
    uint32_t readings = 0;
    EXPECT_THROW(open([&](bool own, double bytes) {
                     const double wait = ++readings % 10 < 2 ? 0 : 30.0 * ms;
                     return wait + (own ? whole_turn(own, bytes) : bytes / 2);
                 }),
                 Error);
}

} // namespace
