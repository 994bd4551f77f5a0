// SPDX-License-Identifier: Apache-2.0
// The threads that search a graph together: one block of a kernel, all blocks of a resident one, or
// threads of the host. The searches (narrow.hpp, wide.hpp, near_far.hpp) are one text over these.
// On the GPU the threads of a warp are the lanes of base/lanes.hpp; on the CPU a warp is a thread.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
#include <denizen/base/interrupt.hpp>
#include <denizen/wire/wait.hpp>
#endif

namespace denizen::graph {

// On the host also when the search is interrupted, as a deadline that has passed.
DENIZEN_HD inline bool past(uint64_t deadline)
{
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
    if (denizen::detail::interrupted()) return true;
#endif
    return now_ns() > deadline;
}

// Items between two looks at whether a loop is to be left (leaves()).
inline constexpr uint32_t items_per_look = 4096;

// The word all members of a team meet at. Zero at the start.
struct alignas(line) Meeting {
    uint32_t arrived;
    alignas(line) uint32_t late; // the deadline has passed: everybody leaves
    alignas(line) uint32_t bell; // CPU: for threads that sleep
    uint32_t sleeping;
};

// Threads of one block. On the CPU: one thread, which is the whole team.
struct Block {
#if DENIZEN_ON_DEVICE
    __device__ uint32_t rank() const { return threadIdx.x; }
    __device__ uint32_t size() const { return blockDim.x; }
    __device__ void sync() { __syncthreads(); }
#else
    DENIZEN_HD uint32_t rank() const { return 0; }
    DENIZEN_HD uint32_t size() const { return 1; }
    DENIZEN_HD void sync() {}
#endif
    // CPU: whether the search was interrupted.
    DENIZEN_HD static bool late()
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        return denizen::detail::interrupt_pending();
#else
        return false;
#endif
    }

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
    static bool interrupted() { return denizen::detail::interrupted(); }
#endif
};

// All threads of a kernel whose blocks all run at the same time, or `members` threads of the host.
struct Grid {
    Meeting* meeting;
    uint32_t member;  // block of the grid, thread of the host
    uint32_t members; // how many
    uint64_t deadline;
    uint32_t round = 0;

#if DENIZEN_ON_DEVICE
    __device__ uint32_t rank() const { return blockIdx.x * blockDim.x + threadIdx.x; }
    __device__ uint32_t size() const { return gridDim.x * blockDim.x; }
    __device__ static void sync_member() { __syncthreads(); }
    __device__ static bool first_of_member() { return threadIdx.x == 0; }
#else
    DENIZEN_HD uint32_t rank() const { return member; }
    DENIZEN_HD uint32_t size() const { return members; }
    DENIZEN_HD static void sync_member() {}
    DENIZEN_HD static bool first_of_member() { return true; }
#endif

    // Whether everybody has come to this barrier.
    DENIZEN_HD bool complete() const
    {
        return static_cast<int32_t>(load<Scope::gpu>(&meeting->arrived) - round * members) >= 0;
    }

    DENIZEN_HD bool late() const { return load<Scope::gpu>(&meeting->late) != 0; }

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
    // Whether any member was; the others are told.
    bool interrupted() const
    {
        if (denizen::detail::interrupted()) store<Scope::gpu>(&meeting->late, 1u);
        return late();
    }
#endif

    // What any thread wrote before is seen by every thread after.
    DENIZEN_HD void sync()
    {
        ++round;
        sync_member();
        if (first_of_member()) {
            // Release: partner of the acquire below, in every other member.
            const uint32_t before = fetch_add<Scope::gpu, Order::acq_rel>(&meeting->arrived, 1u);
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
            (void)interrupted();
            if (before + 1 == round * members && members > 1) {
                ring_bell(&meeting->bell, &meeting->sleeping);
            }
#else
            (void)before;
#endif
            uint32_t looks = 0;
            // Ends with the last member's arrival, or at the deadline.
            while (!complete()) {
                if (++looks % 1024 == 0 && past(deadline)) {
                    store<Scope::gpu>(&meeting->late, 1u);
                    break;
                }
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
                if (looks % 256 == 0) { // there may be fewer cores than members
                    if (late()) break;  // one was interrupted, and will not come
                    sleep_on_bell(&meeting->bell, &meeting->sleeping, 1'000'000,
                                  [this] { return complete(); });
                }
#endif
            }
            (void)load<Scope::gpu, Order::acquire>(&meeting->arrived);
        }
        sync_member();
    }
};

// For a loop of item `i`, whose step is the size of the team. On the host it is left when the
// search is interrupted, which is looked at every so many items; on a GPU none takes that long.
template <class Team>
DENIZEN_HD bool leaves(const Team& team, uint32_t i)
{
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
    return i % items_per_look < team.size() && team.interrupted();
#else
    (void)team;
    (void)i;
    return false;
#endif
}

} // namespace denizen::graph
