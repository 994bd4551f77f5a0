// SPDX-License-Identifier: Apache-2.0
// Graphs to measure with. All undirected and without weights; give_weights() adds some.
#pragma once

#include <denizen/graph/csr.hpp>

namespace denizen::graph {

// Graph500's Kronecker graph (graph500.org, specification 3.4: A 0.57, B 0.19, C 0.19): 2^scale
// vertices in random order, 2^scale * edge_factor edges drawn, of which loops and repetitions are
// dropped. The same for the same seed.
Csr kronecker(uint32_t scale, uint32_t edge_factor = 16, uint64_t seed = 1);

// rows x columns vertices, each joined to the two to four beside it; vertex r * columns + c.
Csr grid(uint32_t rows, uint32_t columns);

// 0 - 1 - 2 - ... - (vertices - 1)
Csr chain(uint32_t vertices);

// Weights of 1 to `most`, the same for both directions of an edge and for the same seed.
void give_weights(Csr& graph, uint32_t most, uint64_t seed = 1);

} // namespace denizen::graph
