// SPDX-License-Identifier: Apache-2.0
// The rings of a node: their words, which of them a worker reads and writes, and how messages reach
// other nodes. Plain structs in memory that two sides share: see layout.hpp.
#pragma once

#include <denizen/wire/ring.hpp>

namespace denizen {

struct ActorRecord; // actor/life.hpp
struct ActorEntry;  // detail/layout.hpp, as the next
struct Board;

// GPUs, or groups of CPU threads, of one program: each ring of a worker that lies in global memory
// has a lane that looks after it.
inline constexpr uint32_t max_nodes = 5;
inline constexpr uint32_t max_near = 32;      // workers of one cluster: one lane looks at each
inline constexpr uint32_t credit_stride = 16; // words between two workers' credits

// The ways a message can take, nearest first.
enum class Route : uint32_t { worker = 0, sm, cluster, gpu, peer, to_host };
inline constexpr uint32_t routes = 6;

// The rings that a worker reads, besides the near ones: two from the host, two from this node's
// workers, two from each other node, and one from the other hosts of a cluster. The last are those
// for urgent messages of other nodes: sources_of(), arrival.hpp.
inline constexpr uint32_t source_host_urgent = 0;
inline constexpr uint32_t source_node_urgent = 1;
inline constexpr uint32_t source_host = 2;
inline constexpr uint32_t source_node = 3;
inline constexpr uint32_t source_peer = 4; // and the next: one for each other node, in their order
inline constexpr uint32_t max_sources = source_peer + 2 * (max_nodes - 1) + 1;
inline constexpr uint32_t source_words =
    (max_sources + 3) / 4 * 4; // the monitor reads four at once

// A GPU's worker has copies of the first slots of these rings in its box (sources.hpp): so many of
// its inbox, and one of each other.
inline constexpr uint32_t queue_slots = 32;
DENIZEN_HD constexpr uint32_t landing_slots(uint32_t nodes)
{
    return queue_slots + source_peer + 2 * (nodes - 1) + 1;
}

// One worker's inbox: words beside the slots.
struct Inbox {
    alignas(line) uint32_t tail = 0;
    alignas(line) uint32_t credit = 0;
};

// A message that had no room: it holds its ticket and is written when its slot is free.
struct alignas(line) Parked {
    Slot slot;
    uint32_t state;  // 0: free, 1: being filled, 2: waits for its slot
    uint32_t kind;   // of the ring: RingKind
    uint32_t index;  // which one of its kind
    uint32_t ticket; // its place in the ring
};

// The rings that a worker writes.
enum class RingKind : uint32_t { inbox = 0, urgent, near, peer, egress, peer_urgent };

// A sleeping CPU worker's bell; unused on the GPU, whose workers never sleep.
struct Bell {
    alignas(line) uint32_t bell = 0;
    uint32_t sleeping = 0;
};

// What others than workers and host need for sending to the node's actors: see actor/ref.hpp.
// Device memory, written before the launch.
struct Gate {
    Slot* inboxes = nullptr;
    Inbox* inbox = nullptr;
    Bell* bells = nullptr;
    const Board* board = nullptr;
    uint32_t inbox_mask = 0;
    uint32_t workers = 0;
    uint32_t node = 0;
    uint32_t reserved = 0;
};

// How a worker's near rings lie in its box: these words, then the slots of its ring to itself
// (local_mask + 1), then those of the rings from near workers 0, 1, ... (near_mask + 1 each, with a
// gap behind them: see Geometry::gap). The box lies in the shared memory of the worker's SM, where
// near workers write too, and in Shared::boxes while the program is off the GPU; on the CPU always
// there.
struct alignas(line) NearBox {
    uint32_t tail[max_near] = {};   // to near worker i: next ticket
    uint32_t credit[max_near] = {}; // what near worker i has given back; it writes that here
    uint32_t head[max_near] = {};   // from near worker i: next ticket to handle
    uint32_t sent[8] = {};          // messages by Route, not told yet
    // Set by each start.
    uint32_t ring[max_near] = {}; // GPU: where the slots of our ring to near worker i are
    uint32_t first = 0;           // node << 11 | number of near worker 0
    uint32_t count = 0;           // near workers with a ring; 0 while a send is to have a stamp,
    uint32_t workers = 0;         // and so of this node: sends take the general way (post.hpp)
    uint32_t own = 0;             // which near worker this is
    uint32_t rings = 0;           // near workers with a ring
    uint32_t sm = 0;              // near workers before the first of our SM
    uint32_t parked = 0;          // something was parked since the worker looked
    uint32_t stamps = 0;          // which sends get one: Stamps, near.hpp
    // Kept from one incarnation to the next, as what comes before those.
    uint32_t idle = 0; // rounds without work, in a row, that the worker has seen
};

// Another node, as this one's workers reach it. A node's own entry has the rings to the other hosts
// of a cluster instead: [hosts] where it says [workers], in host memory but for their tails, and
// nothing comes from them this way. Its bells are by host: a link takes data and urgent messages.
struct PeerLink {
    // [workers][inbox_mask + 1] in the peer's memory, and behind them [workers][urgent_mask + 1]
    // for urgent messages; only we write there.
    Slot* inboxes = nullptr;
    // Data and urgent, [2][workers] each, 64 bytes apart, in our memory; the peer writes `credits`.
    // Those of other hosts lie across the bus: behind each tail is the credit as last read.
    uint32_t* tails = nullptr;
    const uint32_t* credits = nullptr;
    const Slot* from = nullptr;       // as `inboxes`, in our memory; only the peer writes
    uint32_t* from_credits = nullptr; // the peer's `credits` for us: in its memory
    struct Bell* bells = nullptr;     // the peer's, CPU backend only
    unsigned char* heap = nullptr;    // the peer's, and its actors' records
    ActorRecord* actor_records = nullptr;
    const ActorEntry* actors = nullptr; // the peer's
};

} // namespace denizen
