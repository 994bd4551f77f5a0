// SPDX-License-Identifier: Apache-2.0
// Measures what "automatic" should mean on this machine (denizen tune): every algorithm and some
// numbers of channels, for all_reduce of f32 by every size, many calls to a launch. Host only.
#pragma once

#include <denizen/group/group.hpp>

namespace denizen::group {

struct Timing {
    uint64_t bytes = 0;
    Algorithm algorithm = Algorithm::one_shot;
    uint32_t channels = 0;
    double seconds = 0; // of one call, the median of several batches; of the slowest rank
};

// `groups`: all ranks, of this process. Sizes go from 1 KiB to `most` by powers of 4.
std::vector<Timing> measure(std::vector<Group>& groups, uint64_t most, bool quick);

// The fastest of each size, as a table: a row holds up to the geometric middle between its last
// size and the next row's first, and of one_shot no more than a packet for each of the `threads` of
// a team (0: any), which is what a short call is fast for. Of choices within 3 % the one of the row
// before is kept.
std::vector<Choice> table_of(const std::vector<Timing>& timings, uint32_t threads);

} // namespace denizen::group
