// SPDX-License-Identifier: Apache-2.0
// A worker's deque: a ring of slots with one word, top | busy | bottom, that every operation
// changes in one atomic step.
//
//   bits 0..30  top      oldest task; only thieves move it
//   bit  31     busy     a thief is copying tasks that it has taken
//   bits 32..63 bottom   one past the newest; only the owner moves it
//
// The owner writes slots past the bottom and publishes them by an addition; it takes back from the
// bottom by a compare-exchange, since a thief may have come between. A thief takes up to half from
// the top by a compare-exchange that also sets busy, copies, and clears busy.
//
// Because both ends are in one word, thieves may take many at a time, which a Chase-Lev deque
// cannot allow (its owner takes several from the bottom without looking at the top).
//
// Hazard: a slot is written again only when whoever took its task has copied it. The owner copies
// before it pushes. There is one thief at a time, and it holds the last `steal_most` places below
// the top at most: the owner leaves those alone, so it never has to wait for a thief.
#pragma once

#include <denizen/task/detail/layout.hpp>

#include <denizen/base/lanes.hpp>

namespace denizen::task {

inline constexpr uint32_t steal_most = 32;

// Words of a task on its way: at most 12, of them as many as the program's slots have.
template <uint32_t SlotBytes>
struct Words {
    static constexpr uint32_t packets = SlotBytes == 64 ? 3 : SlotBytes / 16;
    uint32_t word[4 * packets];
};

namespace detail {

template <uint32_t SlotBytes>
DENIZEN_HD inline void store_slot(unsigned char* slot, const Words<SlotBytes>& words)
{
    for (uint32_t k = 0; k < Words<SlotBytes>::packets; ++k) {
        const uint32_t* w = words.word + 4 * k;
        store_packet<Scope::gpu>(reinterpret_cast<Packet*>(slot) + k,
                                 Packet{{w[0], w[1], w[2]}, w[3]});
    }
}

template <uint32_t SlotBytes>
DENIZEN_HD inline void load_slot(const unsigned char* slot, Words<SlotBytes>& words)
{
    for (uint32_t k = 0; k < Words<SlotBytes>::packets; ++k) {
        const Packet p = load_packet<Scope::gpu>(reinterpret_cast<const Packet*>(slot) + k);
        words.word[4 * k] = p.word[0];
        words.word[4 * k + 1] = p.word[1];
        words.word[4 * k + 2] = p.word[2];
        words.word[4 * k + 3] = p.sequence;
    }
}

} // namespace detail

namespace deque {

inline constexpr uint64_t busy = uint64_t{1} << 31;
inline constexpr uint32_t position_mask = 0x7fffffff;

DENIZEN_HD constexpr uint32_t top(uint64_t word)
{
    return static_cast<uint32_t>(word) & position_mask;
}
DENIZEN_HD constexpr uint32_t bottom(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
DENIZEN_HD constexpr uint32_t size(uint64_t word)
{
    return (bottom(word) - top(word)) & position_mask;
}

// How many tasks the owner may still write past the bottom. `seen` may be old: the top only grows.
DENIZEN_HD constexpr uint32_t room(uint64_t seen, uint32_t mask)
{
    const uint32_t used = size(seen) + steal_most;
    return used > mask ? 0 : mask + 1 - used;
}

// The owner makes visible what it has written past the bottom. One lane, after lanes::sync().
// Release: partner of the thief's acquire.
DENIZEN_HD inline void publish(uint64_t* word, uint64_t& seen, uint32_t n)
{
    add_global<Order::release>(word, static_cast<uint64_t>(n) << 32);
    seen += static_cast<uint64_t>(n) << 32;
}

// The owner takes up to `most` of the newest; they lie below the bottom of `seen` as it was. One
// lane. On the host an acquire: partner of a thief's release of slots that are written again; the
// device does not begin a store before the load that it depends on has come back.
DENIZEN_HD inline uint32_t take(uint64_t* word, uint64_t& seen, uint32_t most)
{
    for (;;) { // ends: a failure means that a thief has taken some, or has finished copying
        const uint32_t n = size(seen) < most ? size(seen) : most;
        if (n == 0) {
            return 0;
        }
        const uint64_t less = seen - (static_cast<uint64_t>(n) << 32);
        if (compare_exchange<Scope::gpu, denizen::detail::host_acquire>(word, seen, less)) {
            seen = less;
            return n;
        }
    }
}

// A thief takes up to `most` of the oldest, at most half of them; 0 if there are none, if another
// thief is here, or if the deque has changed. One lane; finish() when all lanes have copied.
DENIZEN_HD inline uint32_t steal(uint64_t* word, uint64_t seen, uint32_t most)
{
    const uint32_t half = (size(seen) + 1) / 2;
    const uint32_t n = half < most ? half : most;
    if (n == 0 || (seen & busy) != 0) {
        return 0;
    }
    const uint64_t rest =
        (seen & ~uint64_t{position_mask}) | busy | ((top(seen) + n) & position_mask);
    // Acquire: partner of publish(), and of the last thief's finish().
    return compare_exchange<Scope::gpu, Order::acquire>(word, seen, rest) ? n : 0;
}

// Release: partner of the owner's next look at the word, after which it writes there again.
DENIZEN_HD inline void finish(uint64_t* word) { add_global<Order::release>(word, ~busy + 1); }

} // namespace deque

} // namespace denizen::task
