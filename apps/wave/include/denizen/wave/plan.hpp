// SPDX-License-Identifier: Apache-2.0
// Tiles of the grid that stay in the memory of a block, and the plan of what they send each other.
//
// A tile holds its cells and a shell of `Depth` cells around them. After every Depth steps the
// shell is renewed: each neighbour sends the cells that it shares, in packets that carry their own
// arrival (base/packet.hpp), into a mailbox of the tile's. There is no barrier among the tiles and
// no fence. A mailbox has two halves that take turns; a tile that writes the half of exchange e has
// received exchange e - 1 of the same neighbour, who had read half e - 2 by then.
//
// With Depth 1 only the six faces travel. With more, edges and corners do too, and the pressure
// before as well as the pressure now.
#pragma once

#include <denizen/base/packet.hpp>
#include <denizen/wave/detail/geometry.hpp>

namespace denizen::wave {

// Run: planes that one thread marches through.
template <uint32_t X, uint32_t Y, uint32_t Z, uint32_t Run_, uint32_t Depth_>
struct TileShape {
    static constexpr uint32_t x = X;
    static constexpr uint32_t y = Y;
    static constexpr uint32_t z = Z;
    static constexpr uint32_t run = Run_;
    static constexpr uint32_t depth = Depth_;
    static constexpr uint32_t across = 4; // cells that a thread holds along x
    static constexpr uint32_t pitch = X + 2 * across;
    static constexpr uint32_t rows = Y + 2 * Depth_;
    static constexpr uint32_t planes = Z + 2 * Depth_;
    static constexpr uint32_t plane = pitch * rows;
    static constexpr uint32_t elements = plane * planes;
    static constexpr uint32_t threads = X / across * Y * (Z / Run_);
    static_assert(Depth_ >= 1 && Depth_ <= across && Z % Run_ == 0 && X % across == 0);

    DENIZEN_HD static constexpr uint32_t index(int32_t at_x, int32_t at_y, int32_t at_z)
    {
        return static_cast<uint32_t>(
            (at_z + static_cast<int32_t>(Depth_)) * static_cast<int32_t>(plane) +
            (at_y + static_cast<int32_t>(Depth_)) * static_cast<int32_t>(pitch) + at_x +
            static_cast<int32_t>(across));
    }
};

// Rows of 32 cells lie in all banks of shared memory.
using SmallTile = TileShape<32, 8, 8, 1, 1>;
using MediumTile = TileShape<32, 16, 16, 4, 1>;
using LargeTile = TileShape<32, 32, 16, 8, 1>;
using SmallDeepTile = TileShape<32, 8, 8, 2, 2>;
using MediumDeepTile = TileShape<32, 16, 16, 4, 2>;

// (x + 1) + 3 (y + 1) + 9 (z + 1) of a step to a neighbour; 13 is the tile itself.
inline constexpr uint32_t sides = 27;
inline constexpr uint32_t own_side = 13;

// The words of one packet: where each comes from or goes to, as element of the tile; from
// Shape::elements on, of the pressure before.
struct Hop {
    static constexpr uint16_t none = 0xffff;
    uint16_t at[3] = {none, none, none};
    uint16_t side = own_side; // to or from which neighbour
    uint32_t slot = 0;        // sending: of the receiver's mailbox
    uint32_t unused = 0;
};
static_assert(sizeof(Hop) == 16);

template <class T>
inline constexpr uint32_t words = sizeof(Packet::word) / sizeof(T);

// How many packets a tile receives in one exchange, and sends.
template <class T, class S>
DENIZEN_HD constexpr uint32_t hops()
{
    uint32_t all = 0;
    for (uint32_t side = 0; side < sides; ++side) {
        const int32_t step[3] = {static_cast<int32_t>(side % 3) - 1,
                                 static_cast<int32_t>(side / 3 % 3) - 1,
                                 static_cast<int32_t>(side / 9) - 1};
        const int32_t moved = step[0] * step[0] + step[1] * step[1] + step[2] * step[2];
        if (moved == 0 || (S::depth == 1 && moved > 1)) continue;
        const uint32_t cells = (step[0] == 0 ? S::x : S::depth) * (step[1] == 0 ? S::y : S::depth) *
                               (step[2] == 0 ? S::z : S::depth) * (S::depth == 1 ? 1 : 2);
        all += (cells + words<T> - 1) / words<T>;
    }
    return all;
}

} // namespace denizen::wave
