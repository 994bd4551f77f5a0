// SPDX-License-Identifier: Apache-2.0
// The element types of a collective and what is done to them. Sums of f16 and bf16 are taken in f32
// and rounded once, to the nearest even; i32 wraps around. A NaN goes through min and max.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::group {

enum class Type : uint32_t { f32, f16, bf16, i32 };
enum class Op : uint32_t { sum, min, max, avg };

inline constexpr uint32_t types = 4;
inline constexpr uint32_t ops = 4;

// IEEE binary16 and bfloat16 by their bits.
struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};

DENIZEN_HD constexpr uint32_t size_of(Type type)
{
    return type == Type::f32 || type == Type::i32 ? 4 : 2;
}

namespace detail {

DENIZEN_HD inline uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    copy_bytes(&bits, &value, 4);
    return bits;
}

DENIZEN_HD inline float float_of(uint32_t bits)
{
    float value = 0;
    copy_bytes(&value, &bits, 4);
    return value;
}

} // namespace detail

// What is added up in: f32, but int32_t for int32_t.
DENIZEN_HD inline float widen(float value) { return value; }
DENIZEN_HD inline int32_t widen(int32_t value) { return value; }

DENIZEN_HD inline float widen(BFloat value) { return detail::float_of(uint32_t{value.bits} << 16); }

DENIZEN_HD inline float widen(Half value)
{
#if DENIZEN_ON_DEVICE
    float wide = 0;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
#else
    const uint32_t sign = (value.bits & 0x8000u) << 16;
    const uint32_t exponent = value.bits >> 10 & 31u;
    const uint32_t fraction = value.bits & 0x3ffu;
    if (exponent == 31) return detail::float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) { // zero, or a subnormal: fraction * 2^-24, exact in f32
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return detail::float_of(sign | (exponent + 112) << 23 | fraction << 13);
#endif
}

template <class T>
struct Narrow;

template <>
struct Narrow<float> {
    using Wide = float;
    DENIZEN_HD static float of(float value) { return value; }
};

template <>
struct Narrow<int32_t> {
    using Wide = int32_t;
    DENIZEN_HD static int32_t of(int32_t value) { return value; }
};

template <>
struct Narrow<BFloat> {
    using Wide = float;
    DENIZEN_HD static BFloat of(float value)
    {
        const uint32_t bits = detail::bits_of(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
        return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
    }
};

template <>
struct Narrow<Half> {
    using Wide = float;
    DENIZEN_HD static Half of(float value)
    {
#if DENIZEN_ON_DEVICE
        Half half{};
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
        return half;
#else
        const uint32_t bits = detail::bits_of(value);
        const uint32_t sign = bits >> 16 & 0x8000u;
        const uint32_t magnitude = bits & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};  // NaN
        if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)}; // too large
        if (magnitude < 0x38800000u) { // a subnormal: the addition rounds to units of 2^-24
            const float rounded = detail::float_of(magnitude) + 0.5f; // ulp of 0.5f is 2^-24
            return {static_cast<uint16_t>(sign | (detail::bits_of(rounded) - 0x3f000000u))};
        }
        const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
        return {static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
#endif
    }
};

// Selects instead of branches: an operation that is known only at run time must not make a loop of
// its own for each.
DENIZEN_HD inline float combine(Op op, float a, float b)
{
    const bool first = (op == Op::min ? a < b : a > b) || a != a;
    return op == Op::min || op == Op::max ? (first ? a : b) : a + b;
}

DENIZEN_HD inline int32_t combine(Op op, int32_t a, int32_t b)
{
    const bool first = op == Op::min ? a < b : a > b;
    const auto sum = static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    return op == Op::min || op == Op::max ? (first ? a : b) : sum;
}

// After all ranks: avg is the sum times 1 / ranks; that of integers is cut towards zero.
DENIZEN_HD inline float conclude(Op op, float sum, uint32_t ranks)
{
    return sum * (op == Op::avg ? 1.0f / static_cast<float>(ranks) : 1.0f);
}
DENIZEN_HD inline int32_t conclude(Op op, int32_t sum, uint32_t ranks)
{
    return op == Op::avg ? sum / static_cast<int32_t>(ranks) : sum;
}

} // namespace denizen::group
