// SPDX-License-Identifier: Apache-2.0
// The snapshots' part of bench_actors.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `snapshot`, `restore`, `snapshot size` and `write + fsync`.
void measure_snapshots(const Arguments& arguments);

} // namespace denizen::bench
