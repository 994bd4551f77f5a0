// SPDX-License-Identifier: Apache-2.0
// Small floats on the host: every value there and back, rounding to the nearest even, min, max,
// avg.
#include <denizen/group/call.hpp>

#include <gtest/gtest.h>

#include "group/random.hpp"
#include <cmath>
#include <limits>

using namespace denizen::group;

namespace {

template <class T>
using Bits = decltype(T::bits);

template <class T>
void every_value_comes_back()
{
    for (uint32_t bits = 0; bits <= std::numeric_limits<Bits<T>>::max(); ++bits) {
        const T value{static_cast<Bits<T>>(bits)};
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
        const T other{static_cast<Bits<T>>(got.bits + step)};
        if (std::signbit(widen(other)) != std::signbit(x) || !std::isfinite(widen(other))) continue;
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
TEST(Numbers, EveryFloat8ComesBack)
{
    every_value_comes_back<Float8E4M3>();
    every_value_comes_back<Float8E5M2>();
}

// The table of OCP's "8-bit Floating Point Specification", 2023.
TEST(Numbers, Float8AsSpecified)
{
    EXPECT_EQ(widen(Float8E4M3{0x7e}), 448.0f);
    EXPECT_EQ(widen(Float8E4M3{0x08}), 0x1p-6f);
    EXPECT_EQ(widen(Float8E4M3{0x07}), 0.875f * 0x1p-6f);
    EXPECT_EQ(widen(Float8E4M3{0x81}), -0x1p-9f);
    EXPECT_TRUE(std::isnan(widen(Float8E4M3{0x7f})) && std::isnan(widen(Float8E4M3{0xff})));
    EXPECT_EQ(widen(Float8E5M2{0x7b}), 57344.0f);
    EXPECT_EQ(widen(Float8E5M2{0x04}), 0x1p-14f);
    EXPECT_EQ(widen(Float8E5M2{0x03}), 0.75f * 0x1p-14f);
    EXPECT_EQ(widen(Float8E5M2{0x81}), -0x1p-16f);
    EXPECT_EQ(widen(Float8E5M2{0xfc}), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(widen(Float8E5M2{0x7d})) && std::isnan(widen(Float8E5M2{0xff})));
}

TEST(Numbers, Float8RoundsToNearestEven)
{
    for (uint32_t bits = 0; bits < 0x7e; ++bits) { // exactly between two
        const auto at = [](uint32_t b) { return widen(Float8E4M3{static_cast<uint8_t>(b)}); };
        rounds_to_nearest<Float8E4M3>((at(bits) + at(bits + 1)) / 2);
        rounds_to_nearest<Float8E4M3>(-(at(bits) + at(bits + 1)) / 2);
    }
    for (uint32_t bits = 0; bits < 0x7b; ++bits) {
        const auto at = [](uint32_t b) { return widen(Float8E5M2{static_cast<uint8_t>(b)}); };
        rounds_to_nearest<Float8E5M2>((at(bits) + at(bits + 1)) / 2);
    }
    Random random(2);
    for (int i = 0; i < 100'000; ++i) {
        const int exponent = -32 - static_cast<int>(random() % 24);
        const float any = std::ldexp(static_cast<float>(random()), exponent);
        rounds_to_nearest<Float8E4M3>(any);
        rounds_to_nearest<Float8E5M2>(i % 2 == 0 ? any : -any);
    }
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(Narrow<Float8E4M3>::of(464.0f).bits, 0x7e); // half-way to what is none, and even
    EXPECT_EQ(Narrow<Float8E4M3>::of(464.1f).bits, 0x7f);
    EXPECT_EQ(Narrow<Float8E4M3>::of(-infinity).bits, 0xff);
    EXPECT_EQ(Narrow<Float8E4M3>::of(-0.0f).bits, 0x80);
    EXPECT_EQ(Narrow<Float8E5M2>::of(61439.0f).bits, 0x7b);
    EXPECT_EQ(Narrow<Float8E5M2>::of(61440.0f).bits, 0x7c);
    EXPECT_EQ(Narrow<Float8E5M2>::of(-infinity).bits, 0xfc);
    EXPECT_EQ(Narrow<Float8E5M2>::of(std::numeric_limits<float>::quiet_NaN()).bits, 0x7e);
}

TEST(Numbers, RoundsToNearestEven)
{
    Random random(1);
    for (int i = 0; i < 200'000; ++i) {
        const float any = denizen::detail::float_of(random());
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
    const int64_t most = std::numeric_limits<int64_t>::max();
    EXPECT_EQ(combine(Op::sum, most, int64_t{1}), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(combine(Op::max, most, int64_t{-1}), most);
    EXPECT_EQ(conclude(Op::avg, int64_t{-7}, 2), -3);
    EXPECT_EQ(combine(Op::sum, 0x1p53, 1.0), 0x1p53); // in f64, and no wider
    EXPECT_EQ(conclude(Op::avg, 1.0, 3), 1.0 / 3);
    const uint32_t bytes = combine(Op::sum, widen(uint8_t{200}), widen(uint8_t{100}));
    EXPECT_EQ(Narrow<uint8_t>::of(conclude(Op::sum, bytes, 2)), 44);
    EXPECT_EQ(Narrow<uint8_t>::of(conclude(Op::avg, bytes, 2)), 150); // before it is cut
}

// What kernels of the common types can do: sums of theirs, and moves as elements of 4 bytes.
TEST(Calls, RareOnes)
{
    uint32_t rare = 0;
    for (uint32_t kind = 0; kind < kinds; ++kind) {
        for (uint32_t type = 0; type < types; ++type) {
            Call call;
            call.kind = static_cast<Kind>(kind);
            call.type = static_cast<Type>(type);
            if (!is_rare(call)) continue;
            ++rare;
            EXPECT_TRUE(reduces(call.kind) || size_of(call.type) == 1)
                << to_string(call.kind) << ' ' << to_string(call.type);
            EXPECT_FALSE(is_common(call.type))
                << to_string(call.kind) << ' ' << to_string(call.type);
        }
    }
    EXPECT_EQ(rare, 2 * 5 + 3 * 3); // two kinds that sum, three that move
}
