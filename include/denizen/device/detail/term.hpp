// SPDX-License-Identifier: Apache-2.0
// How an incarnation of a resident program ends whose blocks do not wait for each other's work, so
// that it needs no gate (breath.hpp): by the clock that all SMs of a GPU share. Called by blocks;
// the host side of the program is a Keeper (device/keeper.hpp).
//
//  1. The first block that begins says until when the incarnation lasts: up to an instant of a
//     fixed grid, so that GPUs whose clocks agree breathe together. The other blocks find it there.
//  2. Each block looks at the clock between two pieces of its work, and leaves when the time is
//     over. What it goes on with is in device memory by then.
//  3. The last block that leaves puts that in order for the successor, and tells the keeper.
//
// The first block of an incarnation leads: it looks for the host's command, and says when the
// program is to leave the GPU altogether. That is a word with the incarnation's number: its own
// blocks leave, and the successor, which is queued already, ends as it begins.
//
// Two incarnations may be there at a time (programmatic dependent launch). Then a successor's block
// begins only after all blocks have said so or have left, and the one behind it only after this
// incarnation has ended; hence state for even and odd numbers.
#pragma once

#include <denizen/device/detail/resident.hpp>

namespace denizen {

// Device memory, all 0 at first.
struct Term {
    struct alignas(line) Incarnation {
        uint64_t until_ns = 0; // on the GPU's clock; 0: no block has begun
        uint32_t left = 0;     // blocks that have
    };
    Incarnation of[2];
    // The incarnation with which the program leaves the GPU. The keeper clears it when it launches
    // the program again.
    alignas(line) uint32_t over = 0;
};

// What all blocks know of it.
struct TermRef {
    uint64_t ns = 0; // an incarnation lasts so long; 0: until the program leaves
    Term* state = nullptr;
    ResidentWords* words = nullptr; // null: there is no keeper
    uint32_t blocks = 0;
    uint32_t incarnation = 1;
    uint32_t successor = 0; // not 0: queued behind another one
};

namespace detail {

DENIZEN_HD inline Term::Incarnation& own(const TermRef& t)
{
    return t.state->of[t.incarnation & 1];
}

// Whether the program leaves the GPU with this incarnation.
DENIZEN_HD inline bool leaves_gpu(const TermRef& t)
{
    return load<Scope::gpu>(&t.state->over) == t.incarnation;
}

// Whether it has left while this incarnation was queued. All threads of a block find the same: what
// the word may become meanwhile is the incarnation's own number.
DENIZEN_HD inline bool came_too_late(const TermRef& t)
{
    const uint32_t over = load<Scope::gpu>(&t.state->over);
    return t.successor != 0 && over != 0 && over != t.incarnation;
}

// Step 1, one thread of each block: until when it may stay.
DENIZEN_HD inline uint64_t begin_term(const TermRef& t, bool leads)
{
    if (leads && t.successor == 0 && t.words != nullptr) {
        store<Scope::system>(&t.words->mode, static_cast<uint32_t>(Mode::running));
    }
    if (t.ns == 0) {
        return ~uint64_t{0};
    }
    const uint64_t now = now_ns();
    uint64_t until = (now / t.ns + 1) * t.ns;
    if (until - now < t.ns / 2) {
        until += t.ns; // a launch just before an instant does not end at once
    }
    uint64_t said = 0;
    return compare_exchange<Scope::gpu>(&own(t).until_ns, said, until) ? until : said;
}

// What the host wants. One thread of the leading block: a look at host memory takes a microsecond.
DENIZEN_HD inline Command asked_for(const TermRef& t)
{
    return t.words == nullptr ? Command::run
                              : static_cast<Command>(load<Scope::system>(&t.words->command));
}

// One thread of the leading block: the program leaves the GPU.
DENIZEN_HD inline void leave_gpu(const TermRef& t, Leave why)
{
    if (t.words != nullptr) {
        store<Scope::system>(&t.words->leave, static_cast<uint32_t>(why));
    }
    store<Scope::gpu>(&t.state->over, t.incarnation);
}
// The same if the host wants it.
DENIZEN_HD inline void leave_if_asked(const TermRef& t)
{
    const Command command = asked_for(t);
    if (leaves(command)) {
        leave_gpu(t, command == Command::leave ? Leave::idle : Leave::stopped);
    }
}

// Step 3, one thread of each block that leaves: whether it is the last. What the leading block has
// written, as that the program leaves, is known to it then.
DENIZEN_HD inline bool is_last_to_leave(const TermRef& t, bool leads)
{
#if DENIZEN_ON_DEVICE
    // The leader's fence is the partner of the last block's.
    fence_if<Scope::gpu>(leads);
    const bool last = fetch_add<Scope::gpu>(&own(t).left, 1u) + 1 == t.blocks;
    fence_if<Scope::gpu>(last);
    return last;
#else
    (void)leads; // release and acquire: partners of each other's
    return fetch_add<Scope::gpu, Order::acq_rel>(&own(t).left, 1u) + 1 == t.blocks;
#endif
}

// The last thing that one does: the keeper counts by it, and may launch the program again.
DENIZEN_HD inline void tell_end(const TermRef& t)
{
    store<Scope::gpu>(&own(t).until_ns, uint64_t{0});
    store<Scope::gpu>(&own(t).left, 0u);
    if (t.words == nullptr) {
        return;
    }
    // Release, on the CPU: partner of the keeper's acquire.
    store<Scope::system, host_release>(&t.words->ended, t.incarnation);
    if (leaves_gpu(t)) {
        // Release: partner of the acquire in Keeper::mode(), with why, and where the program goes
        // on.
        store<Scope::system, Order::release>(&t.words->mode, static_cast<uint32_t>(Mode::left));
    }
}

// One thread of the leading block of an incarnation that came too late.
DENIZEN_HD inline void tell_too_late(const TermRef& t)
{
    if (t.words != nullptr) {
        store<Scope::system>(&t.words->ended, t.incarnation);
    }
}

} // namespace detail

} // namespace denizen
