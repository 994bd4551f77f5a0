// SPDX-License-Identifier: Apache-2.0
// The part of bench_routes in which all workers are busy.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `random targets` and `random targets, seen by the host`.
// `only_on_each`: with so many workers on each SM alone; 0: with several numbers of them.
void measure_random_targets(const Arguments& arguments, uint32_t only_on_each = 0);

} // namespace denizen::bench
