// SPDX-License-Identifier: Apache-2.0
// The part of bench_routes in which two nodes are busy with each other.
#pragma once

#include "program.hpp"

namespace denizen::bench {

// Prints a case `to and fro` for every ordered pair of `nodes` nodes.
void measure_node_pairs(const Arguments& arguments, uint32_t nodes);

} // namespace denizen::bench
