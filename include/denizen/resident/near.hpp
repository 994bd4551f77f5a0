// SPDX-License-Identifier: Apache-2.0
// The near rings: how workers of one cluster reach each other, and how a worker reaches itself,
// without going through L2. Each ring has one sending and one receiving worker, so a ticket is
// drawn in the sender's own shared memory; the slots lie in the receiver's, where it looks with one
// access for all its rings. On the GPU a sender writes them through distributed shared memory
// (178 ns one way on an H100, against 337 ns through L2); on the CPU they are ordinary memory.
//
// Hazard: shared memory ends with its block. A worker that leaves waits for its cluster before it
// puts its box away, and writes into no other box after that.
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/resident/arrival.hpp>
#include <denizen/resident/layout.hpp>

namespace denizen {

namespace detail {

#if DENIZEN_ON_DEVICE
extern __shared__ __align__(128) unsigned char near_memory[];
#endif

// The box of worker `id`, which is calling.
DENIZEN_HD inline NearBox* own_box(const Shared& s, [[maybe_unused]] uint32_t id)
{
#if DENIZEN_ON_DEVICE
    return reinterpret_cast<NearBox*>(near_memory + threadIdx.x / 32 * s.box_bytes);
#else
    return reinterpret_cast<NearBox*>(s.boxes + static_cast<uint64_t>(id) * s.box_bytes);
#endif
}

// The box of near worker `index` of worker `id`'s cluster.
DENIZEN_HD inline NearBox* box_of(const Shared& s, uint32_t id, uint32_t index)
{
#if DENIZEN_ON_DEVICE
    unsigned char* here = near_memory + index % s.per_sm * s.box_bytes;
#if __CUDA_ARCH__ >= 900
    unsigned char* there = nullptr;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(index / s.per_sm));
    return reinterpret_cast<NearBox*>(there);
#else
    return reinterpret_cast<NearBox*>(here); // no clusters: index < per_sm
#endif
#else
    return own_box(s, id - id % s.near + index);
#endif
}

// The slots of the ring to near worker `to` from `from`, in `to`'s box.
DENIZEN_HD inline Slot* near_slots(const Shared& s, NearBox* box, uint32_t to, uint32_t from)
{
    Slot* slots = reinterpret_cast<Slot*>(box + 1);
    return to == from ? slots : slots + s.local_mask + 1 + from * (s.near_mask + 1);
}

DENIZEN_HD inline uint32_t near_ring_mask(const Shared& s, uint32_t to, uint32_t from)
{
    return to == from ? s.local_mask : s.near_mask;
}

} // namespace detail

// Whether the ring from near worker `from` to `to` exists; a message without it takes the inbox.
DENIZEN_HD inline bool has_near_ring(const Shared& s, uint32_t to, uint32_t from)
{
    return to < s.near && detail::near_ring_mask(s, to, from) != 0;
}

// A worker's receiving side. On a warp, lane i looks after the ring from near worker i.
class NearRings {
public:
    DENIZEN_HD NearRings(const Shared& s, uint32_t id) : s_(s), box_(detail::own_box(s, id))
    {
        const uint32_t own = id % s.near;
        if (lanes::id() == 0) {
            box_->own = own;
            box_->first = id - own;
        }
        for (uint32_t i = lanes::id(); i < s.near; i += lanes::size) {
            box_->box[i] = detail::box_of(s, id, i);
        }
        lanes::sync();
        own_ = own;
#if DENIZEN_ON_DEVICE
        if (lanes::id() < s.near) {
            head_ = credited_ = box_->head[lanes::id()];
            mask_ = detail::near_ring_mask(s, own, lanes::id());
            slots_ = detail::near_slots(s, box_, own, lanes::id());
        }
#endif
    }

    DENIZEN_HD uint32_t own() const { return own_; }

    // Bit i: something from near worker i has begun to arrive.
    DENIZEN_HD uint32_t poll() const
    {
#if DENIZEN_ON_DEVICE
        // The last packet of a slot is written last.
        return lanes::ballot(
            mask_ != 0 && load<Scope::gpu>(&slots_[head_ & mask_].packet[3].sequence) == head_ + 1);
#else
        uint32_t ready = 0;
        for (uint32_t i = 0; i < s_.near; ++i) {
            const Source ring = source(i);
            if (ring.mask != 0 &&
                load_packet<Scope::gpu>(&ring.slots[ring.head & ring.mask].packet[3]).sequence ==
                    ring.head + 1) {
                ready |= 1u << i;
            }
        }
        return ready;
#endif
    }

    // From the worker itself: lane i gets message i of those that wait. Sets Batch::n.
    DENIZEN_HD void take_local(Batch& batch) const
    {
        const Source ring = source(own_);
        batch.mine = read(ring.slots, ring.mask, ring.head + lanes::id(), batch.words);
        batch.n = lanes::first(~lanes::ballot(batch.mine));
        batch.n = batch.n < lanes::size ? batch.n : lanes::size;
        batch.mine = lanes::id() < batch.n;
        batch.ring = ring;
    }

    // The first message of each ring that `ready` names: on a warp of all of them at once, on the
    // CPU of the first after the last one served. Batch::n is how many lanes have one.
    DENIZEN_HD void take_near(uint32_t ready, Batch& batch)
    {
#if DENIZEN_ON_DEVICE
        batch.mine = (ready >> lanes::id() & 1) != 0 && read(slots_, mask_, head_, batch.words);
        batch.n = lanes::popcount(lanes::ballot(batch.mine));
#else
        const uint32_t later = ready & ~((2u << turn_) - 1);
        turn_ = lanes::first(later != 0 ? later : ready);
        batch.ring = source(turn_);
        batch.mine = read(batch.ring.slots, batch.ring.mask, batch.ring.head, batch.words);
        batch.n = batch.mine ? 1 : 0;
#endif
    }

    // Which near ring lane `lane` of the last take_near() has its message from.
    DENIZEN_HD uint32_t number_of(uint32_t lane) const
    {
#if DENIZEN_ON_DEVICE
        return lane;
#else
        return turn_ + lane; // lane is 0
#endif
    }

    // The ring that lane `lane` of the last take_near() has its message from.
    DENIZEN_HD Source ring_of(uint32_t lane) const
    {
#if DENIZEN_ON_DEVICE
        return source(lane);
#else
        return source(turn_ + lane); // lane is 0
#endif
    }

    // The worker has handled `n` slots of its ring to itself.
    DENIZEN_HD void advance_local(uint32_t n) { advance(own_, n, true); }

    // Lane by lane: this lane has handled `n` slots of the ring of ring_of(lane).
    DENIZEN_HD void advance_near(uint32_t n)
    {
#if DENIZEN_ON_DEVICE
        head_ += n;
        give_credit(mask_ >> 2);
#else
        advance(turn_, n, false);
#endif
    }

    // Tells every sender all the room there is.
    DENIZEN_HD void give_all_credit()
    {
#if DENIZEN_ON_DEVICE
        give_credit(0);
#else
        for (uint32_t i = 0; i < s_.near; ++i) {
            store<Scope::system, Order::release>(&box_->box[i]->credit[own_], box_->head[i]);
        }
#endif
    }

    // Publishes the tails; with done(), behind a fence, the heads: see Status.
    DENIZEN_HD void tell_tails(Status& status) const
    {
        for (uint32_t i = lanes::id(); i < s_.near; i += lanes::size) {
            store<Scope::gpu>(&status.near_tail[i], load<Scope::block>(&box_->tail[i]));
        }
    }
    DENIZEN_HD void tell_heads(Status& status) const
    {
        for (uint32_t i = lanes::id(); i < s_.near; i += lanes::size) {
#if DENIZEN_ON_DEVICE
            store<Scope::gpu, Order::release>(&status.near_head[i], head_);
#else
            store<Scope::gpu, Order::release>(&status.near_head[i], box_->head[i]);
#endif
        }
    }

    // Before the box is put away.
    DENIZEN_HD void keep_heads()
    {
#if DENIZEN_ON_DEVICE
        if (lanes::id() < s_.near) {
            box_->head[lanes::id()] = head_;
        }
        lanes::sync();
#endif
    }

private:
    DENIZEN_HD static bool read(const Slot* slots, uint32_t mask, uint32_t ticket, Words& words)
    {
        const Slot& slot = slots[ticket & mask];
        bool whole = true;
        for (uint32_t k = 0; k < 4; ++k) {
            const Packet p = load_packet<Scope::gpu>(&slot.packet[k]);
            whole &= p.sequence == ticket + 1;
            for (uint32_t w = 0; w < 3; ++w) {
                words.word[3 * k + w] = p.word[w];
            }
        }
        return whole;
    }

    DENIZEN_HD Source source(uint32_t i) const
    {
        Source ring;
#if DENIZEN_ON_DEVICE
        ring.head = lanes::shuffle(head_, i);
#else
        ring.head = box_->head[i];
#endif
        ring.mask = detail::near_ring_mask(s_, own_, i);
        ring.slots = detail::near_slots(s_, box_, own_, i);
        return ring;
    }

    DENIZEN_HD void advance(uint32_t i, uint32_t n, [[maybe_unused]] bool local)
    {
#if DENIZEN_ON_DEVICE
        if (lanes::id() == i) {
            head_ += n;
            give_credit(0); // to ourselves: no traffic
        }
        lanes::sync();
#else
        box_->head[i] += n;
        const uint32_t mask = detail::near_ring_mask(s_, own_, i);
        uint32_t* credit = &box_->box[i]->credit[own_];
        if (local || box_->head[i] - load<Scope::system>(credit) > mask >> 2) {
            // Release: partner of the sender's acquire of its credit.
            store<Scope::system, Order::release>(credit, box_->head[i]);
        }
#endif
    }

#if DENIZEN_ON_DEVICE
    // Relaxed: the slots were read before, and the sender rewrites one only for a later ticket.
    __device__ void give_credit(uint32_t least)
    {
        if (mask_ != 0 && head_ - credited_ > least) {
            store<Scope::gpu>(&box_->box[lanes::id()]->credit[own_], head_);
            credited_ = head_;
        }
    }

    uint32_t head_ = 0; // of this lane's ring
    uint32_t credited_ = 0;
    uint32_t mask_ = 0;
    const Slot* slots_ = nullptr;
#else
    uint32_t turn_ = 0; // the ring served last
#endif
    const Shared& s_;
    NearBox* box_;
    uint32_t own_ = 0;
};

} // namespace denizen
