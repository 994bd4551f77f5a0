// SPDX-License-Identifier: Apache-2.0
// Message flags, and the messages of the runtime itself: what the host, a supervisor or another
// worker asks a worker to do with one of its actors. serve_system.hpp serves them.
#pragma once

#include <denizen/wire/slot.hpp>

namespace denizen {

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
    aim_text,
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

} // namespace denizen
