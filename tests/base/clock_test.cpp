// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/clock.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace denizen {
namespace {

TEST(Clock, NeverGoesBackAndCountsNanoseconds)
{
    const uint64_t begin = now_ns();
    uint64_t last = begin;
    for (int i = 0; i < 10'000; ++i) {
        const uint64_t now = now_ns();
        ASSERT_GE(now, last);
        last = now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_GE(now_ns() - begin, 2'000'000u);
}

} // namespace
} // namespace denizen
