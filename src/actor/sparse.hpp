// SPDX-License-Identifier: Apache-2.0
// Memory that is mostly zero, as a snapshot keeps it: how long it is, then the runs that are not
// zero, each with its place. Rings and tables are laid out for the most there may be and hold
// little.
#pragma once

#include <denizen/actor/detail/snapshot_file.hpp>

#include <algorithm>

namespace denizen {

namespace detail {

inline constexpr size_t sparse_unit = 64; // bytes that are zero, or written, together

inline bool all_zero(const unsigned char* p, size_t n)
{
    return n == 0 || (p[0] == 0 && std::memcmp(p, p + 1, n - 1) == 0);
}

} // namespace detail

// The runs of a part that begins `base` bytes into the memory.
inline void put_runs(SnapshotSection& to, uint64_t base, std::span<const unsigned char> part)
{
    const auto unit_at = [&](size_t at) {
        return part.subspan(at, std::min(detail::sparse_unit, part.size() - at));
    };
    for (size_t at = 0; at < part.size();) {
        const auto unit = unit_at(at);
        if (detail::all_zero(unit.data(), unit.size())) {
            at += unit.size();
            continue;
        }
        size_t end = at + unit.size();
        while (end < part.size() && !detail::all_zero(part.data() + end, unit_at(end).size())) {
            end += unit_at(end).size();
        }
        to.put(base + at);
        to.put(static_cast<uint64_t>(end - at));
        to.put(part.data() + at, end - at);
        at = end;
    }
}

inline void put_sparse(SnapshotSection& to, std::span<const unsigned char> memory)
{
    to.put(static_cast<uint64_t>(memory.size()));
    put_runs(to, 0, memory);
}

// Calls `place(offset, bytes)` for each run of a memory that must have had `size` bytes.
template <class Place>
void take_sparse(SnapshotBytes from, uint64_t size, Place&& place)
{
    const auto was = from.take<uint64_t>();
    if (was != size) {
        from.refuse("is of " + std::to_string(was) + " bytes of memory, this program has " +
                    std::to_string(size));
    }
    while (from.left() > 0) {
        const auto at = from.take<uint64_t>();
        const auto n = from.take<uint64_t>();
        if (at > size || n > size - at) {
            from.refuse("names memory outside of its region");
        }
        place(at, from.take(n));
    }
}

} // namespace denizen
