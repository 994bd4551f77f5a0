// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 on the host: every value there and back, rounding to the nearest even, min, max,
// avg.
#include <denizen/group/number.hpp>

#include <gtest/gtest.h>

#include "group/random.hpp"
#include <cmath>
#include <limits>

using namespace denizen::group;

namespace {

template <class T>
void every_value_comes_back()
{
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const T value{static_cast<uint16_t>(bits)};
        const float wide = widen(value);
        if (std::isnan(wide)) {
            EXPECT_TRUE(std::isnan(widen(Narrow<T>::of(wide)))) << bits;
        } else {
            ASSERT_EQ(Narrow<T>::of(wide).bits, bits) << wide;
        }
    }
}

// No neighbour is nearer; of two that are as near it is the even one.
template <class T>
void rounds_to_nearest(float x)
{
    const T got = Narrow<T>::of(x);
    const double error = std::abs(double{widen(got)} - double{x});
    for (const int step : {-1, 1}) {
        const T other{static_cast<uint16_t>(got.bits + step)};
        if ((other.bits ^ got.bits) & 0x8000u || !std::isfinite(widen(other))) continue;
        const double theirs = std::abs(double{widen(other)} - double{x});
        ASSERT_LE(error, theirs) << x;
        if (error == theirs) {
            ASSERT_EQ(got.bits & 1, 0) << x;
        }
    }
}

} // namespace

TEST(Numbers, EveryHalfComesBack) { every_value_comes_back<Half>(); }
TEST(Numbers, EveryBFloatComesBack) { every_value_comes_back<BFloat>(); }

TEST(Numbers, RoundsToNearestEven)
{
    Random random(1);
    for (int i = 0; i < 200'000; ++i) {
        const float any = denizen::group::detail::float_of(random());
        if (std::isfinite(any) && std::abs(any) < 3e38f) rounds_to_nearest<BFloat>(any);
        const float small =
            std::ldexp(static_cast<float>(random()), -40 - static_cast<int>(random() % 30));
        rounds_to_nearest<Half>(i % 2 == 0 ? small : -small);
    }
    for (uint32_t bits = 0; bits < 0x7bff; ++bits) { // exactly between two
        const float a = widen(Half{static_cast<uint16_t>(bits)});
        const float b = widen(Half{static_cast<uint16_t>(bits + 1)});
        rounds_to_nearest<Half>((a + b) / 2);
    }
    EXPECT_EQ(Narrow<Half>::of(65519.0f).bits, 0x7bff);
    EXPECT_EQ(Narrow<Half>::of(65520.0f).bits, 0x7c00); // infinity
    EXPECT_EQ(Narrow<Half>::of(-1e30f).bits, 0xfc00);
    EXPECT_EQ(Narrow<Half>::of(-0.0f).bits, 0x8000);
}

TEST(Numbers, Operations)
{
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(combine(Op::min, 2.0f, 1.0f), 1.0f);
    EXPECT_EQ(combine(Op::max, 2.0f, 1.0f), 2.0f);
    for (const Op op : {Op::min, Op::max}) {
        EXPECT_TRUE(std::isnan(combine(op, nan, 1.0f)));
        EXPECT_TRUE(std::isnan(combine(op, 1.0f, nan)));
    }
    EXPECT_EQ(combine(Op::sum, int32_t{0x7fffffff}, 1), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(conclude(Op::avg, int32_t{-7}, 2), -3);
    EXPECT_EQ(conclude(Op::avg, 3.0f, 2), 1.5f);
    EXPECT_EQ(conclude(Op::sum, 3.0f, 2), 3.0f);
}
