// SPDX-License-Identifier: Apache-2.0
// The element types of a collective and what is done to them. Sums of 16-bit and 8-bit floats are
// taken in f32 and rounded once, to the nearest even; i32 and i64 wrap around; u8 is summed in 32
// bits and cut to the lowest 8. A NaN goes through min and max.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::group {

// f8e4m3 has no infinity: what is too large for it becomes NaN, as in PyTorch's float8_e4m3fn.
enum class Type : uint32_t { f32, f16, bf16, i32, f64, i64, u8, f8e4m3, f8e5m2 };
enum class Op : uint32_t { sum, min, max, avg };

inline constexpr uint32_t types = 9;
inline constexpr uint32_t ops = 4;

// IEEE binary16 and bfloat16 by their bits.
struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};
// The 8-bit floats of OCP's "OFP8" by their bits.
struct Float8E4M3 {
    uint8_t bits;
};
struct Float8E5M2 {
    uint8_t bits;
};

DENIZEN_HD constexpr uint32_t size_of(Type type)
{
    switch (type) {
    case Type::f64:
    case Type::i64: return 8;
    case Type::f32:
    case Type::i32: return 4;
    case Type::f16:
    case Type::bf16: return 2;
    case Type::u8:
    case Type::f8e4m3:
    case Type::f8e5m2: break;
    }
    return 1;
}

// What most calls are of. They alone have all_reduce in two hops, and loops for 2 and for 4 ranks:
// each type takes seconds to compile where a program starts.
DENIZEN_HD constexpr bool is_common(Type type) { return size_of(type) == 2 || size_of(type) == 4; }

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

// What is added up in: f32 for floats of up to 32 bits.
DENIZEN_HD inline float widen(float value) { return value; }
DENIZEN_HD inline double widen(double value) { return value; }
DENIZEN_HD inline int32_t widen(int32_t value) { return value; }
DENIZEN_HD inline int64_t widen(int64_t value) { return value; }
DENIZEN_HD inline uint32_t widen(uint8_t value) { return value; }

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

// Of 8-bit floats out of line: a packet has twelve of them, and text for each takes long to
// compile.
DENIZEN_ONCE inline float widen(Float8E5M2 value)
{
    return widen(Half{static_cast<uint16_t>(value.bits << 8)}); // its upper half
}

DENIZEN_ONCE inline float widen(Float8E4M3 value)
{
    const uint32_t sign = (value.bits & 0x80u) << 24;
    const uint32_t exponent = value.bits >> 3 & 15u;
    const uint32_t fraction = value.bits & 7u;
    if ((value.bits & 0x7fu) == 0x7fu) return detail::float_of(sign | 0x7fc00000u);
    if (exponent == 0) { // zero, or a subnormal: fraction * 2^-9
        const float magnitude = static_cast<float>(fraction) * 0x1p-9f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return detail::float_of(sign | (exponent + 120) << 23 | fraction << 20);
}

namespace detail {

// A finite magnitude below the largest one as a float of `Fraction` bits and this bias, by the bits
// of both; to the nearest even.
template <uint32_t Fraction, uint32_t Bias>
DENIZEN_HD inline uint32_t round_to(uint32_t magnitude)
{
    if (magnitude < (128 - Bias) << 23) {
        // A subnormal: the addition rounds to its unit.
        constexpr uint32_t unit = (151 - Bias - Fraction) << 23; // has that as its last place
        return bits_of(float_of(magnitude) + float_of(unit)) - unit;
    }
    constexpr uint32_t shift = 23 - Fraction;
    const uint32_t rounded = magnitude + ((1u << (shift - 1)) - 1) + (magnitude >> shift & 1);
    return (rounded >> shift) - ((127 - Bias) << Fraction);
}

} // namespace detail

// An element type by its name, and how what is added up becomes one.
template <class T>
struct Narrow;

namespace detail {

// Added up in itself.
template <class T, Type Named>
struct Exact {
    static constexpr Type type = Named;
    using Wide = T;
    DENIZEN_HD static T of(T value) { return value; }
};

} // namespace detail

template <>
struct Narrow<float> : detail::Exact<float, Type::f32> {};
template <>
struct Narrow<double> : detail::Exact<double, Type::f64> {};
template <>
struct Narrow<int32_t> : detail::Exact<int32_t, Type::i32> {};
template <>
struct Narrow<int64_t> : detail::Exact<int64_t, Type::i64> {};

template <>
struct Narrow<uint8_t> {
    static constexpr Type type = Type::u8;
    using Wide = uint32_t;
    DENIZEN_HD static uint8_t of(uint32_t value) { return static_cast<uint8_t>(value); }
};

template <>
struct Narrow<Float8E4M3> {
    static constexpr Type type = Type::f8e4m3;
    using Wide = float;
    DENIZEN_ONCE static Float8E4M3 of(float value)
    {
        const uint32_t bits = detail::bits_of(value);
        const uint32_t sign = bits >> 24 & 0x80u;
        const uint32_t magnitude = bits & 0x7fffffffu;
        // Over 464, half-way from 448 to what would be next: NaN, as every NaN and infinity is.
        if (magnitude > 0x43e80000u) return {static_cast<uint8_t>(sign | 0x7f)};
        return {static_cast<uint8_t>(sign | detail::round_to<3, 7>(magnitude))};
    }
};

template <>
struct Narrow<Float8E5M2> {
    static constexpr Type type = Type::f8e5m2;
    using Wide = float;
    DENIZEN_ONCE static Float8E5M2 of(float value)
    {
        const uint32_t bits = detail::bits_of(value);
        const uint32_t sign = bits >> 24 & 0x80u;
        const uint32_t magnitude = bits & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7e)}; // NaN
        if (magnitude >= 0x47700000u)
            return {static_cast<uint8_t>(sign | 0x7c)}; // 61440: too large
        return {static_cast<uint8_t>(sign | detail::round_to<2, 15>(magnitude))};
    }
};

template <>
struct Narrow<BFloat> {
    static constexpr Type type = Type::bf16;
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
    static constexpr Type type = Type::f16;
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
        return {static_cast<uint16_t>(sign | detail::round_to<10, 15>(magnitude))};
#endif
    }
};

template <class Wide>
inline constexpr bool has_fractions = Wide{1} / Wide{2} != Wide{0};

// Selects instead of branches: an operation that is known only at run time must not make a loop of
// its own for each. Integers wrap around.
template <class Wide>
DENIZEN_HD inline Wide combine(Op op, Wide a, Wide b)
{
    const bool first = (op == Op::min ? a < b : a > b) || a != a;
    Wide sum{};
    if constexpr (has_fractions<Wide>) {
        sum = a + b;
    } else {
        sum = static_cast<Wide>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    }
    return op == Op::min || op == Op::max ? (first ? a : b) : sum;
}

// After all ranks: avg is the sum times 1 / ranks; that of integers is cut towards zero.
template <class Wide>
DENIZEN_HD inline Wide conclude(Op op, Wide sum, uint32_t ranks)
{
    if constexpr (has_fractions<Wide>) {
        return sum * (op == Op::avg ? Wide{1} / static_cast<Wide>(ranks) : Wide{1});
    } else {
        return op == Op::avg ? sum / static_cast<Wide>(ranks) : sum;
    }
}

} // namespace denizen::group
