// SPDX-License-Identifier: Apache-2.0
// How a node's workers lie together: on an SM, in a cluster, and with boxes of what size. The
// backends choose it, the core lays memory out by it.
#pragma once

#include <denizen/actor/any_runtime.hpp>

#include <algorithm>
#include <bit>

namespace denizen {

struct Geometry {
    uint32_t workers = 1;
    uint32_t per_sm = 1;
    uint32_t warps = 1;       // GPU: of each worker; more than one where actors take whole blocks
    uint32_t cluster = 1;     // SMs (CPU: workers)
    uint32_t near = 1;        // workers that share near rings; 1: none do
    uint32_t near_slots = 1;  // of a near ring; 1: there are none
    uint32_t local_slots = 1; // of a worker's ring to itself; 1: there is none
    // Bytes behind each near ring. Rings are powers of two, so without a gap all their first slots
    // lie in the same bank of shared memory, and a warp's look at 32 rings takes 32 cycles of the
    // SM's. A packet's length makes it 4. On the CPU slots are to fill their cache lines: 0.
    uint32_t gap = 0;
    // Bytes behind the near rings for the first slots of the other rings that a worker reads
    // (detail/sources.hpp); on the CPU none.
    uint32_t landing = 0;
    uint32_t stage = 0; // bytes of a worker's stage behind the boxes (detail/whole.hpp); 0: none

    size_t near_bytes() const { return sizeof(Slot) * near_slots + gap; }
    size_t box_bytes() const
    {
        const size_t bytes =
            sizeof(NearBox) + sizeof(Slot) * local_slots + near * near_bytes() + landing;
        return (bytes + alignof(NearBox) - 1) / alignof(NearBox) * alignof(NearBox);
    }
    size_t shared_bytes() const { return per_sm * (box_bytes() + stage); }
};

// Slots of the longest message, with the stamp that it has while messages are traced.
inline uint32_t message_slots(const ProgramTable& table)
{
    return slots_for(table.max_message + stamp_bytes);
}

// The fewest slots of any ring of the program: it holds the longest message twice.
inline uint32_t least_slots(const ProgramTable& table)
{
    return std::bit_ceil(2 * message_slots(table));
}

// Slots of a worker's rings that the host writes: for data, for urgent messages, and in a cluster
// for what comes from other hosts.
inline size_t host_slots(const Options& options, uint32_t least)
{
    const size_t data = std::max(options.host_ring_slots, least);
    const size_t urgent = std::max(options.urgent_slots, least);
    return data + urgent + (options.hosts != 0 ? data : 0);
}

// Bytes of the stage of a worker: the longest message in whole slots, if any message takes all
// lanes of a warp.
inline uint32_t stage_bytes(const ProgramTable& table)
{
    bool whole = message_slots(table) > 1;
    for (uint32_t a = 0; a < table.actors; ++a) {
        whole |= table.actor[a].grain != static_cast<uint32_t>(Grain::thread);
    }
    return whole ? (message_slots(table) * next_payload + 127) / 128 * 128 : 0;
}

// Chooses the rings of a box so that those of one SM's workers take at most `limit` bytes: as large
// as `g` has them, else smaller, else none between workers, else none at all.
inline Geometry with_rings(Geometry g, uint32_t least, size_t limit)
{
    const uint32_t local = std::max(g.local_slots, least);
    g.near = std::min({g.per_sm * g.cluster, g.workers, max_near});
    g.near_slots = g.near > 1 ? std::max(g.near_slots, least) : 1;
    g.local_slots = local;
    while (g.near > 1 && g.shared_bytes() > limit) {
        if (g.near_slots > least) {
            g.near_slots /= 2;
        } else if (g.local_slots > least) {
            g.local_slots /= 2;
        } else {
            g.near = g.near_slots = 1;
            g.local_slots = local;
        }
    }
    while (g.local_slots > 1 && g.shared_bytes() > limit) {
        g.local_slots = g.local_slots > least ? g.local_slots / 2 : 1;
    }
    return g;
}

// The same with the stages that `g` has; with none if rings would have to be smaller for them.
inline Geometry with_boxes(Geometry g, uint32_t least, size_t limit)
{
    const Geometry staged = with_rings(g, least, limit);
    g.stage = 0;
    const Geometry bare = with_rings(g, least, limit);
    return staged.box_bytes() == bare.box_bytes() && staged.shared_bytes() <= limit ? staged : bare;
}

// Workers of whole clusters on at most `sms` SMs. Where there are several on an SM, the last place
// of all is the monitor's, and blocks need no warp more for it.
inline uint32_t workers_of(uint32_t sms, uint32_t cluster, uint32_t per_sm)
{
    const uint32_t blocks = sms < cluster ? sms : sms / cluster * cluster;
    return std::min(blocks * per_sm - (per_sm > 1 ? 1 : 0), max_workers);
}

// On how many SMs a program is put that does not say it, of `sms` of which others have `taken`.
// Half of the rest: so the next program finds something too, and kernels whose blocks need an SM
// to themselves (cuBLAS's SGEMM takes all registers) find whole ones.
inline uint32_t sms_of(uint32_t sms, uint32_t taken)
{
    return taken + 1 < sms ? (sms - taken) / 2 : 1;
}

// Workers on an SM where the program does not say it, at the most: what its registers hold. Long
// messages make long rings, of which each worker has several.
inline uint32_t most_on_an_sm(uint32_t least) { return std::clamp(256 / least, 1u, 8u); }

// Warps of a worker on a GPU.
inline uint32_t warps_of_worker(const ProgramTable& table)
{
    return std::max(table.block_threads / 32, 1u);
}

// Workers on the CPU where the program does not say it, of each node. Who asks spins for the
// answer, and needs a core as a worker does: where workers have all of them, each answer waits for
// a time slice.
inline uint32_t workers_of_cores(uint32_t cores, uint32_t nodes)
{
    return std::max(1u, (std::max(cores, 1u) - 1) / std::max(nodes, 1u));
}

} // namespace denizen
