// SPDX-License-Identifier: Apache-2.0
// Countries as bits of a 64-bit mask: the 63 countries below have a bit each, in this order, and
// all others share bit 63. Codes are ISO 3166-1 numeric.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::transactions {

inline constexpr uint32_t other_countries = 63;
inline constexpr uint32_t country_codes = 1000; // 0 to 999

// What has no bit of its own, and what is no code, has bit 63.
DENIZEN_HD inline uint32_t country_bit(uint32_t code)
{
    constexpr uint16_t listed[other_countries] = {
        408, 364, 104,                               // North Korea, Iran, Myanmar
        840, 124, 484, 76,  32,  152, 170, 604, 591, // US CA MX BR AR CL CO PE PA
        826, 372, 250, 276, 528, 56,  442, 756, 40,  // GB IE FR DE NL BE LU CH AT
        380, 724, 620, 300, 196, 470, 208, 752, 578, // IT ES PT GR CY MT DK SE NO
        246, 233, 428, 440, 616, 203, 703, 348, 642, // FI EE LV LT PL CZ SK HU RO
        100, 191, 705, 804, 643, 792, 376, 784, 682, // BG HR SI UA RU TR IL AE SA
        818, 566, 404, 710, 356, 586, 156, 344, 392, // EG NG KE ZA IN PK CN HK JP
        410, 158, 702, 764, 704, 36,                 // KR TW SG TH VN AU
    };
    for (uint32_t k = 0; k < other_countries; ++k) {
        if (listed[k] == code) {
            return k;
        }
    }
    return other_countries;
}

} // namespace denizen::transactions
