// SPDX-License-Identifier: Apache-2.0
// Process mining: the directly-follows graph of a log of events, how long its steps take, where
// cases start and end, and the paths (variants) they take.
//
//   const denizen::procmine::Mined mined = denizen::procmine::mine({cases, activities, times, 3,
//   5}); mined.edges[0].count, mined.edges[0].median, mined.variants[0].count
//
// The events may come in any order; within a case they are put in order of time, those of equal
// times stay in the order given. Called by the Python package and by programs; device.cuh does the
// same on a GPU.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/procmine/detail/text.hpp>

#include <span>
#include <vector>

namespace denizen::procmine {

// A log as columns of one length: element i of each is event i. Fewer than 2^32 events.
struct Events {
    std::span<const uint32_t> cases;      // below case_count
    std::span<const uint32_t> activities; // below activity_count
    std::span<const int64_t> times;       // microseconds since 1970-01-01 UTC
    uint32_t case_count = 0;
    uint32_t activity_count = 0;
};

// What is wrong with the columns, as Errc::bad_argument; the values are checked by mine().
void check_columns(const Events& events);

// `to` came directly after `from`, `count` times; durations from one to the other in microseconds.
struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    uint64_t count = 0;
    uint64_t least = 0;
    uint64_t most = 0;
    double mean = 0;
    double median = 0; // median and p95 between two values where their place is (linear)
    double p95 = 0;
};

// A path that `count` cases took; `offset` and `length` say where it lies in Mined::paths.
struct Variant {
    uint64_t hash = 0; // sum of path_term() over its events
    uint64_t count = 0;
    uint64_t offset = 0;
    uint32_t length = 0;
    uint32_t example = 0; // the lowest case that took it
};

inline constexpr uint32_t no_variant = ~0u;

struct Mined {
    std::vector<Edge> edges;               // by from, then to
    std::vector<uint64_t> activity_counts; // by activity: its events,
    std::vector<uint64_t> starts;          // the cases that begin with it,
    std::vector<uint64_t> ends;            // and those that end with it
    std::vector<Variant> variants;         // most frequent first, then by their activities
    std::vector<uint32_t> paths;           // the activities of all variants
    std::vector<uint32_t> case_variants;   // by case: index of a variant; no_variant: no events
    std::vector<uint32_t> case_events;     // their number
    std::vector<int64_t> case_begins;      // time of the first and the last event; 0 without events
    std::vector<int64_t> case_ends;
    double seconds = 0; // without reading and copying the columns
};

struct MineOptions {
    uint32_t threads = 0;  // 0: as many as the machine has
    bool quantiles = true; // else median and p95 stay 0
    bool variants = true;  // else variants, paths and case_variants stay empty
};

// Errc::bad_argument for columns of unequal lengths, and a case or an activity outside its range.
Mined mine(const Events& events, const MineOptions& options = {});

// Puts variants in the order of Mined::variants and their paths in that order too; the i-th element
// of the answer is where variant i went. For device.cuh.
std::vector<uint32_t> put_in_order(std::vector<Variant>& variants, std::vector<uint32_t>& paths);

} // namespace denizen::procmine
