// SPDX-License-Identifier: Apache-2.0
// A collective from inside a kernel, a resident program or a thread. Each team makes the Channel of
// its number and calls. The same number of teams takes part on every rank: team i on channel i.
// Only one kernel, or one set of threads, may use a group at a time.
//
//   denizen::group::Channel channel(group, blockIdx.x);
//   denizen::group::all_reduce(channel, gridDim.x, in, out, count, Op::sum); // all threads
//   ...                                                                      // as often as wanted
//   channel.close();
//
// Each team reads and writes a slice of the data. So what other teams wrote to `in` must be visible
// to it before: by a kernel before this one, or a barrier of the grid. False: the group is
// poisoned, `out` holds anything, and every later call fails, too.
#pragma once

#include <denizen/group/detail/packets.hpp>
#include <denizen/group/detail/pull.hpp>
#include <denizen/group/detail/push.hpp>

namespace denizen::group {

// The turn to go on from (Channel::go_on).
template <class T, class Memory>
DENIZEN_HD inline uint32_t turn_after(const Channel<Memory>& channel, const Call& call)
{
    const Algorithm algorithm = only_for(call.kind, Narrow<T>::type, call.algorithm);
    if constexpr (is_common(Narrow<T>::type)) {
        if (call.kind == Kind::all_reduce) { // so no other kind's text has them
            switch (algorithm) {
            case Algorithm::pull_twice: return pull_twice<T>(channel, call);
            case Algorithm::push_twice: return push_twice<T>(channel, call);
            case Algorithm::two_shot: return two_shot<T>(channel, call);
            default: break;
            }
        }
    }
    switch (algorithm) {
    case Algorithm::pull: return pull<T>(channel, call);
    case Algorithm::push: return push<T>(channel, call);
    default: return one_shot<T>(channel, call);
    }
}

template <class T, class Memory>
DENIZEN_HD inline bool perform_on(Channel<Memory>& channel, const Call& call)
{
    return channel.go_on(turn_after<T>(channel, call));
}

// `call` is complete and the same on all ranks but for addresses. Every thread of the team. All
// types and algorithms are in it: compiled once for all kernels that call it, and a call takes
// longer than one that knows its type (kernels.hpp). Text that is compiled at run time leaves types
// out, because each takes seconds: it defines DENIZEN_GROUP_COMMON to have no rare ones, or
// DENIZEN_GROUP_RARE to have no others (see is_rare()). The host sends a kernel no call that it
// lacks.
template <class Memory>
DENIZEN_HD DENIZEN_APART inline bool perform(Channel<Memory>& channel, const Call& call)
{
    if (channel.index() >= call.channels) return true;
    if (!channel.begin(call)) return false;
    if (call.kind == Kind::barrier) return channel.meet();
    const Call its = moved(call);
    switch (its.type) {
#if !defined(DENIZEN_GROUP_RARE)
    case Type::f32: return perform_on<float>(channel, its);
    case Type::i32: return perform_on<int32_t>(channel, its);
    case Type::f16: return perform_on<Half>(channel, its);
    case Type::bf16: return perform_on<BFloat>(channel, its);
#endif
#if !defined(DENIZEN_GROUP_COMMON)
    case Type::f64: return perform_on<double>(channel, its);
    case Type::i64: return perform_on<int64_t>(channel, its);
    case Type::u8: return perform_on<uint8_t>(channel, its);
    case Type::f8e4m3: return perform_on<Float8E4M3>(channel, its);
    case Type::f8e5m2: return perform_on<Float8E5M2>(channel, its);
#endif
    default: return false;
    }
}

// Offset + 1 in this rank's symmetric memory; 0 for what is not there.
DENIZEN_HD inline uint64_t place_of(const GroupRef& group, const void* at, uint64_t bytes)
{
    const auto* const p = static_cast<const unsigned char*>(at);
    const unsigned char* const heap = group.heap(group.rank);
    return p >= heap && p + bytes <= heap + group.layout.heap_bytes
               ? static_cast<uint64_t>(p - heap) + 1
               : 0;
}

// For pulls: a peer's data are read where they are, if they lie in symmetric memory (then they must
// on all ranks, at the same place) and are not overwritten meanwhile. For push_twice: results are
// written to where the peers want them, on the same condition.
DENIZEN_HD inline void find_places(const GroupRef& group, Call& call)
{
    const bool two_hops = call.kind == Kind::all_reduce && is_common(call.type);
    if (two_hops && call.algorithm == Algorithm::push_twice) {
        call.out_place = place_of(group, call.out, call.count * size_of(call.type));
    }
    if (call.algorithm != Algorithm::pull && call.algorithm != Algorithm::pull_twice) return;
    const uint64_t bytes = call.count * size_of(call.type);
    const auto* const in = static_cast<const unsigned char*>(call.in);
    const auto* const out = static_cast<const unsigned char*>(call.out);
    const uint64_t from = place_of(group, in, bytes * (scatters(call.kind) ? group.ranks() : 1));
    const bool destroys =
        in == out && (call.kind == Kind::all_reduce || call.kind == Kind::all_to_all);
    if (two_hops && (destroys || call.algorithm == Algorithm::pull_twice)) {
        const uint64_t to = place_of(group, out, bytes);
        if (from == 0 || to == 0) return;
        call.algorithm = Algorithm::pull_twice; // each rank overwrites what it alone reads
        call.in_place = from;
        call.out_place = to;
    } else if (!destroys && !(call.kind == Kind::all_gather && in == out + bytes * group.rank)) {
        call.in_place = from; // all_gather in place: another place on each rank
    }
}

// On a GPU a table's pull is of data that peers read where they are. Other data would be copied to
// a stage first: they are pushed to the peers' stages instead, which takes as many bytes less.
DENIZEN_HD inline void push_what_is_not_there(Call& call)
{
    if (call.in_place != 0) return;
    if (call.algorithm == Algorithm::pull) call.algorithm = Algorithm::push;
    if (call.algorithm == Algorithm::pull_twice) call.algorithm = Algorithm::push_twice;
}

template <class T, class Memory>
DENIZEN_HD inline Call call_of(const Channel<Memory>& channel, Kind kind, uint32_t channels,
                               const T* in, T* out, uint64_t count, Op op, Algorithm algorithm,
                               uint32_t root)
{
    Call call;
    call.kind = kind;
    call.type = Narrow<T>::type;
    call.op = op;
    call.algorithm = algorithm != Algorithm::automatic
                         ? algorithm
                         : channel.group().choice(count * sizeof(T)).algorithm;
    call.root = root;
    call.channels = channels;
    call.count = count;
    call.in = in;
    call.out = out;
    find_places(channel.group(), call);
    if (DENIZEN_ON_DEVICE && algorithm == Algorithm::automatic) push_what_is_not_there(call);
    return call;
}

// One call with the type known when it is compiled: nothing else is in the kernel.
template <class T, class Memory>
DENIZEN_HD inline bool perform_as(Channel<Memory>& channel, const Call& call)
{
    if (channel.index() >= call.channels) return true;
    if (!channel.begin(call)) return false;
    if constexpr (only_reduced<T>) {
        const Call its = moved(call);
        if (its.type == Type::i32) return perform_on<int32_t>(channel, its);
        if (its.type == Type::u8) return perform_on<uint8_t>(channel, its);
    }
    return perform_on<T>(channel, call);
}

template <class T, class Memory>
DENIZEN_HD inline bool collective(Channel<Memory>& channel, Kind kind, uint32_t channels,
                                  const T* in, T* out, uint64_t count, Op op = Op::sum,
                                  Algorithm algorithm = Algorithm::automatic, uint32_t root = 0)
{
    return perform_as<T>(channel,
                         call_of(channel, kind, channels, in, out, count, op, algorithm, root));
}

template <class T, class Memory>
DENIZEN_HD inline bool all_reduce(Channel<Memory>& channel, uint32_t channels, const T* in, T* out,
                                  uint64_t count, Op op = Op::sum,
                                  Algorithm algorithm = Algorithm::automatic)
{
    return collective(channel, Kind::all_reduce, channels, in, out, count, op, algorithm);
}

template <class Memory>
DENIZEN_HD inline bool barrier(Channel<Memory>& channel, uint32_t channels = 1)
{
    Call call;
    call.channels = channels;
    if (channel.index() >= channels) return true;
    return channel.begin(call) && channel.meet();
}

} // namespace denizen::group
