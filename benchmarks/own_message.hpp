// SPDX-License-Identifier: Apache-2.0
// The part of bench_routes that says where the time of a message goes.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints the cases `message to itself`, one for each part of the way.
void measure_own_message(const Arguments& arguments);

} // namespace denizen::bench
