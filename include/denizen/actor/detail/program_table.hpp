// SPDX-License-Identifier: Apache-2.0
// What a compiled program says of itself: its actors, its messages, and which actor takes which
// message. The host reads it before it lays out memory; in a cubin it is a global of that name.
#pragma once

#include <denizen/actor/detail/grain.hpp>

namespace denizen {

inline constexpr uint32_t max_actor_types = 64;
inline constexpr uint32_t max_message_types = 128;
inline constexpr uint32_t max_task_types = 64;
inline constexpr uint32_t max_task_bytes = 40;
inline constexpr uint32_t no_type = ~0u;

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

struct TaskInfo {
    uint32_t size;
    uint32_t align;
    uint32_t grain;
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
    uint32_t tasks;
    uint32_t task_failed; // number of the message type TaskFailed, or no_type
    // Threads of a worker's block, if some actor or task takes a whole one; else 0.
    uint32_t block_threads;
    uint32_t reserved;
    TaskInfo task[max_task_types];
    uint64_t handles[max_actor_types][max_message_types / 64]; // bit m: actor has a handler for m

    bool can_handle(uint32_t a, uint32_t m) const
    {
        return (handles[a][m / 64] >> m % 64 & 1) != 0;
    }
};

} // namespace denizen
