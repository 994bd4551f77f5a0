// SPDX-License-Identifier: Apache-2.0
// Crates carry the tasks that no deque has room for, and the host's tasks. A crate is a block of
// the runtime's arena with room for 32 tasks of one class, so spilled tasks take memory only while
// they are there. Whoever fills a crate allocates it and puts it on the shelf of its class. Whoever
// takes it from the shelf gives the block back. context.hpp and monitor.hpp fill crates;
// sources.hpp empties them.
//
// A spawn that may be refused takes crates from the arena alone. A task that was accepted already
// (the host's, or one that a worker puts aside) may also take one of a few crates that are kept
// outside the arena. Without these, an arena full of the tasks' own blocks would hold up the very
// tasks that give those blocks back.
#pragma once

#include <denizen/task/detail/index_queue.hpp>

namespace denizen::task::crate {

inline constexpr uint32_t none = ~0u;

// Where crate `number` lies. The kept crates have the first numbers, then the arena's blocks.
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

// Called by one thread, or by diverged lanes, each for itself. `accepted`: the task was accepted,
// so a kept crate will do. Returns `none` if there is no crate.
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

// Gives a crate back. Called by one thread, after all lanes have read the tasks in it.
DENIZEN_COLD inline void give(const Shared& s, uint32_t number)
{
    if (number < kept_crates) {
        index_queue::push(s.free_kept, number);
    } else {
        s.arena.deallocate(at(s, number));
    }
}

// Puts a crate with `tasks` (1 to 32) tasks of class c on its shelf. Called by one thread. The
// shelf has a place for every crate that there can be, and its push is a release.
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
