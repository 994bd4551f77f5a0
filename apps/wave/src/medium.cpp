// SPDX-License-Identifier: Apache-2.0
// Classes of cells on the host, and which tiles a grid is cut into.
#include "engine.hpp"
#include "planes.hpp"

#include <algorithm>

namespace denizen::wave {

namespace {

// The class of a cell that has no neighbour outside and none but normal ones is `plain` without
// asking for them one by one.
void classify(Kinds& kinds, const State& state, const Box& box)
{
    const Cells cells = state.cells();
    const auto& n = state.geometry.n;
    const uint32_t per_row = segments_in(n[0]);
    for (int32_t z = box.low[2]; z < box.high[2]; ++z) {
        for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
            for (int32_t x = box.low[0]; x < box.high[0]; ++x) {
                const int32_t at[3] = {x, y, z};
                kinds.cells[state.geometry.index(at)] = cells.class_at(at);
            }
            const uint64_t row = static_cast<uint64_t>(z) * n[1] + static_cast<uint64_t>(y);
            for (uint32_t s = static_cast<uint32_t>(box.low[0]) / segment;
                 s * segment < static_cast<uint32_t>(box.high[0]); ++s) {
                const uint8_t* const first = &kinds.cells[row * n[0] + s * segment];
                const uint32_t count = std::min(segment, n[0] - s * segment);
                const bool same =
                    std::all_of(first, first + count, [&](uint8_t kind) { return kind == *first; });
                kinds.segments[row * per_row + s] = same ? *first : mixed;
            }
        }
    }
}

} // namespace

Kinds kinds_of(const State& state)
{
    const auto& n = state.geometry.n;
    Kinds kinds;
    resize_interruptibly(kinds.cells, state.geometry.cells());
    resize_interruptibly(kinds.segments, uint64_t{n[1]} * n[2] * segments_in(n[0]));
    const auto columns = static_cast<int32_t>(n[0]);
    const auto rows = static_cast<int32_t>(n[1]);
    by_planes(n[2], uint64_t{n[0]} * n[1], [&](uint32_t first, uint32_t end) {
        for (auto z = static_cast<int32_t>(first); z < static_cast<int32_t>(end); ++z) {
            check_interrupt();
            classify(kinds, state, {{0, 0, z}, {columns, rows, z + 1}});
        }
    });
    return kinds;
}

void refresh(Kinds& kinds, const State& state, const Box& box)
{
    Box around = box; // and the cells whose neighbours have changed
    for (uint32_t axis = 0; axis < 3; ++axis) {
        const auto n = static_cast<int32_t>(state.geometry.n[axis]);
        const bool beyond = box.low[axis] == 0 || box.high[axis] == n;
        if (state.geometry.periodic(axis) && beyond) {
            around.low[axis] = 0;
            around.high[axis] = n;
        } else {
            around.low[axis] = std::max(0, box.low[axis] - 1);
            around.high[axis] = std::min(n, box.high[axis] + 1);
        }
    }
    classify(kinds, state, around);
}

Kinds kinds_around(const Kinds& all, const Geometry& geometry, uint32_t first, uint32_t planes)
{
    const size_t plane = size_t{geometry.n[0]} * geometry.n[1];
    const size_t rows = size_t{segments_in(geometry.n[0])} * geometry.n[1];
    const uint32_t n = geometry.n[2];
    Kinds around;
    around.cells.resize(plane * (planes + 2 * kinds_beside));
    around.segments.resize(rows * (planes + 2 * kinds_beside));
    for (uint32_t i = 0; i < planes + 2 * kinds_beside; ++i) {
        uint32_t z = first + n + i - kinds_beside; // n on top: it may be below 0
        if (!geometry.periodic(2) && (z < n || z >= 2 * n)) continue;
        z %= n;
        std::copy_n(&all.cells[z * plane], plane, &around.cells[i * plane]);
        std::copy_n(&all.segments[z * rows], rows, &around.segments[i * rows]);
    }
    return around;
}

void State::keep(const Request& command, uint64_t first_step)
{
    switch (command.act) {
    case Act::source:
        sources.push_back(command.source);
        sources.back().begin = first_step + command.step;
        break;
    case Act::damping: medium.damping = command.value; break;
    case Act::cells: {
        const Box& box = command.edit.box;
        for (int32_t z = box.low[2]; z < box.high[2]; ++z) {
            for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
                const int32_t at[3] = {box.low[0], y, z};
                std::fill_n(kinds.begin() + static_cast<int64_t>(geometry.index(at)),
                            box.high[0] - box.low[0], static_cast<uint8_t>(command.edit.cell));
            }
        }
        break;
    }
    default: break;
    }
}

void check_passes(const Geometry& geometry, const char* instead)
{
    if (!geometry.periodic(0) || geometry.n[0] % 4 == 0) return;
    throw Error(Errc::bad_argument, "passes need a multiple of 4 cells along a periodic x, not " +
                                        std::to_string(geometry.n[0]) + "; use " + instead);
}

std::string Tiling::text() const
{
    return std::to_string(count()) + " tiles of " + std::to_string(size[0]) + " x " +
           std::to_string(size[1]) + " x " + std::to_string(size[2]);
}

Tiling choose_tiling(const Geometry& geometry, const std::vector<Tiling>& shapes,
                     const std::vector<Seats>& seats, bool deep, std::string& why_not)
{
    std::vector<size_t> usable;
    for (size_t i = 0; i < shapes.size(); ++i) {
        bool fits = true;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            // The other end must be where a tile ends, and no cell twice in one tile and its shell.
            const uint32_t least = deep ? 2 : 1;
            fits &= !geometry.periodic(axis) || (geometry.n[axis] % shapes[i].size[axis] == 0 &&
                                                 shapes[i].tiles[axis] >= least);
        }
        if (fits) usable.push_back(i);
    }
    if (usable.empty()) {
        why_not = "along periodic axes resident tiles need whole tiles" +
                  std::string(deep ? ", at least two" : "") +
                  ": multiples of 32 cells along x, of 8 along y and z";
        return {};
    }
    for (const size_t i : usable) {
        if (shapes[i].count() <= seats[i].alone) return shapes[i];
    }
    for (size_t k = usable.size(); k-- > 0;) {
        if (shapes[usable[k]].count() <= seats[usable[k]].most) return shapes[usable[k]];
    }
    const size_t last = usable.back();
    why_not = "the grid takes " + shapes[last].text() + ", and " +
              std::to_string(seats[last].most) + " can be resident at once";
    return {};
}

} // namespace denizen::wave
