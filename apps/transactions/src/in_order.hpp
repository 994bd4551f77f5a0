// SPDX-License-Identifier: Apache-2.0
// Alerts come in any order and, of a shard that failed, twice. Here those of one batch are put in
// the stream's order.
#pragma once

#include <denizen/transactions/record.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace denizen::transactions {

inline constexpr uint32_t digit_bits = 12;

// By one digit, stable.
inline void sort_by(std::vector<uint64_t>& keys, std::vector<uint64_t>& sorted, uint32_t shift)
{
    const auto digit = [shift](uint64_t key) { return key >> shift & ((1u << digit_bits) - 1); };
    std::array<uint32_t, 1u << digit_bits> begin{};
    for (const uint64_t key : keys) ++begin[digit(key)];
    uint32_t before = 0;
    for (uint32_t& n : begin) before += std::exchange(n, before);
    sorted.resize(keys.size());
    for (const uint64_t key : keys) sorted[begin[digit(key)]++] = key;
    keys.swap(sorted);
}

// The places in `alerts` of those with sequences from `base` to less than `base` + `count`, no two
// of one record and rule. Many of them by radix: comparing takes six times as long.
inline std::vector<uint32_t> in_order(const std::vector<Alert>& alerts, uint64_t base,
                                      uint64_t count)
{
    constexpr uint32_t place_bits = 32;
    constexpr size_t few = 64;
    std::vector<uint64_t> keys; // record and rule, and the place
    keys.reserve(alerts.size());
    for (size_t k = 0; k < alerts.size(); ++k) {
        const uint64_t record = alerts[k].sequence - base;
        if (record >= count) continue;
        keys.push_back((record * (rule_count + 1) + alerts[k].rule) << place_bits | k);
    }
    if (keys.size() < few) {
        std::sort(keys.begin(), keys.end());
    } else {
        std::vector<uint64_t> sorted;
        for (uint32_t digit = 0; count * (rule_count + 1) >> digit != 0; digit += digit_bits) {
            sort_by(keys, sorted, place_bits + digit);
        }
    }
    const auto end = std::unique(keys.begin(), keys.end(), [](uint64_t a, uint64_t b) {
        return a >> place_bits == b >> place_bits;
    });
    std::vector<uint32_t> places(static_cast<size_t>(end - keys.begin()));
    std::transform(keys.begin(), end, places.begin(),
                   [](uint64_t key) { return static_cast<uint32_t>(key); });
    return places;
}

} // namespace denizen::transactions
