// SPDX-License-Identifier: Apache-2.0
// A collective as a handler or a task in Python calls it (python/denizen/handlers/collectives.py):
// by numbers and arrays that are what they are, so their sizes are looked at here.
#pragma once

#include <denizen/group/inside.hpp>

namespace denizen::group {

template <class T>
struct Cells {
    T* data = nullptr;
    uint64_t count = 0;
};

inline constexpr uint64_t misfit = ~uint64_t{0};

// How many elements a call of this kind has with these arrays, or that they do not fit it.
DENIZEN_HD inline uint64_t count_of(Kind kind, uint32_t ranks, uint64_t in, uint64_t out)
{
    switch (kind) {
    case Kind::all_reduce:
    case Kind::broadcast: return in == out ? in : misfit;
    case Kind::all_gather: return out == in * ranks ? in : misfit;
    case Kind::reduce_scatter: return in == out * ranks ? out : misfit;
    case Kind::all_to_all: return in == out && in % ranks == 0 ? in / ranks : misfit;
    default: return misfit;
    }
}

// For rank_in(): what was given is an address, and how much lies there is not known.
inline constexpr uint64_t by_address = ~uint64_t{0};

// The rank that a buffer of `bytes` holds (Group.buffer() in Python), or that lies at an address
// (Group.address(), for tasks, whose programs have no buffers); null: it is none.
DENIZEN_HD inline const GroupRef* rank_in(const void* given, uint64_t bytes)
{
    const bool fits = bytes == sizeof(GroupRef) || bytes == by_address;
    if (!fits || given == nullptr || reinterpret_cast<uintptr_t>(given) % alignof(GroupRef) != 0) {
        return nullptr;
    }
    const auto* const rank = static_cast<const GroupRef*>(given);
    return rank->mark == GroupRef::own_mark ? rank : nullptr;
}

// False: `buffer` is no rank, the arrays do not fit the call, the group has no rank `root`;
// nothing was done then. Or as Inside. G: the handler's or the task's grain.
template <auto G, class T>
DENIZEN_HD inline bool call_from_handler(const void* buffer, uint64_t bytes, Kind kind, Op op,
                                         uint32_t root, Cells<const T> in, Cells<T> out)
{
    const GroupRef* const group = rank_in(buffer, bytes);
    if (group == nullptr || root >= group->ranks()) return false;
    const uint64_t count = count_of(kind, group->ranks(), in.count, out.count);
    if (count == misfit) return false;
    Inside<G> inside(*group);
    return inside.call(kind, in.data, out.data, count, op, root);
}

template <auto G>
DENIZEN_HD inline bool meet_from_handler(const void* buffer, uint64_t bytes)
{
    const GroupRef* const group = rank_in(buffer, bytes);
    if (group == nullptr) return false;
    Inside<G> inside(*group);
    return inside.barrier();
}

} // namespace denizen::group
