// SPDX-License-Identifier: Apache-2.0
// The magnitude of a sample of I/Q. Called by the scan on either side; everything after it is
// integer arithmetic, so that a CPU and a GPU find the same messages to the last bit.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::radio {

// Units of a magnitude per step of the converter: a magnitude is at most 11540, and four of them
// still fit in 16 bits.
inline constexpr uint32_t magnitude_scale = 64;

// The square root of a whole number, rounded down to what single precision gives: correctly rounded
// conversion and root and nothing to contract, hence the same on every machine.
DENIZEN_HD inline int32_t root(uint32_t square)
{
#if DENIZEN_ON_DEVICE
    return static_cast<int32_t>(__fsqrt_rn(static_cast<float>(square)));
#else
    return static_cast<int32_t>(__builtin_sqrtf(static_cast<float>(static_cast<int32_t>(square))));
#endif
}

// Of one sample as receivers deliver it: unsigned bytes around 127.5, magnitude_scale per step.
DENIZEN_HD inline uint16_t magnitude(uint8_t i, uint8_t q)
{
    const int32_t x = 2 * i - 255;
    const int32_t y = 2 * q - 255;
    constexpr int32_t scale = magnitude_scale * magnitude_scale / 4; // of squares of half steps
    return static_cast<uint16_t>(root(static_cast<uint32_t>((x * x + y * y) * scale)));
}

} // namespace denizen::radio
