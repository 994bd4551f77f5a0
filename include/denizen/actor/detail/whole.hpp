// SPDX-License-Identifier: Apache-2.0
// A message that takes all lanes of a worker: one of several slots, or to a whole-warp actor. Each
// lane reads one packet, and a vote tells whether the message is there. The payload goes to the
// worker's stage, which is in shared memory on a GPU, and the handler reads it there.
//
// Called from the worker's loop (worker.hpp), and from nowhere else: a function of its own, with
// all it needs in registers. What is out of the ordinary (stamps, orders, actors that do not run,
// parts still on their way) is left to serve_alone(), which leads to the same handlers.
#pragma once

#include <denizen/actor/detail/handle.hpp>
#include <denizen/actor/detail/near.hpp>

namespace denizen::detail {

// Where the stage of worker `id`, which is calling, begins: Shared::stage_bytes bytes for whole
// slots. On a GPU the stages of a block lie behind its boxes; on the CPU a stage is the worker's
// scratch.
DENIZEN_HD inline uint32_t stage_offset(const Shared& s, [[maybe_unused]] uint32_t id)
{
#if DENIZEN_ON_DEVICE
    return s.per_sm * s.box_bytes + threadIdx.x / 32 * s.stage_bytes;
#else
    return id * s.stage_bytes;
#endif
}
DENIZEN_HD inline unsigned char* stage_at([[maybe_unused]] const Shared& s, uint32_t offset)
{
#if DENIZEN_ON_DEVICE
    return near_memory + offset;
#else
    return s.scratch + offset;
#endif
}

// Packet `place` of a message, not its header, into the stage.
DENIZEN_HD inline void put_on_stage(cluster::Address to, uint32_t place, const Packet& p)
{
    for (uint32_t w = 0; w < 3; ++w) {
        cluster::store_own(to + ((place - 1) * packet_payload + 4 * w), p.word[w]);
    }
}

// All lanes, `mine`: the lane's packet of the first there are; load(i): packet i. False while some
// part of the message is on its way. Its parts are written together, so one that is missing is
// looked for a few times.
template <class Load>
DENIZEN_HD inline bool put_all_on_stage(const Load& load, uint32_t head, cluster::Address to,
                                        Packet mine, uint32_t packets)
{
    constexpr uint32_t most_tries = lanes::size > 1 ? 32 : 1;
    const uint32_t lane = lanes::id();
    for (uint32_t tries = 1;; ++tries) { // ends: `tries` counts up
        bool complete = lane >= packets || mine.sequence == head + lane / 4 + 1;
        if (lane != 0 && lane < packets) {
            put_on_stage(to, lane, mine);
        }
        DENIZEN_ROLLED
        for (uint32_t base = lanes::size + lane; base < packets; base += 4 * lanes::size) {
            Packet p[4]; // all are asked for before one is awaited: a ring may be far away
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) { // what is read behind the message is not looked at
                p[k] = load(base + k * lanes::size);
            }
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                const uint32_t place = base + k * lanes::size;
                if (place < packets) {
                    complete &= p[k].sequence == head + place / 4 + 1;
                    put_on_stage(to, place, p[k]);
                }
            }
        }
        if (lanes::ballot(!complete) == 0) {
            lanes::sync(); // each lane reads what the others have put there
            return true;
        }
        if (tries == most_tries) {
            return false;
        }
        mine = load(lane);
    }
}

// What serve_whole() is told of its worker besides its number: all in registers.
struct WholeFor {
    const ActorEntry* actors;
    uint32_t actor_count;
    Marks marks;
    uint32_t stage;
    uint32_t stage_bytes;
};

// 0: it has to go the general way, nothing has been done with it.
template <class P>
DENIZEN_HD inline uint32_t serve_staged(const Shared& s, uint32_t id, const WholeFor& of,
                                        const Source& ring)
{
    // Packet i of the message, or of what lies behind it in the ring. Two functions: with a branch
    // in each, a lane would wait for one packet before it asked for the next.
    const auto near = [&](uint32_t i) { return ring.load_near(ring.head + i / 4, i % 4); };
    const auto far = [&](uint32_t i) {
        return load_packet<Scope::system>(
            &ring.slots[(ring.head + i / 4) & ring.mask].packet[i % 4]);
    };
    const bool is_near = ring.slots == nullptr;
    const uint32_t lane = lanes::id();
    Packet mine;
    Packet first;
    if (is_near) { // both on their way together
        mine = near(lane);
        first = near(0);
    } else {
        mine = far(lane);
        first = far(0);
    }
    const Header h = decode(first);
    const uint32_t n = slots_for(h.length);
    const uint32_t local = Address{h.destination}.local();
    const bool here = local < of.actor_count;
    const ActorEntry entry = load_entry(&of.actors[here ? local : 0]);
    unsigned char* payload = stage_at(s, of.stage);
    if (h.flags != 0 || n * next_payload > of.stage_bytes) {
        return 0;
    }
    const cluster::Address to = cluster::address(payload);
    if (!(is_near ? put_all_on_stage(near, ring.head, to, mine, 4 * n)
                  : put_all_on_stage(far, ring.head, to, mine, 4 * n))) {
        return 0;
    }
    const bool whole = P::has_whole_actors && P::grain(entry.type()) != Grain::thread;
    if (!here || !entry.running() || (!whole && n == 1)) {
        return 0;
    }
    if (whole || lane == 0) {
        const Outcome out =
            run_handler<P, !P::has_warp_actors>(s, id, of.marks, entry, h, payload, whole, false);
        if (lane == 0) {
            if (out.wrong != 0) {
                const ActorEntry its_entry = entry; // copies: what a call gets by reference lies in
                const Header header = h;            // local memory
                const Outcome its = out;
                conclude<P>(s, id, its_entry, header, payload, its, false);
            }
            P::drop_buffers(s, h.type, payload);
        }
    }
    lanes::rejoin();
    return n;
}

// Takes the message at the head of a ring, whose first slot has arrived, with all lanes. `slots`,
// `near`, `mask` and `head` as in Source. Returns the slots consumed; 0 if it is not complete yet,
// or has to wait where it is.
template <class P>
DENIZEN_COLD uint32_t serve_whole(const Shared& s, uint32_t id, const Slot* slots,
                                  cluster::Address near, uint32_t mask, uint32_t head,
                                  bool observed, const ActorEntry* actors, uint32_t actor_count,
                                  uint64_t* running, uint64_t* handled, uint32_t stage,
                                  uint32_t stage_bytes)
{
    const Source ring{slots, near, mask, head};
    if constexpr (P::has_long_messages || P::has_whole_actors) {
        const WholeFor of{actors, actor_count, {running, handled}, stage, stage_bytes};
        const uint32_t n = observed ? 0 : serve_staged<P>(s, id, of, ring);
        if (n != 0) {
            return n;
        }
    }
    Words words;
    for (uint32_t k = 0; k < 4; ++k) {
        const Packet p = ring.load(head, k);
        for (uint32_t w = 0; w < 3; ++w) {
            words.word[3 * k + w] = p.word[w];
        }
    }
    return serve_alone<P>(s, id, ring, words, observed);
}

} // namespace denizen::detail
