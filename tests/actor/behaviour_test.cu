// SPDX-License-Identifier: Apache-2.0
// Behaviours: the one in force takes the messages, a handler puts another in force, and a snapshot,
// a move and a restart do with it what they do with the state.
#include <actor/places.hpp>

#include <filesystem>

namespace {

struct Push {};
struct Lock {
    uint32_t code;
};
struct Look {};
struct Seen {
    uint32_t opened;
    uint32_t closed;
    uint32_t looks;
    uint32_t behaviour;
};
struct Knock {}; // that only a closed door has a handler for

struct Door {
    struct Closed;
    struct Open;
    struct Locked;
    using behaviours = denizen::Behaviours<Closed, Open, Locked>;

    denizen::Behaviour behaviour;
    uint32_t code = 0;
    Seen seen{};

    DENIZEN_HD void on(const Look&, auto& ctx) // in every behaviour
    {
        ++seen.looks;
        seen.behaviour = behaviour.number;
        ctx.reply(seen);
    }
};
struct Door::Closed {
    DENIZEN_HD static void on(Door& door, const Push&, auto& ctx)
    {
        ++door.seen.opened;
        ctx.template become<Door::Open>(door);
    }
    DENIZEN_HD static void on(Door& door, const Lock& m, auto& ctx)
    {
        door.code = m.code;
        ctx.template become<Door::Locked>(door);
    }
    DENIZEN_HD static void on(Door& door, const Knock&) { door.seen.looks += 100; }
};
struct Door::Open {
    DENIZEN_HD static void on(Door& door, const Push&, auto& ctx)
    {
        ++door.seen.closed;
        ctx.template become<Door::Closed>(door);
    }
};
struct Door::Locked {
    DENIZEN_HD static void on(Door&, const Push&) {}
    DENIZEN_HD static void on(Door& door, const Lock& m, auto& ctx)
    {
        if (m.code == door.code) {
            ctx.template become<Door::Closed>(door);
        }
    }
};

using House =
    denizen::Program<denizen::Actors<Door>, denizen::Messages<Push, Lock, Look, Seen, Knock>>;

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<House>;

class behaviours : public AtEveryPlace {};
DENIZEN_AT_EVERY_PLACE(behaviours);

TEST_P(behaviours, take_the_messages_in_turn)
{
    Rt rt(device(), options());
    const auto doors = rt.spawn<Door>(40);
    for (const Address door : doors) {
        for (uint32_t i = 0; i < 7; ++i) {
            rt.send(door, Push{});
        }
    }
    for (const Address door : doors) {
        const Seen seen = rt.ask<Seen>(door, Look{}, 20s);
        EXPECT_EQ(seen.opened, 4u);
        EXPECT_EQ(seen.closed, 3u);
        EXPECT_EQ(seen.behaviour, 1u); // Open
        rt.send(door, Push{});
        rt.send(door, Lock{5});
        rt.send(door, Push{}); // of no effect
        rt.send(door, Lock{4});
        EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).behaviour, 2u);
        rt.send(door, Lock{5});
        rt.send(door, Push{});
        EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).opened, 5u);
    }
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(behaviours, without_a_handler_leave_dead_letters)
{
    Rt rt(device(), options());
    const Address door = rt.spawn<Door>();
    rt.send(door, Knock{});
    rt.send(door, Push{}); // open
    rt.send(door, Knock{});
    EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).looks, 101u);
    rt.drain();
    const Stats stats = rt.stats();
    EXPECT_EQ(stats.dead_letters_by_reason[static_cast<uint32_t>(Reason::wrong_type)], 1u);
}

TEST_P(behaviours, are_kept_and_begin_anew_with_the_state)
{
    const std::string path = testing::TempDir() + "doors." + std::to_string(getpid());
    Options o = options();
    o.workers = o.workers == 0 ? 4 : o.workers;
    Address door;
    {
        Rt rt(device(), o);
        door = rt.spawn<Door>();
        rt.send(door, Lock{9});
        rt.drain();
        rt.save(path, 20s);
    }
    o.restore = path;
    Rt rt(device(), o);
    EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).behaviour, 2u);
    if (o.workers > 1) {
        rt.migrate(door, 1);
        EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).behaviour, 2u);
    }
    rt.restart(door);
    EXPECT_EQ(rt.ask<Seen>(door, Look{}, 20s).behaviour, 0u);
    std::filesystem::remove(path);
}

} // namespace
