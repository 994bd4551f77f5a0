// SPDX-License-Identifier: Apache-2.0
// Tasks spawned by actors of another program, and messages from tasks to these: a tree's result
// comes back, a full ring is told and loses nothing, both ways, what a task has written is there,
// and what an actor spawns into a group is cancelled with it.
#include "task/fibonacci.hpp"
#include "task/tasks.hpp"

#include <denizen/actor/ref.hpp>

using denizen::Address;
using denizen::Errc;
using denizen::task::Counter;
using denizen::test::Fib;
using denizen::test::Sum;

namespace {

// Either side's types name the other's program.
struct Asker;
struct Begin;
struct Total;
struct Letter;
struct Flood;
struct Wait;
struct Read;
struct State;
using Askers = denizen::Program<denizen::Actors<Asker>,
                                denizen::Messages<Begin, Total, Letter, Flood, Wait, Read, State>>;
using ActorsRef = denizen::ActorsRef<Askers>;

// ---- messages from tasks

struct Total {
    uint64_t sum;
};
struct Letter { // in a block of the tasks' arena
    static constexpr uint32_t words = 20;
    uint32_t* block;
    denizen::ArenaRef arena;
    uint32_t first;
};

// ---- the tasks

struct Tell { // the sum, as soon as the actor's worker has room
    uint64_t sum;
    ActorsRef actors;
    Address actor;
    uint32_t* refusals; // or null
    DENIZEN_HD void run(auto& ctx) const
    {
        if (actors.send(actor, Total{sum}) != Errc::ok) {
            if (refusals != nullptr) {
                denizen::fetch_add<denizen::Scope::gpu>(refusals, 1u);
            }
            ctx.spawn(*this);
        }
    }
};
struct TellMany { // 1 to n, and the rest later if there is no room
    uint32_t n;
    ActorsRef actors;
    Address actor;
    DENIZEN_HD void run(auto& ctx) const
    {
        uint32_t left = n;
        while (left != 0 && actors.send(actor, Total{left}) == Errc::ok) {
            --left;
        }
        if (left != 0) {
            ctx.spawn(TellMany{left, actors, actor});
        }
    }
};
struct Misdirect {
    ActorsRef actors;
    Address actor;
    uint32_t* code;
    DENIZEN_HD void run(auto&) const
    {
        denizen::store<denizen::Scope::system>(code,
                                               static_cast<uint32_t>(actors.send(actor, Total{1})));
    }
};
struct Post { // the block, as soon as there is room
    uint32_t* block;
    ActorsRef actors;
    Address actor;
    uint32_t first;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (actors.send(actor, Letter{block, ctx.arena(), first}) != Errc::ok) {
            ctx.spawn(*this);
        }
    }
};
struct Write {
    uint32_t first;
    ActorsRef actors;
    Address actor;
    DENIZEN_HD void run(auto& ctx) const
    {
        auto* block = static_cast<uint32_t*>(ctx.arena().allocate(4 * Letter::words));
        if (block == nullptr) {
            return;
        }
        for (uint32_t i = 0; i < Letter::words; ++i) {
            block[i] = first + i;
        }
        Post{block, actors, actor, first}.run(ctx);
    }
};
struct Root {
    uint32_t n;
    Address actor;
    ActorsRef actors;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.spawn(Fib{n, ctx.when(1, Tell{0, actors, actor, nullptr})});
    }
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
    DENIZEN_HD void run(auto&) const { denizen::fetch_add<denizen::Scope::gpu>(count, 1u); }
};
using Tasks =
    denizen::task::Program<Root, Fib, Sum, Tell, TellMany, Misdirect, Post, Write, Hold, Mark>;
using TasksRef = denizen::task::TasksRef<Tasks>;

// ---- the actors

struct Begin { // spawn the tree; the sum is asked for
    TasksRef tasks;
    ActorsRef actors;
    uint32_t n;
};
struct Flood { // spawn up to `most` marks, until there is no room
    TasksRef tasks;
    uint32_t* count;
    uint32_t most;
};
struct Wait { // until the host says so; says first that it waits
    uint32_t* go;
    uint32_t* begun;
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
        if (m.tasks.spawn(Root{m.n, ctx.self(), m.actors}) != Errc::ok) {
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
    DENIZEN_HD void on(const Letter& m, auto& ctx)
    {
        ctx.fence();
        bool right = true;
        for (uint32_t i = 0; i < Letter::words; ++i) {
            right &= m.block[i] == m.first + i;
        }
        m.arena.deallocate(m.block);
        state.sum += right ? m.first : 0;
        ++state.replies;
    }
    DENIZEN_HD void on(const Wait& m, auto&)
    {
        denizen::store<denizen::Scope::system>(m.begun, 1u);
        while (denizen::load<denizen::Scope::system, denizen::Order::acquire>(m.go) == 0) {
            denizen::relax(); // ends by the host
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
} // namespace

namespace denizen::test {
namespace {

using TaskRuntime = task::Runtime<::Tasks>;
using ActorRuntime = Runtime<Askers>;

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
    const std::vector<Address> all = actors.spawn<Asker>(20);
    uint64_t expected = 0;
    uint32_t n = 0;
    for (const Address a : all) {
        uint64_t fib[2] = {0, 1};
        for (uint32_t i = 0; i < n; ++i) {
            fib[i % 2] += fib[1 - i % 2];
        }
        expected = fib[n % 2];
        EXPECT_EQ(actors.ask<State>(a, Begin{tasks.ref(), actors.ref(), n}).sum, expected) << n;
        ++n;
    }
    EXPECT_EQ(expected, 4181u); // of 19
}

// Without being told how many SMs to use: they take those that the actors have left, which come
// first when both return to the GPU.
TEST_P(TasksOfActors, come_after_the_actors)
{
    ActorRuntime actors(device(), AtEveryPlace::options());
    TaskRuntime tasks(device(), options());
    const Address asker = actors.spawn<Asker>();
    EXPECT_EQ(actors.ask<State>(asker, Begin{tasks.ref(), actors.ref(), 15}).sum, 610u);
    {
        TaskRuntime others(device(), one_worker()); // for which all leave the GPU
        others.spawn(Root{1, asker, actors.ref()});
        others.wait();
        actors.drain(); // the sum of 1
    }
    EXPECT_EQ(actors.ask<State>(asker, Begin{tasks.ref(), actors.ref(), 10}).sum, 610u + 1u + 55u);
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
    task::Options o;
    o.breath = std::chrono::microseconds(0);
    TaskRuntime tasks(Device::gpu(), o); // on every SM, for ever
    expect_error_like(Errc::peer_dead,
                      "the program has found no room on .* beside other programs of this process: "
                      "give those fewer sms or workers",
                      [] { ActorRuntime actors(Device::gpu()); });
    Array<uint32_t> count(true, 1);
    tasks.spawn(Mark{count.data()}); // and these go on
    tasks.wait();
    EXPECT_EQ(count[0], 1u);
}

// Both want all of every SM: they have it by turns, a breath each.
TEST(RoomForActors, is_made_by_tasks_that_breathe)
{
    if (!gpu_here()) {
        GTEST_SKIP() << "this machine has no CUDA device";
    }
    TaskRuntime tasks(Device::gpu());
    ActorRuntime actors(Device::gpu());
    const Address asker = actors.spawn<Asker>();
    for (uint32_t i = 0; i < 10; ++i) {
        EXPECT_EQ(actors.ask<State>(asker, Begin{tasks.ref(), actors.ref(), 10}).sum,
                  55u * (i + 1));
    }
    Array<uint32_t> count(true, 1);
    tasks.spawn(Mark{count.data()});
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

// An inbox with two places, of a worker that is held: the tasks are told, and say it again later.
TEST_P(TasksOfActors, messages_that_find_no_room_come_later)
{
    constexpr uint32_t messages = 100;
    Options of_actors = actor_options();
    of_actors.inbox_slots = 2;
    Array<uint32_t> words(on_gpu(), 3);
    TaskRuntime tasks(device(), task_options());
    ActorRuntime actors(device(), of_actors);
    const Address asker = actors.spawn<Asker>();
    actors.send(asker, Wait{words.data(), words.data() + 1});
    ASSERT_TRUE(eventually([&] { return load<Scope::system>(words.data() + 1) != 0; }));
    uint64_t expected = 0;
    for (uint64_t i = 1; i <= messages; ++i) {
        tasks.spawn(Tell{i, actors.ref(), asker, words.data() + 2});
        expected += i;
    }
    ASSERT_TRUE(eventually([&] { return load<Scope::system>(words.data() + 2) >= messages; }));
    store<Scope::system, Order::release>(words.data(), 1u);
    tasks.wait();
    actors.drain();
    const State state = actors.ask<State>(asker, Read{});
    EXPECT_EQ(state.replies, messages);
    EXPECT_EQ(state.sum, expected);
}

// drain() waits for what tasks have sent before it; several to each of several actors.
TEST_P(TasksOfActors, many_messages_are_handled_once)
{
    const uint32_t each = scaled(4000);
    TaskRuntime tasks(device(), task_options());
    ActorRuntime actors(device(), actor_options());
    const auto all = actors.spawn<Asker>(7);
    for (const Address a : all) {
        tasks.spawn(TellMany{each, actors.ref(), a});
    }
    tasks.wait();
    actors.drain();
    for (const Address a : all) {
        const State state = actors.ask<State>(a, Read{});
        EXPECT_EQ(state.replies, each);
        EXPECT_EQ(state.sum, uint64_t{each} * (each + 1) / 2);
    }
    EXPECT_EQ(actors.stats().dead_letters, 0u);
}

TEST_P(TasksOfActors, an_address_of_no_actor_is_an_error_or_a_dead_letter)
{
    Array<uint32_t> words(on_gpu(), 1);
    TaskRuntime tasks(device(), task_options());
    ActorRuntime actors(device(), actor_options());
    const Address gone = actors.spawn<Asker>();
    actors.stop(gone);
    for (const Address nobody :
         {Address::actor(0, 0, 3), Address::actor(max_workers - 1, 0), host}) {
        tasks.spawn(Misdirect{actors.ref(), nobody, words.data()});
        tasks.wait();
        EXPECT_EQ(words[0], static_cast<uint32_t>(Errc::no_actor)) << nobody.value;
    }
    tasks.spawn(Misdirect{actors.ref(), gone, words.data()});
    tasks.wait();
    EXPECT_EQ(words[0], static_cast<uint32_t>(Errc::ok));
    actors.drain();
    EXPECT_EQ(actors.stats().dead_letters, 1u);
}

// A task's block of its runtime's arena, whose address goes to an actor: what is in it is there.
TEST_P(TasksOfActors, an_actor_reads_what_a_task_has_written)
{
    TaskRuntime tasks(device(), task_options());
    ActorRuntime actors(device(), actor_options());
    const Address asker = actors.spawn<Asker>();
    const uint32_t blocks = scaled(2000);
    for (uint32_t i = 0; i < blocks; ++i) {
        tasks.spawn(Write{i, actors.ref(), asker});
    }
    tasks.wait();
    actors.drain();
    const State state = actors.ask<State>(asker, Read{});
    EXPECT_EQ(state.replies, blocks);
    EXPECT_EQ(state.sum, uint64_t{blocks} * (blocks - 1) / 2);
    EXPECT_EQ(tasks.arena().stats().live_blocks, 0u);
}

TEST_P(TasksOfActors, a_program_that_leaves_when_idle_is_not_for_tasks)
{
    Options o = actor_options();
    o.idle = 50ms;
    ActorRuntime actors(device(), o);
    expect_error(Errc::bad_argument,
                 "idle = 50 ms: who sends from outside does not bring a program back that has "
                 "left; use idle = 0",
                 [&] { actors.ref(); });
    expect_error(Errc::bad_argument, "there is no node 1; the program has 1",
                 [&] { ActorRuntime(device(), actor_options()).ref(1); });
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

DENIZEN_TASKS_AT_EVERY_PLACE(TasksOfActors);

} // namespace
} // namespace denizen::test
