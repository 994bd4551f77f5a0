// SPDX-License-Identifier: Apache-2.0
// The tasks that handlers have spawned and no worker has taken yet: one queue for a node, in its
// device memory. Any worker puts tasks in and takes them out, so work goes to whoever has time. It
// is D. Vyukov's bounded MPMC queue. Of capacity C, ticket t has place t % C in lap t / C, and the
// sequence of the place's packets says how it stands:
//   2 * lap       free for that ticket: so memory of zeros is an empty queue
//   2 * lap + 1   holds its task
//   2 * lap + 2   taken, and free for the next lap
//
// How a drain learns that no task is left: a handler draws a task's ticket before it returns, and a
// worker tells how many tasks it has run after the tails of what they sent (Worker::tell). The
// monitor reads the told numbers first and the tail afterwards (check_quiet()).
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

// Where a node's queue of tasks stands. Device memory.
struct PoolWords {
    alignas(line) uint64_t tail = 0; // the next ticket to write
    alignas(line) uint64_t head = 0; // the next ticket to run
};

namespace detail {

inline constexpr uint32_t task_words = 10; // that a task's fields have room in

// What was taken: who asked for it, its type, its fields.
struct TakenTask {
    uint32_t asker;
    uint32_t type;
    uint32_t word[task_words];
};

namespace pool {

DENIZEN_HD inline Slot& place(const Shared& s, uint64_t ticket)
{
    return s.tasks[ticket & s.task_mask];
}
// The sequence of a place that is free for this ticket. One more: it holds the ticket's task.
DENIZEN_HD inline uint32_t free_for(const Shared& s, uint64_t ticket)
{
    return 2 * static_cast<uint32_t>(ticket >> s.task_shift);
}

// Whether there is anything to take.
DENIZEN_HD inline bool waits(const Shared& s)
{
    return load<Scope::gpu>(&s.pool->head) != load<Scope::gpu>(&s.pool->tail);
}

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
// Wakes sleeping workers. Who puts a task in is awake and would come to it, but late.
inline void wake(const Shared& s, uint64_t ticket)
{
    constexpr uint32_t most = 4; // more of them are woken by more tasks
    const auto first = static_cast<uint32_t>(ticket % s.workers);
    for (uint32_t i = 0; i < most && i < s.workers; ++i) {
        Bell& bell = s.bells[(first + i) % s.workers];
        ring_bell(&bell.bell, &bell.sleeping);
    }
}
#endif

// By one lane. False: there is no room, which is counted.
DENIZEN_COLD inline bool put(const Shared& s, uint32_t id, const TakenTask& task)
{
    uint64_t* tail = &s.pool->tail;
    uint64_t ticket = load<Scope::gpu>(tail);
    for (;;) { // ends: each failure means that another has got its ticket
        // On the host an acquire, partner of the release in take().
        const Packet there = load_packet<Scope::gpu>(&place(s, ticket).packet[0]);
        if (there.sequence != free_for(s, ticket)) {
            const uint64_t latest = load<Scope::gpu>(tail);
            if (latest == ticket) {
                bump(&s.counters[id].tasks_refused, 1);
                return false;
            }
            ticket = latest;
        } else if (compare_exchange<Scope::gpu>(tail, ticket, ticket + 1)) {
            break;
        }
    }
    Slot& slot = place(s, ticket);
    const uint32_t sequence = free_for(s, ticket) + 1;
    DENIZEN_UNROLL
    for (uint32_t p = 1; p < 4; ++p) {
        const uint32_t* w = task.word + 3 * p - 2;
        store_packet<Scope::gpu>(&slot.packet[p], {{w[0], w[1], w[2]}, sequence});
    }
    store_packet<Scope::gpu>(&slot.packet[0], {{task.asker, task.type, task.word[0]}, sequence});
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
    wake(s, ticket);
#endif
    return true;
}

// Takes the oldest tasks, one for each of the first lanes, and no more than this worker's share of
// what there is: the others may be long. Returns how many. Called by all lanes.
DENIZEN_HD inline uint32_t take(const Shared& s, TakenTask& task)
{
    uint64_t head = lanes::shuffle(load<Scope::gpu>(&s.pool->head), 0);
    const uint64_t tail = lanes::shuffle(load<Scope::gpu>(&s.pool->tail), 0);
    const uint64_t share = (tail - head + s.workers - 1) / s.workers;
    const uint64_t ticket = head + lanes::id();
    Slot& slot = place(s, ticket);
    const uint32_t sequence = free_for(s, ticket) + 1;
    const Packet first = load_packet<Scope::gpu>(&slot.packet[0]);
    // As far as they are written without a gap.
    const bool there = first.sequence == sequence && lanes::id() < share;
    const uint32_t n = lanes::first(~lanes::ballot(there));
    if (n == 0) {
        return 0;
    }
    bool won = false;
    if (lanes::id() == 0) {
        won = compare_exchange<Scope::gpu>(&s.pool->head, head, head + n);
    }
    if (!lanes::shuffle(won, 0)) {
        return 0; // another worker has taken some of them
    }
    if (lanes::id() < n) {
        task.asker = first.word[0];
        task.type = first.word[1];
        task.word[0] = first.word[2];
        DENIZEN_UNROLL
        for (uint32_t p = 1; p < 4; ++p) {
            Packet next = load_packet<Scope::gpu>(&slot.packet[p]);
            while (next.sequence != sequence) { // ends: who wrote the first packet writes this one
                next = load_packet<Scope::gpu>(&slot.packet[p]);
            }
            for (uint32_t i = 0; i < 3; ++i) {
                task.word[3 * p - 2 + i] = next.word[i];
            }
        }
        // On the host a release, partner of the acquire in put().
        store_packet<Scope::gpu>(&slot.packet[0], {{0, 0, 0}, sequence + 1});
    }
    lanes::sync();
    return n;
}

} // namespace pool

} // namespace detail

} // namespace denizen
