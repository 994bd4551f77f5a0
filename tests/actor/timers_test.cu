// SPDX-License-Identifier: Apache-2.0
// What handlers send later: not before its time, once or again and again, until it is cancelled or
// its actor ends; through pauses, breaths and snapshots.
#include <actor/places.hpp>
#include <denizen/actor/telemetry.hpp>

#include <filesystem>
#include <limits>

struct Set { // send a Tick to `to` in so many ns, or again and again
    uint64_t ns;
    denizen::Address to;
    uint32_t number;
    uint32_t every;
};
struct Stop { // cancel the last one set
    uint32_t unused;
};
struct Answer {
    uint32_t yes;
};
struct Tick {
    uint32_t number;
    uint32_t reserved;
    uint64_t set_ns; // when, by the sender's clock, and for how long
    uint64_t ns;
};
struct Ask {};
struct Heard {
    uint32_t ticks;
    uint32_t early;
    uint32_t last;
    uint32_t from_self;
};
struct Many { // set so many
    uint32_t count;
    uint64_t ns;
};

struct Clock {
    Heard heard = {};
    denizen::Timer last = {};

    DENIZEN_HD void on(const Set& m, auto& ctx)
    {
        const Tick tick{m.number, 0, ctx.now_ns(), m.ns};
        last = m.every != 0 ? ctx.send_every(m.ns, m.to, tick) : ctx.send_after(m.ns, m.to, tick);
        ctx.reply(Answer{last ? 1u : 0u});
    }
    DENIZEN_HD void on(const Many& m, auto& ctx)
    {
        uint32_t armed = 0;
        for (uint32_t i = 0; i < m.count; ++i) {
            const Tick tick{i, 0, ctx.now_ns(), m.ns + i};
            armed += ctx.send_after(m.ns + i, ctx.self(), tick) ? 1 : 0;
        }
        ctx.reply(Answer{armed});
    }
    DENIZEN_HD void on(const Stop&, auto& ctx)
    {
        const bool cancelled = ctx.cancel(last);
        ctx.reply(Answer{cancelled && !ctx.cancel(last) ? 1u : 0u});
    }
    DENIZEN_HD void on(const Tick& m, auto& ctx)
    {
        ++heard.ticks;
        heard.early += ctx.now_ns() < m.set_ns + m.ns ? 1 : 0;
        heard.last = m.number;
        heard.from_self += ctx.sender() == ctx.self() ? 1 : 0;
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(heard); }
};

struct WarpClock {
    static constexpr auto grain = denizen::Grain::warp;

    DENIZEN_HD void on(const Set& m, auto& ctx)
    {
        const denizen::Timer t = ctx.send_after(m.ns, m.to, Tick{m.number, 0, 0, 0});
        const denizen::Timer u = ctx.send_after(1'000'000'000'000, m.to, Tick{m.number, 0, 0, 0});
        ctx.reply(Answer{(t ? 1u : 0u) + (ctx.cancel(u) ? 1u : 0u)});
    }
};

struct Picky { // takes what has room, and no more
    static constexpr auto overflow = denizen::Overflow::fail;
    DENIZEN_HD void on(const Tick&) {}
};

using Clocks = denizen::Program<denizen::Actors<Clock, WarpClock, Picky>,
                                denizen::Messages<Set, Stop, Answer, Tick, Ask, Heard, Many>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Clocks>;

constexpr uint64_t ms = 1'000'000;
constexpr uint64_t hour = 3600 * 1000 * ms;

class timers : public AtEveryPlace {
protected:
    static Heard heard(Rt& rt, Address clock) { return rt.ask<Heard>(clock, Ask{}, 20s); }
    static bool set(Rt& rt, Address clock, const Set& m)
    {
        return rt.ask<Answer>(clock, m, 20s).yes != 0;
    }
};
DENIZEN_AT_EVERY_PLACE(timers);

TEST_P(timers, a_message_comes_once_and_not_before_its_time)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<Clock>();
    for (const uint64_t ns : {uint64_t{0}, uint64_t{1}, ms / 10, 5 * ms}) {
        ASSERT_TRUE(set(rt, clock, {ns, clock, 1, 0}));
    }
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks == 4; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Heard h = heard(rt, clock);
    EXPECT_EQ(h.ticks, 4u);
    EXPECT_EQ(h.early, 0u);
    EXPECT_EQ(h.from_self, 4u);
    EXPECT_EQ(rt.telemetry().timers_fired, 4u);
    EXPECT_EQ(rt.telemetry().timers, 0u);
}

TEST_P(timers, a_difference_below_zero_is_no_delay)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<Clock>();
    uint32_t sent = 0;
    for (const int64_t ns : {int64_t{-1}, -int64_t{hour}, std::numeric_limits<int64_t>::min()}) {
        ASSERT_TRUE(set(rt, clock, {static_cast<uint64_t>(ns), clock, 1, 0}));
        ++sent;
        ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks == sent; })) << ns;
        ASSERT_TRUE(set(rt, clock, {static_cast<uint64_t>(ns), clock, 2, 1}));
        ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks > sent + 3; })) << ns;
        ASSERT_EQ(rt.ask<Answer>(clock, Stop{}, 20s).yes, 1u);
        rt.drain(20s);
        sent = heard(rt, clock).ticks;
    }
    // The longest that there is: in 292 years.
    ASSERT_TRUE(set(rt, clock, {std::numeric_limits<int64_t>::max(), clock, 3, 0}));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(heard(rt, clock).ticks, sent);
}

TEST_P(timers, it_goes_to_others_and_to_the_host)
{
    Rt rt(device(), options());
    const std::vector<Address> clocks = rt.spawn<Clock>(7);
    for (const Address to : clocks) {
        ASSERT_TRUE(set(rt, clocks[0], {ms, to, 3, 0}));
    }
    ASSERT_TRUE(set(rt, clocks[2], {ms, host, 5, 0}));
    const auto received = rt.receive(20s);
    EXPECT_EQ(received.as<Tick>().number, 5u);
    EXPECT_EQ(received.sender(), clocks[2]);
    for (const Address to : clocks) {
        ASSERT_TRUE(eventually([&] { return heard(rt, to).ticks == 1; }));
    }
}

TEST_P(timers, again_and_again_until_it_is_cancelled)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<Clock>();
    ASSERT_TRUE(set(rt, clock, {ms / 2, clock, 9, 1}));
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks > 20; }));
    EXPECT_EQ(rt.telemetry().timers, 1u);
    EXPECT_EQ(rt.ask<Answer>(clock, Stop{}, 20s).yes, 1u);
    rt.drain(20s);
    const Heard h = heard(rt, clock);
    EXPECT_EQ(h.early, 0u) << "the first of them";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(heard(rt, clock).ticks, h.ticks);
    EXPECT_EQ(rt.telemetry().timers, 0u);
    EXPECT_EQ(rt.ask<Answer>(clock, Stop{}, 20s).yes, 0u) << "it is none any more";
}

TEST_P(timers, what_was_cancelled_in_time_does_not_come)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<Clock>();
    ASSERT_TRUE(set(rt, clock, {hour, clock, 1, 0}));
    EXPECT_EQ(rt.telemetry().timers, 1u);
    EXPECT_EQ(rt.ask<Answer>(clock, Stop{}, 20s).yes, 1u);
    EXPECT_EQ(rt.telemetry().timers, 0u);
    ASSERT_TRUE(set(rt, clock, {0, clock, 2, 0}));
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks == 1; }));
    EXPECT_EQ(rt.ask<Answer>(clock, Stop{}, 20s).yes, 0u) << "it has been sent";
}

TEST_P(timers, an_actor_that_stops_or_begins_anew_takes_its_timers_with_it)
{
    Rt rt(device(), options());
    const std::vector<Address> clocks = rt.spawn<Clock>(3);
    for (const Address c : clocks) {
        ASSERT_TRUE(set(rt, c, {hour, clocks[0], 1, 0}));
        ASSERT_TRUE(set(rt, c, {hour, clocks[0], 1, 1}));
    }
    EXPECT_EQ(rt.telemetry().timers, 6u);
    rt.stop(clocks[1], 20s);
    EXPECT_EQ(rt.telemetry().timers, 4u);
    rt.restart(clocks[2], 20s);
    EXPECT_EQ(rt.telemetry().timers, 2u);
    rt.drain(20s); // a timer is nothing under way
    if (rt.description().workers > 1) {
        expect_error(Errc::bad_argument,
                     named("Clock", clocks[0]) + " has timers on its worker; it can move when they "
                                                 "have fired or are cancelled",
                     [&] { rt.migrate(clocks[0], (clocks[0].worker() + 1) % 2); });
        EXPECT_EQ(heard(rt, clocks[0]).ticks, 0u) << "it is still there";
        rt.restart(clocks[0], 20s);
        rt.migrate(clocks[0], (clocks[0].worker() + 1) % 2);
        ASSERT_TRUE(set(rt, clocks[0], {ms, clocks[0], 1, 0}));
        ASSERT_TRUE(eventually([&] { return heard(rt, clocks[0]).ticks == 1; }));
    }
}

TEST_P(timers, where_there_is_no_room_it_says_so)
{
    Options o = options();
    o.timer_slots = 50;
    Rt rt(device(), o);
    const Address clock = rt.spawn<Clock>();
    EXPECT_EQ(rt.ask<Answer>(clock, Many{60, hour}, 20s).yes, 50u);
    EXPECT_EQ(rt.telemetry().timers_refused, 10u);
    EXPECT_EQ(rt.telemetry().timers, 50u);
    o.timer_slots = 0;
    expect_error(Errc::bad_argument, "timer_slots = 0; use 1 to 65,536",
                 [&] { Rt none(device(), o); });
}

// More are due at once than the outbox has room for: the rest waits.
TEST_P(timers, many_that_are_due_at_once_all_come)
{
    Options o = options();
    o.timer_slots = 4096;
    o.outbox_slots = 16;
    o.local_slots = o.near_slots = 16;
    Rt rt(device(), o);
    const Address clock = rt.spawn<Clock>();
    EXPECT_EQ(rt.ask<Answer>(clock, Many{4000, ms}, 20s).yes, 4000u);
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks == 4000; }));
    EXPECT_EQ(heard(rt, clock).early, 0u);
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST_P(timers, a_pause_holds_them_back)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<Clock>();
    ASSERT_TRUE(set(rt, clock, {ms, clock, 1, 1}));
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks > 2; }));
    rt.pause(20s);
    const uint64_t fired = rt.telemetry().timers_fired;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(rt.telemetry().timers_fired, fired);
    const uint64_t resumed = now_ns();
    rt.resume();
    const uint32_t before = heard(rt, clock).ticks;
    const uint64_t since = (now_ns() - resumed) / ms; // each has a tick of its own
    EXPECT_LE(before, fired + 2 + since) << "what was missed is not made up for";
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks > before + 2; }));
}

TEST_P(timers, breaths_change_nothing)
{
    Options o = options();
    o.breath = std::chrono::microseconds(500);
    Rt rt(device(), o);
    const std::vector<Address> clocks = rt.spawn<Clock>(5);
    for (const Address c : clocks) {
        ASSERT_TRUE(set(rt, c, {ms, c, 1, 1}));
        ASSERT_TRUE(set(rt, c, {20 * ms, c, 2, 0}));
    }
    for (const Address c : clocks) {
        ASSERT_TRUE(eventually([&] { return heard(rt, c).ticks > 40; }));
        EXPECT_EQ(heard(rt, c).early, 0u);
    }
}

TEST_P(timers, they_are_in_a_snapshot_and_count_from_there)
{
    const std::string path = (std::filesystem::temp_directory_path() /
                              ("timers." + std::to_string(getpid()) + "." + GetParam().name))
                                 .string();
    Options o = options();
    Address clock;
    {
        Rt rt(device(), o);
        clock = rt.spawn<Clock>();
        ASSERT_TRUE(set(rt, clock, {hour, clock, 1, 0}));
        ASSERT_TRUE(set(rt, clock, {300 * ms, clock, 2, 0}));
        ASSERT_TRUE(set(rt, clock, {2 * ms, clock, 3, 1}));
        rt.save(path, 20s);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    o.restore = path;
    Rt rt(device(), o);
    EXPECT_EQ(rt.telemetry().timers, 3u) << "the second one has still its time";
    const uint32_t before = heard(rt, clock).ticks;
    ASSERT_TRUE(eventually([&] { return heard(rt, clock).ticks > before + 3; }));
    ASSERT_TRUE(eventually([&] { return rt.telemetry().timers == 2; }));
    std::filesystem::remove(path);
}

TEST_P(timers, a_handler_of_the_whole_warp_sends_one)
{
    Rt rt(device(), options());
    const Address clock = rt.spawn<WarpClock>(1)[0];
    EXPECT_EQ(rt.ask<Answer>(clock, Set{ms, host, 4, 0}, 20s).yes, 2u);
    EXPECT_EQ(rt.receive<Tick>(20s).number, 4u);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Tick more[2];
    EXPECT_EQ(rt.receive_many(more, 2), 0u);
}

TEST_P(timers, what_is_sent_to_nobody_is_a_dead_letter)
{
    Rt rt(device(), options());
    const std::vector<Address> clocks = rt.spawn<Clock>(2);
    rt.stop(clocks[1], 20s); // first: who is late would find the timer's message handled
    ASSERT_TRUE(set(rt, clocks[0], {ms, clocks[1], 1, 0}));
    ASSERT_TRUE(set(rt, clocks[0], {ms, nowhere, 1, 0}));
    ASSERT_TRUE(eventually([&] { return rt.stats().dead_letters == 2; }));
}

} // namespace
