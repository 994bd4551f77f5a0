// SPDX-License-Identifier: Apache-2.0
// Collectives by loads from the peers, for sizes where bytes cost more than a barrier. Data that
// lie in symmetric memory on all ranks are read from there, with one barrier before and one after.
// Other data go in rounds: each channel copies a piece into its stage, meets, and reads the peers'
// stages. Two stages alternate, so a round needs no barrier at its end (channel.hpp says why).
//
// pull reads (n - 1) times the result. pull_twice reads 2 (n - 1) / n times the result and has one
// barrier more. Between two ranks both read the same, so pull is better there.
#pragma once

#include <denizen/group/detail/channel.hpp>

namespace denizen::group {

struct alignas(16) Vector {
    uint32_t word[4];
};

template <class T>
inline constexpr uint32_t per_vector = sizeof(Vector) / sizeof(T);

DENIZEN_HD inline bool aligned(const void* p)
{
    return reinterpret_cast<uintptr_t>(p) % sizeof(Vector) == 0;
}

template <class T>
DENIZEN_HD inline T element_at(const unsigned char* from, uint64_t i)
{
#if DENIZEN_ON_DEVICE
    return reinterpret_cast<const T*>(from)[i];
#else
    T value;
    copy_bytes(&value, from + i * sizeof(T), sizeof(T));
    return value;
#endif
}

DENIZEN_HD inline Vector vector_at(const unsigned char* from, uint64_t i)
{
#if DENIZEN_ON_DEVICE
    const uint4 v = reinterpret_cast<const uint4*>(from)[i]; // one access
    return {{v.x, v.y, v.z, v.w}};
#else
    return element_at<Vector>(from, i);
#endif
}

// By all of `Who`: the team, or a warp of it. `to` is the user's, or is read by peers after what
// tells them so.
template <class T, class Who, class Memory>
DENIZEN_HD DENIZEN_APART inline void copy_elements(const Memory memory, unsigned char* to,
                                                   const unsigned char* from, uint64_t count)
{
    constexpr uint32_t unroll = 4;
    uint64_t done = 0;
    if (aligned(to) && aligned(from)) {
        const uint64_t vectors = count / per_vector<T>;
        auto* const target = reinterpret_cast<Vector*>(to);
        uint64_t i = Who::rank();
        DENIZEN_ROLLED
        for (; i + (unroll - 1) * Who::size() < vectors; i += unroll * Who::size()) {
            Vector some[unroll];
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < unroll; ++u) some[u] = vector_at(from, i + u * Who::size());
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < unroll; ++u) {
                memory.write(target + i + u * Who::size(), some[u]);
            }
        }
        DENIZEN_ROLLED
        for (; i < vectors; i += Who::size()) memory.write(target + i, vector_at(from, i));
        done = vectors * per_vector<T>;
    }
    DENIZEN_ROLLED
    for (uint64_t i = done + Who::rank(); i < count; i += Who::size()) {
        memory.write(reinterpret_cast<T*>(to + i * sizeof(T)), element_at<T>(from, i));
    }
}

// Adds up, in the order of the ranks, what source(rank) points to. The result goes to `copies`
// places, target(0) and so on.
template <class T, class Who, class Memory, class Source, class Target>
DENIZEN_HD inline void reduce_elements(const Memory memory, uint32_t ranks, Op op, uint64_t count,
                                       const Source& source, uint32_t copies, const Target& target)
{
    using Wide = typename Narrow<T>::Wide;
    constexpr uint32_t unroll = DENIZEN_ON_DEVICE && is_common(Narrow<T>::type) ? 4 : 1;
    bool vectors_fit = true;
    DENIZEN_ROLLED
    for (uint32_t r = 0; r < ranks; ++r) vectors_fit = vectors_fit && aligned(source(r));
    DENIZEN_ROLLED
    for (uint32_t c = 0; c < copies; ++c) vectors_fit = vectors_fit && aligned(target(c));
    const uint64_t vectors = vectors_fit ? count / per_vector<T> : 0;
    DENIZEN_ROLLED
    for (uint64_t i = Who::rank(); i < vectors; i += unroll * Who::size()) {
        Wide sum[unroll][per_vector<T>] = {};
        // The next rank's loads are under way before this one's are waited for: one of them is near
        // and the others far.
        Vector next[unroll] = {};
        const auto fetch = [&](uint32_t r) {
            const unsigned char* const from = source(r);
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < unroll; ++u) {
                if (i + u * Who::size() < vectors) next[u] = vector_at(from, i + u * Who::size());
            }
        };
        fetch(0);
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < ranks; ++r) {
            Vector some[unroll];
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < unroll; ++u) some[u] = next[u];
            if (r + 1 < ranks) fetch(r + 1);
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < unroll; ++u) {
                T values[per_vector<T>];
                copy_bytes(values, some[u].word, sizeof values);
                DENIZEN_UNROLL
                for (uint32_t e = 0; e < per_vector<T>; ++e) {
                    const Wide value = widen(values[e]);
                    sum[u][e] = r == 0 ? value : combine(op, sum[u][e], value);
                }
            }
        }
        DENIZEN_UNROLL
        for (uint32_t u = 0; u < unroll; ++u) {
            const uint64_t at = i + u * Who::size();
            if (at >= vectors) continue;
            T values[per_vector<T>];
            DENIZEN_UNROLL
            for (uint32_t e = 0; e < per_vector<T>; ++e) {
                values[e] = Narrow<T>::of(conclude(op, sum[u][e], ranks));
            }
            Vector result;
            copy_bytes(result.word, values, sizeof values);
            DENIZEN_ROLLED
            for (uint32_t c = 0; c < copies; ++c) {
                memory.write(reinterpret_cast<Vector*>(target(c)) + at, result);
            }
        }
    }
    DENIZEN_ROLLED
    for (uint64_t i = vectors * per_vector<T> + Who::rank(); i < count; i += Who::size()) {
        Wide sum{};
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < ranks; ++r) {
            const Wide value = widen(element_at<T>(source(r), i));
            sum = r == 0 ? value : combine(op, sum, value);
        }
        const T result = Narrow<T>::of(conclude(op, sum, ranks));
        DENIZEN_ROLLED
        for (uint32_t c = 0; c < copies; ++c) {
            memory.write(reinterpret_cast<T*>(target(c) + i * sizeof(T)), result);
        }
    }
}

// The elements of `count` that are this channel's: begin to end, cut at multiples of 128 bytes.
struct Slice {
    uint64_t begin;
    uint64_t end;
};
template <class T>
DENIZEN_HD inline Slice slice_of(uint64_t count, uint32_t channel, uint32_t channels)
{
    constexpr uint64_t unit = line / sizeof(T);
    const uint64_t each = (count + unit * channels - 1) / (unit * channels) * unit;
    const uint64_t begin = each * channel < count ? each * channel : count;
    return {begin, begin + each < count ? begin + each : count};
}

// The elements of each rank's part of `count`, in multiples of 128 bytes; the last ones may be cut.
template <class T>
DENIZEN_HD inline uint64_t part_of(uint64_t count, uint32_t ranks)
{
    const uint64_t unit = uint64_t{line / sizeof(T)} * ranks;
    return (count + unit - 1) / unit * (line / sizeof(T));
}

// Everything but pull_twice. `element`: of the result, or of each rank's part of it.
template <class T, class Memory>
DENIZEN_HD inline uint32_t pull(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Team;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = channel.ranks();
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const bool broadcast = call.kind == Kind::broadcast;
    const bool direct = call.in_place != 0;
    const uint32_t parts = scatters(call.kind) ? ranks : 1;
    const uint64_t room =
        direct ? ~uint64_t{0} : g.layout.stage_bytes / parts / 16 * 16 / sizeof(T);
    const Slice mine = slice_of<T>(call.count, channel.index(), call.channels);
    uint64_t at = mine.begin;
    do { // a round: what the stage holds; ends after the last element
        const uint64_t count = mine.end - at < room ? mine.end - at : room;
        if (!direct && (!broadcast || me == call.root)) {
            unsigned char* const stage = g.stage(me, channel.index(), channel.turn() + 1);
            DENIZEN_ROLLED
            for (uint32_t p = 0; p < parts; ++p) {
                copy_elements<T, Who>(channel.memory(), stage + p * room * sizeof(T),
                                      in + (p * call.count + at) * sizeof(T), count);
            }
        }
        if (!channel.meet()) return 0;
        const auto source = [&](uint32_t r) -> const unsigned char* {
            const uint64_t part = scatters(call.kind) ? me : 0;
            if (r == me) return in + (part * call.count + at) * sizeof(T);
            return direct ? g.heap(r) + (call.in_place - 1) + (part * call.count + at) * sizeof(T)
                          : g.stage(r, channel.index(), channel.turn()) + part * room * sizeof(T);
        };
        if (reduces_as<T>(call.kind)) {
            reduce_elements<T, Who>(channel.memory(), ranks, call.op, count, source, 1,
                                    [&](uint32_t) { return out + at * sizeof(T); });
        } else {
            DENIZEN_ROLLED
            for (uint32_t step = 0; step < ranks; ++step) {
                // Not all ranks from the same one at a time, nor all channels: some copy what is
                // the rank's own while others use the links.
                const uint32_t r = channel.peer((step + channel.index()) % ranks);
                if (broadcast && r != call.root) continue;
                unsigned char* const to =
                    out + ((gathers(call.kind) ? r * call.count : 0) + at) * sizeof(T);
                if (to != source(r)) copy_elements<T, Who>(channel.memory(), to, source(r), count);
            }
        }
        if (direct && !channel.meet()) return 0; // the peers' data are theirs again
        at += count;
    } while (at < mine.end);
    return channel.turn();
}

// all_reduce: a part of the result from all, then the other parts from those who have them.
template <class T, class Memory>
DENIZEN_HD inline uint32_t pull_twice(Channel<Memory> channel, const Call call)
{
    using Who = typename Memory::Team;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = channel.ranks();
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const bool direct = call.in_place != 0 && call.out_place != 0;
    const uint64_t part = part_of<T>(call.count, ranks);
    const uint64_t room =
        direct ? ~uint64_t{0} : g.layout.stage_bytes / ranks / 16 * 16 / sizeof(T);
    const Slice mine = slice_of<T>(part, channel.index(), call.channels);
    uint64_t at = mine.begin; // of each part
    do {                      // a round: what the stage holds; ends after the last element
        const uint64_t all = mine.end - at < room ? mine.end - at : room;
        const auto count = [&](uint32_t p) { // of part p: the last ones may be cut, or empty
            const uint64_t begin = p * part + at;
            return begin >= call.count ? 0 : call.count - begin < all ? call.count - begin : all;
        };
        if (!direct) {
            unsigned char* const stage = g.stage(me, channel.index(), channel.turn() + 1);
            DENIZEN_ROLLED
            for (uint32_t p = 0; p < ranks; ++p) {
                if (p == me) continue; // nobody else reads it
                copy_elements<T, Who>(channel.memory(), stage + p * room * sizeof(T),
                                      in + (p * part + at) * sizeof(T), count(p));
            }
        }
        if (!channel.meet()) return 0;
        const uint64_t own = (me * part + at) * sizeof(T);
        reduce_elements<T, Who>(
            channel.memory(), ranks, call.op, count(me),
            [&](uint32_t r) -> const unsigned char* {
                if (r == me) return in + own;
                return direct ? g.heap(r) + (call.in_place - 1) + own
                              : g.stage(r, channel.index(), channel.turn()) + me * room * sizeof(T);
            },
            direct ? 1 : 2, [&](uint32_t c) { // the stage is for the peers
                return c == 0 ? out + own : g.stage(me, channel.index(), channel.turn() + 1);
            });
        if (!channel.meet()) return 0;
        DENIZEN_ROLLED
        for (uint32_t step = 1; step < ranks; ++step) { // not all from the same one at a time
            const uint32_t r = channel.peer(step);
            const uint64_t offset = (r * part + at) * sizeof(T);
            copy_elements<T, Who>(channel.memory(), out + offset,
                                  direct ? g.heap(r) + (call.out_place - 1) + offset
                                         : g.stage(r, channel.index(), channel.turn()),
                                  count(r));
        }
        if (direct && !channel.meet()) return 0; // the peers' results are theirs again
        at += all;
    } while (at < mine.end);
    return channel.turn();
}

} // namespace denizen::group
