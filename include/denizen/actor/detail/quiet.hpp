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
// One warp looks at hundreds of workers. So the words of several are asked for before any is waited
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
    uint64_t handled; // messages, by all workers
};

// What a lane asks for at once: words of so many workers, or of their near rings four.
inline constexpr uint32_t workers_at_once = lanes::size == 1 ? 1 : 4;
inline constexpr uint32_t fours_at_once = lanes::size == 1 ? 1 : 8;

// Gives `see` what `read` has read of each of this lane's workers.
template <class Read, class See>
DENIZEN_HD inline void look_at_workers(const Shared& s, Read&& read, See&& see)
{
    DENIZEN_ROLLED
    for (uint32_t first = lanes::id(); first < s.workers; first += workers_at_once * lanes::size) {
        decltype(read(first)) words[workers_at_once];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < workers_at_once; ++k) {
            const uint32_t w = first + k * lanes::size;
            words[k] = read(w < s.workers ? w : first);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < workers_at_once; ++k) {
            if (first + k * lanes::size < s.workers) {
                see(words[k]);
            }
        }
    }
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
// first of the four. Behind the last ring of a worker all words are 0.
template <class Read, class See>
DENIZEN_HD inline void look_at_near_rings(const Shared& s, Read&& read, See&& see)
{
    constexpr uint32_t fours = max_near / 4;
    const uint32_t end = s.workers * fours;
    DENIZEN_ROLLED
    for (uint32_t first = lanes::id(); first < end; first += fours_at_once * lanes::size) {
        decltype(read(first, first)) words[fours_at_once];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < fours_at_once; ++k) {
            const uint32_t i = first + k * lanes::size < end ? first + k * lanes::size : first;
            words[k] = read(i / fours, i % fours * 4);
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < fours_at_once; ++k) {
            const uint32_t i = first + k * lanes::size;
            if (i < end && i % fours * 4 < s.near) {
                see(i / fours, i % fours * 4, words[k]);
            }
        }
    }
}

// What each worker has handled of its near rings, where its senders' tails are compared with it.
DENIZEN_HD inline void read_near_heads(const Shared& s)
{
    look_at_near_rings(
        s, [&](uint32_t w, uint32_t i) { return load_four(&s.status[w].near_head[i]); },
        [&](uint32_t w, uint32_t i, const Four& head) {
            const uint32_t place = w % s.near;
            const uint32_t from = w - place + i;
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                if (i + k < s.near && from + k < s.workers) {
                    s.watch[from + k].near_head[place] = head.word[k];
                }
            }
        });
}

// Whether all that this lane sees of near rings has been handled.
DENIZEN_HD inline bool near_rings_empty(const Shared& s)
{
    struct Ends {
        Four tail;
        Four head;
    };
    bool empty = true;
    look_at_near_rings(
        s,
        [&](uint32_t w, uint32_t i) {
            return Ends{load_four(&s.status[w].near_tail[i]), load_four(&s.watch[w].near_head[i])};
        },
        [&](uint32_t, uint32_t, const Ends& e) {
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < 4; ++k) {
                empty &= e.tail.word[k] == e.head.word[k];
            }
        });
    return empty;
}

DENIZEN_HD inline uint64_t sum_over_lanes(uint64_t value)
{
#if DENIZEN_ON_DEVICE
    for (int d = 16; d != 0; d /= 2) {
        value += __shfl_xor_sync(~0u, value, d);
    }
#endif
    return value;
}

// A word of a worker's ring for data, and of the one for urgent messages.
struct OfRings {
    uint32_t data;
    uint32_t urgent;
};

// What this node's workers have handled of each other node's, and in its own place of other hosts'.
DENIZEN_HD inline void tell_done_of_peers(const Shared& s)
{
    DENIZEN_ROLLED
    for (uint32_t n = 0; n < s.nodes; ++n) {
        const bool own = n == s.node;
        if (own && s.far.hosts == 0) {
            continue;
        }
        const uint32_t source = source_peer + (own ? s.nodes - 1 : n < s.node ? n : n - 1);
        const uint32_t hurried = own ? source : source_peer_urgent(s) + source - source_peer;
        uint32_t done = 0;
        look_at_workers(
            s,
            [&](uint32_t w) {
                const Status& status = s.status[w];
                return OfRings{load<Scope::gpu, host_acquire>(&status.done[source]),
                               load<Scope::gpu, host_acquire>(&status.done[hurried])};
            },
            [&](const OfRings& p) { done += own ? p.data : p.data + p.urgent; });
        done = lanes::sum(done);
        if (lanes::id() == 0) {
            store<Scope::system>(&s.control->peer_done[n], done);
        }
    }
}

// And what they have sent to each other node.
DENIZEN_HD inline void tell_sent_to_peers(const Shared& s)
{
    DENIZEN_ROLLED
    for (uint32_t n = 0; n < s.nodes; ++n) {
        if (n == s.node) {
            continue;
        }
        const uint32_t* tails = s.peer[n].tails; // data, and behind them urgent ones
        uint32_t sent = 0;
        look_at_workers(
            s,
            [&](uint32_t w) {
                return OfRings{load<Scope::gpu>(&tails[w * credit_stride]),
                               load<Scope::gpu>(&tails[(s.workers + w) * credit_stride])};
            },
            [&](const OfRings& p) { sent += p.data + p.urgent; });
        sent = lanes::sum(sent);
        if (lanes::id() == 0) {
            store<Scope::system>(&s.control->peer_sent[n], sent);
        }
    }
}

// Writes to Control what it has found. `check` becomes Control::check. Behind a fence, so that all
// that this warp has told the host before is seen by who sees the numbers.
DENIZEN_COLD inline Checked check_quiet(const Shared& s, uint32_t check)
{
    struct Positions { // acquire, by the fence below: partners of the releases in Worker::tell()
        OfRings node;
        OfRings host;
        uint32_t tasks;
        uint32_t chores; // before the tails: what a chore has sent by then has drawn its ticket
        uint32_t moving;
        uint64_t handled;
    };
    uint32_t node = 0;
    uint32_t host = 0;
    uint32_t tasks = 0;
    bool quiet = true;
    uint64_t handled = 0;
    look_at_workers(
        s,
        [&](uint32_t w) {
            const Status& status = s.status[w];
            const WorkerState& state = s.worker_states[w];
            return Positions{{load<Scope::gpu, host_acquire>(&status.done[source_node]),
                              load<Scope::gpu, host_acquire>(&status.done[source_node_urgent])},
                             {load<Scope::gpu, host_acquire>(&status.done[source_host]),
                              load<Scope::gpu, host_acquire>(&status.done[source_host_urgent])},
                             static_cast<uint32_t>(load<Scope::gpu, host_acquire>(&status.tasks)),
                             load<Scope::gpu, host_acquire>(&state.chores),
                             load<Scope::gpu, host_acquire>(&state.moving),
                             load<Scope::gpu>(&status.handled)};
        },
        [&](const Positions& p) {
            node += p.node.data + p.node.urgent;
            host += p.host.data + p.host.urgent;
            tasks += p.tasks;
            quiet &= (p.chores | p.moving) == 0;
            handled += p.handled;
        });
    read_near_heads(s);
    if (s.nodes > 1 || s.far.hosts != 0) {
        tell_done_of_peers(s);
    }
#if DENIZEN_ON_DEVICE
    // One for all: a fence empties the L1 cache of its SM, which it shares with a worker.
    __threadfence();
#endif
    lanes::sync();
    struct Tails {
        OfRings node;
        uint32_t outbox; // a message parked for the host is in no inbox
    };
    look_at_workers(
        s,
        [&](uint32_t w) {
            return Tails{
                {load<Scope::gpu>(&s.inbox[w].tail), load<Scope::gpu>(&s.urgent_inbox[w].tail)},
                load<Scope::gpu>(&s.status[w].outbox)};
        },
        [&](const Tails& t) {
            node -= t.node.data + t.node.urgent;
            quiet &= t.outbox == 0;
        });
    quiet &= near_rings_empty(s);
    if (s.nodes > 1) {
        tell_sent_to_peers(s);
    }
    quiet = lanes::ballot(!quiet) == 0 && lanes::sum(node) == 0;
    if (s.pool != nullptr) {
        quiet =
            quiet && lanes::sum(tasks) == static_cast<uint32_t>(load<Scope::gpu>(&s.pool->tail));
    }
    host = lanes::sum(host);
    handled = sum_over_lanes(handled);
#if DENIZEN_ON_DEVICE
    __threadfence_system(); // every lane's reports before the numbers
#endif
    lanes::sync();
    if (lanes::id() == 0) {
        Control& c = *s.control;
        store<Scope::system>(&c.quiet, static_cast<uint64_t>(host) << 32 | (quiet ? 1u : 0u));
        store<Scope::system>(&c.handled, handled);
        // Release: partner of the host's acquire of the number.
        store<Scope::system, Order::release>(&c.check, check);
    }
    lanes::sync();
    return {quiet, handled};
}

} // namespace denizen::detail
