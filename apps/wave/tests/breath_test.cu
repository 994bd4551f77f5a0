// SPDX-License-Identifier: Apache-2.0
// Resident tiles that breathe: a run of many incarnations comes to the same bits as one that has
// only one, with commands too, and whoever waits for the whole device gets its turn.
#include "steered.hpp"
#include "support/scaled.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace denizen;
using namespace denizen::wave;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

std::vector<Place> breathing_places()
{
    std::vector<Place> all = places();
    std::erase_if(all, [](const Place& place) { return place.breath.count() == 0; });
    return all;
}

constexpr uint32_t normal = 0;
constexpr uint32_t reflector = 2;
constexpr uint32_t obstacle = 3;

class Breath : public testing::TestWithParam<Case> {
protected:
    static Settings room(Precision precision = Precision::single)
    {
        Settings settings;
        settings.cells[0] = 64;
        settings.cells[1] = 16;
        settings.cells[2] = 16;
        settings.boundary[0] = Boundary::periodic;
        settings.boundary[1] = Boundary::absorbing;
        settings.dt = 1.0 / 8192; // a damping of 16 per second has no rounding then
        settings.precision = precision;
        settings.kinds.assign(size_t{64} * 16 * 16, normal);
        for (size_t i = 7; i < settings.kinds.size(); i += 97) {
            settings.kinds[i] = static_cast<uint8_t>(1 + i % 3);
        }
        return settings;
    }

    static Simulation in_one_breath(Settings settings)
    {
        settings.breath = microseconds(0);
        Place place = GetParam().place;
        place.breath = microseconds(0);
        return simulation_of(settings, place);
    }
    static Simulation breathing(const Settings& settings)
    {
        return simulation_of(settings, GetParam().place);
    }

    static std::vector<double> sound(const Settings& settings)
    {
        std::vector<double> all(settings.kinds.size());
        for (size_t i = 0; i < all.size(); ++i) all[i] = std::sin(0.1 * static_cast<double>(i));
        return all;
    }

    static void fill(Settings& settings, const Box& box, uint32_t kind)
    {
        Reference reference(settings);
        reference.fill(box, static_cast<uint8_t>(kind));
        settings.kinds = reference.s.kinds;
    }
};

TEST_P(Breath, a_run_without_commands_comes_to_the_same_bits)
{
    for (const Precision precision : {Precision::single, Precision::twofold}) {
        Settings settings = room(precision);
        const uint32_t steps = test::scaled(400);
        std::vector<double> fields[2][2];
        std::vector<double> heard[2];
        for (const bool breathes : {false, true}) {
            Simulation simulation = breathes ? breathing(settings) : in_one_breath(settings);
            simulation.add_source({.shape = Shape::sine, .at = {31, 8, 8}, .frequency = 0.04});
            simulation.add_source({.at = {32, 8, 7}});
            const uint32_t ear = simulation.add_receiver(33, 9, 8);
            const Ran first = simulation.run(steps, GetParam().method);
            const Ran second = simulation.run(7, GetParam().method);
            EXPECT_EQ(first.steps + second.steps, steps + 7);
            if (breathes) {
                EXPECT_GT(first.incarnations, steps > 100 ? 3u : 1u);
            } else {
                EXPECT_EQ(first.incarnations + second.incarnations, 2u);
            }
            fields[breathes][0] = simulation.field();
            fields[breathes][1] = simulation.field_before();
            heard[breathes] = simulation.trace(ear);
        }
        EXPECT_EQ(fields[0][0], fields[1][0]);
        EXPECT_EQ(fields[0][1], fields[1][1]);
        EXPECT_EQ(heard[0], heard[1]);
        EXPECT_EQ(heard[1].size(), steps + 7);
    }
}

// What commands changed is there in the next incarnation, and in the next run. Runs without a
// breath and without commands, in rooms as the commands made them, come to the same bits.
TEST_P(Breath, changes_last_through_incarnations)
{
    Settings settings = room();
    const Box wall{{31, 2, 2}, {33, 12, 12}}; // across tiles
    const Box hole{{32, 5, 5}, {34, 8, 9}};   // cells that are solid and then not
    const Box post{{40, 2, 7}, {44, 12, 9}};
    constexpr milliseconds rest{20}; // many breaths
    Simulation simulation = breathing(settings);
    simulation.set_fields(sound(settings), sound(settings));
    const uint32_t ear = simulation.add_receiver(45, 9, 8);
    simulation.start(1u << 20, GetParam().method);
    std::vector<uint64_t> at;
    at.push_back(simulation.command({cells(wall, reflector), cells(post, obstacle)}));
    std::this_thread::sleep_for(rest);
    Request damping = with(Act::damping);
    damping.value = 16 * settings.dt;
    at.push_back(simulation.command({damping}));
    std::this_thread::sleep_for(rest);
    at.push_back(simulation.command({cells(hole, normal)}));
    std::this_thread::sleep_for(rest);
    Request look = with(Act::read); // of cells in all tiles, and of few
    look.edit.box = {{0, 0, 8}, {64, 16, 9}};
    std::vector<double> seen;
    at.push_back(simulation.command({look}, &seen));
    look.edit.box = {{31, 5, 8}, {34, 6, 9}};
    std::vector<double> few;
    at.push_back(simulation.command({look}, &few));
    at.push_back(simulation.command({with(Act::end)}));
    EXPECT_GT(simulation.finish().incarnations, 1u);
    at.push_back(at.back() + 9);
    simulation.run(9, GetParam().method);

    std::vector<double> now = sound(settings);
    std::vector<double> before = now;
    std::vector<double> heard;
    uint64_t step = 0;
    for (size_t i = 0; i < at.size(); ++i) {
        Simulation same = in_one_breath(settings);
        same.set_fields(now, before);
        const uint32_t number = same.add_receiver(45, 9, 8);
        ASSERT_GE(at[i], step);
        if (at[i] > step) same.run(static_cast<uint32_t>(at[i] - step), GetParam().method);
        step = at[i];
        now = same.field();
        before = same.field_before();
        heard.insert(heard.end(), same.trace(number).begin(), same.trace(number).end());
        if (i == 0) {
            fill(settings, wall, reflector);
            fill(settings, post, obstacle);
        }
        if (i == 1) settings.damping = 16;
        if (i == 2) fill(settings, hole, normal);
        const auto plane = now.begin() + 8 * 16 * 64;
        const auto row = plane + 5 * 64;
        if (i == 3) {
            EXPECT_EQ(seen, std::vector<double>(plane, plane + 16 * 64));
        }
        if (i == 4) {
            EXPECT_EQ(few, std::vector<double>(row + 31, row + 34));
        }
    }
    EXPECT_EQ(simulation.field(), now);
    EXPECT_EQ(simulation.field_before(), before);
    EXPECT_EQ(simulation.trace(ear), heard);
}

TEST_P(Breath, a_run_that_stands_still_breathes_and_takes_commands)
{
    Place place = GetParam().place;
    place.breath = milliseconds(1);
    Simulation simulation = simulation_of(room(), place);
    simulation.set_fields(sound(room()), sound(room()));
    simulation.start(1u << 30, GetParam().method);
    const uint64_t paused = simulation.command({with(Act::pause)});
    Request look = with(Act::read);
    look.edit.box = {{31, 8, 8}, {33, 9, 9}};
    std::vector<double> first;
    EXPECT_EQ(simulation.command({look}, &first), paused);
    // More than tiles can be told before they get on.
    const uint32_t count = test::scaled(most_under_way + 100);
    for (uint32_t i = 0; i < count; ++i) {
        std::vector<double> seen;
        ASSERT_EQ(simulation.command({look}, &seen), paused) << i;
        ASSERT_EQ(seen, first) << i;
    }
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(simulation.command({with(Act::resume)}), paused);
    EXPECT_GE(simulation.command({with(Act::end)}), paused);
    EXPECT_GT(simulation.finish().incarnations, 1u);
}

TEST_P(Breath, sources_that_were_added_go_on_in_the_next_incarnation)
{
    Settings settings = room();
    Reference reference(settings);
    Simulation simulation = breathing(settings);
    simulation.start(1u << 30, GetParam().method);
    std::vector<std::pair<uint64_t, Source>> added;
    const int32_t places[3][3] = {{31, 8, 8}, {50, 3, 9}, {2, 12, 3}};
    for (const auto& place : places) {
        Request source = with(Act::source);
        source.source.shape = Shape::sine;
        source.source.frequency = 0.03;
        std::copy_n(place, 3, source.source.at);
        ASSERT_LT(
            settings.kinds[static_cast<size_t>(reference.index(place[0], place[1], place[2]))],
            reflector);
        added.emplace_back(simulation.command({source}), source.source);
        std::this_thread::sleep_for(milliseconds(20));
    }
    const uint64_t ended = simulation.command({with(Act::end)});
    EXPECT_GT(simulation.finish().incarnations, 1u);
    while (reference.steps < ended) {
        for (const auto& [step, source] : added) {
            if (step != reference.steps) continue;
            reference.sources.push_back(source);
            reference.sources.back().begin = step;
        }
        reference.step();
    }
    EXPECT_LT(difference(simulation.field(), reference.now), 2e-5);
}

#if defined(__CUDACC__)
TEST_P(Breath, who_waits_for_the_whole_device_gets_its_turn)
{
    if (GetParam().place.device.kind != Device::Kind::gpu) GTEST_SKIP() << "no GPU";
    for (const auto breath : {microseconds(20), default_breath}) {
        Settings settings = room();
        settings.breath = breath;
        Simulation simulation(settings, Device::gpu());
        simulation.start(1u << 30, GetParam().method);
        for (const Act act : {Act::resume, Act::pause}) {
            const uint64_t step = simulation.command({with(act)});
            for (int i = 0; i < 5; ++i) { // without a breath none of them returns
                EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
                void* memory = nullptr;
                EXPECT_EQ(cudaMalloc(&memory, size_t{64} << 20), cudaSuccess);
                EXPECT_EQ(cudaFree(memory), cudaSuccess);
            }
            EXPECT_TRUE(simulation.running());
            EXPECT_GE(simulation.command({with(act)}), step);
        }
        simulation.command({with(Act::end)});
        EXPECT_GT(simulation.finish().incarnations, 3u);
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Cases, Breath, testing::ValuesIn(cases_at(breathing_places())),
                         [](const auto& at) {
                             return std::string(at.param.place.name) + "_" +
                                    to_string(at.param.method);
                         });

} // namespace
