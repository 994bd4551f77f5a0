// SPDX-License-Identifier: Apache-2.0
// Whether an answer can be right, looked at from the graph alone, without a second search: the
// rules of Graph500 (graph500.org, specification 3.4, "Validation" of kernels 2 and 3).
#pragma once

#include <denizen/graph/search.hpp>

#include <string>

namespace denizen::graph {

// The first rule that `paths` from `source` break and where, or an empty text:
//   1. the parents form a tree that hangs from the source: the source is its own parent, and every
//      other vertex is farther than its parent, which was reached;
//   2. a vertex and its parent are joined by an arc, which is exactly as long as they are apart;
//   3. no arc is shorter than its ends are apart: with 2, distances are shortest;
//   4. what an arc leaves from a reached vertex to is reached; nothing else has a parent.
// `weighted`: the answer of shortest_paths(). A parent's arc of weight 0 is followed to its end.
std::string broken_rule(const Csr& graph, uint32_t source, const Paths& paths, bool weighted);

} // namespace denizen::graph
