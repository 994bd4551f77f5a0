// SPDX-License-Identifier: Apache-2.0
// The element types of a collective and what is done to them. Sums of 16-bit and 8-bit floats are
// taken in f32 and rounded once, to the nearest even; i32 and i64 wrap around; u8 is summed in 32
// bits and cut to the lowest 8. A NaN goes through min and max.
#pragma once

#include <denizen/base/floats.hpp>
#include <denizen/base/target.hpp>

namespace denizen::group {

// f8e4m3 has no infinity: what is too large for it becomes NaN, as in PyTorch's float8_e4m3fn.
enum class Type : uint32_t { f32, f16, bf16, i32, f64, i64, u8, f8e4m3, f8e5m2 };
enum class Op : uint32_t { sum, min, max, avg };

inline constexpr uint32_t types = 9;
inline constexpr uint32_t ops = 4;

using denizen::BFloat;
using denizen::Float8E4M3;
using denizen::Float8E5M2;
using denizen::Half;
using denizen::widen;

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

// What is added up in: f32 for floats of up to 32 bits.
DENIZEN_HD inline float widen(float value) { return value; }
DENIZEN_HD inline double widen(double value) { return value; }
DENIZEN_HD inline int32_t widen(int32_t value) { return value; }
DENIZEN_HD inline int64_t widen(int64_t value) { return value; }
DENIZEN_HD inline uint32_t widen(uint8_t value) { return value; }

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
    DENIZEN_HD static Float8E4M3 of(float value) { return narrow<Float8E4M3>(value); }
};

template <>
struct Narrow<Float8E5M2> {
    static constexpr Type type = Type::f8e5m2;
    using Wide = float;
    DENIZEN_HD static Float8E5M2 of(float value) { return narrow<Float8E5M2>(value); }
};

template <>
struct Narrow<BFloat> {
    static constexpr Type type = Type::bf16;
    using Wide = float;
    DENIZEN_HD static BFloat of(float value) { return narrow<BFloat>(value); }
};

template <>
struct Narrow<Half> {
    static constexpr Type type = Type::f16;
    using Wide = float;
    DENIZEN_HD static Half of(float value) { return narrow<Half>(value); }
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
