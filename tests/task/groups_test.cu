// SPDX-License-Identifier: Apache-2.0
// Groups: their end is seen exactly, and they can be cancelled, late, and waited for alone. And
// what is promised to the host: futures, priorities, errors.
#include "tasks.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Cancelled;
using task::Priority;
using task::Promise;

// Counts itself, then spawns two more until the depth is reached; where `random` is not 0, one of
// them to a worker by name.
struct Spread {
    uint64_t* count;
    uint32_t depth;
    uint32_t random;
    DENIZEN_HD void run(auto& ctx) const
    {
        fetch_add<Scope::gpu>(count, uint64_t{1});
        if (depth != 0) {
            const uint32_t next = random == 0 ? 0 : (random * 1664525u + 1013904223u) | 1u;
            ctx.spawn(Spread{count, depth - 1, next});
            if (next == 0) {
                ctx.spawn(Spread{count, depth - 1, 0});
            } else {
                ctx.spawn_on((next >> 8) % ctx.workers(), Spread{count, depth - 1, next ^ 0x5556u});
            }
        }
    }
};

// Runs until it is told by the host to end, or its group is cancelled.
struct Hold {
    uint32_t* release;
    uint64_t* began;
    DENIZEN_HD void run(auto& ctx) const
    {
        fetch_add<Scope::gpu>(began, uint64_t{1});
        while (load<Scope::system>(release) == 0 && !ctx.cancelled()) {
            relax(); // ends as said above; the tests see to one of them
        }
    }
};

// Waits for what it has spawned, which another worker has to run.
struct Child {
    uint32_t* done;
    DENIZEN_HD void run(auto&) const { store<Scope::system>(done, 1u); }
};
struct Parent {
    uint32_t* done;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(Child{done});
        while (load<Scope::system>(done) == 0 && !ctx.cancelled()) {
            relax(); // ends by the child
        }
    }
};

// Spawns itself for ever: only cancelling ends it.
struct Endless {
    uint64_t* count;
    DENIZEN_HD void run(auto& ctx) const
    {
        fetch_add<Scope::gpu>(count, uint64_t{1});
        ctx.spawn(Endless{count});
    }
};

struct Stop {
    DENIZEN_HD void run(auto& ctx) const { ctx.cancel(); }
};

// Its place in the order in which tasks have run.
template <Priority Level>
struct Mark {
    uint32_t* next;
    uint32_t* order;
    uint32_t i;
    static constexpr auto priority = Level;
    DENIZEN_HD void run(auto&) const
    {
        store<Scope::system>(&order[fetch_add<Scope::gpu>(next, 1u)], i);
    }
};
struct Marks {
    uint32_t* next;
    uint32_t* order;
    DENIZEN_HD void run(auto& ctx) const
    {
        for (uint32_t i = 0; i < 5; ++i) {
            ctx.spawn(Mark<Priority::low>{next, order, 20 + i});
            ctx.spawn(Mark<Priority::normal>{next, order, 10 + i});
            ctx.spawn(Mark<Priority::high>{next, order, i});
        }
    }
};

struct Wide {
    uint32_t word[11];
};
struct SetWide {
    Promise<Wide> promise;
    uint32_t x;
    DENIZEN_HD void run(auto& ctx) const
    {
        Wide w;
        for (uint32_t i = 0; i < 11; ++i) {
            w.word[i] = x + i;
        }
        ctx.set(promise, w);
    }
};
struct Idle {
    DENIZEN_HD void run(auto&) const {}
};

using Groups =
    task::Program<Spread, Hold, Endless, Stop, Mark<Priority::low>, Mark<Priority::normal>,
                  Mark<Priority::high>, Marks, SetWide, Idle, Parent, Child>;

class TaskGroups : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskGroups);

// When wait() returns, all tasks of the group have run, however they were spread. Many groups at a
// time, so that the repetitions do not wait for the machine's scheduler one by one; now and then
// one task is there whose child somebody has to steal, as busy as the machine may be with others.
TEST_P(TaskGroups, EndIsSeenExactly)
{
    constexpr uint32_t together = 50;
    const uint32_t rounds = scaled(10'000) / together;
    Array<uint64_t> count(on_gpu(), together * 16);
    Array<uint32_t> done(on_gpu(), rounds);
    task::Runtime<Groups> rt(device(), options());
    const bool several = rt.workers() > 1;
    std::vector<task::Runtime<Groups>::Group> groups;
    for (uint32_t g = 0; g < together; ++g) {
        groups.push_back(rt.group());
    }
    std::vector<uint64_t> expected(together);
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint32_t i = round * together;
        const bool stolen = several && round % 10 == 0;
        if (stolen) {
            groups[0].spawn(Parent{&done[round]});
        }
        for (uint32_t g = 0; g < together; ++g) {
            const uint32_t depth = (i + g) % 5;
            groups[g].spawn(Spread{&count[16 * g], depth, i + g});
            expected[g] += (2u << depth) - 1;
        }
        for (uint32_t g = 0; g < together; ++g) {
            groups[g].wait();
            ASSERT_EQ(load<Scope::system>(&count[16 * g]), expected[g]) << i;
        }
        ASSERT_EQ(load<Scope::system>(&done[round]), stolen ? 1u : 0u) << i;
    }
    groups.clear();
    rt.close();
    const task::Stats stats = rt.stats();
    EXPECT_EQ(stats.refused, 0u);
    if (several) { // half of the other children came by mail
        EXPECT_GE(stats.steals, rounds / 10) << said(stats);
        EXPECT_GT(stats.letters, 0u) << said(stats);
    }
}

TEST_P(TaskGroups, AreWaitedForAlone)
{
    Array<uint64_t> count(on_gpu(), 2);
    Array<uint32_t> release(on_gpu(), 1);
    task::Runtime<Groups> rt(device(), options());
    auto held = rt.group();
    held.spawn(Hold{release.data(), &count[1]});
    if (rt.workers() > 1) { // else the one worker is taken
        auto other = rt.group();
        other.spawn(Spread{count.data(), 4, 0}); // mail would wait for the one that is held
        other.wait();
        EXPECT_EQ(load<Scope::system>(&count[0]), 31u);
        rt.spawn(Spread{count.data(), 4, 0});
        rt.wait();
        EXPECT_EQ(load<Scope::system>(&count[0]), 62u);
    }
    expect_error_like(Errc::timeout, "tasks of group [0-9]+ still run or can run after 0.02 s",
                      [&] { held.wait(20ms); });
    store<Scope::system>(&release[0], 1u);
    EXPECT_EQ(held.wait().cancelled, Cancelled::no);
}

TEST_P(TaskGroups, AreCancelled)
{
    Array<uint64_t> count(on_gpu(), 2);
    Array<uint32_t> release(on_gpu(), 1);
    task::Runtime<Groups> rt(device(), options());
    {
        auto endless = rt.group();
        endless.spawn(Endless{count.data()});
        if (rt.workers() > 1) {                             // else the other would not go on
            endless.spawn(Hold{release.data(), &count[1]}); // looks whether it is cancelled
        }
        EXPECT_TRUE(eventually([&] { return load<Scope::system>(&count[0]) > 100; }))
            << load<Scope::system>(&count[0]) << " have run, " << load<Scope::system>(&count[1])
            << " hold; " << said(rt.stats());
        endless.cancel();
        const task::Ended end = endless.wait();
        EXPECT_EQ(end.cancelled, Cancelled::asked);
        EXPECT_GE(end.dropped, 1u);
    }
    const uint64_t at_end = load<Scope::system>(&count[0]);
    rt.spawn(Spread{&count[0], 2, 3}); // others run on
    rt.wait();
    EXPECT_EQ(load<Scope::system>(&count[0]), at_end + 7);
    auto again = rt.group(); // a number that was cancelled before is as new
    again.spawn(Spread{&count[0], 2, 4});
    EXPECT_EQ(again.wait().dropped, 0u);
    EXPECT_EQ(load<Scope::system>(&count[0]), at_end + 14);
    again.spawn(Endless{count.data()});
    again.spawn(Stop{}); // by one of its own tasks
    EXPECT_EQ(again.wait().cancelled, Cancelled::asked);
}

// Whatever else has come onto the warp of a long task.
TEST_P(TaskGroups, EndBesideALongTask)
{
    Array<uint64_t> count(on_gpu(), 2);
    Array<uint32_t> release(on_gpu(), 1);
    task::Runtime<Groups> rt(device(), options());
    if (rt.workers() == 1) {
        GTEST_SKIP() << "the one worker is taken";
    }
    auto held = rt.group();
    auto other = rt.group();
    other.spawn(Spread{count.data(), 4, 0});
    held.spawn(Hold{release.data(), &count[1]});
    other.spawn(Spread{count.data(), 4, 0});
    EXPECT_EQ(other.wait().dropped, 0u) << said(rt.stats());
    EXPECT_EQ(load<Scope::system>(&count[0]), 62u);
    store<Scope::system>(&release[0], 1u);
    held.wait();
}

TEST_P(TaskGroups, ALongTasksOwnSpawnsRun)
{
    constexpr uint32_t parents = 5;
    Array<uint32_t> done(on_gpu(), parents);
    task::Runtime<Groups> rt(device(), options());
    if (rt.workers() == 1) {
        GTEST_SKIP() << "the one worker is taken";
    }
    for (uint32_t i = 0; i < parents; ++i) { // one after the other: CPU workers are few
        rt.spawn(Parent{&done[i]});
        rt.wait();
        EXPECT_EQ(done[i], 1u);
    }
}

TEST_P(TaskGroups, AreLate)
{
    Array<uint64_t> count(on_gpu(), 1);
    task::Runtime<Groups> rt(device(), options());
    auto late = rt.group(20ms);
    late.spawn(Endless{count.data()});
    const task::Ended end = late.wait();
    EXPECT_EQ(end.cancelled, Cancelled::late);
    EXPECT_GE(end.dropped, 1u);
    auto early = rt.group(10s);
    early.spawn(Spread{count.data(), 3, 1});
    EXPECT_EQ(early.wait().cancelled, Cancelled::no);
}

TEST_P(TaskGroups, RunOut)
{
    task::Runtime<Groups> rt(device(), options());
    std::deque<task::Runtime<Groups>::Group> all;
    for (uint32_t g = 1; g < task::max_groups; ++g) {
        all.push_back(rt.group());
    }
    expect_error(Errc::exhausted, "all 63 groups are open; close some", [&] { rt.group(); });
    all.pop_front();
    all.push_back(rt.group());
}

class TaskPriority : public TasksAtEveryPlace {};

std::vector<Place> places_of_one_worker()
{
    return {
        {"cpu1", Device::cpu(), 1, false},
#if defined(__CUDACC__)
        {"gpu1", Device::gpu(), 1, false},
#endif
    };
}
DENIZEN_AT_PLACES(TaskPriority, places_of_one_worker());

// One worker runs what it has in order of priority.
TEST_P(TaskPriority, HigherFirst)
{
    Array<uint32_t> next(on_gpu(), 1);
    Array<uint32_t> order(on_gpu(), 15);
    task::Runtime<Groups> rt(device(), options());
    ASSERT_EQ(rt.workers(), 1u);
    rt.spawn(Marks{next.data(), order.data()});
    rt.wait();
    ASSERT_EQ(next[0], 15u);
    for (uint32_t i = 0; i < 15; ++i) {
        EXPECT_EQ(order[i] / 10, i / 5) << i;
    }
}

TEST_P(TaskGroups, PrioritiesAllRun)
{
    Array<uint32_t> next(on_gpu(), 1);
    Array<uint32_t> order(on_gpu(), 15);
    task::Runtime<Groups> rt(device(), options());
    rt.spawn(Marks{next.data(), order.data()});
    rt.wait();
    std::vector<uint32_t> ran(order.data(), order.data() + 15);
    std::sort(ran.begin(), ran.end());
    EXPECT_EQ(ran, (std::vector<uint32_t>{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}));
}

// A task that does not end holds up only its own worker.
TEST(TaskFairness, LongTasks)
{
    Array<uint64_t> count(false, 2);
    Array<uint32_t> release(false, 1);
    task::Options o;
    o.workers = 3;
    task::Runtime<Groups> rt(Device::cpu(), o);
    auto held = rt.group();
    held.spawn(Hold{release.data(), &count[1]});
    held.spawn(Hold{release.data(), &count[1]});
    EXPECT_TRUE(eventually([&] { return load<Scope::system>(&count[1]) == 2; }));
    for (uint32_t i = 0; i < 100; ++i) {
        rt.spawn(Spread{count.data(), 3, 0});
    }
    rt.wait();
    EXPECT_EQ(load<Scope::system>(&count[0]), 1500u);
    store<Scope::system>(&release[0], 1u);
    held.wait();
}

TEST_P(TaskGroups, Futures)
{
    task::Options o = options();
    o.futures = 2;
    task::Runtime<Groups> rt(device(), o);
    for (uint32_t i = 0; i < 50; ++i) {
        auto [promise, future] = rt.promise<Wide>();
        rt.spawn(SetWide{promise, 7 * i});
        const Wide w = future.get();
        EXPECT_TRUE(future.ready());
        for (uint32_t k = 0; k < 11; ++k) {
            ASSERT_EQ(w.word[k], 7 * i + k);
        }
    }
    auto one = rt.promise<uint32_t>();
    auto two = rt.promise<uint32_t>();
    EXPECT_FALSE(one.future.ready());
    expect_error(Errc::exhausted, "all 2 futures are in use; read some, or raise futures",
                 [&] { rt.promise<uint32_t>(); });
    expect_error(Errc::timeout, "no task has set the result within 0.01 s",
                 [&] { one.future.get(10ms); });
}

// However many parts they are handed in by.
TEST(TaskErrors, AFullPortSaysHowManyWereTaken)
{
    constexpr uint64_t many = 100'000; // more than the arena has room for
    Array<uint64_t> count(false, 2);
    Array<uint32_t> release(false, 1);
    task::Options o;
    o.workers = 1;
    o.port_slots = 64;
    o.arena_bytes = 512 << 10;
    task::Runtime<Groups> rt(Device::cpu(), o);
    rt.spawn(Hold{release.data(), &count[1]});
    EXPECT_TRUE(eventually([&] { return load<Scope::system>(&count[1]) == 1; }));
    const std::vector<Spread> tasks(many, Spread{count.data(), 0, 0});
    const Error e = error_of([&] { rt.spawn_many(tasks.data(), many, 50ms); });
    EXPECT_EQ(e.code(), Errc::full);
    std::string taken;
    EXPECT_TRUE(matches(e.what(),
                        "the port of tasks is full \\(64 slots\\); ([0-9]+) of 100000 were taken",
                        &taken))
        << e.what();
    EXPECT_GT(std::stoull("0" + taken), 512u);
    store<Scope::system>(&release[0], 1u);
    rt.wait();
    EXPECT_EQ(std::to_string(load<Scope::system>(&count[0])), taken);
}

TEST(TaskErrors, Options)
{
    const auto with = [](auto change) {
        task::Options o;
        o.workers = 1;
        change(o);
        task::Runtime<Groups> rt(Device::cpu(), o);
    };
    expect_error(Errc::bad_argument, "queue_slots = 100; use a power of two from 64 to 65536",
                 [&] { with([](auto& o) { o.queue_slots = 100; }); });
    expect_error(Errc::bad_argument, "arena_bytes = 1000; use 524288 to 67645734912",
                 [&] { with([](auto& o) { o.arena_bytes = 1000; }); });
    expect_error(Errc::bad_argument, "futures = 0; use 1 to 1048576",
                 [&] { with([](auto& o) { o.futures = 0; }); });
}

TEST(TaskErrors, FullPort)
{
    Array<uint64_t> count(false, 2);
    Array<uint32_t> release(false, 1);
    task::Options o;
    o.workers = 1;
    o.port_slots = 4;
    o.arena_bytes = 512 << 10;
    task::Runtime<Groups> rt(Device::cpu(), o);
    auto held = rt.group();
    held.spawn(Hold{release.data(), &count[1]});
    EXPECT_TRUE(eventually([&] { return load<Scope::system>(&count[1]) == 1; }));
    // 512 crates in the arena and 64 beside it, then four slots of the port.
    const std::vector<Spread> many(100, Spread{count.data(), 0, 1});
    uint64_t taken = 0;
    std::string found;
    const Error e = error_of([&] {
        for (;; taken += many.size()) { // ends when the port is full
            rt.spawn_many(many.data(), many.size(), 500ms);
        }
    });
    EXPECT_EQ(e.code(), Errc::full);
    EXPECT_TRUE(matches(e.what(),
                        "the port of tasks is full \\(4 slots\\); ([0-9]+) of 100 were "
                        "taken",
                        &found))
        << e.what();
    store<Scope::system>(&release[0], 1u);
    rt.wait();
    taken += static_cast<uint64_t>(std::stoi(found));
    EXPECT_GE(taken, 512u + task::kept_crates + 4);
    EXPECT_EQ(load<Scope::system>(&count[0]), taken);
}

TEST(TaskErrors, Closed)
{
    task::Options o;
    o.workers = 1;
    task::Runtime<Groups> rt(Device::cpu(), o);
    rt.close();
    expect_error(Errc::closed, "the runtime has been closed", [&] { rt.spawn(Idle{}); });
}

} // namespace
