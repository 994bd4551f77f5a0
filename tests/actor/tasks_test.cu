// SPDX-License-Identifier: Apache-2.0
// Tasks of a program of actors: its workers run each once, what they send arrives, a drain waits
// for them, a full queue is told, a failure is told to who asked, and a snapshot has those that
// wait.
#include <actor/places.hpp>
#include <denizen/actor/telemetry.hpp>

#include <cstdio>
#include <filesystem>

struct Begin { // spawn so many Pieces, each `us` long
    uint32_t pieces;
    uint32_t us;
    uint32_t inline_if_full; // else they are left out
};
struct Uneven { // so many Pieces, each `us` longer than the one before
    uint32_t pieces;
    uint32_t us;
};
struct Grow { // a tree of tasks
    uint32_t depth;
};
struct Chain { // tasks one after the other
    uint32_t length;
};
struct Wide { // a task of a warp
    uint32_t number;
};
struct Bad { // tasks that fail
    uint32_t count;
    uint32_t code;
};
struct Flood { // tasks that spawn themselves until then
    uint64_t ns;
};
struct Made { // which were spawned, and which were refused
    uint32_t made;
    uint32_t refused;
};
struct Found {
    uint32_t value;
};
struct Lane {
    uint32_t lane;
    uint32_t lanes;
};
struct Ask {};
struct Sum {
    uint64_t sum;
    uint32_t found;
    uint32_t failed;
    uint32_t last_code;
    uint32_t last_task;
    uint32_t lanes;
    uint32_t lane_sum;
};

DENIZEN_HD inline void spin(auto& ctx, uint64_t us)
{
    const uint64_t until = ctx.now_ns() + 1000 * us;
    while (us != 0 && ctx.now_ns() < until) { // ends by the clock
    }
}

struct Piece {
    uint32_t value;
    uint32_t us;
    DENIZEN_HD void run(auto& ctx) const
    {
        spin(ctx, us);
        ctx.reply(Found{value});
    }
};
struct Branch {
    uint32_t depth;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (depth == 0 || !ctx.spawn(Branch{depth - 1}) || !ctx.spawn(Branch{depth - 1})) {
            ctx.reply(Found{depth == 0 ? 1u : 1u << 20}); // of a full queue: far too much
        }
    }
};
struct Link {
    uint32_t left;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (left == 0) {
            ctx.send(ctx.asker(), Found{7});
        } else {
            ctx.spawn(Link{left - 1});
        }
    }
};
struct Team {
    static constexpr auto grain = denizen::Grain::warp;
    uint32_t number;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.send_each(ctx.asker(), Lane{ctx.lane(), ctx.lanes()});
        ctx.send(ctx.asker(), Found{number}); // once
    }
};
struct Breaks {
    static constexpr bool can_fail = true;
    uint32_t code;
    DENIZEN_HD void run(auto& ctx) const { ctx.fail(code); }
};
struct Again {
    uint64_t until;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (ctx.now_ns() < until) {
            ctx.spawn(*this);
        }
    }
};

struct Boss {
    Sum state{};

    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        Made made{0, 0};
        for (uint32_t i = 0; i < m.pieces; ++i) {
            const Piece piece{i, m.us};
            if (ctx.spawn(piece)) {
                ++made.made;
            } else {
                ++made.refused;
                if (m.inline_if_full != 0) {
                    state.sum += i;
                    ++state.found;
                }
            }
        }
        ctx.reply(made);
    }
    DENIZEN_HD void on(const Uneven& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.pieces; ++i) {
            ctx.spawn(Piece{1, i * m.us});
        }
    }
    DENIZEN_HD void on(const Grow& m, auto& ctx) { ctx.spawn(Branch{m.depth}); }
    DENIZEN_HD void on(const Chain& m, auto& ctx) { ctx.spawn(Link{m.length}); }
    DENIZEN_HD void on(const Wide& m, auto& ctx) { ctx.spawn(Team{m.number}); }
    DENIZEN_HD void on(const Bad& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.spawn(Breaks{m.code});
        }
    }
    DENIZEN_HD void on(const Flood& m, auto& ctx) { ctx.spawn(Again{ctx.now_ns() + m.ns}); }
    DENIZEN_HD void on(const Found& m, auto&)
    {
        state.sum += m.value;
        ++state.found;
    }
    DENIZEN_HD void on(const Lane& m, auto&)
    {
        state.lanes = m.lanes;
        state.lane_sum += m.lane + 1;
    }
    DENIZEN_HD void on(const denizen::TaskFailed& m, auto&)
    {
        ++state.failed;
        state.last_code = m.code;
        state.last_task = m.task;
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(state); }
};

using Working =
    denizen::Program<denizen::Actors<Boss>,
                     denizen::Messages<Begin, Uneven, Grow, Chain, Wide, Bad, Flood, Made, Found,
                                       Lane, Ask, Sum, denizen::TaskFailed>,
                     denizen::Tasks<Piece, Branch, Link, Team, Breaks, Again>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Working>;

class tasks_of_actors : public AtEveryPlace {
protected:
    static Sum after_all(Rt& rt, Address boss)
    {
        rt.drain();
        return rt.ask<Sum>(boss, Ask{}, 20s);
    }
};
DENIZEN_AT_EVERY_PLACE(tasks_of_actors);

TEST_P(tasks_of_actors, answer_the_actor_that_has_asked)
{
    Rt rt(device(), options());
    const auto bosses = rt.spawn<Boss>(10);
    constexpr uint32_t n = 500;
    for (const Address boss : bosses) {
        const Made made = rt.ask<Made>(boss, Begin{n, 0, 0}, 20s);
        EXPECT_EQ(made.made, n);
    }
    for (const Address boss : bosses) {
        const Sum sum = after_all(rt, boss);
        EXPECT_EQ(sum.found, n);
        EXPECT_EQ(sum.sum, uint64_t{n} * (n - 1) / 2);
    }
    EXPECT_EQ(rt.telemetry().tasks, n * bosses.size());
    EXPECT_EQ(rt.telemetry().tasks_refused, 0u);
}

// drain() waits for tasks that are spawned by tasks, with no message between them.
TEST_P(tasks_of_actors, are_waited_for)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    constexpr uint32_t depth = 12;
    rt.send(boss, Grow{depth});
    Sum sum = after_all(rt, boss);
    EXPECT_EQ(sum.sum, 1u << depth);
    for (uint32_t i = 0; i < 20; ++i) {
        rt.send(boss, Chain{100});
        sum = after_all(rt, boss);
        EXPECT_EQ(sum.found, (1u << depth) + i + 1);
    }
    EXPECT_EQ(rt.telemetry().tasks, (2u << depth) - 1 + 20 * 101);
}

// A worker that has nothing left to do says so while others still run tasks.
TEST_P(tasks_of_actors, that_run_are_waited_for_too)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    for (uint32_t i = 1; i <= 3; ++i) {
        rt.send(boss, Uneven{4, 15'000});
        EXPECT_EQ(after_all(rt, boss).found, 4 * i);
    }
}

TEST_P(tasks_of_actors, a_full_queue_is_told)
{
    Options o = options();
    o.task_slots = 4;
    Rt rt(device(), o);
    const Address boss = rt.spawn<Boss>();
    constexpr uint32_t n = 2000;
    const Made made = rt.ask<Made>(boss, Begin{n, 100, 1}, 20s);
    EXPECT_EQ(made.made + made.refused, n);
    if (GetParam().workers != 0) { // all workers of a GPU take them as fast as one makes them
        EXPECT_GT(made.refused, 0u);
    }
    if (GetParam().workers == 1) {
        EXPECT_EQ(made.made, 4u);
    }
    const Sum sum = after_all(rt, boss);
    EXPECT_EQ(sum.sum, uint64_t{n} * (n - 1) / 2);
    EXPECT_EQ(rt.telemetry().tasks, made.made);
    EXPECT_EQ(rt.telemetry().tasks_refused, made.refused);
    // And there is room again.
    EXPECT_EQ(rt.ask<Made>(boss, Begin{3, 0, 0}, 20s).refused, 0u);
}

TEST_P(tasks_of_actors, that_fail_tell_the_actor)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    rt.send(boss, Bad{50, 77});
    const Sum sum = after_all(rt, boss);
    EXPECT_EQ(sum.failed, 50u);
    EXPECT_EQ(sum.last_code, 77u);
    EXPECT_EQ(sum.last_task, 4u); // Breaks
    EXPECT_EQ(rt.telemetry().tasks_failed, 50u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    EXPECT_EQ(rt.inspect(boss).life, Life::running);
}

TEST_P(tasks_of_actors, of_a_warp_have_its_lanes)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    for (uint32_t i = 1; i <= 40; ++i) {
        rt.send(boss, Wide{i});
    }
    const Sum sum = after_all(rt, boss);
    const uint32_t lanes = on_gpu() ? 32 : 1;
    EXPECT_EQ(sum.lanes, lanes);
    EXPECT_EQ(sum.lane_sum, 40 * lanes * (lanes + 1) / 2);
    EXPECT_EQ(sum.found, 40u);
    EXPECT_EQ(sum.sum, 40u * 41 / 2);
}

TEST_P(tasks_of_actors, let_messages_through)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    for (uint32_t i = 0; i < 100; ++i) {
        rt.send(boss, Flood{200'000'000});
    }
    for (uint32_t i = 0; i < 50; ++i) {
        EXPECT_EQ(rt.ask<Sum>(boss, Ask{}, 20s).found, 0u);
    }
    rt.drain();
    EXPECT_GE(rt.telemetry().tasks, 100u);
}

TEST_P(tasks_of_actors, live_through_breaths)
{
    Options o = options();
    o.breath = std::chrono::microseconds(300);
    Rt rt(device(), o);
    const Address boss = rt.spawn<Boss>();
    Sum sum{};
    uint32_t rounds = 0;
    while (rt.stats().incarnations <= 1 || rounds == 0) { // ends as time passes
        ++rounds;
        for (uint32_t i = 0; i < 10; ++i) {
            rt.send(boss, Grow{9});
            rt.send(boss, Chain{200});
        }
        sum = after_all(rt, boss);
    }
    EXPECT_EQ(sum.sum, uint64_t{rounds} * 10 * (512 + 7));
}

TEST_P(tasks_of_actors, that_wait_are_in_a_snapshot)
{
    const std::string path = testing::TempDir() + "tasks." + std::to_string(getpid());
    constexpr uint32_t n = 3000;
    Address boss;
    Options o = options();
    o.workers = o.workers == 0 ? 4 : o.workers;
    {
        Rt rt(device(), o);
        boss = rt.spawn<Boss>();
        rt.ask<Made>(boss, Begin{n, 50, 0}, 20s);
        rt.save(path, 20s);
    }
    o.restore = path;
    Rt rt(device(), o);
    const Sum sum = after_all(rt, boss);
    EXPECT_EQ(sum.found, n);
    EXPECT_EQ(sum.sum, uint64_t{n} * (n - 1) / 2);
    EXPECT_GT(rt.telemetry().tasks, 0u); // of those that waited: what is counted begins anew
    std::filesystem::remove(path);
}

TEST_P(tasks_of_actors, that_do_not_end_are_named)
{
    if (on_gpu()) {
        GTEST_SKIP() << "a warp that spins beside others takes its time";
    }
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    rt.ask<Made>(boss, Begin{1, 400'000, 0}, 20s);
    std::string stuck;
    for (uint32_t i = 0; i < 300 && stuck.empty(); ++i) {
        std::this_thread::sleep_for(5ms);
        rt.stats();
        stuck = rt.stuck(50ms);
    }
    EXPECT_NE(stuck.find("task Piece"), std::string::npos) << stuck;
    rt.drain();
}

TEST(tasks_of_actors_options, task_slots)
{
    Options o;
    o.task_slots = 3;
    expect_error(Errc::bad_argument, "task_slots = 3; use a power of two from 2 to 1048576",
                 [&] { Rt rt(Device::cpu(), o); });
}

class tasks_of_nodes : public AtEveryPlace {};
DENIZEN_ON_SEVERAL_NODES(tasks_of_nodes);

TEST_P(tasks_of_nodes, are_run_where_they_are_spawned)
{
    Rt rt(device(), options());
    const auto bosses = rt.spawn<Boss>(12);
    for (const Address boss : bosses) {
        rt.send(boss, Grow{8});
    }
    rt.drain();
    for (const Address boss : bosses) {
        EXPECT_EQ(rt.ask<Sum>(boss, Ask{}, 20s).sum, 256u);
    }
    EXPECT_EQ(rt.telemetry().tasks, 12u * 511);
}

} // namespace
