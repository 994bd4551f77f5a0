// SPDX-License-Identifier: Apache-2.0
// Where cells are and what they are: the grid, boxes that were changed since the start, and from
// both the class of a cell. Every block that works on a cell finds its class for itself: the cells
// at the start and the list of changes are only ever appended to, so nobody has to ask a neighbour.
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/wave/cell.hpp>

namespace denizen::wave {

// n cells along x, y, z; x is the fastest in memory.
struct Geometry {
    uint32_t n[3] = {0, 0, 0};
    Boundary boundary[3] = {};

    DENIZEN_HD bool periodic(uint32_t axis) const { return boundary[axis] == Boundary::periodic; }
    DENIZEN_HD uint64_t cells() const { return uint64_t{n[0]} * n[1] * n[2]; }
    DENIZEN_HD uint64_t index(const int32_t at[3]) const
    {
        return (static_cast<uint64_t>(at[2]) * n[1] + static_cast<uint64_t>(at[1])) * n[0] +
               static_cast<uint64_t>(at[0]);
    }
    // Brings a place that is at most one period outside into the grid along periodic axes; false
    // if it is outside all the same.
    DENIZEN_HD bool wrap(int32_t at[3]) const
    {
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto size = static_cast<int32_t>(n[axis]);
            if (at[axis] >= 0 && at[axis] < size) continue;
            if (!periodic(axis)) return false;
            at[axis] += at[axis] < 0 ? size : -size;
            if (at[axis] < 0 || at[axis] >= size) return false;
        }
        return true;
    }
    // The place along `axis` beside a place in the grid, on the side of the larger ones or not;
    // false if that is outside.
    DENIZEN_HD bool beside(int32_t at, uint32_t axis, bool up, int32_t& to) const
    {
        const auto last = static_cast<int32_t>(n[axis]) - 1;
        const bool end = at == (up ? last : 0);
        to = end ? (up ? 0 : last) : at + (up ? 1 : -1);
        return !end || periodic(axis);
    }
};

struct Box {
    int32_t low[3] = {0, 0, 0};
    int32_t high[3] = {0, 0, 0}; // one past

    DENIZEN_HD uint64_t cells() const
    {
        uint64_t n = 1;
        for (uint32_t axis = 0; axis < 3; ++axis)
            n *= static_cast<uint64_t>(high[axis] - low[axis]);
        return n;
    }
    DENIZEN_HD bool contains(const int32_t at[3]) const
    {
        for (uint32_t axis = 0; axis < 3; ++axis) {
            if (at[axis] < low[axis] || at[axis] >= high[axis]) return false;
        }
        return true;
    }
};

// From a step on the cells of a box are of another kind.
struct Edit {
    Box box;
    uint32_t cell = 0; // Cell
};

enum class Beside : uint32_t { nothing, open, reflector };

// The class of a cell of kind `own`. `beside(side)`: what is there; sides are -x, +x, -y and so on.
template <class What>
DENIZEN_HD inline uint8_t class_among(const Geometry& geometry, Cell own, const What& beside)
{
    if (own == Cell::reflector) return rigid;
    if (own == Cell::obstacle) return soft;
    uint32_t open = 0;
    uint32_t walls = 0;
    // Unrolled: what is indexed by a variable would lie in local memory.
    DENIZEN_UNROLL
    for (uint32_t side = 0; side < 6; ++side) {
        const Beside there = beside(side);
        const bool wall = geometry.boundary[side / 2] == Boundary::absorbing;
        open += there == Beside::open ? 1 : 0;
        walls += there == Beside::nothing && wall ? 1 : 0;
    }
    return class_of(own == Cell::absorber, walls, open);
}

struct Cells {
    Geometry geometry;
    const uint8_t* start = nullptr; // Cell by cell; null: all are normal

    // `at` is inside the grid.
    DENIZEN_HD Cell kind(const int32_t at[3]) const
    {
        return start == nullptr ? Cell::normal : static_cast<Cell>(start[geometry.index(at)]);
    }

    // Of the cell at `place`; rigid if that is outside.
    DENIZEN_HD uint8_t class_at(const int32_t place[3]) const
    {
        int32_t at[3] = {place[0], place[1], place[2]};
        if (!geometry.wrap(at)) return rigid;
        return class_among(geometry, kind(at), [&](uint32_t side) {
            const uint32_t along = side / 2;
            int32_t to[3] = {at[0], at[1], at[2]};
            if (!geometry.beside(at[along], along, side % 2 != 0, to[along])) {
                return Beside::nothing;
            }
            return kind(to) == Cell::reflector ? Beside::reflector : Beside::open;
        });
    }
};

} // namespace denizen::wave
