// SPDX-License-Identifier: Apache-2.0
// The observed program (observed.hpp) on a GPU: a loop of launches of a kernel that counts itself,
// and one of launches of a graph of ten of them.
#pragma once

namespace denizen::bench {

// Obeys until stdin ends.
void observed_loops();

} // namespace denizen::bench
