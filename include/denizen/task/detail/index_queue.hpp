// SPDX-License-Identifier: Apache-2.0
// A first-in first-out queue of 32-bit indices, for any number of threads at both ends. Each index
// exists once and the queue has a place for each, so a push always has room. Free lists and the
// shelves of spilled tasks are such queues.
//
// A place holds index | state << 32, read and written in one access of 8 bytes; its state is 2 L
// when it is free for lap L of the ring and 2 L + 1 when it holds that lap's index. A push draws a
// ticket, waits until its place is free, writes, and adds to `count`. A pop subtracts from `count`
// first, and draws a ticket if there was something. Both use additions only: of thousands of
// threads that retry a compare-exchange, one succeeds per round trip to L2 (4 M/s on an H100).
//
// Hazard: a pop that finds nothing adds back what it subtracted, and until then `count` is too low.
// So a pop that overlaps another pop, or a push, may find nothing although something is there.
#pragma once

#include <denizen/task/detail/layout.hpp>

#include <denizen/base/lanes.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen::task {

namespace index_queue {

namespace detail {

DENIZEN_HD inline uint32_t state(const Indices& q, uint32_t lap, uint32_t full)
{
    return (lap << 1 & (0xffffffffu >> (q.shift - 1))) | full; // laps count modulo 2^(32 - shift)
}

DENIZEN_HD inline void put(const Indices& q, uint32_t ticket, uint32_t index)
{
    uint64_t* cell = &q.cells[ticket & q.mask];
    const uint32_t lap = ticket >> q.shift;
    Backoff wait;
    while (static_cast<uint32_t>(load<Scope::gpu>(cell) >> 32) != state(q, lap, 0)) {
        wait.pause(); // ends: who drew this place a lap ago has its index counted and will read it
    }
    // Release: partner of the acquire in get(); what the index names has been written.
    store<Scope::gpu, Order::release>(cell, static_cast<uint64_t>(state(q, lap, 1)) << 32 | index);
}

DENIZEN_HD inline uint32_t get(const Indices& q, uint32_t ticket)
{
    uint64_t* cell = &q.cells[ticket & q.mask];
    const uint32_t lap = ticket >> q.shift;
    Backoff wait;
    for (;; wait.pause()) {
        // Ends: `count` said that some push has written; who drew this ticket is about to.
        const uint64_t found = load<Scope::gpu>(cell);
        if (static_cast<uint32_t>(found >> 32) == state(q, lap, 1)) {
            // Acquire: partner of the release in put().
            load<Scope::gpu, Order::acquire>(cell);
            store<Scope::gpu>(cell, static_cast<uint64_t>(state(q, lap + 1, 0)) << 32);
            return static_cast<uint32_t>(found);
        }
    }
}

// Takes up to n off the count; returns how many.
DENIZEN_HD inline uint32_t admit(const Indices& q, uint32_t n)
{
    const auto before = static_cast<int32_t>(fetch_add<Scope::gpu>(&q.words->count, ~n + 1));
    const uint32_t there = before < 0 ? 0 : static_cast<uint32_t>(before);
    if (there >= n) {
        return n;
    }
    fetch_add<Scope::gpu>(&q.words->count, n - there);
    return there;
}

} // namespace detail

// Whether it has something; a hint.
DENIZEN_HD inline bool something(const Indices& q)
{
    return static_cast<int32_t>(load<Scope::gpu>(&q.words->count)) > 0;
}

// One thread.
DENIZEN_HD inline void push(const Indices& q, uint32_t index)
{
    detail::put(q, fetch_add<Scope::gpu>(&q.words->tail, 1u), index);
    fetch_add<Scope::gpu>(&q.words->count, 1u);
}

// Called by all lanes; each lane below n pushes its index.
DENIZEN_HD inline void push_many(const Indices& q, uint32_t n, uint32_t index)
{
    uint32_t first = 0;
    if (lanes::id() == 0) {
        first = fetch_add<Scope::gpu>(&q.words->tail, n);
    }
    first = lanes::shuffle(first, 0);
    if (lanes::id() < n) {
        detail::put(q, first + lanes::id(), index);
    }
    lanes::sync();
    if (lanes::id() == 0) {
        fetch_add<Scope::gpu>(&q.words->count, n);
    }
}

// One thread. False if there was nothing.
DENIZEN_HD inline bool pop(const Indices& q, uint32_t& index)
{
    while (something(q)) { // ends: another thread has taken what there was, or this one does
        if (detail::admit(q, 1) != 0) {
            index = detail::get(q, fetch_add<Scope::gpu>(&q.words->head, 1u));
            return true;
        }
    }
    return false;
}

// Called by all lanes. Pops up to n <= lanes::size indices; lane i gets number i of them. Returns
// how many were popped.
DENIZEN_HD inline uint32_t pop_many(const Indices& q, uint32_t n, uint32_t& index)
{
    uint32_t got = 0;
    uint32_t first = 0;
    if (lanes::id() == 0) {
        got = detail::admit(q, n);
        if (got != 0) {
            first = fetch_add<Scope::gpu>(&q.words->head, got);
        }
    }
    got = lanes::shuffle(got, 0);
    first = lanes::shuffle(first, 0);
    if (lanes::id() < got) {
        index = detail::get(q, first + lanes::id());
    }
    lanes::sync();
    return got;
}

} // namespace index_queue

} // namespace denizen::task
