// SPDX-License-Identifier: Apache-2.0
// Tasks spawned by actors of another program: a tree's result comes back as a message, a full ring
// is told and loses nothing, both ways, and what an actor spawns into a group is cancelled with it.
#include "task/fibonacci.hpp"
#include "task/tasks.hpp"

#include <denizen/task/bridge.hpp>

using denizen::Address;
using denizen::Errc;
using denizen::task::Counter;
using denizen::test::Fib;
using denizen::test::Sum;

namespace {

// ---- the tasks

struct Total { // message to an actor
    uint64_t sum;
};

struct Tell { // the sum, as soon as the bridge has room
    uint64_t sum;
    Address actor;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (ctx.reply(actor, Total{sum}) != Errc::ok) {
            ctx.spawn(*this);
        }
    }
};
struct Root {
    uint32_t n;
    Address actor;
    DENIZEN_HD void run(auto& ctx) const { ctx.spawn(Fib{n, ctx.when(1, Tell{0, actor})}); }
};
struct Hold { // until the host says so
    uint32_t* go;
    uint32_t* begun;
    DENIZEN_HD void run(auto& ctx) const
    {
        denizen::store<denizen::Scope::system>(begun, 1u);
        while (denizen::load<denizen::Scope::system, denizen::Order::acquire>(go) == 0 &&
               !ctx.cancelled()) { // ends by the host
            denizen::relax();
        }
    }
};
struct Mark {
    uint32_t* count;
    DENIZEN_HD void run(auto&) const { denizen::fetch_add<denizen::Scope::system>(count, 1u); }
};
using Tasks = denizen::task::Program<Root, Fib, Sum, Tell, Hold, Mark>;
using TasksRef = denizen::task::TasksRef<Tasks>;

// ---- the actors

struct Begin { // spawn the tree; the sum is asked for
    TasksRef tasks;
    uint32_t n;
};
struct Flood { // spawn up to `most` marks, until there is no room
    TasksRef tasks;
    uint32_t* count;
    uint32_t most;
};
struct Read {};
struct State {
    uint64_t sum;
    uint32_t replies;
    uint32_t taken;
    uint32_t full;
};

struct Asker {
    State state{};
    uint32_t waiting = 0; // address of who waits for the sum; 0: nobody

    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        waiting = ctx.sender().value;
        if (m.tasks.spawn(Root{m.n, ctx.self()}) != Errc::ok) {
            ctx.reply(state);
        }
    }
    DENIZEN_HD void on(const Total& m, auto& ctx)
    {
        state.sum += m.sum;
        ++state.replies;
        if (waiting != 0) {
            ctx.send(Address{waiting}, state);
            waiting = 0;
        }
    }
    DENIZEN_HD void on(const Flood& m, auto& ctx)
    {
        state.full = 0;
        for (uint32_t i = 0; i < m.most && state.full == 0; ++i) {
            if (m.tasks.spawn(Mark{m.count}) == Errc::ok) {
                ++state.taken;
            } else {
                state.full = 1;
            }
        }
        ctx.reply(state);
    }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(state); }
};
using Askers =
    denizen::Program<denizen::Actors<Asker>, denizen::Messages<Begin, Total, Flood, Read, State>>;

} // namespace

namespace denizen::test {
namespace {

using TaskRuntime = task::Runtime<Tasks>;
using ActorRuntime = Runtime<Askers>;
using Bridge = task::Bridge<Total, TaskRuntime, ActorRuntime>;

class TasksOfActors : public TasksAtEveryPlace {
protected:
    static Options actor_options()
    {
        Options o = AtEveryPlace::options();
        o.workers = on_gpu() ? 2 : GetParam().workers;
        return o;
    }
    // Workers of tasks on every SM would leave no room for a block of actors.
    static task::Options task_options()
    {
        task::Options o = options();
        o.sms = on_gpu() && o.sms == 0 ? 16 : o.sms;
        return o;
    }
    static task::Options one_worker()
    {
        task::Options o = task_options();
        o.workers = o.sms = 1;
        return o;
    }
    // Words: 0 lets the worker go, 1 counts marks, 2 says that the worker is held.
    template <class Spawner>
    static void hold(Spawner& spawner, uint32_t* words)
    {
        spawner.spawn(Hold{words, words + 2});
        EXPECT_TRUE(eventually([&] { return load<Scope::system>(words + 2) != 0; }));
    }
};

TEST_P(TasksOfActors, a_trees_result_comes_as_a_message)
{
    TaskRuntime tasks(device(), task_options());
    ActorRuntime actors(device(), actor_options());
    Bridge bridge(tasks, actors);
    const std::vector<Address> all = actors.spawn<Asker>(20);
    uint64_t expected = 0;
    uint32_t n = 0;
    for (const Address a : all) {
        uint64_t fib[2] = {0, 1};
        for (uint32_t i = 0; i < n; ++i) {
            fib[i % 2] += fib[1 - i % 2];
        }
        expected = fib[n % 2];
        EXPECT_EQ(actors.ask<State>(a, Begin{tasks.ref(), n}).sum, expected) << n;
        ++n;
    }
    EXPECT_EQ(expected, 4181u); // of 19
    tasks.wait();
    bridge.close();
    EXPECT_EQ(bridge.carried(), all.size());
}

// Without being told how many SMs to use: they take those that the actors have left, which come
// first when both return to the GPU.
TEST_P(TasksOfActors, come_after_the_actors)
{
    ActorRuntime actors(device(), AtEveryPlace::options());
    TaskRuntime tasks(device(), options());
    Bridge bridge(tasks, actors);
    const Address asker = actors.spawn<Asker>();
    EXPECT_EQ(actors.ask<State>(asker, Begin{tasks.ref(), 15}).sum, 610u);
    {
        TaskRuntime others(device(), one_worker()); // for which all leave the GPU
        others.spawn(Root{1, asker});
        others.wait();
    }
    EXPECT_EQ(actors.ask<State>(asker, Begin{tasks.ref(), 10}).sum, 610u + 55u);
}

#if defined(__CUDACC__)
TEST(RoomForActors, gpu_is_missed_with_an_error)
{
    if (!gpu_here()) {
        GTEST_SKIP() << "this machine has no CUDA device";
    }
    if (!in_a_process_of_its_own()) {
        return;
    }
    TaskRuntime tasks(Device::gpu()); // on every SM
    expect_error_like(Errc::peer_dead,
                      "the program has found no room on .* beside other programs of this process: "
                      "give those fewer sms or workers",
                      [] { ActorRuntime actors(Device::gpu()); });
    Array<uint32_t> count(true, 1);
    tasks.spawn(Mark{count.data()}); // and these go on
    tasks.wait();
    EXPECT_EQ(count[0], 1u);
}
#endif

// One worker that is held, few crates and two places: the actor is told, what was taken is run.
TEST_P(TasksOfActors, a_full_ring_is_told_and_nothing_is_lost)
{
    task::Options o = one_worker();
    o.ingress_slots = 2;
    o.arena_bytes = 512 << 10;
    Array<uint32_t> words(on_gpu(), 3);
    TaskRuntime tasks(device(), o);
    ActorRuntime actors(device(), actor_options());
    const Address asker = actors.spawn<Asker>();
    hold(tasks, words.data());
    State state{};
    uint32_t turns = 0;
    while (state.full == 0 && ++turns < 1000) { // ends: places are few while the worker is held
        state = actors.ask<State>(asker, Flood{tasks.ref(), words.data() + 1, 100});
    }
    EXPECT_EQ(state.full, 1u);
    EXPECT_GE(state.taken, 2u);
    EXPECT_LE(state.taken, 2u + 32 * (1024 + task::kept_crates)); // of the smallest crates
    store<Scope::system, Order::release>(words.data(), 1u);
    tasks.wait();
    EXPECT_EQ(load<Scope::system>(words.data() + 1), state.taken);
    // And there is room again.
    const uint32_t before = state.taken;
    state = actors.ask<State>(asker, Flood{tasks.ref(), words.data() + 1, 2});
    EXPECT_EQ(state.taken, before + 2);
    tasks.wait();
    EXPECT_EQ(load<Scope::system>(words.data() + 1), state.taken);
}

TEST_P(TasksOfActors, replies_that_find_no_room_come_later)
{
    constexpr uint32_t replies = 100;
    task::Options o = task_options();
    o.reply_slots = 2;
    TaskRuntime tasks(device(), o);
    ActorRuntime actors(device(), actor_options());
    const Address asker = actors.spawn<Asker>();
    uint64_t expected = 0;
    for (uint64_t i = 1; i <= replies; ++i) {
        tasks.spawn(Tell{i, asker});
        expected += i;
    }
    {
        Bridge bridge(tasks, actors);
        tasks.wait();
        bridge.close();
        EXPECT_EQ(bridge.carried(), replies);
    }
    const State state = actors.ask<State>(asker, Read{});
    EXPECT_EQ(state.replies, replies);
    EXPECT_EQ(state.sum, expected);
}

TEST_P(TasksOfActors, a_groups_tasks_are_dropped_when_it_is_cancelled)
{
    Array<uint32_t> words(on_gpu(), 3);
    TaskRuntime tasks(device(), one_worker());
    ActorRuntime actors(device(), actor_options());
    const Address asker = actors.spawn<Asker>();
    auto group = tasks.group();
    hold(group, words.data());
    const State state = actors.ask<State>(asker, Flood{group.ref(), words.data() + 1, 10});
    EXPECT_EQ(state.taken, 10u);
    group.cancel();
    const task::Ended ended = group.wait();
    EXPECT_EQ(ended.cancelled, task::Cancelled::asked);
    EXPECT_EQ(ended.dropped, 10u);
    EXPECT_EQ(load<Scope::system>(words.data() + 1), 0u);
}

TEST_P(TasksOfActors, a_reply_of_another_size_is_refused)
{
    TaskRuntime tasks(device(), task_options());
    tasks.spawn(Tell{7, Address::actor(0, 3)});
    tasks.wait();
    uint32_t word = 0;
    uint32_t actor = 0;
    EXPECT_EQ(error_of([&] { tasks.receive(word, actor); }).code(), Errc::wrong_type);
    EXPECT_FALSE(tasks.receive(word, actor));
    tasks.spawn(Tell{8, Address::actor(0, 3)});
    tasks.wait();
    Total total{};
    EXPECT_TRUE(tasks.receive(total, actor));
    EXPECT_EQ(total.sum, 8u);
    EXPECT_EQ(actor, Address::actor(0, 3).value);
}

DENIZEN_TASKS_AT_EVERY_PLACE(TasksOfActors);

} // namespace
} // namespace denizen::test
