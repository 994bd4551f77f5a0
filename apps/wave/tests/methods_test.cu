// SPDX-License-Identifier: Apache-2.0
// Every method on every device that is there, on rooms with each kind of wall and cell, against a
// plain loop in double precision.
#include "reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>

using namespace denizen;
using namespace denizen::wave;

namespace {

class Methods : public testing::TestWithParam<Place> {
protected:
    // `room` for `steps` steps, in two runs, by every method.
    void check(const Settings& room, uint32_t steps = 40, bool in_tiles = true)
    {
        if (room.cells[2] < 4 * GetParam().slabs) return; // what_is_refused
        Reference reference(room);
        const auto x = static_cast<int32_t>(room.cells[0]);
        const auto y = static_cast<int32_t>(room.cells[1]);
        const auto z = static_cast<int32_t>(room.cells[2]);
        reference.sources = {
            {Shape::impulse, {x / 2, y / 2, z / 2}, 1.0, 0, 0, 0, 0, 0},
            {Shape::sine, {0, y - 1, z / 3}, 0.3, 0.05, 0.125, 0, 0, 0},
            {Shape::ricker, {x - 1, 1, z - 1}, 0.5, 0.08, 12, 0, 0, 0},
        };
        std::vector<double> heard;
        const std::array<int32_t, 3> ear = {x / 2, y / 2, z - 1};
        for (uint32_t i = 0; i < steps; ++i) {
            reference.step();
            heard.push_back(reference.now[reference.index(ear[0], ear[1], ear[2])]);
        }
        const double limit = room.precision == Precision::single ? 1e-5 : 1e-12;
        for (const Method method : methods_of(GetParam())) {
            if (!in_tiles && (method == Method::tiles || method == Method::deep)) continue;
            SCOPED_TRACE(to_string(method));
            Simulation simulation = simulation_of(room, GetParam());
            for (const Source& source : reference.sources) simulation.add_source(source);
            const uint32_t receiver = simulation.add_receiver(static_cast<uint32_t>(ear[0]),
                                                              static_cast<uint32_t>(ear[1]),
                                                              static_cast<uint32_t>(ear[2]));
            const Ran first = simulation.run(steps / 3, method);
            EXPECT_EQ(first.method, method);
            EXPECT_EQ(first.steps, steps / 3);
            EXPECT_EQ(simulation.run(steps - steps / 3, method).steps, steps - steps / 3);
            EXPECT_EQ(simulation.steps(), steps);
            EXPECT_LT(difference(simulation.field(), reference.now), limit);
            EXPECT_LT(difference(simulation.field_before(), reference.before), limit);
            EXPECT_LT(difference(simulation.trace(receiver), heard), limit);
        }
    }

    // A room with pressure in every cell.
    static Reference sounding(const Settings& settings)
    {
        Reference reference(settings);
        for (size_t i = 0; i < reference.now.size(); ++i) {
            reference.now[i] = std::sin(0.1 * static_cast<double>(i));
            reference.before[i] = std::cos(0.07 * static_cast<double>(i));
        }
        return reference;
    }

    static Settings room(uint32_t x, uint32_t y, uint32_t z, Boundary all = Boundary::reflecting)
    {
        Settings settings;
        settings.cells[0] = x;
        settings.cells[1] = y;
        settings.cells[2] = z;
        for (Boundary& boundary : settings.boundary) boundary = all;
        return settings;
    }
};

TEST_P(Methods, a_rigid_room) { check(room(64, 16, 16)); }
TEST_P(Methods, a_room_that_absorbs) { check(room(32, 24, 16, Boundary::absorbing)); }
TEST_P(Methods, a_periodic_room) { check(room(64, 16, 16, Boundary::periodic)); }

TEST_P(Methods, axes_that_differ_and_damping)
{
    Settings settings = room(64, 16, 24);
    settings.boundary[0] = Boundary::periodic;
    settings.boundary[2] = Boundary::absorbing;
    settings.damping = 20;
    check(settings);
}

TEST_P(Methods, sizes_that_fit_nothing)
{
    check(room(37, 11, 9));
    check(room(5, 4, 21, Boundary::absorbing));
    Settings tall = room(70, 4, 4);
    tall.dt = 0.57 * tall.spacing / tall.speed;
    check(tall);
}

TEST_P(Methods, cells_of_every_kind)
{
    Settings settings = room(48, 16, 16);
    settings.boundary[1] = Boundary::absorbing;
    settings.kinds.assign(size_t{48} * 16 * 16, 0);
    for (size_t i = 0; i < settings.kinds.size(); ++i) {
        const size_t x = i % 48;
        const size_t y = i / 48 % 16;
        const size_t z = i / (48 * 16);
        if (x >= 30 && x < 34 && y < 9) settings.kinds[i] = 2;
        if (x >= 10 && x < 12 && z > 7 && y > 6) settings.kinds[i] = 3;
        if (x < 4 && y < 12) settings.kinds[i] = 1;
        if (i % 97 == 5) settings.kinds[i] = static_cast<uint8_t>(1 + i % 3);
    }
    settings.kinds[(size_t{8} * 16 + 8) * 48 + 24] = 0; // where the first source is
    settings.kinds[(size_t{5} * 16 + 15) * 48] = 0;
    settings.kinds[(size_t{15} * 16 + 1) * 48 + 47] = 0;
    check(settings);
}

TEST_P(Methods, double_precision)
{
    Settings settings = room(64, 16, 16);
    settings.precision = Precision::twofold;
    settings.boundary[2] = Boundary::periodic;
    check(settings, 100);
}

// More than one column of a pass along x and y, more than one block along z.
TEST_P(Methods, columns_of_passes)
{
    Settings wide = room(130, 61, 12, Boundary::absorbing);
    wide.kinds.assign(size_t{130} * 61 * 12, 0);
    for (size_t i = 0; i < wide.kinds.size(); i += 1013)
        wide.kinds[i] = static_cast<uint8_t>(i % 4);
    check(wide, 9);
    check(room(132, 60, 12, Boundary::periodic), 9, false);
}

TEST_P(Methods, a_hundred_steps) { check(room(40, 20, 12, Boundary::absorbing), 100); }

TEST_P(Methods, fields_that_are_set)
{
    Settings settings = room(32, 8, 16, Boundary::periodic);
    settings.boundary[1] = Boundary::reflecting;
    const Reference reference = sounding(settings);
    for (const Method method : methods_of(GetParam())) {
        if (method == Method::deep) continue; // needs two tiles along x
        SCOPED_TRACE(to_string(method));
        Reference expected = reference;
        Simulation simulation = simulation_of(settings, GetParam());
        simulation.set_fields(expected.now, expected.before);
        for (int i = 0; i < 5; ++i) expected.step();
        simulation.run(5, method);
        EXPECT_LT(difference(simulation.field(), expected.now), 1e-5);
    }
}

// Rooms of more small tiles than a device has places, and of more of the medium ones.
TEST_P(Methods, tiles_of_each_size)
{
    const bool on_gpu = GetParam().device.kind == Device::Kind::gpu;
    const auto methods = methods_of(GetParam());
    if (std::find(methods.begin(), methods.end(), Method::tiles) == methods.end()) {
        GTEST_SKIP() << "slabs and several threads make no tiles";
    }
    const std::pair<Settings, const char*> rooms[] = {
        {room(48, 16, 16, Boundary::absorbing), "32 x 8 x 8"},
        {room(64, 60, 80, Boundary::absorbing), "32 x 16 x 16"},
        {on_gpu ? room(128, 124, 80, Boundary::absorbing) : room(64, 124, 80, Boundary::absorbing),
         "32 x 32 x 16"},
    };
    for (const auto& [settings, size] : rooms) {
        SCOPED_TRACE(size);
        Reference reference = sounding(settings);
        Simulation simulation = simulation_of(settings, GetParam());
        simulation.set_fields(reference.now, reference.before);
        constexpr uint32_t steps = 4;
        for (uint32_t i = 0; i < steps; ++i) reference.step();
        EXPECT_NE(simulation.run(steps, Method::tiles).tiles.find(size), std::string::npos);
        EXPECT_LT(difference(simulation.field(), reference.now), 1e-5);
        EXPECT_LT(difference(simulation.field_before(), reference.before), 1e-5);
    }
}

INSTANTIATE_TEST_SUITE_P(Places, Methods, testing::ValuesIn(places()),
                         [](const auto& at) { return std::string(at.param.name); });

Errc code_of(const std::function<void()>& call)
{
    try {
        call();
    } catch (const Error& error) {
        return error.code();
    }
    return Errc::ok;
}

TEST(Settings, that_are_refused)
{
    const auto with = [](auto change) {
        Settings settings;
        change(settings);
        return code_of([&] { Simulation(settings, Device::cpu(), {}, 1); });
    };
    EXPECT_EQ(with([](Settings&) {}), Errc::ok);
    EXPECT_EQ(with([](Settings& s) { s.dt = 0.58 * s.spacing / s.speed; }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.dt = 0.57 * s.spacing / s.speed; }), Errc::ok);
    EXPECT_EQ(with([](Settings& s) { s.cells[1] = 3; }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.spacing = 0; }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.speed = -1; }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.damping = -1; }), Errc::bad_argument);
    using std::chrono::microseconds;
    EXPECT_EQ(with([](Settings& s) { s.breath = microseconds(-1); }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.breath = microseconds(1'000'001); }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.breath = microseconds(1'000'000); }), Errc::ok);
    EXPECT_EQ(with([](Settings& s) { s.kinds.assign(7, 0); }), Errc::bad_argument);
    EXPECT_EQ(with([](Settings& s) { s.kinds.assign(64 * 64 * 64, 4); }), Errc::bad_argument);
}

TEST(Simulation, what_is_refused)
{
    Settings settings;
    settings.cells[0] = 48;
    settings.boundary[0] = Boundary::periodic;
    settings.kinds.assign(size_t{48} * 64 * 64, 0);
    settings.kinds[0] = 2;
    Simulation simulation(settings, Device::cpu(), {}, 1);
    const auto code = [](auto call) { return code_of(call); };
    EXPECT_EQ(code([&] { simulation.add_source({.at = {48, 0, 0}}); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.add_source({.at = {0, 0, 0}}); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.add_source({.shape = Shape::sine, .frequency = 0.6}); }),
              Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.add_receiver(0, 64, 0); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.trace(0); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.run(0); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.run(1, Method::graph); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.run(1, Method::tiles); }), Errc::bad_argument); // 48 is no 32 k
    EXPECT_EQ(code([&] { simulation.set_fields({1}, {1}); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { simulation.finish(); }), Errc::closed);
    EXPECT_EQ(code([&] { simulation.command({{}}); }), Errc::closed);
    for (uint32_t i = 0; i < most_sources; ++i) simulation.add_source({.at = {1, 1, 1}});
    EXPECT_EQ(code([&] { simulation.add_source({.at = {1, 1, 1}}); }), Errc::exhausted);
    EXPECT_EQ(simulation.chosen(), Method::threads);
    settings.cells[0] = 50;
    settings.kinds.clear();
    Simulation odd(settings, Device::cpu(), {}, 1);
    EXPECT_EQ(code([&] { odd.run(2, Method::pass2); }), Errc::bad_argument); // 50 is no 4 k
    EXPECT_EQ(code([&] { Simulation(settings, Device::cpu(), {}, 3, 2); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { Simulation(settings, Device::cpu(), {}, 0, 9); }), Errc::bad_argument);
    Simulation halves(settings, Device::cpu(), {}, 2, 2);
    EXPECT_EQ(code([&] { halves.run(1, Method::tiles); }), Errc::bad_argument);
}

} // namespace
