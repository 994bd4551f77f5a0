// SPDX-License-Identifier: Apache-2.0
// Collectives from inside a resident program: a handler or a task of each rank makes the same call,
// and its threads do the work. No launch, no message to another program.
//
//   struct Rank {
//       static constexpr auto grain = denizen::Grain::warp;
//       DENIZEN_HD void on(const Step& m, auto& ctx)
//       {
//           denizen::group::Inside<grain> inside(*m.group); // Group::address() of this rank
//           ctx.reply(Done{inside.all_reduce(m.in, m.out, m.count)});
//       }
//   };
//
// The team is the handler's warp, or its one thread. Several warps of a rank share the work if each
// takes a channel of its own: Inside<grain>(group, channel, channels), channels 0 to channels - 1.
//
// Hazards. A call waits for the same call of every other rank, and its worker does nothing else
// meanwhile: two ranks on one worker wait for each other until the group's time limit poisons the
// group. So each handler that takes part has a worker of its own, as actors on nodes of their own
// have (on_node()), and the tasks of ranks are of task::Runtimes of their own. A channel is one
// handler's at a time, and while they call, the group is used in no other way. Handlers and tasks
// of a block cannot call: their team would be all its threads, and the runtime's monitor is one
// warp of them.
//
// A file that nvcc compiles has the kernels of group.hpp too, of all types and algorithms, which
// take minutes. One whose groups are called by handlers and tasks only does without: it defines
// DENIZEN_GROUP_INSIDE_ONLY before its first #include.
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/group/detail/perform.hpp>

namespace denizen::group {

namespace detail {

// By the number of a grain, which actors and tasks have in common.
template <uint32_t Grain>
struct TeamOf {
    static_assert(Grain < 2, "collectives are called by handlers and tasks of the grain thread or "
                             "warp; spawn warps, each with a channel of its own");
    using Type = Alone;
};
template <>
struct TeamOf<1> {
    using Type = OneWarp;
};

// The turn to go on from, of a call that reduces or of one that does not. Out of line: all
// algorithms are in it, and a runtime expands its handlers and tasks at several places.
template <class T, bool Reduces, class Memory>
DENIZEN_HD DENIZEN_APART inline uint32_t turn_apart(const Channel<Memory> channel, Call call)
{
    // What it is already: so the compiler knows the kinds, and leaves out what they do not need.
    if constexpr (Reduces) {
        call.kind = call.kind == Kind::all_reduce ? Kind::all_reduce : Kind::reduce_scatter;
    } else {
        call.kind = call.kind == Kind::all_gather  ? Kind::all_gather
                    : call.kind == Kind::broadcast ? Kind::broadcast
                                                   : Kind::all_to_all;
    }
    return turn_after<T>(channel, call);
}

template <class T, class Memory>
DENIZEN_HD inline uint32_t turn_of(const Channel<Memory>& channel, const Call& call)
{
    if (reduces(call.kind)) return turn_apart<T, true>(channel, call);
    if constexpr (!only_reduced<T>) {
        return turn_apart<T, false>(channel, call);
    } else if constexpr (mover_of(Narrow<T>::type) == Type::i32) {
        return turn_apart<int32_t, false>(channel, moved(call));
    } else {
        return turn_apart<uint8_t, false>(channel, moved(call));
    }
}

} // namespace detail

// Made by all threads of the handler or task, which make each call together. G: its grain.
// `group`: of this rank; it outlives the calls.
template <auto G, class Memory = DirectOf<typename detail::TeamOf<static_cast<uint32_t>(G)>::Type>>
class Inside {
    using Team = typename Memory::Team;

public:
    // The work is shared among `channels` handlers of each rank; this one's is number `channel`.
    DENIZEN_HD explicit Inside(const GroupRef& group, uint32_t channel = 0, uint32_t channels = 1)
        : there_(channel < channels && channels <= group.layout.channels), channels_(channels),
          channel_(group, there_ ? channel : 0)
    {
    }
    DENIZEN_HD ~Inside()
    {
        if (!there_) return;
        channel_.close();
        Team::sync(); // what close() has kept is there for the next Inside of every thread
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    // As Group's of the same names; see Kind for what `count` counts. The handlers of all ranks
    // make the same calls in the same order. What the threads of this handler wrote before is seen;
    // what those of another channel wrote must be. False: there are not so many channels, or the
    // group is poisoned; why, the next call or wait() of Group throws on the host.
    template <class T>
    DENIZEN_HD bool all_reduce(const T* in, T* out, uint64_t count, Op op = Op::sum)
    {
        return call(Kind::all_reduce, in, out, count, op, 0);
    }
    template <class T>
    DENIZEN_HD bool reduce_scatter(const T* in, T* out, uint64_t count, Op op = Op::sum)
    {
        return call(Kind::reduce_scatter, in, out, count, op, 0);
    }
    template <class T>
    DENIZEN_HD bool all_gather(const T* in, T* out, uint64_t count)
    {
        return call(Kind::all_gather, in, out, count, Op::sum, 0);
    }
    template <class T>
    DENIZEN_HD bool broadcast(const T* in, T* out, uint64_t count, uint32_t root)
    {
        return call(Kind::broadcast, in, out, count, Op::sum, root);
    }
    template <class T>
    DENIZEN_HD bool all_to_all(const T* in, T* out, uint64_t count)
    {
        return call(Kind::all_to_all, in, out, count, Op::sum, 0);
    }
    // That of this kind, which is not the barrier.
    template <class T>
    DENIZEN_HD bool call(Kind kind, const T* in, T* out, uint64_t count, Op op, uint32_t root)
    {
        if (!there_) return false;
        Team::sync(); // one thread reads what another has written
        const Call its =
            call_of(channel_, kind, channels_, in, out, count, op, Algorithm::automatic, root);
        const bool good = channel_.begin(its) && channel_.go_on(detail::turn_of<T>(channel_, its));
        if constexpr (static_cast<uint32_t>(G) == 1) lanes::rejoin(); // behind what is out of line
        Team::sync();
        return good;
    }
    // Of this channel's handlers.
    DENIZEN_HD bool barrier()
    {
        Call call;
        call.channels = channels_;
        return there_ && channel_.begin(call) && channel_.meet();
    }

private:
    bool there_;
    uint32_t channels_;
    Channel<Memory> channel_;
};

} // namespace denizen::group
