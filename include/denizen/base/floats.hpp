// SPDX-License-Identifier: Apache-2.0
// Floats of 16 and 8 bits, by their bits: widened to f32 exactly, and narrowed with one rounding,
// to the nearest even.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

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

// The same value as an f32.
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

// The nearest float of type T; of what is too large, its infinity, or NaN where it has none.
template <class T>
DENIZEN_HD inline T narrow(float value);

template <>
DENIZEN_ONCE inline Float8E4M3 narrow<Float8E4M3>(float value)
{
    const uint32_t bits = detail::bits_of(value);
    const uint32_t sign = bits >> 24 & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    // Over 464, half-way from 448 to what would be next: NaN, as every NaN and infinity is.
    if (magnitude > 0x43e80000u) return {static_cast<uint8_t>(sign | 0x7f)};
    return {static_cast<uint8_t>(sign | detail::round_to<3, 7>(magnitude))};
}

template <>
DENIZEN_ONCE inline Float8E5M2 narrow<Float8E5M2>(float value)
{
    const uint32_t bits = detail::bits_of(value);
    const uint32_t sign = bits >> 24 & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7e)};  // NaN
    if (magnitude >= 0x47700000u) return {static_cast<uint8_t>(sign | 0x7c)}; // 61440: too large
    return {static_cast<uint8_t>(sign | detail::round_to<2, 15>(magnitude))};
}

template <>
DENIZEN_HD inline BFloat narrow<BFloat>(float value)
{
    const uint32_t bits = detail::bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}

template <>
DENIZEN_HD inline Half narrow<Half>(float value)
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

} // namespace denizen
