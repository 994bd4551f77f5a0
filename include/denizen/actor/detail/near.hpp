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

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/near_box.hpp>
#include <denizen/base/cluster.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

// A worker's receiving side. On a warp, lane i looks after the ring from near worker i.
class NearRings {
public:
    DENIZEN_HD NearRings(const Shared& s, uint32_t id)
        : s_(s), id_(id), own_(id % s.near), box_(detail::own_box(s, id)),
          local_slots_(detail::near_slots(s, box_, own_, own_))
    {
        const uint32_t first = id - own_;
        const uint32_t workers = s.workers - first < s.near ? s.workers - first : s.near;
        if (lanes::id() == 0) {
            cluster::store(detail::box::first(box_), s.node * max_workers + first);
            cluster::store(detail::box::own(box_), own_);
            cluster::store(detail::box::rings(box_), s.local_mask == 0 ? 0 : workers);
            cluster::store(detail::box::sm(box_), own_ - own_ % s.per_sm);
        }
#if DENIZEN_ON_DEVICE
        // A lane without a ring looks at a word that never holds what it waits for.
        look_ = detail::box::rings(box_);
        awaited_ = ~0u;
        if (lanes::id() < workers) {
            const cluster::Address other = detail::box_of(s, id, lanes::id());
            cluster::store(detail::box::ring(box_, lanes::id()),
                           detail::near_slots(s, other, lanes::id(), own_));
            sender_credit_ = detail::box::credit(other, own_);
            head_ = credited_ = cluster::load(detail::box::head(box_, lanes::id()));
            mask_ = detail::near_ring_mask(s, own_, lanes::id());
            slots_ = detail::near_slots(s, box_, own_, lanes::id());
            if (mask_ != 0) {
                step(0);
            }
        }
#endif
        lanes::sync();
        stamp_sends(detail::Stamps::none);
    }

    DENIZEN_HD uint32_t own() const { return own_; }

    // Which sends get a stamp from now on.
    DENIZEN_HD void stamp_sends(detail::Stamps stamps)
    {
        if (lanes::id() == 0) {
            cluster::store_own(detail::box::stamps(box_), static_cast<uint32_t>(stamps));
            detail::open_short_ways(s_, box_, stamps == detail::Stamps::none);
        }
        lanes::sync();
    }

    // Whether a handler has parked a message, or a chore (chores.hpp) was begun, since this was
    // asked before.
    DENIZEN_HD bool parked() const { return cluster::load(detail::box::parked(box_)) != 0; }
    DENIZEN_HD bool parked_something() const
    {
        // All lanes read the same: whoever parks does it before a barrier of the warp, and the
        // word is cleared before another, by one lane and on the way on which it is set. (All lanes
        // once cleared it on the cluster's way, which no barrier was behind. A lane that came late
        // then found another value than the rest, and they waited for each other at different
        // places for ever; or the clearing came after the next message had been parked.)
        const bool something = parked();
        if (something) {
            lanes::sync();
            if (lanes::id() == 0) {
                cluster::store_own(detail::box::parked(box_), 0);
            }
            lanes::sync();
        }
        return something;
    }

    // Bit i: something from near worker i has begun to arrive.
    DENIZEN_HD uint32_t poll() const
    {
#if DENIZEN_ON_DEVICE
        return lanes::ballot(cluster::load(look_) == awaited_);
#else
        uint32_t ready = 0;
        for (uint32_t i = 0; i < s_.near; ++i) {
            const Source ring = source(i);
            if (ring.mask != 0 && ring.load(ring.head, 3).sequence == ring.head + 1) {
                ready |= 1u << i;
            }
        }
        return ready;
#endif
    }

    // From the worker itself: lane i gets message i of those that wait. Sets Batch::n.
    DENIZEN_HD void take_local(Batch& batch) const
    {
        const uint32_t head = shared_head(own_);
        batch.ring = {nullptr, local_slots_, s_.local_mask, head};
        batch.mine = detail::read_slot(batch.ring, head + lanes::id(), batch.words);
        const uint32_t n = lanes::first(~lanes::ballot(batch.mine));
        batch.n = n < lanes::size ? n : lanes::size;
        batch.mine = lanes::id() < batch.n;
    }

    // The first message of each ring that `ready` names: on a warp of all of them at once, on the
    // CPU of the first after the last one served. Batch::n is how many lanes have one.
    DENIZEN_HD void take_near(uint32_t ready, Batch& batch)
    {
#if DENIZEN_ON_DEVICE
        batch.mine = (ready >> lanes::id() & 1) != 0 &&
                     detail::read_slot(first_slot(), awaited_, batch.words);
        batch.n = lanes::popcount(lanes::ballot(batch.mine));
#else
        const uint32_t later = ready & ~((2u << turn_) - 1);
        turn_ = lanes::first(later != 0 ? later : ready);
        batch.ring = source(turn_);
        batch.mine = detail::read_slot(batch.ring, batch.ring.head, batch.words);
        batch.n = batch.mine ? 1 : 0;
#endif
    }

#if DENIZEN_ON_DEVICE
    // Of this lane's ring: the first slot, and what its sequences are once it is whole.
    __device__ cluster::Address first_slot() const { return look_ - detail::last_sequence; }
    __device__ uint32_t awaited() const { return awaited_; }

    // `tail`: of the worker's ring to itself. False if there is a second message: take_local()
    // takes many.
    __device__ bool first_is_alone(uint32_t tail) const
    {
        return lanes::id() != own_ || tail == awaited_;
    }
#endif

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

    // The worker has handled `n` slots of its ring to itself. Its senders are its own lanes: the
    // credit is a word of its own box.
    DENIZEN_HD void advance_local(uint32_t n)
    {
#if DENIZEN_ON_DEVICE
        if (lanes::id() == own_) {
            step(n);
            credited_ = head_;
            cluster::store_own(detail::box::credit(box_, own_), head_);
        }
        lanes::sync();
#else
        advance(own_, n, 0);
#endif
    }

    // Where the worker's sends to itself draw their tickets.
    DENIZEN_HD cluster::Address own_tail() const { return detail::box::tail(box_, own_); }
    DENIZEN_HD cluster::Address own_credit() const { return detail::box::credit(box_, own_); }

    DENIZEN_HD detail::box::Ways ways() const { return detail::box::ways(box_); }

#if !DENIZEN_ON_DEVICE
    // Whether the worker's ring to itself, with that tail, has no message but the one of `batch`.
    DENIZEN_HD bool nothing_else(const Batch& batch, uint32_t tail) const
    {
        const bool from_here = batch.ring.slots == nullptr && batch.ring.near == local_slots_;
        return tail == head(own_) + (from_here ? 1 : 0);
    }
#endif

    // The worker's lanes have handed over so many messages (handover.hpp), and handled so many.
    DENIZEN_HD void advance_handed(uint32_t sent, uint32_t handled)
    {
        if (lanes::id() == 0) {
            cluster::add(detail::box::sent(box_, Route::worker), sent);
        }
        advance_local(handled);
    }

    // Lane by lane: this lane has handled `n` slots of the ring of ring_of(lane).
    DENIZEN_HD void advance_near(uint32_t n)
    {
#if DENIZEN_ON_DEVICE
        if (n != 0) {
            step(n);
            give_credit(mask_ >> 2);
        }
#else
        advance(turn_, n, detail::near_ring_mask(s_, own_, turn_) >> 2);
#endif
    }

    // Tells every sender all the room there is.
    DENIZEN_HD void give_all_credit()
    {
#if DENIZEN_ON_DEVICE
        give_credit(0);
#else
        for (uint32_t i = 0; i < s_.near; ++i) {
            advance(i, 0, 0);
        }
#endif
    }

    // Publishes the tails and, behind a fence of the caller's, the heads: see Status. Release on
    // the host: partner of the monitor's acquire in check_quiet().
    DENIZEN_HD void tell_tails(Status& status) const
    {
        for (uint32_t i = lanes::id(); i < s_.near; i += lanes::size) {
            denizen::store<Scope::gpu>(&status.near_tail[i],
                                       cluster::load(detail::box::tail(box_, i)));
        }
    }
    DENIZEN_HD void tell_heads(Status& status) const
    {
        for (uint32_t i = lanes::id(); i < s_.near; i += lanes::size) {
            denizen::store<Scope::gpu, detail::host_release>(&status.near_head[i], head(i));
        }
    }

    // Before the box is put away.
    DENIZEN_HD void keep_heads()
    {
#if DENIZEN_ON_DEVICE
        if (lanes::id() < s_.near) {
            cluster::store(detail::box::head(box_, lanes::id()), head_);
        }
        lanes::sync();
#endif
    }

    // Slots of all rings that have been handled, ever.
    DENIZEN_HD uint32_t handled() const
    {
#if DENIZEN_ON_DEVICE
        return lanes::sum(head_); // 0 in a lane without a ring
#else
        uint32_t sum = 0;
        for (uint32_t i = 0; i < s_.near; ++i) {
            sum += head(i);
        }
        return sum;
#endif
    }

private:
    DENIZEN_HD Source source(uint32_t i) const
    {
        return {nullptr, detail::near_slots(s_, box_, own_, i), detail::near_ring_mask(s_, own_, i),
                shared_head(i)};
    }

#if DENIZEN_ON_DEVICE
    __device__ uint32_t head(uint32_t) const { return head_; }
    __device__ uint32_t shared_head(uint32_t i) const { return lanes::shuffle(head_, i); }

    // Relaxed: the slots were read before, and the sender rewrites one only for a later ticket.
    __device__ void give_credit(uint32_t least)
    {
        if (head_ - credited_ > least) {
            cluster::store(sender_credit_, head_);
            credited_ = head_;
        }
    }

    // In a lane that has a ring.
    __device__ void step(uint32_t n)
    {
        head_ += n;
        awaited_ = head_ + 1;
        look_ = slots_ + (head_ & mask_) * sizeof(Slot) + detail::last_sequence;
    }

    uint32_t head_ = 0;         // of this lane's ring
    cluster::Address look_ = 0; // where the last sequence of its first slot is,
    uint32_t awaited_ = 0;      // and what that becomes
    uint32_t credited_ = 0;
    uint32_t mask_ = 0;
    cluster::Address slots_ = 0;
    cluster::Address sender_credit_ = 0;
#else
    DENIZEN_HD uint32_t head(uint32_t i) const
    {
        return *reinterpret_cast<const uint32_t*>(detail::box::head(box_, i));
    }
    DENIZEN_HD uint32_t shared_head(uint32_t i) const { return head(i); }

    // Ring i has been handled `n` slots further; its sender is told by more than `least`.
    DENIZEN_HD void advance(uint32_t i, uint32_t n, uint32_t least)
    {
        const uint32_t now = head(i) + n;
        *reinterpret_cast<uint32_t*>(detail::box::head(box_, i)) = now;
        const cluster::Address credit = detail::box::credit(detail::box_of(s_, id_, i), own_);
        if (now - cluster::load(credit) > least) {
            cluster::store(credit, now);
        }
    }

    uint32_t turn_ = 0; // the ring served last
#endif
    const Shared& s_;
    uint32_t id_;
    uint32_t own_; // which near worker this is
    cluster::Address box_;
    cluster::Address local_slots_; // of the ring to ourselves
};

} // namespace denizen
