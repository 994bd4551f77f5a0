// SPDX-License-Identifier: Apache-2.0
// Actors that handlers spawn: at once, with a state of their own, until there is no place; they are
// actors like all others; and the names and the list of actors.
#include <actor/places.hpp>
#include <denizen/actor/telemetry.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

struct Breed { // spawn so many and send each one Work
    uint32_t count;
};
struct Bred {
    uint32_t made;
    uint32_t none; // for which there was no place
    denizen::Address last;
};
struct Work {
    uint32_t number;
};
struct Done {
    denizen::Address child;
    uint32_t number;
    uint32_t seed;
};
struct End { // to a child: stops itself, or fails
    uint32_t code;
};
struct Ask {};
struct Downs {
    uint32_t downs;
    uint32_t failed;
    uint32_t stopped;
    uint32_t restarted;
};
struct Deep { // each child spawns the next
    uint32_t left;
    denizen::Address report;
};

struct Child {
    static constexpr bool spawned = true;
    static constexpr bool can_fail = true;
    uint32_t seed = 7;
    uint32_t worked = 0;

    DENIZEN_HD void on(const Work& m, auto& ctx)
    {
        ++worked;
        ctx.reply(Done{ctx.self(), m.number, seed});
    }
    DENIZEN_HD void on(const End& m, auto& ctx)
    {
        if (m.code != 0) {
            ctx.fail(m.code);
        } else {
            ctx.stop(ctx.self());
        }
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Done{ctx.self(), worked, seed}); }
    DENIZEN_HD void on(const Deep& m, auto& ctx)
    {
        if (m.left == 0) {
            ctx.send(m.report, Done{ctx.self(), 0, seed});
            return;
        }
        const denizen::Address next = ctx.template spawn<Child>(seed + 1);
        ctx.send(next, Deep{m.left - 1, m.report});
    }
};

struct Parent {
    uint32_t done = 0;
    Downs told = {};

    DENIZEN_HD void on(const Breed& m, auto& ctx)
    {
        Bred bred{0, 0, denizen::nowhere};
        for (uint32_t i = 0; i < m.count; ++i) {
            const denizen::Address child = ctx.template spawn<Child>(100 + i);
            if (child == denizen::nowhere) {
                ++bred.none;
                continue;
            }
            ++bred.made;
            bred.last = child;
            ctx.watch(child);
            ctx.send(child, Work{i});
        }
        ctx.reply(bred);
    }
    DENIZEN_HD void on(const Done& m, auto&) { done += m.seed == 100 + m.number ? 1 : 0; }
    DENIZEN_HD void on(const denizen::Down& m, auto& ctx)
    {
        ++told.downs;
        if (m.life == static_cast<uint32_t>(denizen::Life::failed)) {
            ++told.failed;
            ctx.restart(denizen::Address{m.actor});
        } else if (m.life == static_cast<uint32_t>(denizen::Life::stopped)) {
            ++told.stopped;
        } else {
            ++told.restarted;
        }
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(told); }
    DENIZEN_HD void on(const Work&, auto& ctx) { ctx.reply(Done{ctx.self(), done, 0}); }
};

struct WarpParent {
    static constexpr auto grain = denizen::Grain::warp;

    DENIZEN_HD void on(const Breed& m, auto& ctx)
    {
        Bred bred{0, 0, denizen::nowhere};
        for (uint32_t i = 0; i < m.count; ++i) {
            const denizen::Address child = ctx.template spawn<Child>(i);
            bred.none += child == denizen::nowhere ? 1 : 0;
            bred.made += child == denizen::nowhere ? 0 : 1;
            bred.last = child;
        }
        ctx.reply(bred);
    }
};

using Family = denizen::Program<
    denizen::Actors<Parent, Child, WarpParent>,
    denizen::Messages<Breed, Bred, Work, Done, End, Ask, Downs, Deep, denizen::Down>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Family>;

class spawn : public AtEveryPlace {
protected:
    static std::vector<Address> children(Rt& rt)
    {
        std::vector<Address> all;
        for (const ActorListing& a : rt.actors()) {
            if (a.type == "Child") {
                all.push_back(a.address);
            }
        }
        return all;
    }
};
DENIZEN_AT_EVERY_PLACE(spawn);

TEST_P(spawn, a_handler_has_the_address_at_once)
{
    Rt rt(device(), options());
    const Address parent = rt.spawn<Parent>();
    const Bred bred = rt.ask<Bred>(parent, Breed{20}, 20s);
    EXPECT_EQ(bred.made, 20u);
    EXPECT_EQ(bred.none, 0u);
    rt.drain(20s);
    EXPECT_EQ(rt.ask<Done>(parent, Work{}, 20s).number, 20u)
        << "each was sent its Work, and answered";
    const std::vector<Address> all = children(rt);
    ASSERT_EQ(all.size(), 20u);
    EXPECT_EQ(std::set<uint32_t>([&] {
                  std::set<uint32_t> distinct;
                  for (const Address a : all) {
                      distinct.insert(a.value);
                  }
                  return distinct;
              }())
                  .size(),
              20u);
    for (const Address a : all) {
        EXPECT_EQ(a.worker(), parent.worker());
        EXPECT_EQ(rt.ask<Done>(a, Ask{}, 20s).number, 1u) << "the host knows it too";
        EXPECT_EQ(rt.state(a), Life::running);
    }
    rt.broadcast<Child>(Work{3}, 20s); // what goes to all of a type goes to them
    rt.drain(20s);
    for (const Address a : all) {
        EXPECT_EQ(rt.ask<Done>(a, Ask{}, 20s).number, 2u);
    }
    const Telemetry t = rt.telemetry();
    EXPECT_EQ(t.spawned, 20u);
    EXPECT_EQ(t.not_spawned, 0u);
    for (const ActorTypeTelemetry& type : t.actor_types) {
        if (type.name == "Child") {
            EXPECT_EQ(type.live, 20u);
        }
    }
}

TEST_P(spawn, where_there_is_no_place_it_says_so)
{
    Options o = options();
    o.spawn_room = 8;
    Rt rt(device(), o);
    const Address parent = rt.spawn<Parent>();
    const Bred bred = rt.ask<Bred>(parent, Breed{20}, 20s);
    EXPECT_EQ(bred.made, 8u);
    EXPECT_EQ(bred.none, 12u);
    rt.drain(20s);
    const Telemetry t = rt.telemetry();
    EXPECT_EQ(t.spawned, 8u);
    EXPECT_EQ(t.not_spawned, 12u);
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

// Generations of children, each in places that others have left.
TEST_P(spawn, a_place_is_given_to_another_when_its_actor_has_stopped)
{
    Options o = options();
    o.spawn_room = 8;
    Rt rt(device(), o);
    const Address parent = rt.spawn<Parent>();
    std::map<uint32_t, uint32_t> used;
    for (uint32_t generation = 0; generation < 40; ++generation) {
        const Bred bred = rt.ask<Bred>(parent, Breed{5}, 20s);
        ASSERT_EQ(bred.made, 5u) << "generation " << generation;
        rt.drain(20s);
        const std::vector<Address> all = children(rt);
        ASSERT_EQ(all.size(), 5u);
        for (size_t i = 0; i < all.size(); ++i) {
            const Done d = rt.ask<Done>(all[i], Ask{}, 20s);
            EXPECT_EQ(d.number, 1u) << "a state of its own, and its own message";
            ++used[all[i].value];
            if (i % 2 == 0) {
                rt.stop(all[i], 20s);
            } else {
                rt.send(all[i], End{0}, 20s); // it stops itself
            }
        }
        rt.drain(20s);
        EXPECT_EQ(children(rt).size(), 0u);
    }
    EXPECT_EQ(used.size(), 8u) << "all places take turns";
    for (const auto& [address, n] : used) {
        EXPECT_GE(n, 12u) << "what has been vacant for longest goes first";
    }
    const Downs told = rt.ask<Downs>(parent, Ask{}, 20s);
    EXPECT_EQ(told.stopped, 200u);
    EXPECT_EQ(told.downs, 200u);
    const Address gone{used.begin()->first};
    expect_error(Errc::no_actor,
                 named("", gone) + " has stopped, or was never spawned by a handler",
                 [&] { rt.send(gone, Work{1}); });
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST_P(spawn, its_spawner_is_told_that_it_failed_and_restarts_it)
{
    Rt rt(device(), options());
    const Address parent = rt.spawn<Parent>();
    const Bred bred = rt.ask<Bred>(parent, Breed{3}, 20s);
    rt.drain(20s);
    for (uint32_t i = 0; i < 5; ++i) {
        rt.send(bred.last, End{9}, 20s);
        rt.drain(20s);
    }
    const Downs told = rt.ask<Downs>(parent, Ask{}, 20s);
    EXPECT_EQ(told.failed, 5u);
    EXPECT_EQ(told.restarted, 5u);
    EXPECT_EQ(rt.state(bred.last), Life::running);
    EXPECT_EQ(rt.inspect(bred.last).incarnation, 6u);
    EXPECT_EQ(rt.ask<Done>(bred.last, Ask{}, 20s).seed, 7u) << "by default construction";
}

// A supervisor's orders are not for who has taken the place of its child.
TEST_P(spawn, a_supervisor_of_children_leaves_their_successors_alone)
{
    Options o = options();
    o.spawn_room = 2;
    Rt rt(device(), o);
    const Address parent = rt.spawn<Parent>();
    rt.ask<Bred>(parent, Breed{2}, 20s);
    rt.drain(20s);
    const std::vector<Address> first = children(rt);
    ASSERT_EQ(first.size(), 2u);
    rt.supervise({first[0], first[1]}, Strategy::one_for_all);
    rt.send(first[0], End{5}, 20s);
    ASSERT_TRUE(eventually([&] { return rt.inspect(first[0]).incarnation >= 2; }));
    ASSERT_TRUE(eventually([&] { return rt.inspect(first[1]).incarnation >= 2; }));
    rt.stop(first[1], 20s);
    rt.drain(20s);
    const Bred again = rt.ask<Bred>(parent, Breed{1}, 20s);
    ASSERT_EQ(again.last, first[1]);
    const uint32_t before = rt.inspect(first[0]).incarnation;
    rt.send(first[0], End{5}, 20s);
    ASSERT_TRUE(eventually([&] { return rt.inspect(first[0]).incarnation > before; }));
    rt.drain(20s);
    EXPECT_EQ(rt.inspect(again.last).incarnation, 1u);
}

TEST_P(spawn, nor_does_its_order_reach_them_from_another_worker)
{
    Options o = options();
    o.spawn_room = 2;
    Rt rt(device(), o);
    const std::vector<Address> parents = rt.spawn<WarpParent>(2); // they watch nobody
    if (parents[0].worker() == parents[1].worker()) {
        GTEST_SKIP() << "one worker: the test before";
    }
    const Address first = rt.ask<Bred>(parents[0], Breed{1}, 20s).last;
    const Address other = rt.ask<Bred>(parents[1], Breed{1}, 20s).last;
    rt.supervise({first, other}, Strategy::one_for_all); // beside the first
    rt.send(first, End{5}, 20s);
    ASSERT_TRUE(eventually([&] { return rt.inspect(other).incarnation == 2; }));
    rt.stop(other, 20s);
    ASSERT_EQ(rt.ask<Bred>(parents[1], Breed{2}, 20s).last, other) << "its place, to another";
    rt.send(first, End{5}, 20s);
    ASSERT_TRUE(eventually([&] { return rt.inspect(first).incarnation == 3; }));
    rt.drain(20s);
    EXPECT_EQ(rt.inspect(other).incarnation, 1u);
    EXPECT_EQ(rt.ask<Done>(other, Ask{}, 20s).seed, 1u);
}

TEST_P(spawn, children_spawn_children_and_all_lanes_at_once)
{
    Options o = options();
    o.spawn_room = 512;
    Rt rt(device(), o);
    const std::vector<Address> parents = rt.spawn<Parent>(64);
    for (const Bred& b : rt.ask_many<Bred>(parents, Breed{4}, 20s)) {
        EXPECT_EQ(b.made, 4u);
    }
    rt.drain(20s);
    EXPECT_EQ(children(rt).size(), 256u);
    const Address child = children(rt)[0];
    rt.send(child, Deep{30, host}, 20s);
    const Done d = rt.receive<Done>(20s);
    EXPECT_EQ(d.seed, rt.ask<Done>(child, Ask{}, 20s).seed + 30);
    EXPECT_EQ(children(rt).size(), 286u);
}

TEST_P(spawn, a_handler_of_the_whole_warp_spawns_one_for_each_call)
{
    Options o = options();
    o.spawn_room = 16;
    Rt rt(device(), o);
    const Address parent = rt.spawn<WarpParent>(1)[0];
    Bred bred = rt.ask<Bred>(parent, Breed{3}, 20s);
    EXPECT_EQ(bred.made, 3u);
    EXPECT_EQ(rt.ask<Done>(bred.last, Ask{}, 20s).seed, 2u);
    bred = rt.ask<Bred>(parent, Breed{20}, 20s);
    EXPECT_EQ(bred.made, 13u);
}

TEST_P(spawn, they_are_in_a_snapshot)
{
    const std::string path = (std::filesystem::temp_directory_path() /
                              ("spawned." + std::to_string(getpid()) + "." + GetParam().name))
                                 .string();
    Options o = options();
    o.spawn_room = 8;
    std::vector<Address> before;
    Address parent;
    Address named_one;
    {
        Rt rt(device(), o);
        parent = rt.spawn<Parent>();
        named_one = rt.spawn<Parent>("a name");
        rt.ask<Bred>(parent, Breed{5}, 20s);
        rt.drain(20s);
        rt.stop(children(rt)[2], 20s);
        before = children(rt);
        rt.save(path, 20s);
    }
    o.restore = path;
    Rt rt(device(), o);
    EXPECT_EQ(children(rt), before);
    EXPECT_EQ(rt.find("a name"), named_one);
    for (const Address a : before) {
        EXPECT_EQ(rt.ask<Done>(a, Ask{}, 20s).number, 1u);
    }
    EXPECT_EQ(rt.ask<Bred>(parent, Breed{9}, 20s).made, 4u);
    std::filesystem::remove(path);
}

TEST_P(spawn, what_it_needs_is_said)
{
    Options o = options();
    o.spawn_room = 3;
    expect_error(Errc::bad_argument, "spawn_room = 3; use a power of two from 2 to 65536",
                 [&] { Rt rt(device(), o); });
    o.spawn_room = 8;
    Rt rt(device(), o);
    if (rt.description().workers > 1) {
        const Address parent = rt.spawn<Parent>();
        const Bred bred = rt.ask<Bred>(parent, Breed{1}, 20s);
        expect_error(Errc::bad_argument,
                     named("Child", bred.last) +
                         " was spawned by a handler; such an actor stays with its worker",
                     [&] { rt.migrate(bred.last, (bred.last.worker() + 1) % 2); });
    }
}

// ---- names

TEST_P(spawn, an_actor_is_found_by_its_name_as_long_as_it_lives)
{
    Rt rt(device(), options());
    const Address total = rt.spawn<Parent>("total");
    rt.spawn<Parent>("other one");
    EXPECT_EQ(rt.find("total"), total);
    expect_error(Errc::no_actor, "no actor is called \"totl\"", [&] { rt.find("totl"); });
    expect_error(Errc::bad_argument,
                 "\"total\" is the name of " + named("Parent", total) +
                     ", which lives; use another, or stop it first",
                 [&] { rt.spawn<Parent>("total"); });
    expect_error(Errc::bad_argument, "a name of 0 bytes; use 1 to 255",
                 [&] { rt.spawn<Parent>(""); });
    rt.stop(total);
    expect_error(Errc::no_actor, "the actor called \"total\" has stopped",
                 [&] { rt.find("total"); });
    const Address again = rt.spawn<Parent>("total");
    EXPECT_EQ(rt.find("total"), again);
    EXPECT_NE(again, total);
}

TEST_P(spawn, all_actors_are_listed_with_their_names_and_lives)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Parent>("a");
    const std::vector<Address> some = rt.spawn<WarpParent>(2);
    const Address s = rt.supervise({some[0]});
    rt.stop(some[1]);
    rt.pause(a);
    std::map<uint32_t, ActorListing> all;
    for (const ActorListing& one : rt.actors()) {
        all[one.address.value] = one;
    }
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[a.value].type, "Parent");
    EXPECT_EQ(all[a.value].name, "a");
    EXPECT_EQ(all[a.value].life, Life::paused);
    EXPECT_EQ(all[a.value].worker, a.worker());
    EXPECT_EQ(all[some[0].value].type, "WarpParent");
    EXPECT_EQ(all[some[0].value].name, "");
    EXPECT_EQ(all[s.value].type, "supervisor");
    if (rt.description().workers > 1) {
        rt.resume(a);
        rt.migrate(a, (a.worker() + 1) % 2);
        for (const ActorListing& one : rt.actors()) {
            if (one.address == a) {
                EXPECT_EQ(one.worker, (a.worker() + 1) % 2);
                EXPECT_EQ(one.name, "a");
            }
        }
        EXPECT_EQ(rt.actors().size(), 3u);
        EXPECT_EQ(rt.find("a"), a);
    }
}

} // namespace
