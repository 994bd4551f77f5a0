// SPDX-License-Identifier: Apache-2.0
// Logs of many shapes mined on every device that is there, compared with plain_mine().
#include "plain.hpp"

#include <denizen/procmine/generate.hpp>

#include "../src/quantile.hpp"

#include "../src/gpu.hpp"
#include <denizen/device/driver.hpp>

#include <gtest/gtest.h>

#include <random>

using namespace denizen;
using namespace denizen::procmine;

namespace {

struct Place {
    const char* name;
    uint32_t threads; // 0: the GPU
};

std::vector<Place> places()
{
    std::vector<Place> all{{"cpu1", 1}, {"cpu3", 3}};
    if (gpu_compiled && gpu::driver_present()) all.push_back({"gpu", 0});
    return all;
}

class Mining : public testing::TestWithParam<Place> {
protected:
    Mined mined(const Columns& log, bool quantiles = true, bool variants = true) const
    {
        const MineOptions options{GetParam().threads, quantiles, variants};
        if (GetParam().threads == 0) return GpuLog(log.events(), 0).mine(options);
        return mine(log.events(), options);
    }

    void check(const Columns& log) const
    {
        EXPECT_EQ(difference(mined(log), plain_mine(log.events())), "");
    }
};

Columns random_log(uint32_t seed, size_t events, uint32_t cases, uint32_t activities, int64_t least,
                   int64_t most)
{
    std::mt19937_64 random(seed);
    Columns log;
    log.case_count = cases;
    log.activity_count = activities;
    for (size_t i = 0; i < events; ++i) {
        log.cases.push_back(static_cast<uint32_t>(random() % cases));
        // The product of two: some activities are much more frequent than others.
        log.activities.push_back(
            static_cast<uint32_t>((random() % activities) * (random() % activities) / activities));
        log.times.push_back(std::uniform_int_distribution<int64_t>(least, most)(random));
    }
    return log;
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Devices, Mining, testing::ValuesIn(places()),
                         [](const auto& place) { return place.param.name; });

TEST_P(Mining, NothingAndNearlyNothing)
{
    Columns log;
    check(log);
    log.case_count = 3;
    log.activity_count = 2;
    check(log);
    log.cases = {1};
    log.activities = {1};
    log.times = {-5};
    check(log);
}

TEST_P(Mining, AGeneratedLog)
{
    const Columns log = generate(60'000, 24, 7);
    EXPECT_EQ(log.cases.size(), 60'000u);
    EXPECT_TRUE(std::is_sorted(log.times.begin(), log.times.end()));
    check(log);
}

// In any order, with times that are equal: those events stay in the order given.
TEST_P(Mining, RandomOrderAndEqualTimes)
{
    check(random_log(1, 30'000, 2'000, 13, 0, 40));
    check(random_log(2, 30'000, 1, 5, -1000, 1000));
    check(random_log(3, 3'000, 100'000, 5, 0, 1'000'000));
}

// More activities than a table of all pairs would hold, and one activity alone.
TEST_P(Mining, ManyActivitiesAndOne)
{
    check(random_log(4, 20'000, 500, 70'000, 0, 1'000'000'000));
    check(random_log(5, 20'000, 500, 1, 0, 1'000'000'000));
}

// Times from the beginning to the end of what 64 bits hold: durations are unsigned.
TEST_P(Mining, TimesFarApart)
{
    check(random_log(6, 5'000, 700, 4, std::numeric_limits<int64_t>::min(),
                     std::numeric_limits<int64_t>::max()));
}

TEST_P(Mining, HalfOfIt)
{
    const Columns log = generate(20'000, 9, 3);
    Mined expected = plain_mine(log.events());
    for (Edge& edge : expected.edges) edge.median = edge.p95 = 0;
    EXPECT_EQ(difference(mined(log, false, true), expected), "");
    expected.variants.clear();
    expected.paths.clear();
    expected.case_variants.clear();
    EXPECT_EQ(difference(mined(log, false, false), expected), "");
}

TEST_P(Mining, WhatIsRefused)
{
    Columns log = generate(1'000, 5, 1);
    log.activities[700] = 5;
    EXPECT_THROW(mined(log), Error);
    log = generate(1'000, 5, 1);
    log.cases[999] = log.case_count;
    try {
        mined(log);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_argument);
        EXPECT_NE(std::string(error.what()).find("event 999 is of case"), std::string::npos);
    }
    log = generate(1'000, 5, 1);
    log.times.pop_back();
    EXPECT_THROW(mined(log), Error);
}

TEST(Buckets, AscendAndHoldTheirValues)
{
    std::mt19937_64 random(1);
    EXPECT_LT(bucket_of(~uint64_t{0}), buckets);
    for (uint32_t b = 0; b + 1 < buckets; ++b) {
        EXPECT_LT(bucket_begin(b), bucket_begin(b + 1));
        EXPECT_EQ(bucket_of(bucket_begin(b)), b);
        EXPECT_EQ(bucket_of(bucket_begin(b + 1) - 1), b);
        if (b >= 16) {
            EXPECT_LE(bucket_begin(b + 1) - bucket_begin(b), bucket_begin(b) / 16);
        }
    }
}

// Few and many values, all alike, those of a single bucket, and the longest; in several parts.
TEST(QuantilesTest, AreThoseOfSortedValues)
{
    std::mt19937_64 random(2);
    for (const size_t n : {1u, 2u, 3u, 20u, 21u, 5'000u, 20'001u}) {
        for (const uint64_t range :
             {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 40, ~uint64_t{0}}) {
            Blocks blocks;
            std::array<Durations, 3> parts;
            std::vector<uint64_t> values(n);
            Sum sum;
            for (size_t i = 0; i < n; ++i) {
                values[i] = range == ~uint64_t{0} ? random() | 1u << 20 : random() % range;
                values[i] += range == 1000 ? 1u << 20 : 0u;
                if (range == ~uint64_t{0} && i % 3 == 0) values[i] = ~uint64_t{0};
                sum.add(values[i]);
                parts[i < 2 ? i : 2].add(values[i], blocks);
            }
            const std::array<const Durations*, 3> all{&parts[0], &parts[1], &parts[2]};
            const Quantiles found(all);
            const auto [median, p95] = found.median_and_p95();
            EXPECT_DOUBLE_EQ(median, plain_quantile(values, 500));
            EXPECT_DOUBLE_EQ(p95, plain_quantile(values, 950));
            EXPECT_EQ(found.count, n);
            EXPECT_EQ(found.least, *std::min_element(values.begin(), values.end()));
            EXPECT_EQ(found.most, *std::max_element(values.begin(), values.end()));
            EXPECT_EQ(found.sum.over(n), sum.over(n));
        }
    }
}

TEST(SumTest, OfLongDurations)
{
    Sum sum;
    const uint64_t value = ~uint64_t{0} - 5;
    for (int i = 0; i < 1000; ++i) sum.add(value);
    EXPECT_NEAR(sum.over(1000) / static_cast<double>(value), 1, 1e-15);
}
