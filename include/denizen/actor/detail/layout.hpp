// SPDX-License-Identifier: Apache-2.0
// The memory of a resident program, as its workers, its monitor and the host see it. Plain structs
// only: they cross the boundary between a host compiler's binary and a cubin, so their layout is
// part of the ABI (`layout_abi`; a cached program of another number is refused).
//
// Who writes what: each word has one writing side. The host writes host rings, Control's command
// half and the egress credit; a worker writes its Status and its own credits; the monitor writes
// Board's command and Control's report half.
#pragma once

#include <denizen/device/detail/resident.hpp>
#include <denizen/memory/ref.hpp>
#include <denizen/wire/ring.hpp>

namespace denizen {

struct ActorRecord; // actor/life.hpp
struct WorkerState; // detail/stash.hpp, as the next two
struct StashSlot;
struct WatchEntry;
struct TimerEntry; // detail/timers.hpp
struct TopicBoard; // detail/topics.hpp, as the next
struct Subscription;
namespace arena {
struct Map; // memory/arena/map.hpp
}

inline constexpr uint32_t layout_abi = 11;
inline constexpr uint32_t max_actor_types = 64;
inline constexpr uint32_t max_message_types = 128;
// GPUs, or groups of CPU threads, of one program: the eight rings of a worker that lie in global
// memory are looked at in one access.
inline constexpr uint32_t max_nodes = 5;
inline constexpr uint32_t max_near = 32; // workers of one cluster: one lane looks at each

// A handler runs on one thread, or on all 32 lanes of a warp at once.
enum class Grain : uint32_t { thread = 0, warp = 1 };

struct ActorInfo {
    uint32_t size;
    uint32_t align;
    uint32_t grain;
    uint32_t overflow; // Overflow
    uint32_t restart;  // RestartFrom: with snapshots a state has room for a second copy
    uint32_t spawned;  // 1: handlers spawn such actors
};

// Bytes from an actor's state to its checkpoint, and from there to the word that says there is one.
DENIZEN_HD constexpr uint64_t checkpoint_offset(uint64_t size) { return (size + 15) / 16 * 16; }

// What becomes of a message that finds no room on its way to an actor.
enum class Overflow : uint32_t {
    wait = 0,    // it waits in the sender's outbox
    fail,        // the sender is told, and the message is not sent
    drop_oldest, // it waits; the oldest message that waits for the actor is dropped and counted
    of_peer      // no actor's: it lives on another node, which is asked if there is no room
};

// Urgent messages have rings of their own, which a worker looks at first: they overtake data.
enum class Priority : uint32_t { data = 0, urgent = 1 };

struct MessageInfo {
    uint32_t size;
    uint32_t align;
    uint32_t priority;
    uint32_t reserved;
};

// What the host must know of a compiled program. In a cubin it is the global `denizen_table`.
struct ProgramTable {
    uint32_t abi;
    uint32_t actors;
    uint32_t messages;
    uint32_t max_message; // bytes of the largest message
    ActorInfo actor[max_actor_types];
    MessageInfo message[max_message_types];
    uint32_t down;      // number of the message type Down, or no_type
    uint32_t allocates; // 1: some actor's handlers allocate
    uint64_t handles[max_actor_types][max_message_types / 64]; // bit m: actor has a handler for m

    bool can_handle(uint32_t a, uint32_t m) const
    {
        return (handles[a][m / 64] >> m % 64 & 1) != 0;
    }
};

// Flag bits of a message header.
inline constexpr uint32_t flag_system = 1;    // type is a SystemOp; destination names the worker
inline constexpr uint32_t flag_broadcast = 2; // destination.local() is an actor type: all of them

inline constexpr uint32_t flag_compact = 4; // a reply in one packet: payload, kind, payload
// The host's: destination.local() says which of the topics that it has aimed at.
inline constexpr uint32_t flag_publish = 8;
inline constexpr uint32_t flag_traced = 16; // behind the payload, an hlc::Stamp

static_assert((flag_system ^ flag_broadcast ^ flag_compact ^ flag_publish ^ flag_traced) ==
              max_flags); // five bits, and each has one meaning

inline constexpr uint32_t compact_payload = 8; // bytes
inline constexpr uint32_t stamp_bytes = 8;     // of a traced message; its length counts them

// Bytes of a message without its stamp.
DENIZEN_HD inline uint32_t payload_bytes(const Header& h)
{
    return (h.flags & flag_traced) != 0 ? h.length - stamp_bytes : h.length;
}

// What is left of its header when the stamp has been taken off.
DENIZEN_HD inline Header without_stamp(Header h)
{
    h.length = payload_bytes(h);
    h.flags &= ~flag_traced;
    return h;
}

// The runtime's own messages. All but the first name one actor in their first word.
enum class SystemOp : uint32_t {
    spawn = 0,
    stop,
    pause,
    resume,
    restart,
    drain,      // stop when all that has been sent before has been handled
    drained,    // what one worker had sent before has been handled; see drain_further()
    suspend,    // a supervisor that has failed stops its children's handlers until it runs again
    checkpoint, // copies the state for a later restart
    look,       // answered with a LifeReport
    watch,
    unwatch,
    supervise, // makes a supervisor
    adopt,     // tells a supervisor its children
    attach,    // tells a child its supervisor
    failure,   // tells a supervisor that a child has failed
    bounce,    // asks another worker for a `drained` behind all that it has sent
    move_out,  // these: see move.hpp
    depart,
    pass,
    passed,
    move_in,
    settle,
    vacate,
    tell,      // a guest's home tells those who watch it
    subscribe, // these: see topics.hpp
    unsubscribe,
    forget,
    aim,
    none // fills the place of a message that was not sent after all
};

struct SpawnRequest {
    uint32_t type;
    uint32_t count;
    uint32_t first;  // local index of the first
    uint32_t stride; // bytes between two states
    uint64_t offset; // of the first state in the heap
    uint32_t life;   // running, or created
};

struct LifeRequest {
    uint32_t local;
    uint32_t value; // watch: the watcher; attach: the supervisor; failure: the code; bounce,
                    // drained: which worker of all nodes'
    uint32_t rank;  // attach, failure: the child's place in the supervisor's list; bounce,
                    // drained: the actor's address
    uint32_t epoch; // a supervisor's orders, and failure: number of the last order
};

// What the host is told that looks at an actor, or whose request could not be done.
struct LifeReport {
    uint32_t error; // Errc
    uint32_t life;  // before the request
    uint32_t incarnation;
    uint32_t failure;
    uint32_t stashed;
    uint32_t supervisor;
};

static_assert(sizeof(LifeReport) <= first_payload);

inline constexpr uint32_t no_type = ~0u;
inline constexpr uint32_t no_worker = ~0u;

// What a worker reads of an actor for every message: 16 bytes.
struct alignas(16) ActorEntry {
    uint32_t kind = 0; // actor type + 1 | life << 8; 0: not spawned, or stopped
    uint32_t self = 0; // the address that others know it by: not its place after a migration
    void* state = nullptr;

    DENIZEN_HD uint32_t type() const { return (kind & 0xff) - 1; } // no_type if there is none
    DENIZEN_HD bool running() const { return kind - 1 < 0xff; }
};

static_assert(sizeof(ActorEntry) == 16);

// The ways a message can take, nearest first.
enum class Route : uint32_t { worker = 0, sm, cluster, gpu, peer, to_host };
inline constexpr uint32_t routes = 6;

// The rings that a worker reads, besides the near ones: two from the host, two from this node's
// workers, one from each other node. Those for urgent messages first.
inline constexpr uint32_t source_host_urgent = 0;
inline constexpr uint32_t source_node_urgent = 1;
inline constexpr uint32_t source_host = 2;
inline constexpr uint32_t source_node = 3;
inline constexpr uint32_t source_peer = 4; // and the next: one for each other node, in their order
inline constexpr uint32_t max_sources = source_peer + max_nodes - 1;
static_assert(max_sources == 8);

// What a worker tells the monitor. Device memory; the worker is the only writer.
//
// `done` and the near words are told when a worker has nothing to do or leaves, and in this order:
// near_tail, a fence, near_head and done. So a position past a message is never seen before the
// tails of what its handler sent: the monitor's quiet check rests on that.
struct alignas(line) Status {
    uint64_t handled = 0;
    uint32_t turn = 0; // odd while handlers run; changes with every batch
    uint32_t mode = 0;
    uint32_t outbox = 0;        // parked sends
    uint32_t outbox_lock = 0;   // held by the lane that writes parked messages during a handler
    uint32_t for_host = 0;      // 1: some of the parked sends are for the host
    uint32_t actors = 0;        // entries in use
    uint32_t egress_credit = 0; // the host's, as last read
    uint64_t dead_letters = 0;
    uint32_t done[max_sources] = {};   // per ring: tickets whose messages have been handled
    uint32_t near_tail[max_near] = {}; // per near worker: messages' slots sent to it
    uint32_t near_head[max_near] = {}; // per near worker: slots from it that have been handled
    // Per lane: destination | (message type + 1) << 32 while its handler runs, then 0.
    uint64_t running[32] = {};
    uint64_t sent[8] = {}; // messages by Route
    uint64_t dead_by_reason[8] = {};
    uint32_t stashed = 0; // messages that wait for actors that do not run
};

// What the monitor tells the host of one worker. Host memory.
struct alignas(128) Report {
    uint64_t handled = 0;
    uint64_t dead_letters = 0;
    uint64_t busy_ns = 0; // how long the handlers that run now have been running
    uint64_t running = 0; // of one of them: destination | (message type + 1) << 32; 0: none
    uint32_t host_ring_done[2] = {}; // host rings, urgent and data: tickets that have been handled
    uint32_t mode = 0;
    uint32_t outbox = 0; // parked sends, and actors whose life is about to change
    uint64_t dead_by_reason[7] = {};
    uint32_t stashed = 0;
    uint32_t timers = 0; // to fire
};

struct ErrorRecord {
    uint32_t code = 0; // Errc
    uint32_t worker = 0;
    uint32_t actor = 0;
    uint32_t message = 0;
    uint32_t sender = 0;
};

// The first error of its kind.
struct FirstError {
    uint32_t set = 0; // 0 none, 1 being written, 2 written
    ErrorRecord record;
};

// Device memory: what the workers share.
struct Board {
    alignas(line) uint32_t command = 0; // Command, and while a breath ends the bits of a breath
    // Workers with something parked: while any has, the others take from the host only as
    // jams_itself() allows.
    uint32_t jammed = 0;
    uint32_t observe = 0;             // see telemetry.hpp
    uint64_t clock_shift = 0;         // from the device's now_ns() to ns since 2026; 0: not known
    alignas(line) uint64_t clock = 0; // hybrid logical, of the node: see base/hlc.hpp
    alignas(line) uint32_t egress_tail = 0;
    alignas(line) uint32_t dead_tail = 0; // dead letters
    alignas(line) FirstError first;
    FirstError fatal; // why a worker stopped the program
    uint64_t errors = 0;
    Breath breath;
    uint64_t handled = 0;       // messages, as the monitor saw last before the breath was over,
    uint64_t worked_at = 0;     // and when that changed
    uint32_t left_for_good = 0; // all workers have left: a successor has nothing to do
};

// Host memory that both sides reach.
struct Control : ResidentWords {
    alignas(line) uint32_t observe = 0; // host -> monitor, which passes it on to the board,
    uint64_t clock_shift = 0;           // and this
    alignas(line) uint32_t scan = 0;    // monitor -> host: number of the last complete scan
    uint32_t quiet = 0;                 // in that scan no message was between or in workers
    uint32_t peer_sent[max_nodes] = {}; // in that scan: slots sent to each other node
    uint32_t peer_done[max_nodes] = {}; // and those from it that have been handled
    uint64_t device_ns = 0;             // while tracing: the device's now_ns()
    uint64_t errors = 0;
    FirstError first;
    FirstError fatal;
};

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
enum class RingKind : uint32_t { inbox = 0, urgent, near, peer, egress };

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

// What the monitor remembers of a worker between scans. Device memory.
struct Watch {
    uint32_t turn = 0;
    uint32_t done[max_sources] = {};   // as read in the first pass of this scan
    uint32_t near_head[max_near] = {}; // the same
    uint64_t since = 0;                // when `turn` was first seen
    Report told;                       // what the host has been told
};

// How a worker's near rings lie in its box: these words, then the slots of its ring to itself
// (local_mask + 1), then those of the rings from near workers 0, 1, ... (near_mask + 1 each). The
// box lies in the shared memory of the worker's SM, where near workers write too, and in
// Shared::boxes while the program is off the GPU; on the CPU always there.
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
};

// Another node, as this one's workers reach it.
struct PeerLink {
    Slot* inboxes = nullptr; // [workers][inbox_mask + 1] in the peer's memory; only we write there
    uint32_t* tails = nullptr;         // [workers], 64 bytes apart, in our memory
    const uint32_t* credits = nullptr; // [workers], 64 bytes apart, in our memory; the peer writes
    const Slot* from = nullptr; // [workers][inbox_mask + 1] in our memory; only the peer writes
    uint32_t* from_credits = nullptr; // the peer's `credits` for us: in its memory
    struct Bell* bells = nullptr;     // the peer's, CPU backend only
    unsigned char* heap = nullptr;    // the peer's, and its actors' records
    ActorRecord* actor_records = nullptr;
    const ActorEntry* actors = nullptr; // the peer's
};

struct Counters;  // telemetry.hpp
struct Histogram; // telemetry.hpp

// Everything a worker or the monitor can reach; passed by value to the kernel.
struct Shared {
    uint32_t workers = 0; // of this node, and of every other
    uint32_t node = 0;    // which one this is
    uint32_t nodes = 1;
    uint32_t actors_per_worker = 0;
    uint32_t near = 1;       // workers per cluster: those of one share near rings; at most 32
    uint32_t per_sm = 1;     // workers per SM
    uint32_t near_mask = 0;  // slots of a near ring - 1
    uint32_t local_mask = 0; // slots of a worker's ring to itself - 1
    uint32_t box_bytes = 0;  // of a worker's NearBox with its slots
    uint32_t host_ring_mask = 0;
    uint32_t inbox_mask = 0;
    uint32_t urgent_mask = 0; // of the urgent host rings and the urgent inboxes
    uint32_t outbox_capacity = 0;
    uint32_t egress_mask = 0;
    uint32_t stash_slots = 0;       // per worker
    uint32_t watch_slots = 0;       // per worker
    uint32_t subscription_mask = 0; // of the table of subscriptions
    uint32_t dead_mask = 0;         // of the ring of dead letters
    uint32_t cell_count = 0;        // reply cells
    uint32_t cell_slots = 0;        // slots per reply cell, a power of two
    uint32_t actor_types = 0;
    uint32_t scratch_bytes = 0;   // per worker; 0 if every message fits in one slot
    uint32_t buffer_count = 0;    // entries of the buffer table
    uint32_t trace_slots = 0;     // records of a worker's trace ring; 0: there is none
    uint32_t spawn_room = 0;      // a worker's first places: for actors that handlers spawn
    uint32_t timer_slots = 0;     // per worker
    uint64_t overflow[2] = {};    // Overflow by actor type, two bits each
    uint64_t spawn_stride = 0;    // bytes from the state of an actor in the spawn room to the next
    uint64_t idle_ns = 0;         // leave after this long without work; 0: never
    uint64_t host_timeout_ns = 0; // leave when the heartbeat has stopped for this long
    BreathRef breath;             // see device/detail/breath.hpp
    uint32_t incarnation = 0;     // the launch's number, from 1 on, if it breathes
    uint32_t successor = 0;       // 1: it goes on where the one before it in the stream has ended

    Slot* host_rings = nullptr;           // [workers][host_ring_mask + 1], written by the host
    uint32_t* host_ring_credit = nullptr; // [workers], 64 bytes apart, host memory
    Slot* inboxes = nullptr;              // [workers][inbox_mask + 1]
    Inbox* inbox = nullptr;               // [workers]
    Slot* urgent_host_rings = nullptr;    // [workers][urgent_mask + 1], written by the host
    uint32_t* urgent_host_ring_credit = nullptr; // [workers], 64 bytes apart, host memory
    Slot* urgent_inboxes = nullptr;              // [workers][urgent_mask + 1]
    Inbox* urgent_inbox = nullptr;               // [workers]
    unsigned char* boxes = nullptr;              // [workers][box_bytes]
    PeerLink peer[max_nodes] = {};               // by node; our own is unused
    Parked* outboxes = nullptr;                  // [workers][outbox_capacity]
    Slot* egress = nullptr;                      // host memory
    const uint32_t* egress_credit = nullptr;
    Slot* cells = nullptr;                // host memory
    ActorEntry* actors = nullptr;         // [workers][actors_per_worker]
    ActorRecord* actor_records = nullptr; // [workers][actors_per_worker]
    WorkerState* worker_states = nullptr; // [workers]
    StashSlot* stash = nullptr;           // [workers][stash_slots]
    WatchEntry* watchers = nullptr;       // [workers][watch_slots]
    uint32_t* vacant = nullptr;           // [workers][spawn_room], see detail/spawn.hpp
    // [nodes][workers][actors_per_worker], host memory: actor type + 1, 0: none. The host's; but a
    // worker's for the actors that its handlers spawn.
    uint8_t* types = nullptr;
    uint64_t* timer_due = nullptr; // [workers][timer_slots], see detail/timers.hpp
    TimerEntry* timers = nullptr;  // the same
    TopicBoard* topics = nullptr;
    Subscription* subscriptions = nullptr; // [subscription_mask + 1]
    Slot* dead = nullptr;                  // [dead_mask + 1], host memory: dead letters
    unsigned char* heap = nullptr;         // actor state
    unsigned char* scratch = nullptr;      // [2][workers][scratch_bytes]
    BufferEntry* buffers = nullptr;        // [buffer_count]
    Status* status = nullptr;              // [workers]
    Report* reports = nullptr;             // [workers], host memory
    Board* board = nullptr;
    Control* control = nullptr;        // host memory
    Bell* bells = nullptr;             // [workers], CPU backend only
    Watch* watch = nullptr;            // [workers]
    Counters* counters = nullptr;      // [workers]
    Histogram* histograms = nullptr;   // [workers][actor_types], durations of handlers
    Histogram* latencies = nullptr;    // the same: from a send to its handler, of samples
    unsigned char* trace = nullptr;    // [workers] trace rings: see trace.hpp
    const arena::Map* arena = nullptr; // the node's, if handlers allocate
};

inline constexpr uint32_t credit_stride = 16; // words between two workers' credits

} // namespace denizen
