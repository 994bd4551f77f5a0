// SPDX-License-Identifier: Apache-2.0
// How many threads run a handler of an actor, or a task of a program of actors: its grain, as its
// type declares it.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

// One thread, all 32 lanes of a warp at once, or all threads of a block.
enum class Grain : uint32_t { thread = 0, warp = 1, block = 2 };

inline constexpr uint32_t default_block_threads = 256;
inline constexpr uint32_t max_block_threads = 512; // each still has 96 registers

namespace detail {

template <class A>
DENIZEN_HD constexpr Grain grain_of()
{
    if constexpr (requires { A::grain; }) {
        return A::grain;
    } else {
        return Grain::thread;
    }
}

// Threads of the block that it takes, as it says; 0: it says nothing.
template <class A>
DENIZEN_HD constexpr uint32_t block_threads_of()
{
    if constexpr (requires { *&A::block_threads; }) {
        static_assert(grain_of<A>() == Grain::block,
                      "`block_threads` is said by actors and tasks with `grain = Grain::block`");
        static_assert(A::block_threads % 32 == 0 && A::block_threads >= 64 &&
                          A::block_threads <= max_block_threads,
                      "`block_threads` is a multiple of 32, from 64 to 512");
        return A::block_threads;
    } else {
        return 0;
    }
}

// The largest of what is said, or what there is where nobody says anything.
template <uint32_t... said>
DENIZEN_HD constexpr uint32_t threads_of_block()
{
    uint32_t most = 0;
    const uint32_t all[] = {said..., 0};
    for (const uint32_t one : all) {
        most = one > most ? one : most;
    }
    return most != 0 ? most : default_block_threads;
}

} // namespace detail

} // namespace denizen
