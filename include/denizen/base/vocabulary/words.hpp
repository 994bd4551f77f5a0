// SPDX-License-Identifier: Apache-2.0
// The words that neither C++ nor CUDA has for all types, in one text for both compilers. Templates:
// what a compiler declares itself as a plain function is taken before them.
#pragma once

#if defined(__CUDACC_RTC__) || !defined(__CUDACC__) // nvcc's pass for the host would mix its own in

#include <bit>
#include <type_traits>

#include <denizen/base/target.hpp>

namespace denizen::detail {

template <class T>
concept Number = std::is_arithmetic_v<T>;
template <class T>
concept Whole = std::is_integral_v<T>;

template <class A, class B>
using Both = decltype(true ? A() : B());

template <Whole T>
constexpr auto unsigned_of(T v)
{
    return static_cast<std::make_unsigned_t<T>>(v);
}

} // namespace denizen::detail

// As CUDA has them: of a number and a NaN, the number.
template <denizen::detail::Number A, denizen::detail::Number B>
constexpr denizen::detail::Both<A, B> min(A a, B b)
{
    const denizen::detail::Both<A, B> x = a;
    const denizen::detail::Both<A, B> y = b;
    return y < x || x != x ? y : x;
}
template <denizen::detail::Number A, denizen::detail::Number B>
constexpr denizen::detail::Both<A, B> max(A a, B b)
{
    const denizen::detail::Both<A, B> x = a;
    const denizen::detail::Both<A, B> y = b;
    return x < y || x != x ? y : x;
}

// `v`, but not below `low` nor above `high`; a NaN stays one.
template <denizen::detail::Number V, denizen::detail::Number L, denizen::detail::Number H>
constexpr auto clamp(V v, L low, H high)
{
    using T = denizen::detail::Both<denizen::detail::Both<V, L>, H>;
    const T x = v;
    return x < static_cast<T>(low) ? static_cast<T>(low)
                                   : (static_cast<T>(high) < x ? static_cast<T>(high) : x);
}

// Bits that are set; zeros above the highest and below the lowest, all of them for 0. Of a signed
// number those of its two's complement.
template <denizen::detail::Whole T>
constexpr int popcount(T v)
{
    return std::popcount(denizen::detail::unsigned_of(v));
}
template <denizen::detail::Whole T>
constexpr int clz(T v)
{
    return std::countl_zero(denizen::detail::unsigned_of(v));
}
template <denizen::detail::Whole T>
constexpr int ctz(T v)
{
    return std::countr_zero(denizen::detail::unsigned_of(v));
}

#endif
