// SPDX-License-Identifier: Apache-2.0
// The memory of a resident program, as its workers, its monitor and the host see it. Plain structs
// only: they cross the boundary between a host compiler's binary and a cubin, so their layout is
// part of the ABI (`layout_abi`; a cached program of another number is refused). What lies in that
// memory is declared by idea: program_table.hpp, system_op.hpp, rings.hpp, board.hpp, and the
// headers named below. node_memory.cpp takes the memory and fills these pointers.
#pragma once

#include <denizen/actor/detail/board.hpp>
#include <denizen/actor/detail/far.hpp>
#include <denizen/actor/detail/link_duty.hpp>
#include <denizen/actor/detail/program_table.hpp>
#include <denizen/actor/detail/rings.hpp>
#include <denizen/actor/detail/system_op.hpp>
#include <denizen/memory/ref.hpp>

namespace denizen {

struct ActorRecord; // actor/life.hpp
struct WorkerState; // detail/stash.hpp, as the next two
struct StashSlot;
struct WatchEntry;
struct TimerEntry; // detail/timers.hpp
struct PoolWords;  // detail/pool.hpp
struct TopicBoard; // detail/topics.hpp, as the next
struct Subscription;
struct Counters; // detail/telemetry.hpp, as the next
struct Histogram;
namespace arena {
struct Map; // memory/detail/map.hpp
}

inline constexpr uint32_t layout_abi = 24;

// What a worker reads of an actor for every message: 16 bytes.
struct alignas(16) ActorEntry {
    uint32_t kind = 0; // actor type + 1 | life << 8; 0: not spawned, or stopped
    uint32_t self = 0; // the address that others know it by: not its place after a migration
    void* state = nullptr;

    DENIZEN_HD uint32_t type() const { return (kind & 0xff) - 1; } // no_type if there is none
    DENIZEN_HD bool running() const { return kind - 1 < 0xff; }
};

static_assert(sizeof(ActorEntry) == 16);

// In one access. Weak: what changes an entry of this worker's is its own, or waits until it looks.
DENIZEN_HD inline ActorEntry load_entry(const ActorEntry* entry)
{
#if DENIZEN_ON_DEVICE
    uint32_t kind = 0;
    uint32_t self = 0;
    uint64_t state = 0;
    asm volatile("{ .reg .b32 a, b; ld.global.v4.b32 {%0, %1, a, b}, [%3]; mov.b64 %2, {a, b}; }"
                 : "=r"(kind), "=r"(self), "=l"(state)
                 : "l"(__cvta_generic_to_global(entry))
                 : "memory");
    return {kind, self, reinterpret_cast<void*>(state)};
#else
    return *entry;
#endif
}

// What Shared consists of: for each idea its sizes and where its tables lie. Device memory unless
// a comment says otherwise.
namespace layout {

// How many there are, and who is near whom.
struct Places {
    uint32_t workers = 0; // of this node, and of every other
    uint32_t node = 0;    // which one this is
    uint32_t nodes = 1;
    uint32_t actors_per_worker = 0;
    uint32_t near = 1;   // workers per cluster: those of one share near rings; at most 32
    uint32_t per_sm = 1; // workers per SM
    FarFormat far;       // the cluster's addresses, if it is of one
};

struct Rings {
    uint32_t near_mask = 0;  // slots of a near ring - 1
    uint32_t local_mask = 0; // slots of a worker's ring to itself - 1
    uint32_t box_bytes = 0;  // of a worker's NearBox with its slots,
    uint32_t near_bytes = 0; // and from one near ring in it to the next
    uint32_t host_ring_mask = 0;
    uint32_t inbox_mask = 0;
    uint32_t urgent_mask = 0; // of the urgent host rings and the urgent inboxes
    uint32_t outbox_capacity = 0;
    uint32_t egress_mask = 0;
    uint32_t cell_count = 0;     // reply cells
    uint32_t cell_slots = 0;     // slots per reply cell, a power of two
    uint32_t urgent_sources = 0; // bit g: ring g, of those that a worker reads, is for urgent ones

    Slot* host_rings = nullptr;           // [workers][host_ring_mask + 1], written by the host
    uint32_t* host_ring_credit = nullptr; // [workers], 64 bytes apart, host memory
    Slot* inboxes = nullptr;              // [workers][inbox_mask + 1]
    Inbox* inbox = nullptr;               // [workers]
    Slot* urgent_host_rings = nullptr;    // [workers][urgent_mask + 1], written by the host
    uint32_t* urgent_host_ring_credit = nullptr; // [workers], 64 bytes apart, host memory
    Slot* urgent_inboxes = nullptr;              // [workers][urgent_mask + 1]
    Inbox* urgent_inbox = nullptr;               // [workers]
    unsigned char* boxes = nullptr;              // [workers][box_bytes]
    PeerLink peer[max_nodes] = {};               // by node; our own: the other hosts'
    Parked* outboxes = nullptr;                  // [workers][outbox_capacity]
    Slot* egress = nullptr;                      // host memory
    const uint32_t* egress_credit = nullptr;
    Slot* cells = nullptr;     // host memory
    Bell* bells = nullptr;     // [workers], CPU backend only
    LinkDuty* links = nullptr; // host memory, CPU backend only, or the program is of no cluster
};

// The actors: their states and what is known of each.
struct ActorTables {
    uint32_t actor_types = 0;
    uint32_t spawn_room = 0;      // a worker's first places: for actors that handlers spawn
    uint64_t overflow[2] = {};    // Overflow by actor type, two bits each
    uint64_t spawn_stride = 0;    // bytes from the state of an actor in the spawn room to the next
    ActorEntry* actors = nullptr; // [workers][actors_per_worker]
    ActorRecord* actor_records = nullptr; // [workers][actors_per_worker]
    uint32_t* vacant = nullptr;           // [workers][spawn_room], see detail/spawn.hpp
    // [nodes][workers][actors_per_worker], host memory: actor type + 1, 0: none. The host's; but a
    // worker's for the actors that its handlers spawn.
    uint8_t* types = nullptr;
    unsigned char* heap = nullptr; // actor state
};

// Messages that wait for their actor, watchers, dead letters.
struct Lives {
    uint32_t stash_slots = 0;             // per worker
    uint32_t watch_slots = 0;             // per worker
    uint32_t dead_mask = 0;               // of the ring of dead letters
    WorkerState* worker_states = nullptr; // [workers]
    StashSlot* stash = nullptr;           // [workers][stash_slots]
    WatchEntry* watchers = nullptr;       // [workers][watch_slots]
    Slot* dead = nullptr;                 // [dead_mask + 1], host memory: dead letters
};

struct TimersAndTopics {
    uint32_t timer_slots = 0;       // per worker
    uint32_t subscription_mask = 0; // of the table of subscriptions
    uint64_t* timer_due = nullptr;  // [workers][timer_slots], see detail/timers.hpp
    TimerEntry* timers = nullptr;   // the same
    TopicBoard* topics = nullptr;
    Subscription* subscriptions = nullptr; // [subscription_mask + 1]
};

// What handlers have others do: detail/pool.hpp. None if the program has no tasks.
struct Pool {
    uint32_t task_mask = 0;    // places of the queue - 1
    uint32_t task_shift = 0;   // places, as a power of two
    PoolWords* pool = nullptr; // null: the program has no tasks
    Slot* tasks = nullptr;     // [task_mask + 1]
};

// What long messages, references and handlers' allocations need.
struct Memory {
    uint32_t scratch_bytes = 0;       // per worker; 0 if no message takes all lanes
    uint32_t buffer_count = 0;        // entries of the buffer table
    uint32_t stage_bytes = 0;         // of a worker's stage, see detail/whole.hpp; 0: there is none
    unsigned char* scratch = nullptr; // [2][workers][scratch_bytes]
    BufferEntry* buffers = nullptr;   // [buffer_count]
    const arena::Map* arena = nullptr; // the node's, if handlers allocate
};

// How the program lives on its device, and what it tells of that.
struct Residency {
    uint64_t idle_ns = 0;         // leave after this long without work; 0: never
    uint64_t host_timeout_ns = 0; // leave when the heartbeat has stopped for this long
    BreathRef breath;             // see device/detail/breath.hpp
    uint32_t incarnation = 0;     // the launch's number, from 1 on, if it breathes
    uint32_t successor = 0;       // 1: it goes on where the one before it in the stream has ended
    Status* status = nullptr;     // [workers]
    Report* reports = nullptr;    // [workers], host memory
    Board* board = nullptr;
    Control* control = nullptr; // host memory
    Watch* watch = nullptr;     // [workers]
};

// What is counted and recorded while somebody looks: see telemetry.hpp and trace.hpp.
struct Observation {
    uint32_t trace_slots = 0;        // records of a worker's trace ring; 0: there is none
    Counters* counters = nullptr;    // [workers]
    Histogram* histograms = nullptr; // [workers][actor_types], durations of handlers
    Histogram* latencies = nullptr;  // the same: from a send to its handler, of samples
    unsigned char* trace = nullptr;  // [workers] trace rings
};

} // namespace layout

// Everything a worker or the monitor can reach; passed by value to the kernel.
struct Shared : layout::Places,
                layout::Rings,
                layout::ActorTables,
                layout::Lives,
                layout::TimersAndTopics,
                layout::Pool,
                layout::Memory,
                layout::Residency,
                layout::Observation {};

// No compiler puts one part into the padding of another.
static_assert(sizeof(Shared) ==
              sizeof(layout::Places) + sizeof(layout::Rings) + sizeof(layout::ActorTables) +
                  sizeof(layout::Lives) + sizeof(layout::TimersAndTopics) + sizeof(layout::Pool) +
                  sizeof(layout::Memory) + sizeof(layout::Residency) + sizeof(layout::Observation));

} // namespace denizen
