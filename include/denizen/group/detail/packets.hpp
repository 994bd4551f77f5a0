// SPDX-License-Identifier: Apache-2.0
// Collectives by packets, for small sizes. Each packet says by its sequence that it has arrived, so
// no barrier is needed: a result is there after one way over the link (one_shot) or two (two_shot).
// Data that do not fit into the inboxes go in rounds.
//
// one_shot sends n - 1 times what pull reads, and 16 bytes for 12 of data. A packet can be that
// dense because a 16-byte access does not tear (base/packet.hpp). Of an 8-byte access half would be
// sequence.
#pragma once

#include <denizen/group/detail/channel.hpp>

namespace denizen::group {

// The elements of one packet, and their words: all three, but two of an 8-byte element.
template <class T>
inline constexpr uint32_t per_packet = sizeof(Packet::word) / sizeof(T);
template <class T>
inline constexpr uint32_t words_in_packet = per_packet<T> * sizeof(T) / 4;

// The last packet of some data, and data that are not aligned to words: element by element.
template <class T>
DENIZEN_HD DENIZEN_APART inline Packet pick_elements(const unsigned char* from, uint64_t left)
{
    T some[per_packet<T>] = {};
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < per_packet<T>; ++i) {
#if DENIZEN_ON_DEVICE
        if (i < left) some[i] = reinterpret_cast<const T*>(from)[i];
#else
        if (i < left) copy_bytes(&some[i], from + i * sizeof(T), sizeof(T));
#endif
    }
    Packet p{};
    copy_bytes(p.word, some, sizeof some);
    return p;
}

template <class T>
DENIZEN_HD DENIZEN_APART inline void place_elements(unsigned char* to, const Packet p,
                                                    uint64_t left)
{
    T some[per_packet<T>];
    copy_bytes(some, p.word, sizeof some);
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < per_packet<T>; ++i) {
#if DENIZEN_ON_DEVICE
        if (i < left) reinterpret_cast<T*>(to)[i] = some[i];
#else
        if (i < left) copy_bytes(to + i * sizeof(T), &some[i], sizeof(T));
#endif
    }
}

// Elements from `from` on, at most `left`; the rest is 0. Aligned as elements are.
template <class T>
DENIZEN_HD inline Packet pick(const unsigned char* from, uint64_t left)
{
    if (left >= per_packet<T> &&
        (!DENIZEN_ON_DEVICE || reinterpret_cast<uintptr_t>(from) % 4 == 0)) {
        Packet p{};
#if DENIZEN_ON_DEVICE
        const auto* const words = reinterpret_cast<const uint32_t*>(from);
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < words_in_packet<T>; ++i) p.word[i] = words[i];
#else
        copy_bytes(p.word, from, 4 * words_in_packet<T>);
#endif
        return p;
    }
    return pick_elements<T>(from, left);
}

template <class T>
DENIZEN_HD inline void place(unsigned char* to, const Packet& p, uint64_t left)
{
    if (left >= per_packet<T> && (!DENIZEN_ON_DEVICE || reinterpret_cast<uintptr_t>(to) % 4 == 0)) {
#if DENIZEN_ON_DEVICE
        auto* const words = reinterpret_cast<uint32_t*>(to);
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < words_in_packet<T>; ++i) words[i] = p.word[i];
#else
        copy_bytes(to, p.word, 4 * words_in_packet<T>);
#endif
        return;
    }
    place_elements<T>(to, p, left);
}

// Adds up packets of all ranks in the order of the ranks, so that all get the same bits.
template <class T>
class Sum {
public:
    using Wide = typename Narrow<T>::Wide;

    DENIZEN_HD void add(Op op, const Packet& p, bool first)
    {
        T some[per_packet<T>];
        copy_bytes(some, p.word, sizeof some);
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < per_packet<T>; ++i) {
            const Wide value = widen(some[i]);
            sum_[i] = first ? value : combine(op, sum_[i], value);
        }
    }
    DENIZEN_HD Packet result(Op op, uint32_t ranks) const
    {
        T some[per_packet<T>];
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < per_packet<T>; ++i) {
            some[i] = Narrow<T>::of(conclude(op, sum_[i], ranks));
        }
        Packet p{};
        copy_bytes(p.word, some, sizeof some);
        return p;
    }

private:
    Wide sum_[per_packet<T>] = {};
};

// Loops over ranks are written for N of them: 2 and 4 are compiled by themselves, since on the
// device a short call takes as long as its instructions do; max_ranks stands for any other number,
// and for all of them with types that are not common.
template <uint32_t N, class Memory>
DENIZEN_HD inline uint32_t ranks_of(const Channel<Memory>& channel)
{
    return N < max_ranks ? N : channel.ranks();
}

// f<N>() for the group's number of ranks. Text that is compiled at run time defines
// DENIZEN_GROUP_RANKS, which that is then: the kernels for other numbers take most of a minute.
template <class T, class Memory, class F>
DENIZEN_HD inline auto for_ranks(const Channel<Memory>& channel, const F& f)
{
    (void)channel;
    if constexpr (is_common(Narrow<T>::type)) {
#if defined(DENIZEN_GROUP_RANKS)
        constexpr bool apart = DENIZEN_GROUP_RANKS == 2 || DENIZEN_GROUP_RANKS == 4;
        return f.template operator()<apart ? DENIZEN_GROUP_RANKS : max_ranks>();
#else
        switch (channel.ranks()) {
        case 2: return f.template operator()<2>();
        case 4: return f.template operator()<4>();
        default: return f.template operator()<max_ranks>();
        }
#endif
    } else {
        return f.template operator()<max_ranks>();
    }
}

// A channel's packets of some data: runs of run_packets, dealt to the channels in turn. Number i of
// the channel is this one of the data.
struct Dealt {
    uint32_t channel;
    uint32_t channels;
    DENIZEN_HD uint32_t operator()(uint32_t i) const
    {
        return (i / run_packets * channels + channel) * run_packets + i % run_packets;
    }
};

// The packets number i of all peers that send: got[r]. All are asked for before the first is waited
// for. `first`: rank 0's packet 0 in the inbox. False if the group is poisoned.
template <uint32_t N, class Memory>
DENIZEN_HD inline bool collect(const Channel<Memory>& channel, const Packet* first, uint32_t slots,
                               uint32_t i, uint32_t from, Packet (&got)[N])
{
    const uint32_t me = channel.rank();
    const auto sends = [&](uint32_t r) {
        return r < ranks_of<N>(channel) && r != me && (from == max_ranks || r == from);
    };
    const auto packet = [&](uint32_t r) { return first + (uint64_t{r} * slots + i); };
    DENIZEN_UNROLL
    for (uint32_t r = 0; r < N; ++r) {
        if (sends(r)) got[r] = channel.memory().load(packet(r));
    }
    DENIZEN_UNROLL
    for (uint32_t r = 0; r < N; ++r) {
        if (sends(r) && !channel.wait(packet(r), r, got[r])) return false;
    }
    return true;
}

// A packet on its way to `to`.
template <class Memory>
DENIZEN_HD inline void send_packet(const Channel<Memory>& channel, uint32_t to, uint64_t offset,
                                   uint32_t i, Packet p)
{
    p.sequence = channel.sequence();
    channel.memory().store(reinterpret_cast<Packet*>(channel.group().memory[to] + offset) + i, p);
}

template <class T, uint32_t N>
DENIZEN_HD inline Packet reduced(Op op, const Packet (&got)[N], uint32_t ranks)
{
    Sum<T> sum;
    DENIZEN_UNROLL
    for (uint32_t r = 0; r < N; ++r) {
        if (r < ranks) sum.add(op, got[r], r == 0);
    }
    return sum.result(op, ranks);
}

// The turn to go on from (Channel::go_on).
template <class T, uint32_t N, class Memory>
DENIZEN_HD inline uint32_t one_shot_of(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Team;
    constexpr uint32_t each = per_packet<T>;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = ranks_of<N>(channel);
    const uint32_t slots = g.layout.slots;
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const bool broadcast = call.kind == Kind::broadcast;
    const bool sends = !broadcast || me == call.root;
    const uint64_t room = uint64_t{call.channels} * slots * each;
    const Dealt number{channel.index(), call.channels};
    uint64_t at = 0;
    do { // a round: what the inboxes hold; ends after the last element, or with the last packet
        const uint64_t count = call.count - at < room ? call.count - at : room;
        const auto packets = static_cast<uint32_t>((count + each - 1) / each);
        const bool some = number(0) < packets;
        if (!some && (at > 0 || channel.index() > 0))
            break; // channel 0 compares calls all the same
        const bool proven = some && channel.known() && !broadcast;
        const auto source = [&](uint32_t n, uint32_t peer) {
            const uint64_t element = at + uint64_t{n} * each;
            return pick<T>(in + ((scatters(call.kind) ? peer * call.count : 0) + element) *
                                    sizeof(T),
                           call.count - element);
        };
        channel.open_turn(proven);
        const uint64_t mine = g.inbox_offset(channel.index(), channel.turn(), 0, me);
        DENIZEN_ROLLED
        for (uint32_t i = Who::rank(); sends && number(i) < packets; i += Who::size()) {
            Packet p = source(number(i), 0);
            DENIZEN_ROLLED
            for (uint32_t step = 1; step < ranks; ++step) {
                const uint32_t peer = channel.peer(step);
                if (scatters(call.kind)) p = source(number(i), peer);
                send_packet(channel, peer, mine, i, p);
            }
        }
        const Packet* const inbox = g.inbox(me, channel.index(), channel.turn(), 0, 0);
        bool good = true;
        DENIZEN_ROLLED
        for (uint32_t i = Who::rank(); good && number(i) < packets; i += Who::size()) {
            const uint64_t element = at + uint64_t{number(i)} * each;
            Packet got[N] = {};
            const Packet own = sends ? source(number(i), me) : Packet{};
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < N; ++r) {
                if (r == me) got[r] = own;
            }
            good = collect<N>(channel, inbox, slots, i, broadcast ? call.root : max_ranks, got);
            if (!good) break;
            if (reduces_as<T>(call.kind)) {
                place<T>(out + element * sizeof(T), reduced<T>(call.op, got, ranks),
                         call.count - element);
                continue;
            }
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < N; ++r) {
                if (r >= ranks || (broadcast && r != call.root)) continue;
                place<T>(out + ((gathers(call.kind) ? r * call.count : 0) + element) * sizeof(T),
                         got[r], call.count - element);
            }
        }
        if (!channel.close_turn(good, proven)) return 0;
        at += count;
    } while (at < call.count);
    return channel.turn();
}

// all_reduce: each rank adds up its part, and sends it to all.
template <class T, uint32_t N, class Memory>
DENIZEN_HD inline uint32_t two_shot_of(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Team;
    constexpr uint32_t each = per_packet<T>;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = ranks_of<N>(channel);
    const uint32_t slots = g.layout.slots;
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const uint64_t room = uint64_t{call.channels} * slots * each * ranks;
    const Dealt number{channel.index(), call.channels};
    uint64_t at = 0;
    do { // a round: what the inboxes hold; ends after the last element, or with the last packet
        const uint64_t count = call.count - at < room ? call.count - at : room;
        const auto packets = static_cast<uint32_t>((count + each - 1) / each);
        const uint32_t part = (packets + ranks - 1) / ranks;
        if (number(0) >= part && (at > 0 || channel.index() > 0)) break;
        const auto exists = [&](uint32_t n, uint32_t owner) {
            return n < part && owner * part + n < packets;
        };
        const auto element = [&](uint32_t n, uint32_t owner) {
            return at + (uint64_t{owner} * part + n) * each;
        };
        const auto source = [&](uint32_t n, uint32_t owner) {
            return pick<T>(in + element(n, owner) * sizeof(T), call.count - element(n, owner));
        };
        const bool proven = channel.known() && exists(number(0), ranks - 1);
        channel.open_turn(proven);
        const uint64_t parts = g.inbox_offset(channel.index(), channel.turn(), 0, me);
        const uint64_t sums = g.inbox_offset(channel.index(), channel.turn(), 1, me);
        DENIZEN_ROLLED
        for (uint32_t i = Who::rank(); number(i) < part; i += Who::size()) {
            DENIZEN_ROLLED
            for (uint32_t step = 1; step < ranks; ++step) {
                const uint32_t peer = channel.peer(step);
                if (exists(number(i), peer))
                    send_packet(channel, peer, parts, i, source(number(i), peer));
            }
        }
        const Packet* const inbox = g.inbox(me, channel.index(), channel.turn(), 0, 0);
        const Packet* const outcome = g.inbox(me, channel.index(), channel.turn(), 1, 0);
        bool good = true;
        DENIZEN_ROLLED
        for (uint32_t i = Who::rank(); good && exists(number(i), me); i += Who::size()) {
            const uint32_t n = number(i);
            Packet got[N] = {};
            const Packet own = source(n, me);
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < N; ++r) {
                if (r == me) got[r] = own;
            }
            good = collect<N>(channel, inbox, slots, i, max_ranks, got);
            if (!good) break;
            const Packet sum = reduced<T>(call.op, got, ranks);
            DENIZEN_ROLLED
            for (uint32_t step = 1; step < ranks; ++step) {
                send_packet(channel, channel.peer(step), sums, i, sum);
            }
            place<T>(out + element(n, me) * sizeof(T), sum, call.count - element(n, me));
        }
        DENIZEN_ROLLED
        for (uint32_t i = Who::rank(); good && number(i) < part; i += Who::size()) {
            DENIZEN_ROLLED
            for (uint32_t r = 0; good && r < ranks; ++r) {
                const uint32_t n = number(i);
                if (r == me || !exists(n, r)) continue;
                const Packet* const p = outcome + (uint64_t{r} * slots + i);
                Packet got = channel.memory().load(p);
                good = channel.wait(p, r, got);
                if (good)
                    place<T>(out + element(n, r) * sizeof(T), got, call.count - element(n, r));
            }
        }
        if (!channel.close_turn(good, proven)) return 0;
        at += count;
    } while (at < call.count);
    return channel.turn();
}

template <class T, class Memory>
DENIZEN_HD inline uint32_t one_shot(const Channel<Memory>& channel, const Call& call)
{
    return for_ranks<T>(channel, [&]<uint32_t N>() { return one_shot_of<T, N>(channel, call); });
}

template <class T, class Memory>
DENIZEN_HD inline uint32_t two_shot(const Channel<Memory>& channel, const Call& call)
{
    return for_ranks<T>(channel, [&]<uint32_t N>() { return two_shot_of<T, N>(channel, call); });
}

} // namespace denizen::group
