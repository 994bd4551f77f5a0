// SPDX-License-Identifier: Apache-2.0
// How a worker reads the rings that lie in global memory: it looks at the heads of all of them at
// once, takes the message of one, or, where messages have queued up, as many as it has lanes.
//
// On the GPU the first slot of each ring is copied to the worker's box again and again (cp.async),
// and the worker looks there. So it never waits for global memory while nothing has come: a load
// would have a register, and the next message of a near ring would wait until that is written. What
// it sees was there a while ago. A program with urgent messages cannot do with that, and waits.
#pragma once

#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/near_box.hpp>
#include <denizen/base/cluster.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

namespace detail {

// Tells the senders of ring g how far it has been handled. A slot that has been read is written
// again by who sees that: there is a fence between, where another may have written it before
// (tests/model/ptx/credit_of_inbox.litmus, credit_of_peer.litmus). The host's rings have one
// producer, and need none (credit_of_one.litmus).
DENIZEN_HD inline void tell_credit([[maybe_unused]] uint32_t g, uint32_t* credit, uint32_t head)
{
#if DENIZEN_ON_DEVICE
    fence_if<Scope::gpu>(g == source_node || g == source_node_urgent);
    fence_if<Scope::system>(g >= source_peer);
#endif
    // Release on the host. Partner: the producers' acquire of the credit.
    store<Scope::system, host_release>(credit, head);
}

} // namespace detail

// The worker's receiving side of those rings, numbered as in rings.hpp. On a warp lane g looks
// after ring g. `ahead`: slots are copied before they are looked at.
template <bool ahead>
class Sources {
public:
    static constexpr uint32_t most = lanes::size == 1 ? 1 : 32; // messages taken at a time

    DENIZEN_HD Sources(const Shared& s, uint32_t id) : count_(sources_of(s))
    {
        const uint64_t w = id;
        for (uint32_t g = first(); g < count_; g += step()) {
            Ring& r = ring(g);
            if (g == source_host_urgent) {
                set(r, s.urgent_host_rings, w, s.urgent_mask,
                    s.urgent_host_ring_credit + w * credit_stride);
            } else if (g == source_node_urgent) {
                set(r, s.urgent_inboxes, w, s.urgent_mask, &s.urgent_inbox[w].credit);
            } else if (g == source_host) {
                set(r, s.host_rings, w, s.host_ring_mask, s.host_ring_credit + w * credit_stride);
            } else if (g == source_node) {
                set(r, s.inboxes, w, s.inbox_mask, &s.inbox[w].credit);
            } else if (g >= source_peer_urgent(s)) {
                const uint32_t k = g - source_peer_urgent(s);
                const PeerLink& peer = s.peer[k < s.node ? k : k + 1];
                set(r, peer.from + static_cast<uint64_t>(s.workers) * (s.inbox_mask + 1), w,
                    s.urgent_mask, peer.from_credits + (s.workers + w) * credit_stride);
            } else if (g == source_peer + s.nodes - 1) {
                const PeerLink& others = s.peer[s.node];
                set(r, others.from, w, s.host_ring_mask, others.from_credits + w * credit_stride);
            } else {
                const uint32_t k = g - source_peer;
                const PeerLink& peer = s.peer[k < s.node ? k : k + 1];
                set(r, peer.from, w, s.inbox_mask, peer.from_credits + w * credit_stride);
            }
            r.head = r.credited = load<Scope::gpu>(&s.status[id].done[g]);
        }
    }

    // The worker's box is there: what is first in every ring is on its way.
    DENIZEN_HD void open([[maybe_unused]] const Shared& s, [[maybe_unused]] cluster::Address box)
    {
#if DENIZEN_ON_DEVICE
        queue_ = detail::landing(s, box);
        // A lane without a ring looks at the first one's, and for what is never there.
        landing_ = queue_ + (queue_slots + (lanes::id() < count_ ? lanes::id() : 0)) * sizeof(Slot);
        find_first();
        if (ahead && lanes::id() < count_) {
            copy_first();
        }
#endif
    }

    // A look at every ring, for ready(). In between there is time for another access.
    DENIZEN_HD uint32_t look() const
    {
#if DENIZEN_ON_DEVICE
        return cluster::load(landing_ + detail::last_sequence);
#else
        return 0; // ready() looks
#endif
    }

    // Bit g: ring g has a message (a first slot that has arrived whole). `idle`: nothing else had
    // any, so a ring that is empty has had none queued up.
    DENIZEN_HD uint32_t ready([[maybe_unused]] uint32_t last, [[maybe_unused]] bool idle)
    {
#if DENIZEN_ON_DEVICE
        if constexpr (!ahead) {
            return ready_now();
        }
        const bool mine = lanes::id() < count_;
        if (mine && last != awaited() && last != flying_) { // it has landed, and nothing had come
            was_ready_ = was_ready_ && !idle;
            copy_first();
        }
        const bool there = mine && last == awaited();
        if (lanes::ballot(there) == 0) {
            return 0;
        }
        bool whole = there;
        if (there) { // the last packet was written last, but may have been copied first
            for (uint32_t k = 0; k < 3; ++k) {
                whole &= cluster::load(landing_ + k * sizeof(Packet) + packet_payload) == awaited();
            }
            if (!whole) {
                copy_first();
            }
        }
        return lanes::ballot(whole);
#else
        uint32_t ready = 0;
        for (uint32_t g = 0; g < count_; ++g) {
            const Ring& r = rings_[g];
            bool whole = true;
            for (uint32_t k = 0; k < 4 && whole; ++k) {
                whole =
                    load_packet<Scope::system>(&r.slots[r.head & r.mask].packet[3 - k]).sequence ==
                    r.head + 1;
            }
            ready |= whole ? 1u << g : 0;
        }
        return ready;
#endif
    }

    // Takes from ring g, which is ready. One message, unless the ring was ready at the last two
    // looks: then messages have queued up, and reading more of them pays.
    DENIZEN_HD void take(uint32_t g, uint32_t ready, Batch& batch)
    {
#if DENIZEN_ON_DEVICE
        if (was_ready(g)) {
            keep_ready(ready);
            batch.ring = source(g);
            batch.n = ahead && g == source_node ? take_queue(batch) : 0;
            if (batch.n == 0) {
                Arrival a;
                fetch<Scope::system>(batch.ring, a);
                batch.n = words_of(batch.ring, a, batch.words);
            }
            batch.mine = lanes::id() < batch.n;
            if (ahead && g == source_node) {
                copy_queue(batch.ring, batch.ring.head + batch.n);
            }
            return;
        }
#endif
        take_first(g, ready, batch);
    }

    // The first message of ring g alone.
    DENIZEN_HD void take_first(uint32_t g, uint32_t ready, Batch& batch)
    {
        keep_ready(ready);
        batch.n = 1;
#if DENIZEN_ON_DEVICE
        batch.mine = lanes::id() == g && detail::read_slot(landing_, awaited(), batch.words);
        // A copy that was begun before, and comes after, may have taken it back.
        batch.n = lanes::ballot(batch.mine) != 0 ? 1 : 0;
#else
        batch.ring = source(g);
        batch.mine = true;
        const Slot& slot = batch.ring.slots[batch.ring.head & batch.ring.mask];
        for (uint32_t p = 0; p < 4; ++p) {
            const Packet packet = load_packet<Scope::system>(&slot.packet[p]);
            for (uint32_t w = 0; w < 3; ++w) {
                batch.words.word[3 * p + w] = packet.word[w];
            }
        }
#endif
    }

    // Whether ring g was ready when something was taken last; not if it was found empty since, when
    // nothing else had any.
    DENIZEN_HD bool was_ready(uint32_t g) const
    {
#if DENIZEN_ON_DEVICE
        return (lanes::ballot(was_ready_) & 1u << g) != 0;
#else
        return (were_ready_ & 1u << g) != 0;
#endif
    }

    DENIZEN_HD void nothing_ready() { keep_ready(0); }

    // Ring g as a Source, in every lane.
    DENIZEN_HD Source source(uint32_t g)
    {
#if DENIZEN_ON_DEVICE
        Source s;
        s.slots = reinterpret_cast<const Slot*>(
            lanes::shuffle(reinterpret_cast<uint64_t>(ring_.slots), g));
        s.mask = lanes::shuffle(ring_.mask, g);
        s.head = lanes::shuffle(ring_.head, g);
        return s;
#else
        return {rings_[g].slots, {}, rings_[g].mask, rings_[g].head};
#endif
    }

    // `n` slots of ring g have been handled. Senders are told by the quarter ring.
    DENIZEN_HD void advance(uint32_t g, uint32_t n)
    {
        if (lanes::size == 1 || lanes::id() == g) {
            Ring& r = ring(g);
            r.head += n;
#if DENIZEN_ON_DEVICE
            was_ready_ = true;
            find_first();
#endif
            give_credit(r, g, r.mask >> 2);
        }
    }

#if DENIZEN_ON_DEVICE
    // Of this lane's ring: where its first slot is, and what its sequences are once it is whole.
    __device__ cluster::Address first_slot() const { return landing_; }
    __device__ uint32_t awaited() const { return ring_.head + 1; }
    __device__ bool mine_was_ready() const { return was_ready_; }
#endif

    // Tells every sender all the room there is.
    DENIZEN_HD void give_all_credit()
    {
        for (uint32_t i = first(); i < count_; i += step()) {
            give_credit(ring(i), i, 0);
        }
    }

    // Publishes how far every ring has been handled; on the device behind a fence of the caller's.
    // Release on the host: partner of the monitor's acquire in check_quiet().
    DENIZEN_HD void tell(Status& status)
    {
        for (uint32_t g = first(); g < count_; g += step()) {
            store<Scope::gpu, detail::host_release>(&status.done[g], ring(g).head);
        }
    }

    // Whether ring g's next slot has begun to arrive (a sleeping CPU worker's last look).
    DENIZEN_HD bool any_begun()
    {
        for (uint32_t g = first(); g < count_; g += step()) {
            const Ring& r = ring(g);
            if (load_packet<Scope::system>(&r.slots[r.head & r.mask].packet[0]).sequence ==
                r.head + 1) {
                return true;
            }
        }
        return false;
    }

private:
    struct Ring {
        const Slot* slots = nullptr;
        uint32_t mask = 0;
        uint32_t head = 0;
        uint32_t credited = 0;
        uint32_t* credit = nullptr;
    };

    DENIZEN_HD static void set(Ring& r, const Slot* slots, uint64_t worker, uint32_t mask,
                               uint32_t* credit)
    {
        r.slots = slots + worker * (mask + 1);
        r.mask = mask;
        r.credit = credit;
    }

    DENIZEN_HD void keep_ready(uint32_t ready)
    {
#if DENIZEN_ON_DEVICE
        was_ready_ = (ready >> lanes::id() & 1) != 0;
#else
        were_ready_ = ready;
#endif
    }

    DENIZEN_HD static void give_credit(Ring& r, uint32_t g, uint32_t least)
    {
        if (r.head - r.credited > least) {
            detail::tell_credit(g, r.credit, r.head);
            r.credited = r.head;
        }
    }

#if DENIZEN_ON_DEVICE
    // A loop from first() by step() is over this lane's ring.
    __device__ static uint32_t first() { return lanes::id(); }
    __device__ static constexpr uint32_t step() { return lanes::size; }
    __device__ Ring& ring(uint32_t) { return ring_; }

    // Before the slot of a ticket is copied to `to`: what lies there until it has landed. No slot
    // ever holds that instead of the sequence expected: it is half of all tickets away.
    __device__ void clear_landing(cluster::Address to, uint32_t ticket)
    {
        flying_ = ticket + 1 + (1u << 31);
        cluster::store_own(to + detail::last_sequence, flying_);
    }

    // In a lane that has a ring. One copy at a time.
    __device__ void copy_first()
    {
        clear_landing(landing_, ring_.head);
        const Slot& slot = ring_.slots[ring_.head & ring_.mask];
        for (uint32_t k = 0; k < 4; ++k) {
            cluster::copy_packet(landing_ + k * sizeof(Packet), &slot.packet[k]);
        }
    }

    // The copy of the slot with a ticket of the inbox. Another ticket's has another sequence.
    __device__ cluster::Address queued(uint32_t ticket) const
    {
        return queue_ + ticket % queue_slots * sizeof(Slot);
    }
    __device__ void find_first()
    {
        if (ahead && lanes::id() == source_node) {
            landing_ = queued(ring_.head);
        }
    }

    // As ready(), by loads that are waited for. What is ready lies where a copy would.
    __device__ uint32_t ready_now() const
    {
        bool whole = lanes::id() < count_;
        if (whole) {
            Packet packet[4];
            const Slot& slot = ring_.slots[ring_.head & ring_.mask];
            for (uint32_t k = 0; k < 4; ++k) {
                packet[k] = load_packet<Scope::system>(&slot.packet[k]);
            }
            for (uint32_t k = 0; k < 4; ++k) {
                whole &= packet[k].sequence == awaited();
                cluster::store_own_packet(landing_ + k * sizeof(Packet), packet[k]);
            }
        }
        return lanes::ballot(whole);
    }

    // Starts copies of the slots of the inbox from that ticket on, while what is in front of them
    // is handled: see fetch().
    __device__ void copy_queue(const Source& inbox, uint32_t ticket)
    {
        if (lanes::id() == source_node) {
            clear_landing(queued(ticket), ticket);
        }
        lanes::sync();
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t slot = 8 * k + lanes::id() / 4;
            const uint32_t at = lanes::id() % 4;
            if (slot <= inbox.mask) {
                cluster::copy_packet(queued(ticket + slot) + at * sizeof(Packet),
                                     &inbox.slots[(ticket + slot) & inbox.mask].packet[at]);
            }
        }
    }

    // The messages whose copies are there: how many.
    __device__ uint32_t take_queue(Batch& batch) const
    {
        const uint32_t ticket = batch.ring.head + lanes::id();
        const bool whole = detail::read_slot(queued(ticket), ticket + 1, batch.words);
        return lanes::first(~lanes::ballot(whole && lanes::id() <= batch.ring.mask));
    }

    Ring ring_;
    cluster::Address queue_ = 0;   // the copies of the inbox's first slots
    cluster::Address landing_ = 0; // where the first slot is copied to
    uint32_t flying_ = 0;          // its last sequence until the copy is there
    bool was_ready_ = false;       // see was_ready(), of this lane's ring
#else
    // And here over all of them.
    DENIZEN_HD static constexpr uint32_t first() { return 0; }
    DENIZEN_HD static constexpr uint32_t step() { return 1; }
    DENIZEN_HD Ring& ring(uint32_t g) { return rings_[g]; }

    Ring rings_[max_sources];
    uint32_t were_ready_ = 0; // see was_ready(): bit g
#endif
    uint32_t count_;
};

} // namespace denizen
