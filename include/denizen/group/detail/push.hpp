// SPDX-License-Identifier: Apache-2.0
// Collectives by stores into the peers' stages, for the sizes between packets and pull: the quarter
// of a packet that is its sequence would cost too much, and so would a barrier. Each warp of a team
// takes pieces of its channel's slice. It copies one piece into the stages of all peers, releases,
// and sends a packet that announces the piece. Then it takes up an earlier piece that has come.
// Nothing is loaded over the link, no warp waits for a whole round, and all stages of a round are
// free when it begins (channel.hpp says why).
//
// push sends (n - 1) times the result in one hop. push_twice, for all_reduce, sends 2 (n - 1) / n
// times the result in two hops: each rank adds up its part and stores the sum into the stages of
// the others. If the result lies at the same place in symmetric memory on all ranks, the sum is
// stored there directly. A hop is a release, in which the link acknowledges the stores so far (a
// round trip), and the way of the packet.
#pragma once

#include <denizen/group/detail/pull.hpp>

namespace denizen::group {

inline constexpr uint64_t most_piece = 16384; // bytes

// How a slice goes through the stages. In elements; all ranks come to the same.
struct Rounds {
    uint64_t fits;  // of each writer in a stage, that has `parts` of them
    uint64_t room;  // of a round: the slice in as few as there can be, of about the same length
    uint64_t piece; // of a warp: a round is 16 of them, or more if that is more than most_piece
};
template <class T>
DENIZEN_HD inline Rounds rounds_of(const Layout& layout, uint32_t parts, uint64_t slice)
{
    const auto up = [](uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; };
    const uint64_t bytes = slice * sizeof(T);
    const uint64_t stage = layout.stage_bytes / (parts == 0 ? 1 : parts) / 16 * 16;
    const uint64_t most = most_piece * layout.slots; // a piece is told of by one packet
    const uint64_t fits = stage < most ? stage : most;
    uint64_t room = bytes == 0 ? 16 : bytes;
    if (bytes > fits) {
        const uint64_t rounds = (bytes + fits - 1) / fits;
        room = up((bytes + rounds - 1) / rounds, 16);
    }
    const uint64_t piece = up((room + 15) / 16, 512);
    return {fits / sizeof(T), room / sizeof(T),
            (piece < most_piece ? piece : most_piece) / sizeof(T)};
}

// Of a rank's stage, the part that `from` writes: nobody writes into his own.
DENIZEN_HD inline uint32_t writer(uint32_t of, uint32_t from)
{
    return from < of ? from : from - 1;
}

// How many elements of `count` piece i holds; the last may be cut, those behind it are empty.
DENIZEN_HD inline uint64_t cut(uint64_t count, uint64_t i, uint64_t piece)
{
    const uint64_t begin = i * piece;
    return begin >= count ? 0 : count - begin < piece ? count - begin : piece;
}

// By a whole warp, behind its stores to the stages: piece i is there. Not to whom `skip` is true.
template <class Memory, class Skip>
DENIZEN_HD inline void announce(const Channel<Memory>& channel, uint32_t phase, uint64_t i,
                                const Skip& skip)
{
    using Who = typename Memory::Warp;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    Who::sync();
    if (Who::rank() < channel.ranks()) channel.memory().release(); // partner: arrived()
    DENIZEN_ROLLED
    for (uint32_t r = Who::rank(); r < channel.ranks(); r += Who::size()) {
        if (r == me || skip(r)) continue;
        Packet p{};
        p.sequence = channel.sequence();
        channel.memory().store(g.inbox(r, channel.index(), channel.turn(), phase, me) + i, p);
    }
}

// By a whole warp: until piece i has come from all but `skip`. False if the group is poisoned.
template <class Memory, class Skip>
DENIZEN_HD inline bool arrived(const Channel<Memory>& channel, uint32_t phase, uint64_t i,
                               const Skip& skip)
{
    using Who = typename Memory::Warp;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    bool good = true;
    DENIZEN_ROLLED
    for (uint32_t r = Who::rank(); good && r < channel.ranks(); r += Who::size()) {
        if (r == me || skip(r)) continue;
        const Packet* const p = g.inbox(me, channel.index(), channel.turn(), phase, r) + i;
        Packet got = channel.memory().load(p);
        good = channel.wait(p, r, got);
    }
    if (Who::rank() < channel.ranks()) channel.memory().acquire(); // partner: announce()
    Who::sync(); // the order holds for the lanes that did not look: a vote alone orders no memory
    return Who::all(good);
}

// Everything but push_twice. Returns the turn to go on from (Channel::go_on).
template <class T, class Memory>
DENIZEN_HD inline uint32_t push(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Warp;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = channel.ranks();
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const bool broadcast = call.kind == Kind::broadcast;
    const bool sends = !broadcast || me == call.root;
    const Slice mine = slice_of<T>(call.count, channel.index(), call.channels);
    const Rounds rounds = rounds_of<T>(g.layout, ranks - 1, mine.end - mine.begin);
    const uint64_t fits = rounds.fits, room = rounds.room, piece = rounds.piece;
    const auto nobody = [](uint32_t) { return false; };
    const auto others = [&](uint32_t r) { return broadcast && r != call.root; };
    uint64_t at = mine.begin;
    do { // a round: what the stages hold; ends after the last element
        const uint64_t count = mine.end - at < room ? mine.end - at : room;
        const uint64_t pieces = (count + piece - 1) / piece;
        channel.open_turn();
        const auto stage = [&](uint32_t of, uint32_t from) {
            return g.stage(of, channel.index(), channel.turn()) +
                   writer(of, from) * fits * sizeof(T);
        };
        bool good = true;
        // Ends when the last piece has been taken up, behind the others' by one for each warp.
        DENIZEN_ROLLED
        for (uint64_t i = Who::index(); good && i < pieces + Who::count(); i += Who::count()) {
            if (sends && i < pieces) {
                DENIZEN_ROLLED
                for (uint32_t step = 1; step < ranks; ++step) {
                    const uint32_t r = channel.peer(step);
                    const uint64_t from = (scatters(call.kind) ? r * call.count : 0) + at;
                    copy_elements<T, Who>(channel.memory(), stage(r, me) + i * piece * sizeof(T),
                                          in + (from + i * piece) * sizeof(T),
                                          cut(count, i, piece));
                }
                announce(channel, 0, i, nobody);
            }
            if (i < Who::count()) continue;
            const uint64_t now = i - Who::count();
            good = arrived(channel, 0, now, others);
            if (!good) break;
            const uint64_t element = at + now * piece;
            const auto source = [&](uint32_t r) -> const unsigned char* {
                if (r != me) return stage(me, r) + now * piece * sizeof(T);
                return in + ((scatters(call.kind) ? me * call.count : 0) + element) * sizeof(T);
            };
            if (reduces_as<T>(call.kind)) {
                reduce_elements<T, Who>(channel.memory(), ranks, call.op, cut(count, now, piece),
                                        source, 1,
                                        [&](uint32_t) { return out + element * sizeof(T); });
                continue;
            }
            DENIZEN_ROLLED
            for (uint32_t r = 0; r < ranks; ++r) {
                if (others(r)) continue;
                unsigned char* const to =
                    out + ((gathers(call.kind) ? r * call.count : 0) + element) * sizeof(T);
                if (to != source(r)) {
                    copy_elements<T, Who>(channel.memory(), to, source(r), cut(count, now, piece));
                }
            }
        }
        if (!channel.close_turn(good)) return 0;
        at += count;
    } while (at < mine.end);
    return channel.turn();
}

// all_reduce: to each rank its part from all; then the sum of it from that rank to all.
template <class T, class Memory>
DENIZEN_HD inline uint32_t push_twice(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Warp;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = channel.ranks();
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const bool direct = call.out_place != 0;
    const uint64_t part = part_of<T>(call.count, ranks);
    const Slice mine = slice_of<T>(part, channel.index(), call.channels);
    const Rounds rounds =
        rounds_of<T>(g.layout, (direct ? 1 : 2) * (ranks - 1), mine.end - mine.begin);
    const uint64_t fits = rounds.fits, room = rounds.room, piece = rounds.piece;
    uint64_t at = mine.begin; // of each part
    do {                      // a round: what the stages hold; ends after the last element
        const uint64_t all = mine.end - at < room ? mine.end - at : room;
        const uint64_t pieces = (all + piece - 1) / piece;
        const auto count = [&](uint64_t i, uint32_t p) { // of piece i in part p
            const uint64_t begin = p * part + at;
            const uint64_t left = begin >= call.count ? 0 : call.count - begin;
            return cut(left < all ? left : all, i, piece);
        };
        const auto offset = [&](uint64_t i, uint32_t p) {
            return (p * part + at + i * piece) * sizeof(T);
        };
        channel.open_turn();
        const auto stage = [&](uint32_t of, uint32_t phase, uint32_t from, uint64_t i) {
            return g.stage(of, channel.index(), channel.turn()) +
                   ((phase * (ranks - 1) + writer(of, from)) * fits + i * piece) * sizeof(T);
        };
        bool good = true;
        // Ends when the last sums have come, behind the pieces sent by two for each warp.
        const uint64_t end = pieces + 2 * Who::count();
        DENIZEN_ROLLED
        for (uint64_t i = Who::index(); good && i < end; i += Who::count()) {
            if (i < pieces) {
                DENIZEN_ROLLED
                for (uint32_t step = 1; step < ranks; ++step) {
                    const uint32_t r = channel.peer(step);
                    copy_elements<T, Who>(channel.memory(), stage(r, 0, me, i), in + offset(i, r),
                                          count(i, r));
                }
                announce(channel, 0, i, [&](uint32_t r) { return count(i, r) == 0; });
            }
            if (i < Who::count()) continue;
            if (const uint64_t now = i - Who::count(); now < pieces && count(now, me) != 0) {
                good = arrived(channel, 0, now, [](uint32_t) { return false; });
                if (!good) break;
                // Where the ranks want the sum. A peer's `out` is free: what it has sent of this
                // part it has read, and it is in this call.
                const auto target = [&](uint32_t step) {
                    const uint32_t r = channel.peer(step);
                    if (r == me) return out + offset(now, me);
                    return direct ? g.heap(r) + (call.out_place - 1) + offset(now, me)
                                  : stage(r, 1, me, now);
                };
                const auto source = [&](uint32_t r) -> const unsigned char* {
                    return r == me ? in + offset(now, me) : stage(me, 0, r, now);
                };
                reduce_elements<T, Who>(channel.memory(), ranks, call.op, count(now, me), source,
                                        ranks, target);
                announce(channel, 1, now, [](uint32_t) { return false; });
            }
            if (i < 2 * Who::count()) continue;
            const uint64_t now = i - 2 * Who::count();
            good = arrived(channel, 1, now, [&](uint32_t r) { return count(now, r) == 0; });
            if (!good || direct) continue;
            DENIZEN_ROLLED
            for (uint32_t step = 1; step < ranks; ++step) {
                const uint32_t r = channel.peer(step);
                copy_elements<T, Who>(channel.memory(), out + offset(now, r), stage(me, 1, r, now),
                                      count(now, r));
            }
        }
        if (!channel.close_turn(good)) return 0;
        at += all;
    } while (at < mine.end);
    return channel.turn();
}

} // namespace denizen::group
