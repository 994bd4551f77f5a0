// SPDX-License-Identifier: Apache-2.0
// The supervised program's part of bench_actors.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `supervised, none failing` and `supervised, 1 % failing`.
void measure_supervised(const Arguments& arguments);

} // namespace denizen::bench
