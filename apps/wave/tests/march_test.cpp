// SPDX-License-Identifier: Apache-2.0
// Several steps in one march of the host's threads through a field that does not fit into their
// caches: caches so small that blocks of rows and borders between threads all occur.
#include "reference.hpp"

#include "../src/cpu_march.hpp"

#include <gtest/gtest.h>

using namespace denizen;
using namespace denizen::wave;

namespace {

struct Room {
    uint32_t threads;
    uint32_t planes;
    Boundary y;
};

class Marching : public testing::TestWithParam<Room> {};

TEST_P(Marching, comes_to_what_single_steps_come_to)
{
    Settings room;
    room.cells[0] = 21;
    room.cells[1] = 43;
    room.cells[2] = GetParam().planes;
    room.boundary[0] = Boundary::periodic;
    room.boundary[1] = GetParam().y;
    room.boundary[2] = Boundary::absorbing;
    Reference reference(room);
    State state;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        state.geometry.n[axis] = room.cells[axis];
        state.geometry.boundary[axis] = room.boundary[axis];
    }
    state.medium = {0.5, 0, room.absorber * reference.dt};
    state.kinds.assign(state.geometry.cells(), 0);
    for (size_t i = 0; i < state.kinds.size(); i += 37) {
        state.kinds[i] = static_cast<uint8_t>(i % 4);
    }
    const Source sine{Shape::sine, {3, 4, 5}, 0.7, 0.06, 0.1, 0, 0, 0};
    state.kinds[state.geometry.index(sine.at)] = 0;
    reference.s.kinds = state.kinds;
    state.sources = {sine};
    state.receivers = {{7, 42, static_cast<int32_t>(room.cells[2]) / 2}};
    reference.sources = {sine};

    Kinds kinds = kinds_of(state);
    CpuField<double> field(state.geometry, 1);
    size_t i = 0;
    for (uint32_t z = 0; z < room.cells[2]; ++z) {
        for (uint32_t y = 0; y < room.cells[1]; ++y) {
            for (uint32_t x = 0; x < room.cells[0]; ++x, ++i) {
                if (kinds.cells[i] <= soft) continue;
                reference.now[i] = std::sin(0.1 * static_cast<double>(i));
                field.row(0, y, z)[x] = reference.now[i];
            }
        }
    }
    field.close_rows();
    constexpr uint32_t steps = 11; // no multiple of the steps of a pass
    std::vector<double> heard(steps);
    March<double> march(state, field, kinds, GetParam().threads, heard.data(), steps, 4096);
    EXPECT_GT(march.depth(), 1u);
    EXPECT_EQ(march.run({}), steps);
    std::vector<double> expected;
    for (uint32_t k = 0; k < steps; ++k) {
        reference.step();
        expected.push_back(reference.now[state.geometry.index(state.receivers[0].data())]);
    }
    EXPECT_LT(difference(heard, expected), 1e-12);
    for (uint32_t which = 0; which < 2; ++which) {
        std::vector<double> all;
        for (uint32_t z = 0; z < room.cells[2]; ++z) {
            for (uint32_t y = 0; y < room.cells[1]; ++y) {
                const double* const row = field.row(which, y, z);
                all.insert(all.end(), row, row + room.cells[0]);
            }
        }
        EXPECT_LT(difference(all, which == 0 ? reference.now : reference.before), 1e-12);
    }
}

INSTANTIATE_TEST_SUITE_P(Rooms, Marching,
                         testing::Values(Room{1, 9, Boundary::reflecting},
                                         Room{3, 24, Boundary::absorbing},
                                         Room{3, 25, Boundary::periodic},
                                         Room{4, 17, Boundary::reflecting}));

} // namespace
