// SPDX-License-Identifier: Apache-2.0
// The hybrid logical clock's part of bench_actors.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `HLC tick`, `HLC update` and what they are compared with, drawn by threads of
// the host and, on a GPU, by its threads.
void measure_clocks(const Arguments& arguments);

} // namespace denizen::bench
