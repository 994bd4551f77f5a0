// SPDX-License-Identifier: Apache-2.0
// CUDA's words for the host compiler: what NVRTC declares without any header. The same names, types
// and results; the atomics are relaxed, as CUDA's are, and agree with those of other threads.
#pragma once

#if !defined(__CUDACC__)

#include <math.h>
#include <stdlib.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>

// ---- maths that only CUDA has

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
template <std::integral T>
double rsqrt(T x)
{
    return 1.0 / std::sqrt(static_cast<double>(x));
}
// CUDA's is float; std::pow's is double.
inline float pow(float x, int n) { return std::pow(x, static_cast<float>(n)); }

// ---- bits

constexpr int __popc(unsigned v) { return std::popcount(v); }
constexpr int __popcll(unsigned long long v) { return std::popcount(v); }
constexpr int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
constexpr int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
// One more than the index of the lowest bit that is set; 0 for 0.
constexpr int __ffs(int v) { return v == 0 ? 0 : std::countr_zero(static_cast<unsigned>(v)) + 1; }
constexpr int __ffsll(long long v)
{
    return v == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(v)) + 1;
}
// The bits in reverse order.
constexpr unsigned __brev(unsigned v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0F0F0F0Fu) | (v & 0x0F0F0F0Fu) << 4;
    v = (v >> 8 & 0x00FF00FFu) | (v & 0x00FF00FFu) << 8;
    return v >> 16 | v << 16;
}
constexpr unsigned long long __brevll(unsigned long long v)
{
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(v))) << 32 |
           __brev(static_cast<unsigned>(v >> 32));
}
constexpr unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
constexpr int __float_as_int(float v) { return std::bit_cast<int>(v); }
constexpr float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
constexpr float __int_as_float(int v) { return std::bit_cast<float>(v); }
constexpr long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
constexpr double __longlong_as_double(long long v) { return std::bit_cast<double>(v); }

// ---- atomics

namespace denizen::detail {

// Whole numbers of 4 or 8 bytes; float and double too where CUDA has those.
template <class T>
concept AtomicWhole = std::integral<T> && (sizeof(T) == 4 || sizeof(T) == 8);
template <class T>
concept AtomicNumber = AtomicWhole<T> || std::floating_point<T>;

// Replaces the word by what `change` makes of it; returns the one before. Ends: a failed exchange
// means that another thread has written.
template <class T, class Change>
T atomic_change(T* at, Change change)
{
    T before;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    for (;;) {
        T after = change(before);
        if (__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
            return before;
        }
    }
}

} // namespace denizen::detail

// Each returns the value before.
template <denizen::detail::AtomicNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value)
{
    if constexpr (std::integral<T>) {
        return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
    } else {
        return denizen::detail::atomic_change(at, [=](T v) { return v + value; });
    }
}
template <denizen::detail::AtomicWhole T>
T atomicSub(T* at, std::type_identity_t<T> value)
{
    return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}
template <denizen::detail::AtomicNumber T>
T atomicExch(T* at, std::type_identity_t<T> value)
{
    T before;
    __atomic_exchange(at, &value, &before, __ATOMIC_RELAXED);
    return before;
}
template <denizen::detail::AtomicWhole T>
T atomicMin(T* at, std::type_identity_t<T> value)
{
    return denizen::detail::atomic_change(at, [=](T v) { return value < v ? value : v; });
}
template <denizen::detail::AtomicWhole T>
T atomicMax(T* at, std::type_identity_t<T> value)
{
    return denizen::detail::atomic_change(at, [=](T v) { return v < value ? value : v; });
}
template <denizen::detail::AtomicWhole T>
T atomicAnd(T* at, std::type_identity_t<T> value)
{
    return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}
template <denizen::detail::AtomicWhole T>
T atomicOr(T* at, std::type_identity_t<T> value)
{
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <denizen::detail::AtomicWhole T>
T atomicXor(T* at, std::type_identity_t<T> value)
{
    return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);
}
// Writes `value` if the word is `expected`.
template <denizen::detail::AtomicWhole T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value)
{
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

#endif
