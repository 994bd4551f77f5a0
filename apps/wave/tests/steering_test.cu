// SPDX-License-Identifier: Apache-2.0
// Runs that are steered: every command says at which step it was applied, and the plain loop, given
// the same commands at those steps, comes to the same field.
#include "steered.hpp"
#include "support/scaled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

using namespace denizen;
using namespace denizen::wave;

namespace {

Request add(const Source& source)
{
    Request command = with(Act::source);
    command.source = source;
    return command;
}

class Steering : public testing::TestWithParam<Case> {
protected:
    static Settings room()
    {
        Settings settings;
        settings.cells[0] = 64;
        settings.cells[1] = settings.cells[2] = 16;
        settings.boundary[0] = Boundary::periodic;
        settings.boundary[1] = Boundary::absorbing;
        return settings;
    }
    Simulation simulation_ = simulation_of(room(), GetParam().place);
};

bool resident(Method method) { return method == Method::tiles || method == Method::deep; }

TEST_P(Steering, reads_are_answered_however_many_there_have_been)
{
    simulation_.start(1u << 30, GetParam().method);
    Request look = with(Act::read);
    look.edit.box = {{31, 8, 8}, {33, 9, 9}};
    // Both methods of resident tiles have the same list of commands: one of them has it come round.
    const bool comes_round = GetParam().method == Method::tiles;
    const uint32_t count = test::scaled(comes_round ? most_under_way + 100 : 100);
    uint64_t last = 0;
    for (uint32_t i = 0; i < count; ++i) {
        std::vector<double> seen;
        const uint64_t step = simulation_.command({look}, &seen);
        ASSERT_GE(step, last);
        ASSERT_EQ(seen.size(), 2u);
        last = step;
    }
    const uint64_t stopped = simulation_.command({with(Act::end)});
    EXPECT_EQ(simulation_.finish().steps, stopped);
}

TEST_P(Steering, changes_beyond_what_a_run_keeps_are_refused_and_the_run_goes_on)
{
    simulation_.start(1u << 30, GetParam().method);
    const Box box{{10, 4, 4}, {11, 5, 5}};
    const uint32_t count = resident(GetParam().method) ? most_changes : 10;
    for (uint32_t i = 0; i < count; ++i) {
        simulation_.command({cells(box, i % 2 == 0 ? 3 : 0)});
    }
    std::string refusal; // by those that keep changes: the others make each at once
    try {
        simulation_.command({cells(box, 3)});
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::exhausted);
        refusal = error.what();
    }
    EXPECT_EQ(refusal.find("1024 changes") != std::string::npos, resident(GetParam().method))
        << refusal;
    std::vector<double> seen;
    Request look = with(Act::read);
    look.edit.box = box;
    simulation_.command({look}, &seen);
    EXPECT_EQ(seen.size(), 1u);
    simulation_.command({with(Act::end)});
    simulation_.finish();
    simulation_.start(1u << 30, GetParam().method);
    EXPECT_NO_THROW(simulation_.command({cells(box, 3)})) << "the next run takes changes again";
}

TEST_P(Steering, of_commands_that_belong_together_all_are_taken_or_none)
{
    simulation_.start(1u << 30, GetParam().method);
    const Request silent = add({Shape::sine, {20, 8, 8}, 0, 0.1, 0, 0, 0, 0});
    simulation_.command(std::vector<Request>(most_sources - 1, silent));
    try {
        simulation_.command({cells({{10, 4, 4}, {11, 5, 5}}, 3), silent, silent});
        ADD_FAILURE() << "there is room for one source";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::exhausted) << error.what();
    }
    EXPECT_NO_THROW(simulation_.command({silent}));
    simulation_.command({with(Act::end)});
    simulation_.finish();
    const std::vector<double> ones(simulation_.field().size(), 1);
    simulation_.set_fields(ones, ones);
    EXPECT_EQ(simulation_.field()[(4 * 16 + 4) * 64 + 10], 1) << "the cell has become solid";
}

TEST_P(Steering, is_reproduced_by_the_same_commands_at_the_same_steps)
{
    Reference reference(room());
    const Source first{Shape::sine, {20, 8, 8}, 1.0, 0.04, 0, 0, 0, 0};
    reference.sources = {first};
    simulation_.add_source(first);
    const uint32_t ear = simulation_.add_receiver(5, 5, 5);
    constexpr uint32_t most = 1u << 20;
    simulation_.start(most, GetParam().method);
    ASSERT_TRUE(simulation_.running());

    const Box wall{{31, 2, 2}, {33, 12, 12}}; // across tiles
    const Box moved{{40, 2, 7}, {44, 12, 9}};
    const Box slice{{0, 0, 8}, {64, 16, 9}};
    std::vector<std::pair<uint64_t, std::function<void()>>> done;
    const auto order = [&](std::vector<Request> commands, std::function<void()> same) {
        done.emplace_back(simulation_.command(std::move(commands)), std::move(same));
    };
    order({cells(wall, 2)}, [&] { reference.fill(wall, 2); });
    const Source second{Shape::ricker, {50, 3, 9}, 2.0, 0.06, 10, 0, 0, 0};
    order({add(second)}, [&] {
        reference.sources.push_back(second);
        reference.sources.back().begin = reference.steps;
    });
    order({cells(wall, 0), cells(moved, 3)}, [&] { // moved, in one go
        reference.fill(wall, 0);
        reference.fill(moved, 3);
    });
    Request damping = with(Act::damping);
    damping.value = 0.02;
    order({damping}, [&] { reference.s.damping = 0.02 / reference.dt; });

    std::vector<double> seen;
    Request look = with(Act::read);
    look.edit.box = slice;
    const uint64_t looked = simulation_.command({look}, &seen);
    ASSERT_EQ(seen.size(), 64u * 16);
    const uint64_t stopped = simulation_.command({with(Act::end)});
    const Ran ran = simulation_.finish();
    EXPECT_EQ(ran.steps, stopped);
    EXPECT_EQ(simulation_.steps(), stopped);
    ASSERT_LT(stopped, most);

    std::vector<double> heard;
    std::vector<double> expected;
    size_t next = 0;
    while (true) { // ends at the step that the run was ended
        while (next < done.size() && done[next].first == reference.steps) done[next++].second();
        if (reference.steps == looked) {
            for (int y = 0; y < 16; ++y) {
                for (int x = 0; x < 64; ++x) {
                    expected.push_back(reference.now[reference.index(x, y, 8)]);
                }
            }
        }
        if (reference.steps == stopped) break;
        reference.step();
        heard.push_back(reference.now[reference.index(5, 5, 5)]);
    }
    EXPECT_EQ(next, done.size());
    EXPECT_LT(difference(seen, expected), 2e-5);
    EXPECT_LT(difference(simulation_.field(), reference.now), 2e-5);
    EXPECT_LT(difference(simulation_.trace(ear), heard), 2e-5);

    // What was changed stays so in the next run.
    simulation_.run(7, GetParam().method);
    for (int i = 0; i < 7; ++i) reference.step();
    EXPECT_LT(difference(simulation_.field(), reference.now), 2e-5);
}

// Boxes that lie on each other, in tiles and across them, at the ends of a periodic axis as well;
// and reads of as few cells as come with the answer.
TEST_P(Steering, many_changes_and_reads_of_few_cells)
{
    Reference reference(room());
    const Source source{Shape::sine, {20, 8, 8}, 1.0, 0.04, 0, 0, 0, 0};
    reference.sources = {source};
    simulation_.add_source(source);
    simulation_.start(1u << 20, GetParam().method);
    const uint64_t paused = simulation_.command({with(Act::pause)});
    while (reference.steps < paused) reference.step();
    std::mt19937 random(8);
    for (int i = 0; i < 150; ++i) {
        Box box;
        for (int axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(room().cells[axis]);
            box.low[axis] = static_cast<int32_t>(random() % static_cast<uint32_t>(n));
            box.high[axis] = std::min(n, box.low[axis] + 1 + static_cast<int32_t>(random() % 5));
        }
        if (i % 10 == 0) box.low[0] = 0;
        if (i % 10 == 5) box.high[0] = 64;
        const uint32_t kind = random() % 4;
        Request look = with(Act::read);
        look.edit.box = {{box.low[0], 7, 8}, {std::min(64, box.low[0] + 1 + i % 3), 8, 9}};
        std::vector<double> seen;
        EXPECT_EQ(simulation_.command({cells(box, kind), look}, &seen), paused);
        reference.fill(box, static_cast<uint8_t>(kind));
        std::vector<double> expected;
        for (int x = look.edit.box.low[0]; x < look.edit.box.high[0]; ++x) {
            expected.push_back(reference.now[reference.index(x, 7, 8)]);
        }
        ASSERT_EQ(seen.size(), expected.size());
        for (size_t k = 0; k < seen.size(); ++k) ASSERT_NEAR(seen[k], expected[k], 2e-5) << i;
    }
    simulation_.command({with(Act::resume)});
    const uint64_t stopped = simulation_.command({with(Act::end)});
    simulation_.finish();
    while (reference.steps < stopped) reference.step();
    EXPECT_LT(difference(simulation_.field(), reference.now), 2e-5);
    simulation_.run(5, GetParam().method); // with the classes as the host has them
    for (int i = 0; i < 5; ++i) reference.step();
    EXPECT_LT(difference(simulation_.field(), reference.now), 2e-5);
}

TEST_P(Steering, stands_still_while_it_is_paused)
{
    simulation_.add_source({.shape = Shape::sine, .at = {1, 1, 1}, .frequency = 0.1});
    simulation_.start(1u << 20, GetParam().method);
    const uint64_t paused = simulation_.command({with(Act::pause)});
    Request look = with(Act::read);
    look.edit.box = {{0, 0, 0}, {64, 1, 1}};
    std::vector<double> once;
    std::vector<double> again;
    EXPECT_EQ(simulation_.command({look}, &once), paused);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(simulation_.command({look}, &again), paused);
    EXPECT_EQ(once, again);
    EXPECT_TRUE(simulation_.running());
    EXPECT_EQ(simulation_.command({with(Act::resume)}), paused);
    EXPECT_GE(simulation_.command({with(Act::end)}), paused);
    simulation_.finish();
}

TEST_P(Steering, goes_on_as_far_as_it_was_told_to)
{
    simulation_.start(1u << 20, GetParam().method);
    uint64_t at = simulation_.command({with(Act::pause)});
    const Box one{{4, 4, 4}, {5, 5, 5}};
    Request look = with(Act::read);
    look.edit.box = one;
    std::vector<double> seen;
    for (int k = 0; k < 3; ++k) {
        Request on = with(Act::resume);
        on.until = static_cast<uint32_t>(at) + 16;
        simulation_.command({on});
        const uint64_t wanted = at + 16;
        while (at < wanted) at = simulation_.command({look}, &seen); // ends: it goes on so far
        EXPECT_LT(at, wanted + 8); // a pass of some methods has several steps
        EXPECT_EQ(simulation_.command({look}, &seen), at);
    }
    EXPECT_GE(simulation_.command({with(Act::resume)}), at);
    EXPECT_GE(simulation_.command({with(Act::end)}), at);
    simulation_.finish();
}

TEST_P(Steering, ends_while_it_is_paused)
{
    for (uint32_t i = 0; i < 20; ++i) { // finish() comes before or after the thread is through
        simulation_.start(1u << 30, GetParam().method);
        const uint64_t paused = simulation_.command({with(Act::pause)});
        EXPECT_EQ(simulation_.command({with(Act::end)}), paused);
        EXPECT_NO_THROW(simulation_.finish());
        EXPECT_EQ(simulation_.steps(), paused);
    }
}

TEST_P(Steering, a_run_that_ends_by_itself_and_commands_that_come_too_late)
{
    simulation_.start(20, GetParam().method);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (simulation_.running() && std::chrono::steady_clock::now() < limit) {
        std::this_thread::yield(); // ends with the run
    }
    try {
        simulation_.command({with(Act::pause)});
        ADD_FAILURE() << "a run that is over was paused";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::closed);
    }
    EXPECT_EQ(simulation_.finish().steps, 20u);
    EXPECT_EQ(simulation_.steps(), 20u);
}

TEST_P(Steering, what_is_refused)
{
    simulation_.start(1u << 20, GetParam().method);
    const auto code = [&](const Request& command, std::vector<double>* values = nullptr) {
        try {
            simulation_.command({command}, values);
        } catch (const Error& error) {
            return error.code();
        }
        return Errc::ok;
    };
    std::vector<double> values;
    EXPECT_EQ(code(cells({{0, 0, 0}, {65, 1, 1}}, 2)), Errc::bad_argument);
    EXPECT_EQ(code(cells({{4, 0, 0}, {4, 1, 1}}, 2)), Errc::bad_argument);
    EXPECT_EQ(code(cells({{0, 0, 0}, {1, 1, 1}}, 4)), Errc::bad_argument);
    EXPECT_EQ(code(add({.at = {64, 0, 0}})), Errc::bad_argument);
    Request look = with(Act::read);
    look.edit.box = {{0, 0, 0}, {64, 16, 2}};
    EXPECT_EQ(code(look, &values), Errc::oversize);
    look.edit.box = {{0, 0, 0}, {1, 1, 1}};
    EXPECT_EQ(code(look), Errc::bad_argument); // no place for the values
    EXPECT_EQ(code(with(Act::end)), Errc::ok);
    simulation_.finish();
}

INSTANTIATE_TEST_SUITE_P(Cases, Steering, testing::ValuesIn(cases_at(places())),
                         [](const auto& at) {
                             return std::string(at.param.place.name) + "_" +
                                    to_string(at.param.method);
                         });

} // namespace
