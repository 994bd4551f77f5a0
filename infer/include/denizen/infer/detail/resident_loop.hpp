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
//     Of a model of one stream what the stream keeps stays in shared memory until the block leaves
//     (`late`), and the warp that decides looks for the next request meanwhile.
//
// The leader begins a round when all have ended the round before the last: nobody reads its
// exchange any more.
//
// A model of one stream, each of whose blocks makes some of a value that all blocks wait for, needs
// no step 2: each block begins a round as it sees the request (`alone`). Who has all values of a
// round knows that all blocks have begun it, and so have ended the round before.
//
//  2a. The leader would leave: it says so, and each block answers that it has stopped, or has begun
//      the round before it heard that.
//  2b. All have stopped: all leave. Else who has stopped goes on, and all leave behind this round.
#pragma once

#include <denizen/infer/detail/block_ahead.hpp>

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

// A look of the leader's warp at the time and, now and then, at the host; in lane 0.
DENIZEN_HD inline uint32_t would_leave(const ResidentModel& m, uint32_t looks, uint32_t rounds,
                                       uint64_t until)
{
    if (lanes::id() != 0) return 0;
    if (looks % looks_at_host == 0 || (looks == 1 && rounds % rounds_at_host == 0)) {
        denizen::detail::leave_if_asked(m.term);
    }
    return static_cast<uint32_t>(denizen::detail::leaves_gpu(m.term)) |
           static_cast<uint32_t>(now_ns() > until);
}

// Step 2, a warp of the leader.
DENIZEN_HD inline uint32_t next_count(const ResidentModel& m, uint32_t request, uint32_t rounds,
                                      uint64_t until)
{
    for (uint32_t looks = 1;; ++looks) { // ends by a request, the breath's end or a command
        // Before the look for requests: both loads are on their way at once.
        const uint32_t leaves = would_leave(m, looks, rounds, until);
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
DENIZEN_HD inline Packet head_of(const Block& b, uint32_t round)
{
#if DENIZEN_ON_DEVICE
    if constexpr (clusters) return cluster::load_packet(near_head(b.model, b.shared, round));
#endif
    return load_packet<Scope::gpu>(b.model.head(round));
}

template <bool clusters>
DENIZEN_HD inline uint32_t hear_count(const Block& b, uint32_t round)
{
    for (;;) { // ends by tell_count()
        const Packet head = head_of<clusters>(b, round);
        if (head.sequence == round) return head.word[0];
        pause_block();
    }
}

// --- without step 2 ---

// What the leader tells of a round.
inline constexpr uint32_t would = 1;   // 2a
inline constexpr uint32_t leaving = 2; // 2b
inline constexpr uint32_t last_one = 3;

template <bool clusters>
DENIZEN_HD inline bool was_last(const Block& b, uint32_t round, uint32_t rounds)
{
    if (rounds == 0) return false; // of this incarnation
    const uint32_t before = round_before(round);
    const Packet head = head_of<clusters>(b, before);
    return head.sequence == before && head.word[0] == last_one;
}

// A warp of the leader.
template <bool clusters>
DENIZEN_HD inline uint32_t lead_alone(const Block& b, uint32_t round, uint32_t request,
                                      uint32_t rounds)
{
    const ResidentModel& m = b.model;
    if (was_last<clusters>(b, round, rounds)) return 0;
    bool last = false;
    for (uint32_t looks = 1;; ++looks) { // ends by a request, the breath's end or a command
        const uint32_t leaves = last ? 0 : would_leave(m, looks, rounds, b.turn.until);
        const bool there = requests_there(m, request) != 0;
        if (lanes::shuffle(leaves, 0) != 0) {
            tell_count<clusters>(b, round, would);
            const uint32_t others = m.blocks - 1;
            uint32_t said = 0;
            if (lanes::id() == 0) {
                uint32_t stopped = 0;
                uint32_t begun = 0;
                do { // ends: every block begins this round or stops
                    stopped = load<Scope::gpu>(&m.progress->stopped);
                    begun = load<Scope::gpu>(&m.progress->begun);
                    pause_block();
                } while (begun + stopped != others * (rounds + 1));
                said = stopped == others ? leaving : last_one;
            }
            said = lanes::shuffle(said, 0);
            tell_count<clusters>(b, round, said);
            if (said == leaving) return 0;
            last = true;
#if DENIZEN_ON_DEVICE
            // Before what this block gives in this round: who has that finds what was told.
            denizen::detail::fence_if<Scope::gpu>(true);
#endif
        } else if (there) {
            return 1;
        }
        pause_block();
    }
}

// A warp of another block.
template <bool clusters>
DENIZEN_HD inline uint32_t follow_alone(const Block& b, uint32_t round, uint32_t request,
                                        uint32_t rounds)
{
    const ResidentModel& m = b.model;
    const Packet* const at = m.forwarded != 0 ? m.forwarded_slot(round, 0) : m.slot(request);
    const uint32_t wanted = m.forwarded != 0 ? round : number_of_request(request);
    if (was_last<clusters>(b, round, rounds)) return 0;
    bool stopped = false;
    for (;;) { // ends by a request, or by what the leader tells
        const Packet p = load_packet<Scope::system>(at);
        const Packet head = head_of<clusters>(b, round);
        if (head.sequence == round) {
            if (head.word[0] == leaving) return 0;
            if (head.word[0] == last_one && stopped) return 1;
            if (!stopped) {
                stopped = true;
                if (lanes::id() == 0) fetch_add<Scope::gpu>(&m.progress->stopped, 1u);
            }
        } else if (p.sequence == wanted) {
            if (lanes::id() == 0) fetch_add<Scope::gpu>(&m.progress->begun, 1u);
            return 1;
        }
        pause_block();
    }
}

// Step 2, the last warp of each block. Called, so that its registers are not taken from what waits
// with it.
template <bool clusters>
DENIZEN_COLD void decide(uint32_t number, unsigned char* shared, Turn& turn, uint32_t round,
                         uint32_t request, uint32_t rounds)
{
    const Block b = called_by(Team(number), shared, turn);
    const ResidentModel& model = b.model;
    uint32_t count = 0;
    if (model.alone != 0) {
        count = b.team.leads() ? lead_alone<clusters>(b, round, request, rounds)
                               : follow_alone<clusters>(b, round, request, rounds);
    } else if (b.team.leads()) {
        count = next_count(model, request, rounds, b.turn.until);
        tell_count<clusters>(b, round, count);
    } else {
        count = hear_count<clusters>(b, round);
    }
    if (lanes::id() == 0) store<Scope::block>(&b.turn.told, round | uint64_t{count} << 32);
    lanes::rejoin();
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
        if (at < b.model.input) to[at] = value_of(p.word[k]);
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
    b.model.progress->begun = 0;
    b.model.progress->stopped = 0;
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

// Behind the last answer of a round.
DENIZEN_HD inline void count_round(const ResidentModel& m, Turn& turn, uint32_t count)
{
    Counts& counts = turn.counts;
    counts.rounds += 1;
    counts.steps += count;
    counts.busy_ns += now_ns() - turn.arrived;
    store<Scope::system>(&m.counts->rounds, counts.rounds);
    store<Scope::system>(&m.counts->steps, counts.steps);
    store<Scope::system>(&m.counts->busy_ns, counts.busy_ns);
}

// Whether this thread counts the rounds: of the leader's warps that make answers the one that has
// least to do.
DENIZEN_HD inline bool counts_rounds(const ResidentModel& m, const Team& team)
{
    return team.leads() && lanes::id() == 0 && Team::front(team.block(), m.front_warps).last_warp();
}

// A round of several requests, whose first is taken. Called, so that a round of one has the
// registers for itself.
template <Format F>
DENIZEN_COLD void serve_many(uint32_t number, unsigned char* shared, Turn& turn, uint32_t round,
                             uint32_t request, uint32_t count)
{
    const Block b = called_by(Team(number), shared, turn);
    take_requests(b, round, request, 1, count);
    b.team.sync();
    bool anew = false;
    for (uint32_t c = 0; c < count; ++c) {
        anew = anew || b.all_from(from_zeros | made_anew, c);
    }
    if (anew) renew<F>(number, shared, turn, count);
    answer<F>(number, shared, turn, round, count);
    if (counts_rounds(b.model, b.team)) count_round(b.model, b.turn, count);
    prepare<F>(number, shared, turn, count);
    lanes::rejoin();
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
    if (counts_rounds(m, team)) turn.arrived = now_ns();
    // A cluster has all recurrent matrices in shared memory or is too small to gain by halves.
    const bool halves = !clusters && m.front_warps != block_threads / 32;
    const Block front{m, clusters ? Team(number) : Team::front(number, m.front_warps), shared, turn,
                      b.place};
    // Of the warps that make answers: in halves it has nothing to do behind one.
    const bool decides = front.team.here() && front.team.last_warp();
    if (decides && team.leads() && lanes::id() == 0) {
        turn.until = denizen::detail::begin_term(m.term, true);
    }
    if (team.rank() == 0) {
        turn.told = 0;
        turn.made = 0;
        turn.cached = no_stream;
        turn.model = m;
        turn.place = b.place;
    }
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
    if (counts_rounds(m, team)) {
        counts = *m.counts;
        counts.loading_ns = now_ns() - turn.arrived;
        store<Scope::system>(&m.counts->loading_ns, counts.loading_ns);
    }
    // All other warps have met behind the answer, so that nothing of its request is read any more.
    // A CPU's thread is all of its warps: it decides when it has summed.
    const bool listens = m.late != 0 && !halves && DENIZEN_ON_DEVICE;
    bool decided = false;                  // what comes after this round
    for (uint32_t rounds = 0;; ++rounds) { // ends when the leader says so
        round = round_after(round);
        if (team.leads() && rounds >= 2 && m.alone == 0) {
            // Ends: the others do not wait for this block any more in the round before the last.
            while (team.rank() == 0 &&
                   static_cast<int32_t>(
                       load<Scope::gpu, denizen::detail::host_acquire>(&m.progress->done) -
                       turn.done_before - m.blocks * (rounds - 1)) < 0) {
                pause_block();
            }
            team.sync();
        }
        Ahead<F> first = ahead<F>(front, 0);
        if (decides && !decided) decide<clusters>(number, shared, turn, round, request, rounds);
        decided = false;
        take_requests(b, round, request, 0, 1);
        team.sync();
        const auto count = static_cast<uint32_t>(turn.told >> 32);
        if (count == 0) break;
        if (counts_rounds(m, team)) turn.arrived = now_ns();
        if (count == 1) {
            const bool anew = b.all_from(from_zeros | made_anew, 0);
            if (anew) renew<F>(number, shared, turn, 1);
            if (anew || turn.cached != b.stream(0)) {
                load_cache(number, shared, turn);
                team.sync();
                first = ahead<F>(front, 0); // not kept through the call
            }
            if (!halves || front.team.here()) {
#if DENIZEN_ON_DEVICE
                if constexpr (clusters) {
                    answer_one<F>(front, first, Near(m, shared, round), round, false);
                } else {
                    answer_one<F>(front, first, Far(m, round), round, halves);
                }
#else
                answer_one<F>(front, first, Far(m, round), round, halves);
#endif
                if (counts_rounds(m, team)) count_round(m, turn, 1);
            }
            if (listens && decides) {
                decide<clusters>(number, shared, turn, round_after(round), request + 1, rounds + 1);
                decided = true;
            } else if (!halves || !DENIZEN_ON_DEVICE || !front.team.here()) {
                prepare_one<F>(number, shared, turn, round);
            }
        } else {
            serve_many<F>(number, shared, turn, round, request, count);
        }
        if (!listens) team.sync(); // else when the next request has been taken
        if (team.rank() == 0) {
            turn.cached = count == 1 ? b.stream(0) : no_stream;
            if (m.alone == 0) {
                fetch_add<Scope::gpu, denizen::detail::host_release>(&m.progress->done, 1u);
            }
        }
        request += count;
    }
    if (m.late != 0 && turn.cached != no_stream) keep_late(number, shared, turn);
#if DENIZEN_ON_DEVICE && __CUDA_ARCH__ >= 900
    if constexpr (clusters) { // nobody's memory is gone while the leader still tells
        asm volatile(
            "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                : "memory");
    }
#endif
    team.sync();
    if (team.rank() == 0) leave(b, round, request);
}

} // namespace denizen::infer::detail
