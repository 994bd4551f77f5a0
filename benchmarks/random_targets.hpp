// SPDX-License-Identifier: Apache-2.0
// The part of bench_routes in which all workers are busy, also for bench_beside.
#pragma once

#include "program.hpp"

#include <vector>

namespace denizen::bench {

// Prints the cases `random targets` and `random targets, seen by the host`.
void measure_random_targets(const Arguments& arguments);

// The same of programs on a GPU with these breaths, which take turns: a program anew in each round.
// 0: one kernel for ever. One that comes again is the A/A arm.
void measure_random_targets_by_breath(const Arguments& arguments, uint32_t on_each,
                                      const std::vector<int64_t>& breaths_us);

} // namespace denizen::bench
