// SPDX-License-Identifier: Apache-2.0
// Tasks: small structs that are spawned, run to completion once, and may spawn others. This header
// is the memory that workers, monitor and host share; the part's other headers are the protocols on
// it. task/runtime.hpp uses it on the host, task/detail/worker.hpp on the device. After the start
// all memory comes from the runtime's arena. No SM is set aside for scheduling.
//
//   host ─► port ─► monitor ─► shelves ─► worker ─► its own deques ◄─ thieves
//   actors ─► ingress ─┘          ▲          └─► inboxes of actors' workers (actor/ref.hpp)
//                                 ▲          └─► mailbox of a worker that was named
//                                 └── what a full deque has no room for, in blocks of the arena
//
// Why this shape. A worker is a warp with deques of its own in global memory, one for each pair of
// priority and grain. The owner works at the bottom, last in, first out, so it walks a tree of
// tasks depth first, which needs little memory. Thieves take the oldest half from the top. A task
// that has not begun can be stolen at any time, so a long task holds up nothing but itself. That is
// one reason why deques do not lie in shared memory. The other is that it would gain nothing: on an
// H100 a pop and a push of 32 tasks are one atomic access to L2 each, some 1.5 us together, and the
// 16 warps of an SM hide them. 16 x 32 / 1.5 us are 340 tasks/us on an SM; 10 G tasks/s need 76.
// Decentralised queues with batched, warp-cooperative pop and steal: GTaP (arXiv 2604.05982) found
// them better than one queue and than a deque per thread.
#pragma once

#include <denizen/base/packet.hpp>
#include <denizen/device/detail/resident.hpp>
#include <denizen/memory/arena/ref.hpp>

namespace denizen::task {

inline constexpr uint32_t max_types = 64;
inline constexpr uint32_t max_groups = 64;
inline constexpr uint32_t max_classes = 9; // pairs of priority and grain
inline constexpr uint32_t max_workers = 8192;
inline constexpr uint32_t max_arguments = 44; // bytes of a task: with its header, 48

// Who runs a task: one thread, all 32 lanes of a warp, all warps of a block. On the CPU always the
// one thread of a worker.
enum class Grain : uint32_t { thread = 0, warp = 1, block = 2 };

// A worker runs the highest of its own tasks first, and steals the highest first. There is no
// global order: another worker may run a lower task at the same time.
enum class Priority : uint32_t { high = 0, normal = 1, low = 2 };

// A task's first word; its arguments follow. The class says to which deque and shelf a task
// belongs.
DENIZEN_HD constexpr uint32_t header(uint32_t type, uint32_t group, uint32_t c)
{
    return type | group << 8 | c << 16;
}
DENIZEN_HD constexpr uint32_t type_of(uint32_t header) { return header & 0xff; }
DENIZEN_HD constexpr uint32_t group_of(uint32_t header) { return header >> 8 & 0xff; }
DENIZEN_HD constexpr uint32_t class_of(uint32_t header) { return header >> 16 & 0xf; }

// Bytes of a deque's slot: header and the program's longest arguments.
DENIZEN_HD constexpr uint32_t slot_bytes(uint32_t arguments)
{
    return arguments <= 12 ? 16 : arguments <= 28 ? 32 : 64;
}

// ---- the three ways a task travels. Words first, slots apart.

// One word says all about a deque: see deque.hpp.
struct alignas(line) Deques {
    uint64_t word[max_classes] = {};
    uint64_t spare[16 - max_classes] = {};
};

// A queue of indices that never overflows: see index_queue.hpp.
struct alignas(line) IndexWords {
    uint32_t count = 0; // as int: may be below 0 for a moment
    uint32_t head = 0;
    uint32_t tail = 0;
};

// Tasks of one class on a shelf. One thread fills a crate, and one worker takes it whole:
// crate.hpp.
inline constexpr uint32_t crate_shift = 5;
inline constexpr uint32_t crate_tasks = 1u << crate_shift;
inline constexpr uint32_t kept_crates = 64; // that are not the arena's
DENIZEN_HD constexpr uint32_t crate_bytes(uint32_t slot) { return crate_tasks * slot; }
// A shelf's index is a crate's number and its count of tasks: crates of 512 bytes reach so far.
inline constexpr uint64_t most_arena_bytes = uint64_t{63} << 30;

// Where spawn_on() puts tasks for this worker: see mailbox.hpp. The first packets of all slots lie
// in one line, which the owner polls.
inline constexpr uint32_t mail_slots = 8;
struct alignas(line) Mailbox {
    Packet first[mail_slots] = {};
    Packet rest[mail_slots][4] = {}; // three of them used
};

// A task of the host's or of an actor's on its way to the monitor.
struct alignas(64) Letter {
    Packet packet[4] = {};
};

// ---- counters

// A task that waits: `count` arrivals have to come before it may run. 64 bytes.
struct alignas(64) Join {
    uint32_t word[12] = {}; // header and arguments
    uint64_t count = 0;     // arrivals missing | sum of the values that came with them << 24
    uint32_t sum_at = 0;    // word of the task that gets the sum | its words << 8; 0: none does
    uint32_t reserved = 0;
};
inline constexpr uint32_t count_bits = 24;
inline constexpr uint64_t count_mask = (uint64_t{1} << count_bits) - 1;

// Names a Join. 0 is none.
struct Counter {
    uint32_t index = 0;
};

// ---- groups

// `word`: tokens | tasks that the host has handed in so far << 32. A token stands for a task that
// runs, may run, or may yet be spawned by the worker that keeps the token: see tokens.hpp.
struct alignas(line) Group {
    uint64_t word = 0;
    uint32_t cancelled = 0; // Cancelled
    uint32_t opened = 0;    // number of the order that opened it
    uint64_t deadline = 0;  // by the device's clock; 0: none
    uint64_t dropped = 0;   // tasks that were not run
    uint64_t told = 0;      // `word` as the host was last told
};
enum class Cancelled : uint32_t { no = 0, asked, late };

// ---- between host and processor

// A place for one result: sequence 0, then that of its promise. Host memory.
struct alignas(64) Answer {
    Packet packet[4] = {};
};
inline constexpr uint32_t answer_payload = 48;

struct HostGroup {
    uint64_t lifetime_ns = 0; // host -> monitor, with Control::group_orders
    uint32_t cancel = 0;
    uint32_t open = 0; // number of the order that opened it
};

struct GroupReport {
    uint64_t word = 0; // Group::word when it last had no tokens, or since, when the host asked
    uint64_t dropped = 0;
    uint32_t cancelled = 0;
    uint32_t reserved = 0;
};

// Host memory that both sides reach; a line for each writer.
struct Control : ResidentWords {
    alignas(line) uint32_t group_orders = 0; // host -> monitor: changed `group`
    alignas(line) uint32_t port_head = 0;    // monitor -> host: letters of the port that are taken
    uint32_t group_seen = 0;                 // monitor -> host: orders carried out
    uint64_t rounds = 0;                     // of the monitor
    alignas(line) HostGroup group[max_groups];
    alignas(line) GroupReport report[max_groups];
};

// Device memory: what all workers look at.
struct Board {
    alignas(line) uint32_t command = 0; // Command, and while a breath ends the bits of that
    alignas(line) uint32_t left = 0;    // workers that have left
    uint32_t left_for_good = 0;         // all of them have: a successor has nothing to do
    alignas(line) uint32_t refused = 0; // spawns that found the arena full
    uint32_t stopped = 0;               // and of these, tasks that were put off
    alignas(line) uint32_t bell = 0;    // CPU: for workers that sleep
    uint32_t sleeping = 0;
    alignas(line) uint32_t monitor_bell = 0;
    uint32_t monitor_sleeping = 0;
    Breath breath;
};

// The ring by which actors and kernels hand tasks in (ref.hpp). It lies in device memory, has many
// writers, and is read by the monitor.
struct Ingress {
    alignas(line) uint32_t tail = 0;       // writers: next ticket
    alignas(line) uint32_t head = 0;       // monitor -> writers: letters that are taken
    alignas(line) Letter* slots = nullptr; // [mask + 1]; these do not change
    Group* groups = nullptr;
    Board* board = nullptr;
    uint32_t mask = 0;
    uint32_t reserved = 0;
};

// What a worker counts.
enum class Count : uint32_t {
    run = 0, // tasks
    batches,
    steals, // batches that were stolen
    stolen, // tasks in them
    crates, // taken from the shelves
    letters,
    spilled, // tasks put on the shelves
    joins,   // continuations that became runnable here
    looks,   // for work elsewhere
};
inline constexpr uint32_t counts = 9;

// What a worker has done. Only the worker writes it: when it finds nothing to do, and when it
// leaves.
struct alignas(line) Tally {
    uint64_t count[counts] = {};
};

// An index queue's memory.
struct Indices {
    IndexWords* words = nullptr;
    uint64_t* cells = nullptr;
    uint32_t mask = 0;  // places - 1
    uint32_t shift = 1; // places, as a power of two: at least 1
};

// The kernel's argument.
struct Shared {
    uint32_t workers = 0;
    uint32_t per_block = 1;
    uint32_t classes = 1;
    uint32_t slot = 64; // bytes
    uint32_t deque_mask = 0;
    uint32_t port_mask = 0;
    uint32_t crates = 0; // that there can be
    uint32_t joins = 0;
    uint32_t answers = 0;
    uint32_t join_cache = 0; // free joins that a worker keeps at most
    uint64_t host_timeout_ns = 0;
    BreathRef breath;               // see device/detail/breath.hpp
    uint32_t incarnation = 0;       // the launch's number, from 1 on
    uint32_t successor = 0;         // 1: it goes on where the one before it in the stream has ended
    Deques* deques = nullptr;       // [workers]
    unsigned char* slots = nullptr; // [workers][classes][deque_mask + 1][slot]
    Mailbox* mailboxes = nullptr;   // [workers]
    ArenaRef arena;                 // for spilled tasks, and for what tasks allocate
    unsigned char* kept = nullptr;  // [kept_crates][crate_bytes]
    Indices free_kept;              //
    Indices shelf[max_classes];     // crates with tasks in them, by class
    Join* join = nullptr;           // [joins]; 0 is never used
    Indices free_joins;             //
    Indices stranded;               // joins whose task found no room when it became runnable
    Group* groups = nullptr;        // [max_groups]
    Letter* port = nullptr;         // [port_mask + 1], written by the host
    Ingress* ingress = nullptr;     //
    Answer* answer = nullptr;       // [answers], host memory
    Board* board = nullptr;         //
    Tally* tally = nullptr;         // [workers]
    Control* control = nullptr;     // host memory
};

// What the host must know of a compiled program.
struct Table {
    uint32_t types = 0;
    uint32_t classes = 0;
    uint32_t slot = 64;
    uint32_t blocks = 0; // 1: some type wants a block
    uint32_t class_of[max_types] = {};
    uint32_t size[max_types] = {};
};

} // namespace denizen::task
