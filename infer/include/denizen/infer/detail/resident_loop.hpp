// SPDX-License-Identifier: Apache-2.0
// The resident model: blocks that take rounds of requests until the breath is over. Launched by
// src/gpu_chip.cpp; the same text runs on threads of the CPU in tests.
//
//  1. The host writes a request into the next slot. Each packet of it carries the request's number,
//     one more than the last.
//  2. The leader, block 0, sees that slots are full, and tells all blocks how many of them are the
//     next round: one, or as many as have come meanwhile, of different streams. None: all leave.
//  3. Each block reads the requests where the host has put them, in device memory; if the slots are
//     in host memory, the leader alone does and passes them on.
//  4. Who makes the answer writes it into the request's cell in host memory, each word with the
//     request's number.
//  5. Then each block sums what the next step of the same streams needs, and says that it is done.
//
// The leader begins a round when all have ended the round before the last: nobody reads its
// exchange any more.
#pragma once

#include <denizen/infer/detail/block_one.hpp>

namespace denizen::infer::detail {

inline constexpr uint32_t looks_at_host = 64; // without a request, between two looks for a command,
inline constexpr uint32_t rounds_at_host = 1024; // and with requests

DENIZEN_HD inline uint32_t number_of_request(uint32_t request) { return request + 1; }

// How many requests from `request` on are there, of different streams. All lanes of a warp.
DENIZEN_HD inline uint32_t requests_there(const ResidentModel& m, uint32_t request)
{
    if (m.columns == 1) {
        return load_packet<Scope::system>(m.slot(request)).sequence == number_of_request(request);
    }
#if DENIZEN_ON_DEVICE
    const uint32_t lane = lanes::id();
    uint32_t stream = ~lane; // as no other lane's
    bool there = false;
    if (lane < m.columns) {
        const Packet p = load_packet<Scope::system>(m.slot(request + lane));
        there = p.sequence == number_of_request(request + lane);
        if (there) stream = p.word[0] & stream_bits;
    }
    const uint32_t gap = ~lanes::ballot(there);
    const uint32_t again = lanes::ballot((lanes::match(stream) & lanes::below()) != 0);
    return lanes::first(gap | again);
#else
    uint32_t streams[most_columns];
    for (uint32_t c = 0; c < m.columns; ++c) {
        const Packet p = load_packet<Scope::system>(m.slot(request + c));
        if (p.sequence != number_of_request(request + c)) return c;
        streams[c] = p.word[0] & stream_bits;
        for (uint32_t i = 0; i < c; ++i) {
            if (streams[i] == streams[c]) return c;
        }
    }
    return m.columns;
#endif
}

// Step 2, a warp of the leader.
DENIZEN_HD inline uint32_t next_count(const ResidentModel& m, uint32_t request, uint32_t rounds,
                                      uint64_t until)
{
    for (uint32_t looks = 1;; ++looks) { // ends by a request, the breath's end or a command
        // Before the look for requests: both loads are on their way at once.
        uint32_t leaves = 0;
        if (lanes::id() == 0) {
            if (looks % looks_at_host == 0 || (looks == 1 && rounds % rounds_at_host == 0)) {
                denizen::detail::leave_if_asked(m.term);
            }
            leaves = static_cast<uint32_t>(denizen::detail::leaves_gpu(m.term)) |
                     static_cast<uint32_t>(now_ns() > until);
        }
        const uint32_t count = requests_there(m, request);
        if (lanes::shuffle(leaves, 0) != 0) return 0;
        if (count != 0) return count;
        pause_block();
    }
}

template <bool clusters>
DENIZEN_HD inline void tell_count(const Block& b, uint32_t round, uint32_t count)
{
    Packet head = {{count, 0, 0}, round};
#if DENIZEN_ON_DEVICE
    if constexpr (clusters) {
        if (lanes::id() < b.model.blocks) {
            cluster::store_packet(
                cluster::in_block(near_head(b.model, b.shared, round), lanes::id()), head);
        }
        return;
    }
#endif
    if (lanes::id() == 0) store_packet<Scope::gpu>(b.model.head(round), head);
}

template <bool clusters>
DENIZEN_HD inline uint32_t hear_count(const Block& b, uint32_t round)
{
    for (;;) { // ends by tell_count()
        Packet head;
#if DENIZEN_ON_DEVICE
        if constexpr (clusters) {
            head = cluster::load_packet(near_head(b.model, b.shared, round));
        } else {
            head = load_packet<Scope::gpu>(b.model.head(round));
        }
#else
        head = load_packet<Scope::gpu>(b.model.head(round));
#endif
        if (head.sequence == round) return head.word[0];
        pause_block();
    }
}

// A packet of a request, to where it is read.
DENIZEN_HD inline void take_packet(const Block& b, uint32_t column, uint32_t i, const Packet& p,
                                   uint32_t number)
{
    if (i == 0) {
        b.turn.of[column] = p;
        b.turn.of[column].sequence = number;
        return;
    }
    float* const to = b.values(column);
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < 3; ++k) {
        const uint32_t at = 3 * (i - 1) + k;
        if (at < b.model.input) copy_bytes(to + at, &p.word[k], 4);
    }
}

// Step 3: the packets of the columns from `from` to below `to`. All threads. Those of column 0 may
// never come: then the block leaves.
DENIZEN_HD inline void take_requests(const Block& b, uint32_t round, uint32_t request,
                                     uint32_t from, uint32_t to)
{
    const ResidentModel& m = b.model;
    const bool passed_on = m.forwarded != 0 && !b.team.leads();
    const uint32_t all = (to - from) * m.slot_packets;
    for (uint32_t k = b.team.rank(); k < all; k += b.team.size()) {
        const uint32_t column = from + (all == m.slot_packets ? 0 : k / m.slot_packets);
        const uint32_t i = k - (column - from) * m.slot_packets;
        const uint32_t number = number_of_request(request + column);
        const Packet* const at =
            passed_on ? m.forwarded_slot(round, column) + i : m.slot(request + column) + i;
        const uint32_t wanted = passed_on ? round : number;
        Packet p = load_packet<Scope::system>(at);
        while (p.sequence != wanted) { // ends by the host's or the leader's store, or as all leave
            // Told, and not how many: none.
            if (from == 0 && load<Scope::block>(&b.turn.told) == round) return;
            pause_block();
            p = load_packet<Scope::system>(at);
        }
        if (m.forwarded != 0 && b.team.leads()) {
            Packet passed = p;
            passed.sequence = round;
            store_packet<Scope::gpu>(m.forwarded_slot(round, column) + i, passed);
        }
        take_packet(b, column, i, p, number);
    }
}

// The last block that leaves: where the next incarnation goes on.
DENIZEN_HD inline void leave(const Block& b, uint32_t round, uint32_t request)
{
    const TermRef& term = b.model.term;
    if (!denizen::detail::is_last_to_leave(term, b.team.leads())) return;
    b.model.progress->round = round;
    b.model.progress->taken = request;
    denizen::detail::tell_end(term);
}

// Shared memory as an incarnation begins: the image, and zeros behind the ends of values.
DENIZEN_HD inline void load_image(const Block& b, uint32_t shared_bytes)
{
    const auto* const from = reinterpret_cast<const Quad*>(b.model.images + b.place.image_at);
    auto* const to = reinterpret_cast<Quad*>(b.shared);
    const uint32_t size = b.team.size();
#if DENIZEN_ON_DEVICE
#pragma unroll 8
#endif
    for (uint32_t i = b.team.rank(); i < b.place.image_bytes / 16; i += size) to[i] = from[i];
    for (uint32_t i = b.model.values_at / 16 + b.team.rank(); i < shared_bytes / 16; i += size) {
        to[i] = Quad{};
    }
}

// All threads of a block. `turn` and `shared` are the block's; `shared_bytes` of it, a multiple
// of 16.
template <Format F, bool clusters>
DENIZEN_HD inline void serve(const ResidentModel& m, uint32_t number, unsigned char* shared,
                             uint32_t shared_bytes, Turn& turn)
{
    const Block b{m, Team(number), shared, turn, m.places[number]};
    const Team& team = b.team;
    if (denizen::detail::came_too_late(m.term)) {
        if (team.leads() && team.rank() == 0) denizen::detail::tell_too_late(m.term);
        return;
    }
    const uint64_t began = now_ns();
    const bool decides = team.leads() && team.last_warp();
    if (decides && lanes::id() == 0) turn.until = denizen::detail::begin_term(m.term, true);
    if (team.rank() == 0) turn.told = 0;
    load_image(b, shared_bytes);
    uint32_t round = m.progress->round;
    uint32_t request = m.progress->taken;
    if (team.leads() && team.rank() == 0) turn.done_before = load<Scope::gpu>(&m.progress->done);
    team.sync();
#if DENIZEN_ON_DEVICE && __CUDA_ARCH__ >= 900
    if constexpr (clusters) { // nobody stores into memory that its owner still clears
        asm volatile(
            "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                : "memory");
    }
#endif
    Counts& counts = turn.counts;
    const bool counting = decides && lanes::id() == 0; // of the warp that has least to do
    if (counting) {
        counts = *m.counts;
        counts.loading_ns = now_ns() - began;
        store<Scope::system>(&m.counts->loading_ns, counts.loading_ns);
    }
    for (uint32_t rounds = 0;; ++rounds) { // ends when the leader says so
        round = round_after(round);
        if (team.leads() && rounds >= 2) {
            // Ends: the others do not wait for this block any more in the round before the last.
            while (team.rank() == 0 &&
                   static_cast<int32_t>(
                       load<Scope::gpu, denizen::detail::host_acquire>(&m.progress->done) -
                       turn.done_before - m.blocks * (rounds - 1)) < 0) {
                pause_block();
            }
            team.sync();
        }
        Ahead<F> first = ahead<F>(b, 0);
        if (team.last_warp()) {
            const uint32_t count = decides ? next_count(m, request, rounds, turn.until)
                                           : hear_count<clusters>(b, round);
            if (decides) tell_count<clusters>(b, round, count);
            if (lanes::id() == 0) {
                store<Scope::block>(&turn.told, round | uint64_t{count} << 32);
            }
        }
        take_requests(b, round, request, 0, 1);
        team.sync();
        const auto count = static_cast<uint32_t>(turn.told >> 32);
        if (count == 0) break;
        if (counting) turn.arrived = now_ns();
        if (count > 1) {
            take_requests(b, round, request, 1, count);
            team.sync();
        }
        bool anew = false;
        for (uint32_t c = 0; c < count; ++c) {
            anew = anew || b.all_from(from_zeros | made_anew, c);
        }
        if (anew) {
            renew<F>(m, number, shared, turn, count);
            first = ahead<F>(b, 0); // not kept through the call
        }
        if (count == 1) {
#if DENIZEN_ON_DEVICE
            if constexpr (clusters) {
                answer_one<F>(b, first, Near(m, shared, round), round);
            } else {
                answer_one<F>(b, first, Far(m, round), round);
            }
#else
            answer_one<F>(b, first, Far(m, round), round);
#endif
        } else {
            answer<F>(m, number, shared, turn, round, count);
        }
        if (counting) {
            counts.rounds += 1;
            counts.steps += count;
            counts.busy_ns += now_ns() - turn.arrived;
            store<Scope::system>(&m.counts->rounds, counts.rounds);
            store<Scope::system>(&m.counts->steps, counts.steps);
            store<Scope::system>(&m.counts->busy_ns, counts.busy_ns);
        }
        if (count == 1) {
            prepare_one<F>(b);
        } else {
            prepare<F>(m, number, shared, turn, count);
        }
        team.sync();
        if (team.rank() == 0) {
            fetch_add<Scope::gpu, denizen::detail::host_release>(&m.progress->done, 1u);
        }
        request += count;
    }
#if DENIZEN_ON_DEVICE && __CUDA_ARCH__ >= 900
    if constexpr (clusters) { // nobody's memory is gone while the leader still tells
        asm volatile(
            "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                : "memory");
    }
#endif
    if (team.rank() == 0) leave(b, round, request);
}

} // namespace denizen::infer::detail
