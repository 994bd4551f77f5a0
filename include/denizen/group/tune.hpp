// SPDX-License-Identifier: Apache-2.0
// Measures which algorithm `automatic` should choose on this machine (denizen tune). It times every
// collective of f32 by every algorithm with several numbers of channels, at every size: calls as a
// program makes them, each a launch on a GPU. Host only.
#pragma once

#include <denizen/group/group.hpp>

namespace denizen::group {

struct Timing {
    uint64_t bytes = 0;
    Algorithm algorithm = Algorithm::one_shot;
    uint32_t channels = 0;
    double seconds = 0; // of one call, the median of several batches; of the slowest rank
    Kind kind = Kind::all_reduce;
};

// `groups`: all ranks, of this process. Sizes of the result (all_gather, all_to_all: of one rank's
// part) go from 1 KiB by powers of 4 to what keeps all data of a rank within `most`.
std::vector<Timing> measure(std::vector<Group>& groups, uint64_t most, bool quick);

// The fastest choice for each size, as a table for each collective. A row holds up to the geometric
// mean of its last size and the next row's first. A row of one_shot holds for at most one packet
// for each of a team's `threads` (0: any size), because only such calls are short. A row goes on
// while its choice is within 3 % of the fastest.
std::vector<Choice> table_of(const std::vector<Timing>& timings, uint32_t threads);

} // namespace denizen::group
