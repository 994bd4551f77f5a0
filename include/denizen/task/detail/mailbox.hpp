// SPDX-License-Identifier: Apache-2.0
// How spawn_on() sends a task to one worker. The mailbox has a few slots, which any worker may
// write and the owner looks at in one access. A sender claims a slot and writes the task's first 12
// bytes in one step, a compare-exchange of 16 bytes from zero. So a small task arrives with the
// claim itself, and its sender draws no ticket first: that makes a hop from SM to SM short. A
// longer task's sender then writes the other packets. The owner clears the packets from the last to
// the first.
//
// A first packet's sequence: packets | claimed only << 3 | tokens << 4. Tokens (see tokens.hpp)
// travel with the task, so that its own spawns need not fetch any. A sender that finds no free slot
// keeps its task; another worker may then run it.
//
// Hazard: a slot is free when its first packet is zero. By then the owner has cleared the other
// packets, and if there were any, has put a fence between.
#pragma once

#include <denizen/task/detail/layout.hpp>

namespace denizen::task {

namespace mailbox {

inline constexpr uint32_t claimed = 8;
inline constexpr uint32_t token_shift = 4;
inline constexpr uint32_t most_tokens = 1u << 27;

// Whether packet `p` was all zero and now is `value`.
DENIZEN_HD inline bool claim(Packet* p, const Packet& value)
{
#if DENIZEN_ON_DEVICE && __CUDA_ARCH__ >= 900
    const uint64_t low = value.word[0] | static_cast<uint64_t>(value.word[1]) << 32;
    const uint64_t high = value.word[2] | static_cast<uint64_t>(value.sequence) << 32;
    uint64_t old_low = 0;
    uint64_t old_high = 0;
    asm volatile("{ .reg .b128 e, v, o;\n\t"
                 "mov.b128 e, {%3, %3};\n\t"
                 "mov.b128 v, {%4, %5};\n\t"
                 "atom.relaxed.gpu.global.cas.b128 o, [%2], e, v;\n\t"
                 "mov.b128 {%0, %1}, o; }"
                 : "=l"(old_low), "=l"(old_high)
                 : "l"(__cvta_generic_to_global(p)), "l"(uint64_t{0}), "l"(low), "l"(high)
                 : "memory");
    return (old_low | old_high) == 0;
#else
    // In two steps; the owner takes a packet that is only claimed for none.
    uint32_t none = 0;
    // Acquire: partner of the owner's clearing, which comes before what is written now.
    if (!compare_exchange<Scope::gpu, Order::acquire>(&p->sequence, none, claimed)) {
        return false;
    }
    store_packet<Scope::gpu>(p, value);
    return true;
#endif
}

// Puts a task of `Used` words into one of the slots. False if it finds none. `from` spreads the
// senders over the slots. `ordered`: who runs the task sees what was written before.
template <uint32_t Used>
DENIZEN_HD inline bool send(Mailbox& to, uint32_t from, const uint32_t* word, uint32_t tokens,
                            bool ordered)
{
    constexpr uint32_t packets = (Used + 2) / 3;
    const auto part = [&](uint32_t k, uint32_t sequence) {
        Packet p{{0, 0, 0}, sequence};
        for (uint32_t i = 0; i < 3; ++i) {
            p.word[i] = 3 * k + i < Used ? word[3 * k + i] : 0;
        }
        return p;
    };
    const Packet first = part(0, packets | tokens << token_shift);
#if DENIZEN_ON_DEVICE
    denizen::detail::fence_if<Scope::gpu>(ordered); // partner: the owner's fence
#else
    (void)ordered; // store_packet is a release
#endif
    // Nearly always the first is free.
    DENIZEN_ROLLED
    for (uint32_t i = 0; i < mail_slots; ++i) {
        const uint32_t slot = (from + i) % mail_slots;
        if (!claim(&to.first[slot], first)) {
            continue;
        }
#if DENIZEN_ON_DEVICE
        denizen::detail::fence_if<Scope::gpu>(packets > 1); // the owner's clearing before this
#endif
        for (uint32_t k = 1; k < packets; ++k) {
            store_packet<Scope::gpu>(&to.rest[slot][k - 1], part(k, 1));
        }
        return true;
    }
    return false;
}

// Whether something has arrived there. On the host an acquire.
DENIZEN_HD inline bool arrived(const Mailbox& box, uint32_t slot, Packet& first)
{
    first = load_packet<Scope::gpu>(&box.first[slot]);
#if DENIZEN_ON_DEVICE && __CUDA_ARCH__ >= 900
    return first.sequence != 0; // who claims writes all of it
#else
    return first.sequence != 0 && (first.sequence & claimed) == 0;
#endif
}

// Reads the task whose first packet has arrived, of at most `Most` words, and frees the slot.
template <uint32_t Most>
DENIZEN_HD inline void take(Mailbox& box, uint32_t slot, const Packet& first,
                            uint32_t (&word)[Most])
{
    for (uint32_t i = 0; i < 3; ++i) {
        word[i] = first.word[i];
    }
    const uint32_t packets = first.sequence & 7;
    if (packets > 1) {
        for (uint32_t k = 1; 3 * k < Most; ++k) {
            if (k >= packets) {
                break;
            }
            Packet p = load_packet<Scope::gpu>(&box.rest[slot][k - 1]);
            while (p.sequence == 0) { // ends: the sender has claimed the slot and writes all of it
                p = load_packet<Scope::gpu>(&box.rest[slot][k - 1]);
            }
            for (uint32_t i = 0; i < 3; ++i) {
                if (3 * k + i < Most) {
                    word[3 * k + i] = p.word[i];
                }
            }
        }
        DENIZEN_ROLLED
        for (uint32_t k = packets - 1; k > 0; --k) {
            store_packet<Scope::gpu>(&box.rest[slot][k - 1], Packet{{0, 0, 0}, 0});
        }
#if DENIZEN_ON_DEVICE
        denizen::detail::fence_if<Scope::gpu>(true); // these before the first
#endif
    }
    store_packet<Scope::gpu>(&box.first[slot], Packet{{0, 0, 0}, 0});
}

DENIZEN_HD inline uint32_t tokens(const Packet& first) { return first.sequence >> token_shift; }

} // namespace mailbox

} // namespace denizen::task
