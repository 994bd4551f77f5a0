// SPDX-License-Identifier: Apache-2.0
// Whether a program is quiet: the monitor's check, which a drain waits for.
//
// Quiet: no message is in a ring between workers, in an outbox or in a handler, and no task waits
// or runs. First every worker's handled positions are read, then every ring's tail. A position past
// a message is told after the tails of what its handler sent (see Status), tails only grow and
// positions follow them: if each pair is equal, no message was alive at the moment between the two
// passes, except one that descends from a message of the host's or a peer's that is not handled
// yet. How many of the host's are is told in the same word. tests/model/quiet.pml has the proof.
//
// The tails of inboxes are read where tickets are drawn: none is behind what has been handled of
// it, and all are equal if their sums are. Those of near rings are as their senders last told them,
// which may be behind: they are compared one by one.
//
// One warp looks at hundreds of workers. So the words of many are asked for before any is waited
// for, and those of near rings four at a time, by lanes side by side.
#pragma once

#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/pool.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/base/packet.hpp>

namespace denizen::detail {

// In every lane.
struct Checked {
    bool quiet;
    // The sum of what was handled but of near rings. Where two checks have found a program quiet
    // and this the same, and no timer has fired, it has handled nothing between.
    uint32_t positions;
};

// The sum of a word, or of two, that each worker has in a row of so many bytes; given are those of
// the first. In every lane. On the host an acquire of each.
DENIZEN_COLD inline uint32_t sum_over_workers(const Shared& s, size_t row, const uint32_t* one,
                                              const uint32_t* other = nullptr)
{
    constexpr uint32_t at_once = lanes::size == 1 ? 1 : 3;
    const auto read = [&](const uint32_t* first, uint32_t w) -> uint32_t {
        if (first == nullptr || w >= s.workers) {
            return 0;
        }
        const auto* const word = reinterpret_cast<const unsigned char*>(first) + w * row;
        return load<Scope::gpu, host_acquire>(reinterpret_cast<const uint32_t*>(word));
    };
    uint32_t sum = 0;
    DENIZEN_ROLLED
    for (uint32_t w = lanes::id(); w < s.workers; w += at_once * lanes::size) {
        uint32_t word[2 * at_once];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < at_once; ++k) {
            word[2 * k] = read(one, w + k * lanes::size);
            word[2 * k + 1] = read(other, w + k * lanes::size);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < 2 * at_once; ++k) {
            sum += word[k];
        }
    }
    return lanes::sum(sum);
}

// Four words, which lie at a multiple of 16 bytes.
struct Four {
    uint32_t word[4];
};

DENIZEN_HD inline Four load_four(const uint32_t* p)
{
#if DENIZEN_ON_DEVICE
    const Packet told = load_packet<Scope::gpu>(reinterpret_cast<const Packet*>(p));
    return {{told.word[0], told.word[1], told.word[2], told.sequence}};
#else
    return {{load<Scope::gpu, host_acquire>(p), load<Scope::gpu, host_acquire>(p + 1),
             load<Scope::gpu, host_acquire>(p + 2), load<Scope::gpu, host_acquire>(p + 3)}};
#endif
}

// Gives `see` what `read` has read of four near rings of each worker, with that worker and the
// first of the four; the last of a lane's perhaps more than once. Behind the last ring of a worker
// all words are 0.
template <class Read, class See>
DENIZEN_HD inline void look_at_near_rings(const Shared& s, Read&& read, See&& see)
{
    constexpr uint32_t at_once = lanes::size == 1 ? 1 : 3;
    constexpr uint32_t fours = max_near / 4;
    const uint32_t end = s.workers * fours;
    DENIZEN_ROLLED
    for (uint32_t first = lanes::id(); first < end; first += at_once * lanes::size) {
        decltype(read(first, first)) words[at_once];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < at_once; ++k) {
            const uint32_t i = first + k * lanes::size < end ? first + k * lanes::size : first;
            words[k] = read(i / fours, i % fours * 4);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < at_once; ++k) {
            const uint32_t i = first + k * lanes::size < end ? first + k * lanes::size : first;
            see(i / fours, i % fours * 4, words[k]);
        }
    }
}

// What each worker has handled of its near rings, where its senders' tails are compared with it.
DENIZEN_HD inline void read_near_heads(const Shared& s)
{
    const uint32_t near = s.near;
    const uint32_t workers = s.workers;
    look_at_near_rings(
        s, [&](uint32_t w, uint32_t i) { return load_four(&s.status[w].near_head[i]); },
        [&](uint32_t w, uint32_t i, const Four& head) {
            const uint32_t place = w % near;
            const uint32_t first = w - place + i;
            const uint32_t end = w - place + near < workers ? w - place + near : workers;
            Watch* const from = s.watch + first;
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                if (first + k < end) {
                    from[k].near_head[place] = head.word[k];
                }
            }
        });
}

// Whether any near ring has more in it than that.
DENIZEN_HD inline bool under_way_nearby(const Shared& s)
{
    struct Ends {
        Four tail;
        Four head;
    };
    uint32_t differ = 0;
    look_at_near_rings(
        s,
        [&](uint32_t w, uint32_t i) {
            return Ends{load_four(&s.status[w].near_tail[i]), load_four(&s.watch[w].near_head[i])};
        },
        [&](uint32_t, uint32_t, const Ends& e) {
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                differ |= e.tail.word[k] ^ e.head.word[k];
            }
        });
    return lanes::ballot(differ != 0) != 0;
}

// What this node's workers have handled of each other node's, and in its own place of other hosts'.
// Returns the sum.
DENIZEN_HD inline uint32_t tell_done_of_peers(const Shared& s)
{
    uint32_t all = 0;
    DENIZEN_ROLLED
    for (uint32_t n = 0; n < s.nodes; ++n) {
        const bool own = n == s.node;
        if (own && s.far.hosts == 0) {
            continue;
        }
        const uint32_t source = source_peer + (own ? s.nodes - 1 : n < s.node ? n : n - 1);
        const uint32_t hurried = source_peer_urgent(s) + source - source_peer;
        const uint32_t done = sum_over_workers(s, sizeof(Status), &s.status->done[source],
                                               own ? nullptr : &s.status->done[hurried]);
        if (lanes::id() == 0) {
            store<Scope::system>(&s.control->peer_done[n], done);
        }
        all += done;
    }
    return all;
}

// And what they have sent to each other node.
DENIZEN_HD inline void tell_sent_to_peers(const Shared& s)
{
    DENIZEN_ROLLED
    for (uint32_t n = 0; n < s.nodes; ++n) {
        if (n == s.node) {
            continue;
        }
        const uint32_t* const tails = s.peer[n].tails; // data, and behind them urgent ones
        const uint32_t sent = sum_over_workers(s, credit_stride * sizeof(uint32_t), tails,
                                               tails + s.workers * credit_stride);
        if (lanes::id() == 0) {
            store<Scope::system>(&s.control->peer_sent[n], sent);
        }
    }
}

// Writes to Control what it has found. `check` becomes Control::check. Behind a fence, so that all
// that this warp has told the host before is seen by who sees the numbers.
DENIZEN_COLD inline Checked check_quiet(const Shared& s, uint32_t check)
{
    const Status* const status = s.status;
    const WorkerState* const state = s.worker_states;
    // Acquire, by the fence below: partners of the releases in Worker::tell().
    const uint32_t host = sum_over_workers(s, sizeof *status, &status->done[source_host],
                                           &status->done[source_host_urgent]);
    const uint32_t node = sum_over_workers(s, sizeof *status, &status->done[source_node],
                                           &status->done[source_node_urgent]);
    const uint32_t tasks =
        s.pool == nullptr ? 0 : sum_over_workers(s, sizeof *status, &status->tasks);
    read_near_heads(s);
    uint32_t positions = host + node + tasks;
    if (s.nodes > 1 || s.far.hosts != 0) {
        positions += tell_done_of_peers(s);
    }
    // Before the tails: what a chore has sent by then has drawn its ticket.
    uint32_t busy = sum_over_workers(s, sizeof *state, &state->chores, &state->moving);
#if DENIZEN_ON_DEVICE
    // One for all: a fence empties the L1 cache of its SM, which it shares with a worker.
    __threadfence();
#endif
    lanes::sync();
    // A message parked for the host is in no inbox.
    busy |= sum_over_workers(s, sizeof *status, &status->outbox);
    busy |= node - sum_over_workers(s, sizeof *s.inbox, &s.inbox->tail, &s.urgent_inbox->tail);
    if (s.pool != nullptr) {
        busy |= tasks - static_cast<uint32_t>(load<Scope::gpu>(&s.pool->tail));
    }
    const bool quiet = !under_way_nearby(s) && busy == 0;
    if (s.nodes > 1) {
        tell_sent_to_peers(s);
    }
#if DENIZEN_ON_DEVICE
    __threadfence_system(); // every lane's reports before the numbers
#endif
    lanes::sync();
    if (lanes::id() == 0) {
        Control& c = *s.control;
        store<Scope::system>(&c.quiet, static_cast<uint64_t>(host) << 32 | (quiet ? 1u : 0u));
        store<Scope::system>(&c.positions, positions);
        // Release: partner of the host's acquire of the number.
        store<Scope::system, Order::release>(&c.check, check);
    }
    lanes::sync();
    return {quiet, positions};
}

} // namespace denizen::detail
