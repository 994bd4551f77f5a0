// SPDX-License-Identifier: Apache-2.0
// What Simulation asks of a device, and what the engines for CPU and GPU share.
#pragma once

#include "mailbox.hpp"

#include <denizen/wave/detail/layout.hpp>
#include <denizen/wave/detail/pass.hpp>
#include <denizen/wave/plan.hpp>
#include <denizen/wave/simulation.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace denizen::wave {

// What is simulated, apart from the pressure. Between runs there are no edits: what commands
// changed has gone into `kinds`.
struct State {
    Geometry geometry;
    Medium medium;
    double dt = 0;
    Precision precision = Precision::single;
    std::vector<uint8_t> kinds; // Cell by cell, never empty
    std::vector<Source> sources;
    std::vector<float> pool;
    std::vector<std::array<int32_t, 3>> receivers;
    std::vector<std::vector<double>> traces; // by receiver
    uint64_t step = 0;
    uint64_t breath_ns = 0; // of resident tiles; 0: none

    Cells cells() const { return {geometry, kinds.data()}; }
    // What commands of a run that has ended leave behind.
    void keep(const Request& command, uint64_t first_step);
};

// From here on patience ends: a kernel that waits this long for another block leaves.
constexpr uint64_t patience_ns = 10'000'000'000;

class Engine {
public:
    virtual ~Engine() = default;

    // Pressure of all cells, x fastest.
    virtual void set(const std::vector<double>& now, const std::vector<double>& before) = 0;
    virtual std::vector<double> get(bool before) const = 0;
    // What Method::automatic stands for; may try the methods out.
    virtual Method chosen() = 0;
    // Runs at most `steps` steps, appends to the traces and keeps what commands changed. `mailbox`:
    // null if nobody sends commands.
    virtual Ran run(uint32_t steps, Method method, Mailbox* mailbox, uint32_t ahead) = 0;
    // Memory that both sides of a mailbox reach.
    virtual std::unique_ptr<Mailbox> open_mailbox() = 0;

    std::string device;
    bool on_gpu = false;
};

// `slabs`: along z, of CPU threads or each on a GPU, from `ordinal` on; `group_code`: the groups'
// kernels, for several GPUs.
std::unique_ptr<Engine> make_cpu_engine(State& state, uint32_t threads, uint32_t slabs);
std::unique_ptr<Engine> make_gpu_engine(State& state, int ordinal, uint32_t slabs, const Code& code,
                                        const Code& group_code);

// Where slab `slab` of `slabs` begins.
inline uint32_t first_plane(uint32_t planes, uint32_t slabs, uint32_t slab)
{
    return static_cast<uint32_t>(uint64_t{planes} * slab / slabs);
}

// Errc::bad_argument where a strip of four cells would meet the other end; use `instead`.
void check_passes(const Geometry& geometry, const char* instead);

// What a window holds.
inline uint64_t largest_face(const Geometry& geometry)
{
    const auto& n = geometry.n;
    return std::max({uint64_t{n[0]} * n[1], uint64_t{n[0]} * n[2], uint64_t{n[1]} * n[2]});
}

// The kernel of the class of every cell, and of each segment of a row the class that all its cells
// have, or `mixed`.
struct Kinds {
    std::vector<uint8_t> cells;
    std::vector<uint8_t> segments;
};
Kinds kinds_of(const State& state);
// The same after the cells of `box` have changed.
void refresh(Kinds& kinds, const State& state, const Box& box);
// The kinds of some planes and of kinds_beside planes on both sides of them, where there are any.
Kinds kinds_around(const Kinds& all, const Geometry& geometry, uint32_t first, uint32_t planes);

template <class T>
std::vector<Coefficients<T>> table_of(const Medium& medium)
{
    std::vector<Coefficients<T>> table(classes);
    for (uint32_t i = 0; i < classes; ++i) table[i] = coefficients<T>(i, medium);
    return table;
}

// The shape of a pass of `Depth` steps.
template <class T, uint32_t Depth>
using PassOf = std::conditional_t<sizeof(T) == 4, std::conditional_t<Depth == 2, Pass2, Pass4>,
                                  std::conditional_t<Depth == 2, TwofoldPass2, TwofoldPass4>>;

// A shape of tiles for a grid.
struct Tiling {
    const char* name = nullptr; // of the kernel; null: the grid does not fit
    uint32_t size[3] = {0, 0, 0};
    uint32_t tiles[3] = {0, 0, 0};

    uint32_t count() const { return tiles[0] * tiles[1] * tiles[2]; }
    std::string text() const;
};

// What a device has for a kind of tile: how many may be resident, and how many without sharing.
struct Seats {
    uint32_t most = 0;
    uint32_t alone = 0;
};

struct Packing {
    std::vector<Hop> outgoing;
    std::vector<Hop> incoming;
};

template <class T, class S>
Packing pack()
{
    Packing packing;
    std::vector<uint32_t> first(sides, 0); // packets of each side in a mailbox
    const int32_t size[3] = {S::x, S::y, S::z};
    constexpr auto depth = static_cast<int32_t>(S::depth);
    // The cells towards a side: of the tile itself (sending), or of its shell.
    const auto list = [&](uint32_t side, bool shell) {
        std::vector<uint16_t> elements;
        int32_t low[3];
        int32_t high[3];
        const int32_t step[3] = {static_cast<int32_t>(side % 3) - 1,
                                 static_cast<int32_t>(side / 3 % 3) - 1,
                                 static_cast<int32_t>(side / 9) - 1};
        for (uint32_t axis = 0; axis < 3; ++axis) {
            low[axis] = step[axis] <= 0 ? 0 : size[axis] - depth;
            high[axis] = step[axis] >= 0 ? size[axis] : depth;
            if (shell && step[axis] != 0) {
                low[axis] = step[axis] < 0 ? -depth : size[axis];
                high[axis] = low[axis] + depth;
            }
        }
        for (uint32_t field = 0; field < (S::depth == 1 ? 1u : 2u); ++field) {
            for (int32_t z = low[2]; z < high[2]; ++z) {
                for (int32_t y = low[1]; y < high[1]; ++y) {
                    for (int32_t x = low[0]; x < high[0]; ++x) {
                        elements.push_back(
                            static_cast<uint16_t>(S::index(x, y, z) + field * S::elements));
                    }
                }
            }
        }
        return elements;
    };
    const auto in_packets = [](const std::vector<uint16_t>& elements, uint32_t side, uint32_t slot,
                               std::vector<Hop>& to) {
        for (size_t i = 0; i < elements.size(); i += words<T>) {
            Hop hop;
            hop.side = static_cast<uint16_t>(side);
            hop.slot = slot++;
            for (size_t w = 0; w < words<T> && i + w < elements.size(); ++w) {
                hop.at[w] = elements[i + w];
            }
            to.push_back(hop);
        }
    };
    const auto travels = [](uint32_t side) {
        const uint32_t moved = (side % 3 != 1) + (side / 3 % 3 != 1) + (side / 9 != 1);
        return moved != 0 && (S::depth > 1 || moved == 1);
    };
    for (uint32_t side = 0; side < sides; ++side) {
        if (!travels(side)) continue;
        first[side] = static_cast<uint32_t>(packing.incoming.size());
        in_packets(list(side, true), side, first[side], packing.incoming);
    }
    for (uint32_t side = 0; side < sides; ++side) { // it is on the other side of the neighbour
        if (travels(side)) {
            in_packets(list(side, false), side, first[sides - 1 - side], packing.outgoing);
        }
    }
    return packing;
}

// The shapes there are, smallest first.
template <class T, class Use>
void for_shapes(bool deep, Use&& use)
{
    if (deep) {
        use.template operator()<SmallDeepTile>("small_deep");
        if constexpr (sizeof(T) == 4) use.template operator()<MediumDeepTile>("medium_deep");
    } else {
        use.template operator()<SmallTile>("small");
        use.template operator()<MediumTile>("medium");
        if constexpr (sizeof(T) == 4) use.template operator()<LargeTile>("large");
    }
}

// The tiling to use: the smallest tiles that need not share a processor, else the largest that fit.
// `why_not`: set where there is none.
Tiling choose_tiling(const Geometry& geometry, const std::vector<Tiling>& shapes,
                     const std::vector<Seats>& seats, bool deep, std::string& why_not);

template <class T>
std::vector<Tiling> tilings(const Geometry& geometry, bool deep)
{
    std::vector<Tiling> all;
    for_shapes<T>(deep, [&]<class S>(const char* name) {
        Tiling tiling{name, {S::x, S::y, S::z}, {}};
        for (uint32_t axis = 0; axis < 3; ++axis) {
            tiling.tiles[axis] = (geometry.n[axis] + tiling.size[axis] - 1) / tiling.size[axis];
        }
        all.push_back(tiling);
    });
    return all;
}

} // namespace denizen::wave
