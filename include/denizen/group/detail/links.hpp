// SPDX-License-Identifier: Apache-2.0
// The check of a group's links at its start. Every rank writes a pattern of its own into every
// peer's memory and reads every peer's pattern, by the same kind of accesses that collectives make.
// On some machines two GPUs do not reach each other although the driver says that they do.
#pragma once

#include <denizen/group/detail/channel.hpp>

namespace denizen::group {

inline constexpr uint32_t poisoned = 1u << 31;

// What the check's kernel finds. All 0 at first.
struct LinkReading {
    unsigned long long ended = 0;     // on the GPU's clock, the last block
    unsigned long long not_begun = 0; // ~ of when the first block began
    uint32_t bad = 0;                 // check_links()
    uint32_t mixed = 0;

    uint64_t ns() const // of a reading, at least 1
    {
        const uint64_t begun = ~not_begun;
        return ended > begun ? ended - begun : 1;
    }
};

DENIZEN_HD inline uint64_t pattern_of(uint32_t from, uint32_t to)
{
    return 0x5ca1ab1e0ddba11ull * (1 + from * max_ranks + to);
}

// Returns a bit for each peer whose pattern was wrong, or `poisoned`. Called by all threads of the
// team; the first thread's result counts.
template <class Memory>
DENIZEN_HD inline uint32_t check_links(Channel<Memory>& channel)
{
    using Who = typename Memory::Team;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    if (!channel.begin(Call{})) return poisoned;
    if (Who::rank() == 0) {
        store<Scope::system>(&g.control(me)->own, pattern_of(me, me));
        for (uint32_t r = 0; r < channel.ranks(); ++r) {
            store<Scope::system>(&g.control(r)->pattern[me], pattern_of(me, r));
        }
    }
    if (!channel.meet()) return poisoned;
    uint32_t bad = 0;
    for (uint32_t r = 0; r < channel.ranks(); ++r) {
        if (load<Scope::system>(&g.control(me)->pattern[r]) != pattern_of(r, me) ||
            load<Scope::system>(&g.control(r)->own) != pattern_of(r, r)) {
            bad |= 1u << r;
        }
    }
    return bad;
}

} // namespace denizen::group
