// SPDX-License-Identifier: Apache-2.0
// One call of a collective, in the form that kernels, mailboxes and threads pass on, and the call's
// signature, which must be the same on all ranks. Plain data.
#pragma once

#include <denizen/base/packet.hpp>
#include <denizen/group/number.hpp>

namespace denizen::group {

enum class Kind : uint32_t {
    barrier,
    all_reduce,     // out[i] = op over ranks of in[i]; count elements
    reduce_scatter, // out[i] = op over ranks of in[rank * count + i]; count elements of out
    all_gather,     // out[r * count + i] = in[i] of rank r; count elements of in
    broadcast,      // out[i] = in[i] of the root
    all_to_all,     // out[r * count + i] = in[rank * count + i] of rank r; count for each peer
    all_reduce_norm // a NormCall (norm.hpp), never a Call
};

enum class Algorithm : uint32_t {
    automatic,  // by the group's table
    one_shot,   // packets to every peer, one way; no barrier
    two_shot,   // all_reduce of common types: packets, reduce-scatter and all-gather; else one_shot
    pull,       // a barrier, then loads from every peer
    pull_twice, // all_reduce of common types: pull a reduce-scatter, then an all-gather; else pull
    push,       // stores into every peer's stage, piece by piece
    push_twice  // all_reduce of common types: push a reduce-scatter and an all-gather; else push
};

inline constexpr uint32_t kinds = 6; // of a Call
inline constexpr uint32_t algorithms = 7;
// All but the barrier, and all but the automatic one.
inline constexpr Kind every_collective[] = {Kind::all_reduce, Kind::reduce_scatter,
                                            Kind::all_gather, Kind::broadcast, Kind::all_to_all};
inline constexpr Algorithm every_algorithm[] = {Algorithm::one_shot, Algorithm::two_shot,
                                                Algorithm::pull,     Algorithm::pull_twice,
                                                Algorithm::push,     Algorithm::push_twice};
static_assert(sizeof every_collective == (kinds - 1) * sizeof(Kind));
static_assert(sizeof every_algorithm == (algorithms - 1) * sizeof(Algorithm));

struct Call {
    Kind kind = Kind::barrier;
    Type type = Type::f32;
    Op op = Op::sum;
    Algorithm algorithm = Algorithm::one_shot; // decided: never automatic
    uint32_t root = 0;
    uint32_t channels = 1; // that take part
    uint64_t count = 0;    // see Kind
    const void* in = nullptr;
    void* out = nullptr;    // may be `in` (all_gather, all_to_all: the same places of it)
    uint64_t in_place = 0;  // offset + 1 of `in`, if it lies in symmetric memory; else 0
    uint64_t out_place = 0; // offset + 1 of `out`, if it lies in symmetric memory; else 0
};

DENIZEN_HD inline bool reduces(Kind kind)
{
    return kind == Kind::all_reduce || kind == Kind::reduce_scatter;
}
DENIZEN_HD inline bool scatters(Kind kind) // each peer gets another part of `in`
{
    return kind == Kind::reduce_scatter || kind == Kind::all_to_all;
}
DENIZEN_HD inline bool gathers(Kind kind) // each peer's goes to another part of `out`
{
    return kind == Kind::all_gather || kind == Kind::all_to_all;
}
// What a call does that is none of all_reduce's with algorithms of their own.
DENIZEN_HD constexpr Algorithm only_for(Kind kind, Type type, Algorithm algorithm)
{
    if (kind == Kind::all_reduce && is_common(type)) return algorithm;
    switch (algorithm) {
    case Algorithm::two_shot: return Algorithm::one_shot;
    case Algorithm::pull_twice: return Algorithm::pull;
    case Algorithm::push_twice: return Algorithm::push;
    default: return algorithm;
    }
}

// What moves elements that are not summed up: those of 8 bytes as pairs of i32, 8-bit floats as u8.
DENIZEN_HD constexpr Type mover_of(Type type)
{
    switch (type) {
    case Type::f64:
    case Type::i64: return Type::i32;
    case Type::f8e4m3:
    case Type::f8e5m2: return Type::u8;
    default: return type;
    }
}

// The same call by the mover of its elements.
DENIZEN_HD inline Call moved(Call call)
{
    if (!reduces(call.kind)) {
        call.count *= size_of(call.type) / size_of(mover_of(call.type));
        call.type = mover_of(call.type);
    }
    return call;
}

// Calls whose kernels Python compiles when the first of them comes.
DENIZEN_HD inline bool is_rare(const Call& call)
{
    return call.kind != Kind::barrier && !is_common(moved(call).type);
}

// Types that only their sums need a text of their own for (see moved()).
template <class T>
inline constexpr bool only_reduced = mover_of(Narrow<T>::type) != Narrow<T>::type;
template <class T>
DENIZEN_HD constexpr bool reduces_as(Kind kind)
{
    return only_reduced<T> || reduces(kind);
}

// Three words, which the ranks compare in every call. A count has 48 bits.
DENIZEN_HD inline Packet signature_of(const Call& call)
{
    const uint32_t direct = (call.in_place != 0 ? 1u : 0u) | (call.out_place != 0 ? 2u : 0u);
    const uint64_t places = (call.in_place * 0x9e3779b97f4a7c15u) ^
                            (call.out_place * 0xc2b2ae3d27d4eb4fu); // 16 bits of it are compared
    return {{static_cast<uint32_t>(call.kind) | static_cast<uint32_t>(call.type) << 4 |
                 static_cast<uint32_t>(call.op) << 8 | static_cast<uint32_t>(call.algorithm) << 12 |
                 direct << 16 | call.root << 18 | call.channels << 22,
             static_cast<uint32_t>(call.count),
             static_cast<uint32_t>(call.count >> 32) | static_cast<uint32_t>(places >> 48) << 16},
            0};
}

DENIZEN_HD inline const char* to_string(Kind kind)
{
    const char* const names[] = {"barrier",   "all_reduce", "reduce_scatter", "all_gather",
                                 "broadcast", "all_to_all", "all_reduce_norm"};
    return static_cast<uint32_t>(kind) <= kinds ? names[static_cast<uint32_t>(kind)] : "?";
}
DENIZEN_HD inline const char* to_string(Algorithm algorithm)
{
    const char* const names[] = {"automatic",  "one_shot", "two_shot",  "pull",
                                 "pull_twice", "push",     "push_twice"};
    return static_cast<uint32_t>(algorithm) < algorithms ? names[static_cast<uint32_t>(algorithm)]
                                                         : "?";
}
DENIZEN_HD inline const char* to_string(Type type)
{
    const char* const names[] = {"f32", "f16", "bf16",   "i32",   "f64",
                                 "i64", "u8",  "f8e4m3", "f8e5m2"};
    return static_cast<uint32_t>(type) < types ? names[static_cast<uint32_t>(type)] : "?";
}
DENIZEN_HD inline const char* to_string(Op op)
{
    const char* const names[] = {"sum", "min", "max", "avg"};
    return static_cast<uint32_t>(op) < ops ? names[static_cast<uint32_t>(op)] : "?";
}

} // namespace denizen::group
