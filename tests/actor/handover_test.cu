// SPDX-License-Identifier: Apache-2.0
// What a handler sends to its own worker, where the message may never see a ring
// (detail/handover.hpp): the order of each pair, each message once, and whoever it is for.
#include <actor/places.hpp>

namespace {

struct Play { // a ball to `peer` and back, `hops` times; with each hop `extra` more messages
    uint32_t peer;
    uint32_t hops;
    uint32_t extra;
};
struct Ball {
    uint32_t number; // of what this sender sends, from 1 on
    uint32_t hops;   // left; 0: not to be sent on
    uint32_t extra;
};
struct Stumble { // two balls to itself, then it fails
    uint32_t code;
};
struct Read {};
struct Seen {
    uint64_t handled;
    uint64_t sent;
    uint32_t wrong; // balls that came out of their sender's order
    uint32_t last;
};

// Every player has one partner, so the number of the last ball is all that there is to know.
struct State {
    Seen seen{};

    DENIZEN_HD void take(const Ball& m, auto& ctx)
    {
        ++seen.handled;
        seen.wrong += m.number != seen.last + 1 ? 1 : 0;
        seen.last = m.number;
        if (m.hops != 0) {
            hand(ctx.sender(), m.hops - 1, m.extra, ctx);
        }
    }
    DENIZEN_HD void hand(denizen::Address to, uint32_t hops, uint32_t extra, auto& ctx)
    {
        for (uint32_t i = 0; i < extra; ++i) {
            ctx.send(to, Ball{static_cast<uint32_t>(++seen.sent), 0, 0});
        }
        ctx.send(to, Ball{static_cast<uint32_t>(++seen.sent), hops, extra});
    }
};

struct Player : State {
    DENIZEN_HD void on(const Play& m, auto& ctx)
    {
        hand(denizen::Address{m.peer}, m.hops, m.extra, ctx);
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx) { take(m, ctx); }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(seen); }
};

struct Warp { // the same, by all lanes
    static constexpr auto grain = denizen::Grain::warp;
    State state;
    DENIZEN_HD void on(const Ball& m, auto& ctx)
    {
        const uint32_t last = state.seen.last;
        ctx.sync();
        if (ctx.lane() == 0) {
            ++state.seen.handled;
            state.seen.wrong += m.number != last + 1 ? 1 : 0;
            state.seen.last = m.number;
            ++state.seen.sent;
        }
        ctx.sync();
        if (m.hops != 0) {
            ctx.send(ctx.sender(),
                     Ball{static_cast<uint32_t>(state.seen.sent), m.hops - 1, m.extra});
        }
    }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(state.seen); }
};

struct Brittle : State {
    static constexpr bool can_fail = true;
    DENIZEN_HD void on(const Stumble& m, auto& ctx)
    {
        ctx.send(ctx.self(), Ball{1, 0, 0});
        ctx.send(ctx.self(), Ball{2, 0, 0});
        ctx.fail(m.code);
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx) { take(m, ctx); }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(seen); }
};

struct Jog { // `laps` messages to itself, one after the other
    uint32_t laps;
};
struct Strict { // what finds no room is not sent, and seen here
    static constexpr auto overflow = denizen::Overflow::fail;
    Seen seen{};
    DENIZEN_HD void on(const Jog& m, auto& ctx)
    {
        ++seen.handled;
        if (m.laps != 0) {
            seen.wrong += ctx.send(ctx.self(), Jog{m.laps - 1}) ? 0 : 1;
        }
    }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(seen); }
};

using Court =
    denizen::Program<denizen::Actors<Player, Warp>, denizen::Messages<Play, Ball, Read, Seen>>;
using Glass =
    denizen::Program<denizen::Actors<Brittle>, denizen::Messages<Stumble, Ball, Read, Seen>>;
using Track = denizen::Program<denizen::Actors<Strict>, denizen::Messages<Jog, Read, Seen>>;

} // namespace

namespace denizen::test {
namespace {

class handover : public AtEveryPlace {};

uint64_t to_itself(const Stats& s) { return s.sent_by_route[static_cast<uint32_t>(Route::worker)]; }

TEST_P(handover, two_actors_of_a_worker_keep_their_order)
{
    for (const bool small : {false, true}) {
        for (const uint32_t extra : {0u, 1u, 3u}) {
            const uint32_t hops = scaled(5000);
            Runtime<Court> rt(device(), small ? small_rings(options()) : options());
            const Address a = rt.spawn<Player>();
            const Address b = rt.spawn<Player>(1, near(a))[0];
            const uint64_t before = to_itself(rt.stats());
            rt.send(a, Play{b.value, hops, extra});
            rt.drain();
            const auto at_a = rt.ask<Seen>(a, Read{});
            const auto at_b = rt.ask<Seen>(b, Read{});
            EXPECT_EQ(at_a.sent + at_b.sent, uint64_t{hops + 1} * (extra + 1));
            EXPECT_EQ(at_a.handled, at_b.sent);
            EXPECT_EQ(at_b.handled, at_a.sent);
            EXPECT_EQ(at_a.wrong + at_b.wrong, 0u) << extra << " more with each";
            rt.drain();
            EXPECT_EQ(to_itself(rt.stats()) - before, at_a.sent + at_b.sent);
            EXPECT_EQ(rt.stats().dead_letters, 0u);
        }
    }
}

TEST_P(handover, an_actor_plays_with_itself_while_others_do)
{
    Runtime<Court> rt(device(), options());
    const auto players = rt.spawn<Player>(200);
    const uint32_t hops = scaled(500);
    for (const Address p : players) {
        rt.send(p, Play{p.value, hops, 0}, 10s);
    }
    rt.drain();
    for (const Address p : players) {
        const auto seen = rt.ask<Seen>(p, Read{});
        EXPECT_EQ(seen.handled, hops + 1);
        EXPECT_EQ(seen.sent, hops + 1);
        EXPECT_EQ(seen.wrong, 0u);
    }
}

TEST_P(handover, to_an_actor_that_takes_the_whole_warp)
{
    Runtime<Court> rt(device(), options());
    const Address a = rt.spawn<Player>();
    const Address b = rt.spawn<Warp>(1, near(a))[0];
    const uint32_t hops = scaled(1000) | 1; // the last is for the warp
    const uint64_t before = to_itself(rt.stats());
    rt.send(a, Play{b.value, hops - 1, 0});
    rt.drain();
    const auto at_a = rt.ask<Seen>(a, Read{});
    const auto at_b = rt.ask<Seen>(b, Read{});
    EXPECT_EQ(at_a.handled + at_b.handled, hops);
    rt.drain();
    EXPECT_EQ(to_itself(rt.stats()) - before, hops);
    EXPECT_EQ(at_a.wrong + at_b.wrong, 0u);
}

// What is handed over needs no room: the ring is empty whenever one is sent, however long the row.
TEST_P(handover, a_row_longer_than_the_ring_finds_room)
{
    for (const bool small : {false, true}) {
        Runtime<Track> rt(device(), small ? small_rings(options()) : options());
        const Address a = rt.spawn<Strict>();
        const uint32_t laps = scaled(1000);
        rt.send(a, Jog{laps});
        rt.drain();
        const auto seen = rt.ask<Seen>(a, Read{});
        EXPECT_EQ(seen.wrong, 0u) << "were refused";
        EXPECT_EQ(seen.handled, laps + 1);
    }
}

TEST_P(handover, waits_for_an_actor_that_is_paused_and_dies_where_there_is_none)
{
    Runtime<Court> rt(device(), options());
    const Address a = rt.spawn<Player>();
    const Address b = rt.spawn<Player>(1, near(a))[0];
    rt.pause(b);
    rt.send(a, Play{b.value, 0, 0});
    rt.send(a, Play{b.value, 0, 2});
    rt.drain();
    EXPECT_EQ(rt.stats().stashed, 4u);
    rt.resume(b);
    rt.drain();
    const auto at_b = rt.ask<Seen>(b, Read{});
    EXPECT_EQ(at_b.handled, 4u);
    EXPECT_EQ(at_b.wrong, 0u);
    // A place that is empty, and one that there is not.
    rt.send(a, Play{Address::actor(a.worker(), b.local() + 1, a.node()).value, 0, 0});
    rt.send(a, Play{Address::actor(a.worker(), max_actors_per_worker - 1, a.node()).value, 0, 0});
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters_by_reason[static_cast<uint32_t>(Reason::no_actor)], 2u);
}

TEST_P(handover, what_a_handler_sent_before_it_failed_comes_after_the_restart)
{
    Runtime<Glass> rt(device(), options());
    const Address a = rt.spawn<Brittle>();
    rt.supervise({a});
    rt.send(a, Stumble{7});
    rt.drain();
    const auto seen = rt.ask<Seen>(a, Read{});
    EXPECT_EQ(seen.handled, 2u);
    EXPECT_EQ(seen.wrong, 0u);
    EXPECT_EQ(rt.inspect(a).incarnation, 2u);
    // Nobody restarts this one: both are dead letters of a failed actor, and the cause is another.
    const Address alone = rt.spawn<Brittle>();
    rt.send(alone, Stumble{8});
    rt.drain();
    EXPECT_EQ(rt.inspect(alone).life, Life::failed);
    EXPECT_EQ(rt.stats().dead_letters_by_reason[static_cast<uint32_t>(Reason::failed)], 4u);
}

TEST_P(handover, while_it_is_observed_and_traced)
{
    Options o = options();
    o.trace_slots = 1024;
    Runtime<Court> rt(device(), o);
    const Address a = rt.spawn<Player>();
    const Address b = rt.spawn<Player>(1, near(a))[0];
    const uint32_t hops = scaled(2000);
    rt.send(a, Play{b.value, hops, 1});
    rt.observe(true);
    rt.trace(true);
    rt.trace(false);
    rt.observe(false);
    rt.drain();
    const auto at_a = rt.ask<Seen>(a, Read{});
    const auto at_b = rt.ask<Seen>(b, Read{});
    EXPECT_EQ(at_a.handled + at_b.handled, 2 * (hops + uint64_t{1}));
    EXPECT_EQ(at_a.wrong + at_b.wrong, 0u);
}

DENIZEN_AT_EVERY_PLACE(handover);

} // namespace
} // namespace denizen::test
