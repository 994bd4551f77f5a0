// SPDX-License-Identifier: Apache-2.0
// What benchmark programs print: the reader refuses anything else, so the form is fixed here too.
#include "benchmarks/common.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace denizen::bench;

TEST(bench_json, escapes_and_keeps_the_types)
{
    Json object;
    object.add("text", "a \"b\" \\ \n").add("yes", true).add("count", uint64_t{1} << 63);
    object.add("real", 0.25).add("list", std::vector<double>{1.5, 2e-9}).add("in", Json());
    EXPECT_EQ(object.str(), "{\"text\": \"a \\\"b\\\" \\\\ \\u000a\", \"yes\": true, "
                            "\"count\": 9223372036854775808, \"real\": 0.25, "
                            "\"list\": [1.5,2e-09], \"in\": {}}");
}

TEST(bench_json, refuses_what_is_no_measurement)
{
    Json object;
    EXPECT_THROW(object.add("x", std::numeric_limits<double>::quiet_NaN()), std::runtime_error);
    EXPECT_THROW(object.add("x", std::numeric_limits<double>::infinity()), std::runtime_error);
}

TEST(bench_samples, few_are_kept_as_they_are)
{
    Samples samples(3);
    samples.add_ns_as_us(1500);
    samples.add(3);
    EXPECT_EQ(samples.thinned(2000), (std::vector<double>{1.5, 3}));
}

TEST(bench_samples, thinning_keeps_order_count_and_the_largest)
{
    Samples samples(100000);
    for (int i = 0; i < 100000; ++i) samples.add(i == 77777 ? 1e6 : i);
    const std::vector<double> kept = samples.thinned(20000);
    ASSERT_EQ(kept.size(), 20000u);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), 1e6), 1);
    std::vector<double> rest(kept);
    rest.erase(std::find(rest.begin(), rest.end(), 1e6));
    EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
    EXPECT_EQ(rest.front(), 0);
    EXPECT_GE(rest.back(), 99990);
}

TEST(bench_case, prints_the_line_that_the_lab_reads)
{
    Samples samples(2);
    samples.add(2);
    samples.add(4);
    Case result;
    result.name = "launch + sync";
    result.params.add("n", 2);
    result.n = 2;
    result.verified = true;
    result.ratio_base = {"raw ping-pong"};
    testing::internal::CaptureStdout();
    result.print(samples);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "{\"case\": \"launch + sync\", \"params\": {\"n\": 2}, \"unit\": \"us\", \"n\": 2, "
              "\"verified\": true, \"ratio_base\": [\"raw ping-pong\"], \"samples\": [2,4]}\n");
}

TEST(bench_cores, a_thread_stays_where_it_is_put)
{
    const std::vector<int> cores = allowed_cores();
    ASSERT_FALSE(cores.empty());
    ASSERT_TRUE(pin_to_core(cores.back()));
    EXPECT_EQ(allowed_cores(), std::vector<int>{cores.back()});
    EXPECT_FALSE(pin_to_core(CPU_SETSIZE - 1));
}

} // namespace
