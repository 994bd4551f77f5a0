// SPDX-License-Identifier: Apache-2.0
// A tile in the memory of its block: which of its elements are where in the grid, and who lies
// beside it. The block of a cooperative kernel holds it in shared memory, or a thread of the host.
#pragma once

#include <denizen/wave/detail/control.hpp>
#include <denizen/wave/detail/layout.hpp>
#include <denizen/wave/plan.hpp>

namespace denizen::wave {

// What all tiles of a run share. Fields lie as layout.hpp says. Incarnation i reads those of i % 2
// and writes the others: see checkpoint.hpp.
template <class T>
struct TileRun {
    Cells cells; // at the start
    Medium medium;
    Layout layout;
    T* fields[2][2];   // now, before
    uint8_t* kinds[2]; // class of each cell, as fields; null where there is no second incarnation
    uint32_t tiles[3]; // along x, y, z
    uint32_t steps;
    uint64_t first; // step of the simulation that the run begins with
    uint64_t patience_ns;
    const Hop* outgoing; // hops()
    const Hop* incoming;
    Packet* mail; // for each tile two halves of hops()
    Control* control;
    const CommandSlot* commands;
    const Source* sources; // commands append
    const float* pool;
    const int32_t (*receivers)[3];
    uint32_t receiver_count;
    T* traces; // for each receiver `steps`
    T* window; // what is read: of the box, x fastest
};

// A tile in the memory of its block.
template <class T, class S>
struct TileMemory {
    alignas(16) T field[2][S::elements];
    Coefficients<T> table[classes];
    alignas(16) uint8_t kind[S::elements]; // class of each cell
    T push[most_sources];                  // what sources add in the step to come
    uint16_t source_at[most_sources];      // their elements; none: not in this tile
    uint16_t heard[most_receivers];        // elements of the receivers in this tile
    uint16_t hears[most_receivers];        // and which they are
    uint32_t listening;                    // how many
    uint32_t has_sources;
    uint32_t late;
    uint64_t go;
};

template <class T, class S>
class TileGround {
public:
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t members = S::threads;
    __device__ static uint32_t rank() { return threadIdx.x; }
    __device__ static void sync() { __syncthreads(); }
#else
    static constexpr uint32_t members = 1;
    DENIZEN_HD static uint32_t rank() { return 0; }
    DENIZEN_HD static void sync() {}
#endif

protected:
    static constexpr uint16_t nowhere = Hop::none;
    static constexpr uint32_t no_slot = ~0u;

    DENIZEN_HD TileGround(const TileRun<T>& run, TileMemory<T, S>& memory, uint32_t number)
        : r_(run), m_(memory), number_(number), cells_(run.cells)
    {
        const uint32_t at[3] = {number % run.tiles[0], number / run.tiles[0] % run.tiles[1],
                                number / (run.tiles[0] * run.tiles[1])};
        for (uint32_t axis = 0; axis < 3; ++axis) tile_[axis] = static_cast<int32_t>(at[axis]);
    }

    DENIZEN_HD T* now() { return m_.field[turn_]; }
    DENIZEN_HD T* before() { return m_.field[turn_ ^ 1]; }

    // Where an element of the tile lies in the grid; may be outside.
    DENIZEN_HD bool place(uint32_t element, int32_t at[3]) const
    {
        const int32_t local[3] = {
            static_cast<int32_t>(element % S::pitch) - static_cast<int32_t>(S::across),
            static_cast<int32_t>(element / S::pitch % S::rows) - static_cast<int32_t>(S::depth),
            static_cast<int32_t>(element / S::plane) - static_cast<int32_t>(S::depth)};
        const int32_t size[3] = {S::x, S::y, S::z};
        for (uint32_t axis = 0; axis < 3; ++axis) at[axis] = tile_[axis] * size[axis] + local[axis];
        const auto depth = static_cast<int32_t>(S::depth);
        return local[0] >= -depth && local[0] < size[0] + depth;
    }

    DENIZEN_HD bool inside(int32_t at[3]) const { return cells_.geometry.wrap(at); }

    DENIZEN_HD bool own(uint32_t element) const
    {
        const uint32_t x = element % S::pitch;
        const uint32_t y = element / S::pitch % S::rows;
        const uint32_t z = element / S::plane;
        return x >= S::across && x < S::across + S::x && y >= S::depth && y < S::depth + S::y &&
               z >= S::depth && z < S::depth + S::z;
    }

    DENIZEN_HD uint64_t in_field(const int32_t at[3]) const
    {
        return r_.layout.index(static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]),
                               static_cast<uint32_t>(at[2]));
    }

    // The element of a cell of the grid in this tile or up to `shell` cells beside it.
    DENIZEN_HD uint16_t element_of(const int32_t cell[3], uint32_t shell) const
    {
        const int32_t size[3] = {S::x, S::y, S::z};
        int32_t local[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(cells_.geometry.n[axis]);
            const auto reach = static_cast<int32_t>(shell);
            local[axis] = cell[axis] - tile_[axis] * size[axis];
            if (cells_.geometry.periodic(axis)) {
                if (local[axis] >= size[axis] + reach) local[axis] -= n;
                if (local[axis] < -reach) local[axis] += n;
            }
            if (local[axis] < -reach || local[axis] >= size[axis] + reach) return nowhere;
        }
        return static_cast<uint16_t>(S::index(local[0], local[1], local[2]));
    }

    // The number of the tile on a side; no_slot: there is none.
    DENIZEN_HD uint32_t neighbour(uint32_t side) const
    {
        const int32_t step[3] = {static_cast<int32_t>(side % 3) - 1,
                                 static_cast<int32_t>(side / 3 % 3) - 1,
                                 static_cast<int32_t>(side / 9) - 1};
        uint32_t at[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(r_.tiles[axis]);
            int32_t there = tile_[axis] + step[axis];
            if (there < 0 || there >= n) {
                if (!cells_.geometry.periodic(axis)) return no_slot;
                there += there < 0 ? n : -n;
            }
            at[axis] = static_cast<uint32_t>(there);
        }
        return (at[2] * r_.tiles[1] + at[1]) * r_.tiles[0] + at[0];
    }

    // Of the sides of a cell, -x, +x, -y and so on, a bit each.
    struct Sides {
        uint32_t there = 0;  // a cell of the grid is beside it
        uint32_t in_box = 0; // and lies in the box
        bool inside = false; // the cell itself lies in the box
    };
    DENIZEN_HD Sides sides_of(const Box& box, const int32_t at[3]) const
    {
        Sides found;
        bool in[3];
        DENIZEN_UNROLL
        for (uint32_t axis = 0; axis < 3; ++axis) {
            in[axis] = at[axis] >= box.low[axis] && at[axis] < box.high[axis];
        }
        found.inside = in[0] && in[1] && in[2];
        DENIZEN_UNROLL
        for (uint32_t side = 0; side < 6; ++side) {
            const uint32_t axis = side / 2;
            int32_t to = 0;
            const bool there = cells_.geometry.beside(at[axis], axis, side % 2 != 0, to);
            const bool hit = there && in[(axis + 1) % 3] && in[(axis + 2) % 3] &&
                             to >= box.low[axis] && to < box.high[axis];
            found.there |= (there ? 1u : 0u) << side;
            found.in_box |= (hit ? 1u : 0u) << side;
        }
        return found;
    }

    // Cells of the grid, as places: from low to one before high.
    struct Range {
        int32_t low[3];
        uint32_t size[3];

        DENIZEN_HD uint32_t cells() const { return size[0] * size[1] * size[2]; }
        DENIZEN_HD void at(uint32_t i, int32_t place[3]) const
        {
            const uint32_t row = i / size[0];
            const uint32_t plane = row / size[1];
            place[0] = low[0] + static_cast<int32_t>(i - row * size[0]);
            place[1] = low[1] + static_cast<int32_t>(row - plane * size[1]);
            place[2] = low[2] + static_cast<int32_t>(plane);
        }
    };

    // The tile's cells and `shell` beside them that are in the box or at most `reach` beside it;
    // where the tile meets the other end of a periodic axis, all along that.
    DENIZEN_HD Range near(const Box& box, int32_t shell, int32_t reach) const
    {
        const int32_t size[3] = {S::x, S::y, S::z};
        Range range{};
        DENIZEN_UNROLL
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(cells_.geometry.n[axis]);
            int32_t low = tile_[axis] * size[axis] - shell;
            int32_t high = low + size[axis] + 2 * shell;
            if (!cells_.geometry.periodic(axis) || (low >= 0 && high <= n)) {
                low = low > box.low[axis] - reach ? low : box.low[axis] - reach;
                high = high < box.high[axis] + reach ? high : box.high[axis] + reach;
            }
            range.low[axis] = low;
            range.size[axis] = high > low ? static_cast<uint32_t>(high - low) : 0;
        }
        return range;
    }

    DENIZEN_HD uint32_t element_at(const int32_t place[3]) const
    {
        return S::index(place[0] - tile_[0] * static_cast<int32_t>(S::x),
                        place[1] - tile_[1] * static_cast<int32_t>(S::y),
                        place[2] - tile_[2] * static_cast<int32_t>(S::z));
    }

    // All members of the tile call it.
    DENIZEN_HD void change(const Edit& edit)
    {
        const bool solid = edit.cell >= static_cast<uint32_t>(Cell::reflector);
        const Range range = near(edit.box, S::depth, 1);
        if (range.cells() == 0) return; // of another tile
        for (uint32_t i = rank(); i < range.cells(); i += members) {
            int32_t place[3];
            range.at(i, place);
            int32_t at[3] = {place[0], place[1], place[2]};
            if (!inside(at)) continue;
            const Sides around = sides_of(edit.box, at);
            if (!around.inside && around.in_box == 0) continue;
            const uint32_t element = element_at(place);
            // In place: whether a cell beside the box is rigid does not change.
            m_.kind[element] = class_after(edit, around, place, element);
            if (solid && around.inside) m_.field[0][element] = m_.field[1][element] = 0;
        }
    }

    // The class of the cell at `place`, which has this element, as `edit` makes it: what the tile
    // knows of the others tells it all. Beyond the shell it knows nothing, and takes cells for
    // open: the class of the shell's last layer only says whether a cell is solid.
    DENIZEN_HD uint8_t class_after(const Edit& edit, const Sides& around, const int32_t place[3],
                                   uint32_t element) const
    {
        const Cell own = around.inside ? static_cast<Cell>(edit.cell) : cell_of(m_.kind[element]);
        const bool becomes_rigid = edit.cell == static_cast<uint32_t>(Cell::reflector);
        const int32_t size[3] = {S::x, S::y, S::z};
        const int32_t stride[3] = {1, S::pitch, S::plane};
        const auto depth = static_cast<int32_t>(S::depth);
        return class_among(cells_.geometry, own, [&](uint32_t side) {
            const uint32_t axis = side / 2;
            const int32_t step = side % 2 == 0 ? -1 : 1;
            const int32_t local = place[axis] + step - tile_[axis] * size[axis];
            bool solid = false;
            if (local >= -depth && local < size[axis] + depth) {
                solid = m_.kind[static_cast<int32_t>(element) + step * stride[axis]] == rigid;
            }
            if ((around.in_box >> side & 1) != 0) solid = becomes_rigid;
            if ((around.there >> side & 1) == 0) return Beside::nothing;
            return solid ? Beside::reflector : Beside::open;
        });
    }

    const TileRun<T>& r_;
    TileMemory<T, S>& m_;
    uint32_t number_;
    int32_t tile_[3];
    Cells cells_;
    uint32_t turn_ = 0; // which field is now
};

} // namespace denizen::wave
