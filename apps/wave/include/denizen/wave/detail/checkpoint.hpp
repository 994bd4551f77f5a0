// SPDX-License-Identifier: Apache-2.0
// How a run of resident tiles breathes. No incarnation of it lasts longer than a breath: each is a
// launch of the same kernel, ends in front of a step that all tiles reach, and leaves everything in
// device memory, where its successor in the stream goes on. Who waits for the whole device gets its
// turn between two.
//
//  1. Every block looks whether the run is over, and ends at once if it is: the host queues a
//     successor before it knows. Else tiles read their cells from the fields of the parity of
//     `incarnation`, and conductor and tiles go on counting where this says.
//  2. A run without commands goes to `end`, which it knows from the start: so many steps fill a
//     breath, as the incarnation before it has found. A run with commands ends in front of the
//     first step that no tile may have begun when the breath is over, paused or not, by a word to
//     the tiles like any command. The conductor takes no command after that: it stays in the ring
//     for the successor.
//  3. Tiles write their cells into the fields of the other parity: a neighbour may still be reading
//     those of this one, as there need not have been a step between. Then each leaves.
//  4. When all have, the conductor answers a read that was under way, writes the checkpoint and
//     tells the host the number of the incarnation. The end of the kernel orders all of it before
//     the successor.
//
// Numbers that packets bring along go on through all incarnations, so none is taken for one of an
// earlier incarnation. Those of exchanges begin with the steps done, which is at least as many.
#pragma once

#include <denizen/wave/request.hpp>
#include <denizen/wire/slot.hpp>

namespace denizen::wave {

// In device memory. The host writes the first, and the conductor the others, when all tiles have
// left.
struct Checkpoint {
    uint32_t incarnation = 0; // how many there have been
    uint32_t over = 0;        // nothing is left to do
    uint32_t begin = 0;       // steps done
    uint32_t end = 0;     // step that the incarnation ends in front of, unless it is told to end
    uint32_t quota = 0;   // steps that fill a breath, without commands
    uint32_t sources = 0; // how many there are
    double damping = 0;   // Medium::damping
    // Of commands, all of which have been served.
    uint32_t known = 0;        // that tiles were told
    uint32_t changes = 0;      // that changed something
    uint32_t reads_of_few = 0; // Control::few
    uint32_t parts = 0;        // Control::read
    uint32_t paused = 0;
    uint32_t until = 0; // Request::until of the last resume
    // The rings: where the conductor's ends stand, and what the porter had brought meanwhile.
    uint32_t orders = 0;
    uint32_t answers = 0;
    uint32_t waiting = 0; // there is such an order
    Header header;
    Command order;
};

// The quota of a run about which nothing is known, and by how much it grows from one incarnation to
// the next at most.
inline constexpr uint32_t first_quota = 8; // steps
inline constexpr uint32_t quota_growth = 8;

// `quota`: of the last run of the same tiles, or first_quota. `ahead` as in Leading; `breath_ns`: 0
// for one incarnation.
DENIZEN_HD inline Checkpoint first_checkpoint(uint32_t steps, uint32_t ahead, uint64_t breath_ns,
                                              uint32_t quota)
{
    Checkpoint first;
    first.quota = quota;
    first.end = breath_ns == 0 || ahead != 0 || quota > steps ? steps : quota;
    return first;
}

// Of an incarnation that did `steps` steps in `took_ns`.
DENIZEN_HD inline uint32_t next_quota(uint32_t steps, uint64_t took_ns, uint64_t breath_ns)
{
    const uint64_t fill = steps * breath_ns / (took_ns == 0 ? 1 : took_ns);
    const uint64_t most = uint64_t{steps} * quota_growth;
    return static_cast<uint32_t>(fill == 0 ? 1 : fill < most ? fill : most);
}

} // namespace denizen::wave
