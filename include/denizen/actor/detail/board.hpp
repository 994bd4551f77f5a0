// SPDX-License-Identifier: Apache-2.0
// What workers, monitor and host tell each other besides messages: states, counts, commands,
// errors. Each word has one writing side. A worker writes its Status; the monitor writes Board's
// command, the Reports and Control's report half; the host writes Control's command half.
#pragma once

#include <denizen/actor/detail/rings.hpp>
#include <denizen/device/detail/resident.hpp>

namespace denizen {

// What a worker tells the monitor. Device memory; the worker is the only writer.
//
// `done` and the near words are told when a worker has nothing to do or leaves, and in this order:
// near_tail, a fence, near_head and done. So a position past a message is never seen before the
// tails of what its handler sent: the monitor's quiet check rests on that.
struct alignas(line) Status {
    uint64_t handled = 0;
    uint32_t turn = 0; // odd while handlers run; changes with every batch
    uint32_t mode = 0;
    uint32_t outbox = 0;      // parked sends
    uint32_t outbox_lock = 0; // held by the lane that writes parked messages during a handler
    uint32_t for_host = 0;    // 1: some of the parked sends are for the host
    uint32_t actors = 0;      // entries in use
    uint32_t outbox_next = 0; // in a full outbox: where to look for a free entry first
    uint64_t dead_letters = 0;
    uint32_t done[source_words] = {}; // per ring: tickets whose messages have been handled
    alignas(16) uint32_t near_tail[max_near] = {}; // per near worker: messages' slots sent to it
    uint32_t near_head[max_near] = {}; // per near worker: slots from it that have been handled
    // Per lane: destination | (message type + 1) << 32 while its handler runs, then 0.
    uint64_t running[32] = {};
    uint64_t sent[8] = {}; // messages by Route
    uint64_t dead_by_reason[8] = {};
    uint32_t stashed = 0;  // messages that wait for actors that do not run
    uint32_t withheld = 0; // on a CPU: how often a send does not offer its core (wait.hpp)
    uint32_t tasks = 0;    // run; told as the positions are
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
    uint32_t egress_credit = 0;           // the host's, as a worker last read it
    alignas(line) uint32_t dead_tail = 0; // dead letters
    alignas(line) FirstError first;
    FirstError fatal; // why a worker stopped the program
    // Each failure adds to it, and reads `first`: of one line, each reading would wait for the
    // additions that came before it.
    alignas(line) uint64_t errors = 0;
    alignas(line) Breath breath;
    uint32_t positions = 0;     // Checked::positions, as last before the breath was over,
    uint64_t worked_at = 0;     // and when that changed;
    uint64_t scanned_at = 0;    // when its last scan was over,
    uint64_t scan_took = 0;     // and how long that took
    uint32_t left_for_good = 0; // all workers have left: a successor has nothing to do
};

// Host memory that both sides reach.
struct Control : ResidentWords {
    alignas(line) uint32_t observe = 0; // host -> monitor, which passes it on to the board,
    uint64_t clock_shift = 0;           // and this
    uint32_t asked = 0;                 // host -> monitor: how often a scan has been asked for,
    uint32_t check_asked = 0;           // and a check alone of whether the program is quiet
    alignas(line) uint32_t scan = 0;    // monitor -> host: `asked`, before the last whole scan,
    uint32_t check = 0;                 // and `check_asked`, before the last check
    // What that check found, in one word: 1 if no message was between or in workers, and << 32 how
    // many slots of the host's rings had been handled.
    uint64_t quiet = 0;
    uint32_t positions = 0;             // Checked::positions,
    uint32_t peer_sent[max_nodes] = {}; // slots sent to each other node,
    uint32_t peer_done[max_nodes] = {}; // and those from it that had been handled
    uint64_t device_ns = 0;             // while tracing: the device's now_ns()
    uint64_t errors = 0;
    FirstError first;
    FirstError fatal;
};

// What the monitor remembers of a worker. Device memory.
struct Watch {
    // In a check: of the slots that this worker has sent to each near one, those handled.
    alignas(line) uint32_t near_head[max_near] = {};
    uint32_t turn = 0;
    uint64_t since = 0; // when `turn` was first seen in a scan
    Report told;        // what the host has been told
};

} // namespace denizen
