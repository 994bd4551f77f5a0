// SPDX-License-Identifier: Apache-2.0
// Events brought together by ranges of cases, each range small enough for a core's cache, so that
// what follows never leaves it. Stable: events keep their order.
#pragma once

#include "durations.hpp"
#include <denizen/base/on_threads.hpp>

#include <denizen/procmine/mine.hpp>

namespace denizen::procmine {

struct Stamp {
    int64_t time;
    uint32_t activity;
    uint32_t of_case;
};

struct Partitions {
    Pages<uint64_t> words;        // two of a stamp: its time; activity, and above it the case
    std::vector<uint64_t> begins; // in stamps, by partition, and the end
    uint32_t shift = 0;           // case >> shift is its partition

    uint32_t count() const { return static_cast<uint32_t>(begins.size() - 1); }
    Stamp stamp(uint64_t i) const
    {
        const uint64_t* at = words.get() + 2 * i;
        return {static_cast<int64_t>(at[0]), static_cast<uint32_t>(at[1]),
                static_cast<uint32_t>(at[1] >> 32)};
    }
    // The memory of a partition, for whoever has no more use for its stamps.
    std::span<uint64_t> memory(uint32_t p) const
    {
        return {words.get() + 2 * begins[p], 2 * (begins[p + 1] - begins[p])};
    }
};

Partitions partition(const Events& events, uint32_t threads);

} // namespace denizen::procmine
