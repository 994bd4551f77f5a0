// SPDX-License-Identifier: Apache-2.0
// A made log of any size, for tests and benchmarks: the same on every machine for a seed.
#pragma once

#include <denizen/procmine/mine.hpp>

namespace denizen::procmine {

struct Columns {
    std::vector<uint32_t> cases;
    std::vector<uint32_t> activities;
    std::vector<int64_t> times;
    uint32_t case_count = 0;
    uint32_t activity_count = 0;

    Events events() const { return {cases, activities, times, case_count, activity_count}; }
};

// `events` events in order of time, at most 4,096 cases under way at once. Six of ten cases go
// straight from activity 0 to the last; the others skip, repeat, go back or break off in between.
// The cases that are under way at the end stay unfinished. `activities` >= 4.
Columns generate(uint64_t events, uint32_t activities, uint64_t seed);

} // namespace denizen::procmine
