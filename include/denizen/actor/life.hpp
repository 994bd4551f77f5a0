// SPDX-License-Identifier: Apache-2.0
// The life of an actor: its states, its record, and the messages that tell of it. Every message
// looks at the sixteen bytes of an ActorEntry; what is rarely needed is in the record. Actors go
// from state to state in detail/lives.hpp; the host's calls are in src/actor/life.cpp.
//
//   created -> running <-> paused           messages wait in order while an actor does not run
//              running  -> failed -> running again by its supervisor or the host (a restart)
//              running  -> draining -> stopped: what had been sent before is handled, then no more
//              any      -> stopped           later messages are dead letters
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

// 0 is the one that a message's path looks for (ActorEntry::running()).
enum class Life : uint32_t {
    running = 0,
    created,     // has its state and waits to be resumed for the first time
    paused,      // messages wait
    draining,    // handles what was sent before, then stops
    stopped,     // its messages are dead letters
    failed,      // messages wait for its supervisor; without one they are dead letters
    catching_up, // runs, and has messages that waited: new ones go behind them
    moving,      // its state is on its way to another worker: messages wait
    moved        // it is elsewhere: messages go on to there
};

DENIZEN_HD inline const char* to_string(Life life)
{
    switch (life) {
    case Life::running:
    case Life::catching_up: return "running";
    case Life::created: return "created";
    case Life::paused: return "paused";
    case Life::draining: return "draining";
    case Life::stopped: return "stopped";
    case Life::failed: return "failed";
    case Life::moving: return "moving";
    case Life::moved: return "moved";
    }
    return "unknown";
}

// Failure codes of the runtime's own; a handler's ctx.fail() may use all others.
inline constexpr uint32_t failed_deadline = 0xffffffff;  // longer than the actor's deadline_ns
inline constexpr uint32_t failed_invariant = 0xfffffffe; // invariant() was false after the handler
inline constexpr uint32_t failed_above = 0xfffffffd;     // its supervisor has failed
inline constexpr uint32_t failed_host = 0xfffffffc;      // its host was lost (docs/scale.md)

// What a supervisor does when one of its children has failed.
enum class Strategy : uint32_t {
    one_for_one = 0, // restarts the child
    one_for_all,     // restarts all children
    rest_for_one,    // restarts the child and those behind it in the list
    resume,          // the child goes on with the state it has
    stop,            // the child stops
    escalate         // the supervisor fails too, towards its own supervisor
};

// Where a restarted actor's state comes from: `static constexpr auto restart_from` of its type.
enum class RestartFrom : uint32_t {
    initial = 0, // default construction
    snapshot     // the last ctx.checkpoint() or Runtime::checkpoint(), if there was one
};

// In place of a message type in an ErrorRecord.
inline constexpr uint32_t watch_table_full = 0xfffffff0;
inline constexpr uint32_t supervisor_gave_up = 0xfffffff1;
inline constexpr uint32_t misdirected_order = 0xfffffff2;
inline constexpr uint32_t topic_table_full = 0xfffffff3;

// Sent to those who watch an actor when it stops, fails (life says so), or has been restarted
// (life is running). A program that watches lists it among its Messages.
struct Down {
    uint32_t actor;
    uint32_t life;
    uint32_t code; // of the last failure, 0 if there was none
    uint32_t incarnation;
};

inline constexpr uint32_t nobody = ~0u; // no address: no supervisor

inline constexpr uint32_t last_failed = ~0u; // ActorRecord::next_failed of the last in its list

// What is known of an actor besides its ActorEntry, for the cases that are rare. Only its worker
// touches it, but for `drop`, to which senders add.
struct alignas(64) ActorRecord {
    uint32_t life = 0;        // Life; ActorEntry::kind says the same while the actor is not stopped
    uint32_t incarnation = 0; // 1 at spawn, one more with each restart; 0: never spawned
    uint32_t failure = 0;     // code of the last failure
    uint32_t supervisor = ~0u;  // address, or nobody
    uint32_t rank = 0;          // its place in the supervisor's list
    uint32_t epoch = 0;         // number of the supervisor's last order to it
    uint32_t stashed = 0;       // messages that wait for it
    uint32_t first_stashed = 0; // 1 + slot of the first of them in the worker's store
    uint32_t last_stashed = 0;
    // The list of failures that nobody has been told of: 0 if not in it, else 1 + local of the
    // next, or last_failed.
    uint32_t next_failed = 0;
    uint32_t next_ready = 0; // 1 + local: the list of those catching up
    uint32_t listed = 0;     // is in that list
    uint32_t watchers = 0;   // 1 + first entry in the worker's table of watches
    uint32_t ending = 0;     // the drain's end has been reached: its reply cell, or 1; else 0
    uint32_t drop = 0;       // senders' count of messages to drop, peers' too
    // Where it has moved to, an address; while it leaves, see move.hpp.
    uint32_t forward = 0;
};

static_assert(sizeof(ActorRecord) == 64);

} // namespace denizen
