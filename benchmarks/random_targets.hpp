// SPDX-License-Identifier: Apache-2.0
// The part of bench_routes in which all workers are busy.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `random targets` and `random targets, seen by the host`.
void measure_random_targets(const Arguments& arguments);

} // namespace denizen::bench
