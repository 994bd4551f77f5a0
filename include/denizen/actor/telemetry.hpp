// SPDX-License-Identifier: Apache-2.0
// What a running program tells of itself: AnyRuntime::telemetry(). Host only. Read without stopping
// the program, word by word while it goes on, so figures of different words may be some
// microseconds apart. Nothing in it goes down except depths and times.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/detail/trace.hpp>

#include <array>
#include <string>
#include <vector>

namespace denizen {

// How long handlers took, or messages to them, from when the program was first observed.
struct Durations {
    uint64_t count = 0;
    uint64_t sum_ns = 0;
    // By bucket_of() (actor/detail/telemetry.hpp).
    std::vector<uint64_t> buckets;

    // The time in ns that a part q of them (0 to 1) did not exceed; 1: the longest. Off by
    // at most 12.5 %. 0 if there are none.
    double quantile(double q) const;
};

struct WorkerTelemetry {
    Address place; // its node() and worker()
    Mode mode = Mode::starting;
    uint32_t actors = 0;      // places in use
    uint64_t handled = 0;     // messages
    uint64_t batches = 0;     // rounds with messages handled, while observed
    uint64_t idle_rounds = 0; // rounds that found none, while observed
    uint64_t dead_letters = 0;
    // Queues, in 64-byte slots: at most a quarter of the ring more than there are.
    uint32_t host_ring = 0; // from the host
    uint32_t inbox = 0;     // from workers of the node
    uint32_t near = 0;      // from near ones and itself, as told in their last looks while observed
    uint32_t outbox = 0;    // messages that found no room
    // Messages by Route, as told in its last look while observed, else when it was last idle.
    std::array<uint64_t, routes> sent{};
    // The handler that runs now, if any.
    uint64_t busy_ns = 0; // 0: none
    Address busy_actor;
    uint32_t busy_message = no_type;
};

struct ActorTypeTelemetry {
    std::string name;
    uint64_t live = 0;    // actors spawned and not stopped
    uint64_t handled = 0; // handlers run; a broadcast counts once for each actor
    Durations durations;
    // From a send to its handler, of samples: of what actors sent to actors of their node while
    // observed, one message of each worker now and then.
    Durations latencies;
};

// The slowest handler of a worker since observe(true) was last called.
struct SlowHandlerTelemetry {
    Address actor;
    std::string type; // the actor's
    std::string message;
    uint64_t ns = 0;
};

struct Telemetry {
    uint64_t host_ns = 0;   // now_ns() of the host
    uint64_t device_ns = 0; // of the (first) device; on a GPU 0 until it has been observed
    bool observed = false;
    Mode mode = Mode::starting;
    uint64_t handled = 0;
    uint64_t dead_letters = 0;
    uint64_t errors = 0;
    uint64_t launches = 0;
    // Of actors that handlers spawn, and of what they send later.
    uint64_t spawned = 0;
    uint64_t not_spawned = 0; // for want of a place: spawn_room
    uint64_t timers = 0;      // to fire
    uint64_t timers_fired = 0;
    uint64_t timers_refused = 0; // for want of room: timer_slots
    uint64_t tasks = 0;          // that handlers spawn: run
    uint64_t tasks_refused = 0;  // for want of room: task_slots
    uint64_t tasks_failed = 0;
    std::array<uint64_t, routes> sent{};
    std::vector<WorkerTelemetry> workers; // of node 0, then of node 1, ...
    std::vector<ActorTypeTelemetry> actor_types;
    std::vector<SlowHandlerTelemetry> slowest; // of each worker that has one, slowest first
};

// AnyRuntime::take_trace(). A send and the handling of its message have the same stamp, and the
// address of the sender. A stamp is greater than all that its sender had received or drawn before;
// stamps of one node, and of the host, are distinct.
struct Trace {
    std::vector<TraceRecord> records; // worker by worker; start_ns: the host's now_ns()
    uint64_t overwritten = 0;         // records that were lost: the rings were full
};

} // namespace denizen
