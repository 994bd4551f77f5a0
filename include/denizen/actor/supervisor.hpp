// SPDX-License-Identifier: Apache-2.0
// A supervisor: an actor of a built-in type whose state is a list of children and what to do when
// one of them fails. Its worker decides here, on the device; Runtime::supervise() makes one.
//
// A child may be a supervisor itself: what is done to a supervisor is done to its children. One
// that escalates fails: its children are suspended and its own supervisor decides; if it has none,
// its children are stopped and the failure is an error of the program.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/life.hpp>

namespace denizen {

inline constexpr uint32_t supervisor_type = 0xfe; // beside max_actor_types of the program's own
inline constexpr uint32_t max_restart_budget = 4096;
inline constexpr uint32_t unlimited_restarts = ~0u;

DENIZEN_HD constexpr uint32_t times_kept(uint32_t max_restarts)
{
    return max_restarts == unlimited_restarts ? 0 : max_restarts;
}

// On the wire: makes a supervisor.
struct SuperviseRequest {
    uint32_t local;
    uint32_t children;
    uint64_t offset; // of its state in the heap
    uint64_t window_ns;
    uint32_t strategy; // Strategy
    uint32_t max_restarts;
};

// Tells it some of its children.
struct AdoptRequest {
    uint32_t local;
    uint32_t rank_and_count; // rank of the first | number << 28
    uint32_t child[7];
};

static_assert(sizeof(SuperviseRequest) <= 36 && sizeof(AdoptRequest) <= 36);

namespace detail {

struct Child {
    uint32_t address = 0;
    // Number of the last order to it. A report of a failure from before that order is late: the
    // child is being restarted already.
    uint32_t epoch = 0;
};

// In the heap: this, then the times of the last max_restarts restarts, then the children.
struct alignas(16) Supervisor {
    uint32_t strategy = 0;
    uint32_t children = 0;
    uint32_t max_restarts = 0; // in the window, or unlimited_restarts
    uint32_t listed = 0;       // is in its worker's list of those that are giving orders
    uint64_t window_ns = 0;
    uint64_t restarts = 0; // ever
    // The orders it is giving: to the children from `next` to `end`. A few at a time, so that a
    // supervisor of many does not flood the rings.
    uint32_t order = 0; // SystemOp
    uint32_t next = 0;
    uint32_t end = 0;
    uint32_t link = 0; // 1 + local: the next in that list

    DENIZEN_HD uint64_t* times() { return reinterpret_cast<uint64_t*>(this + 1); }
    DENIZEN_HD Child* child()
    {
        return reinterpret_cast<Child*>(times() + times_kept(max_restarts));
    }
};

static_assert(sizeof(Supervisor) == 48);

constexpr uint64_t supervisor_bytes(uint32_t children, uint32_t max_restarts)
{
    return sizeof(Supervisor) + sizeof(uint64_t) * times_kept(max_restarts) +
           sizeof(Child) * children;
}

// Whether one more restart is within the budget: not more than max_restarts in the window. Notes it
// if so.
DENIZEN_HD inline bool spend(Supervisor& sup, uint64_t now)
{
    if (sup.max_restarts == 0 || sup.max_restarts == unlimited_restarts) {
        return sup.max_restarts != 0;
    }
    // The place of the restart that was max_restarts ago.
    uint64_t& oldest = sup.times()[sup.restarts % sup.max_restarts];
    if (sup.restarts >= sup.max_restarts && now - oldest <= sup.window_ns) {
        return false;
    }
    oldest = now;
    ++sup.restarts;
    return true;
}

} // namespace detail

} // namespace denizen
