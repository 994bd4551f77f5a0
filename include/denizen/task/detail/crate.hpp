// SPDX-License-Identifier: Apache-2.0
// Crates: what carries tasks that no deque has room for, and those of the host. A crate is a block
// of the runtime's arena with room for 32 tasks of one class, so spilled tasks take memory only
// while they are there: whoever fills it allocates it, puts it on its class's shelf, and whoever
// takes it from there gives it back. Called by context.hpp and monitor.hpp, which fill crates, and
// by sources.hpp, which empties them.
//
// What a spawner may be refused comes out of the arena alone. What was accepted already, the host's
// tasks and those that a worker has to put aside, may also have one of a few crates that are kept
// outside of it: else an arena full of the tasks' own blocks would hold up the very tasks that
// give them back.
#pragma once

#include <denizen/task/detail/index_queue.hpp>

namespace denizen::task::crate {

inline constexpr uint32_t none = ~0u;

// Where crate `number` lies: those that are kept come first, then the arena's blocks of their size.
DENIZEN_HD inline unsigned char* at(const Shared& s, uint32_t number)
{
    const uint64_t bytes = crate_bytes(s.slot);
    return number < kept_crates ? s.kept + number * bytes
                                : s.arena.map()->base + (number - kept_crates) * bytes;
}

DENIZEN_HD inline unsigned char* slot_in(unsigned char* crate, uint32_t i, uint32_t bytes)
{
    return crate + i * bytes;
}

// One thread, or lanes that diverge, each its own. `accepted`: nobody can be told that there is no
// room. `none` if there is none.
DENIZEN_COLD inline uint32_t take(const Shared& s, bool accepted)
{
    const uint64_t bytes = crate_bytes(s.slot);
    if (void* const block = s.arena.allocate(bytes)) {
        // Aligned to its size, and so is the arena: it has a number.
        const auto offset =
            static_cast<uint64_t>(static_cast<unsigned char*>(block) - s.arena.map()->base);
        return kept_crates + static_cast<uint32_t>(offset / bytes);
    }
    uint32_t number = 0;
    return accepted && index_queue::pop(s.free_kept, number) ? number : none;
}

// One thread, when all have read what was in it.
DENIZEN_COLD inline void give(const Shared& s, uint32_t number)
{
    if (number < kept_crates) {
        index_queue::push(s.free_kept, number);
    } else {
        s.arena.deallocate(at(s, number));
    }
}

// One thread: `tasks` (1 to 32) of class c lie in it. The shelf has a place for every crate that
// there can be, and its push is a release.
DENIZEN_HD inline void shelve(const Shared& s, uint32_t c, uint32_t number, uint32_t tasks)
{
    index_queue::push(s.shelf[c], number << crate_shift | (tasks - 1));
}

// One thread; false if there is none. An acquire: partner of the release in shelve().
DENIZEN_HD inline bool unshelve(const Shared& s, uint32_t c, uint32_t& number, uint32_t& tasks)
{
    uint32_t label = 0;
    if (!index_queue::pop(s.shelf[c], label)) {
        return false;
    }
    number = label >> crate_shift;
    tasks = label % crate_tasks + 1;
    return true;
}

} // namespace denizen::task::crate
