// SPDX-License-Identifier: Apache-2.0
// Spawn, send, ask, broadcast and stop, messages between actors and to the host, and every error
// that a caller can cause, with its text.
#include <actor/places.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

struct Add {
    uint32_t n;
};
struct Read {};
struct Sum {
    uint64_t value;
};
struct Pass { // send Add{1} on, `count` times
    uint32_t to;
    uint32_t count;
};
struct Scatter { // of the numbers below 100 send i + 1 to `to` i % 8, but not every third
    static constexpr uint32_t count = 100;
    uint32_t to[8];

    DENIZEN_HD void run(auto& ctx) const
    {
        for (uint32_t base = 0; base < count; base += ctx.lanes()) {
            const uint32_t i = base + ctx.lane();
            ctx.send_each(denizen::Address{to[i % 8]}, Add{i + 1}, i < count && i % 3 != 0);
        }
    }
};
struct Query { // ask `to` for its sum; the answer comes as a message
    uint32_t to;
};
struct Misdirect { // send a message that nobody handles
    uint32_t to;
};
struct Stray {};
struct Tell {}; // send the sum to the host
struct Who {};
struct Me {
    uint32_t self;
    uint32_t sender;
    uint32_t worker;
    uint32_t workers;
    uint32_t lanes;
    uint32_t misplaced;
};
struct Hold { // answered when Release comes
    uint32_t number;
};
struct Release {};
struct Echo { // answered at once
    uint32_t number;
};
struct Answer {
    uint32_t number;
};

struct Counter {
    uint64_t sum = 0;

    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{sum}); }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.send(denizen::host, Sum{sum}); }
    DENIZEN_HD void on(const Pass& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Add{1});
        }
    }
    DENIZEN_HD void on(const Scatter& m, auto& ctx) { m.run(ctx); }
    DENIZEN_HD void on(const Query& m, auto& ctx) { ctx.send(denizen::Address{m.to}, Read{}); }
    DENIZEN_HD void on(const Sum& m, auto&) { sum += 1000 * m.value; }
    DENIZEN_HD void on(const Misdirect& m, auto& ctx) { ctx.send(denizen::Address{m.to}, Stray{}); }
    DENIZEN_HD void on(const Who&, auto& ctx)
    {
        ctx.reply(
            Me{ctx.self().value, ctx.sender().value, ctx.worker(), ctx.workers(), ctx.lanes(), 0});
    }
};

// Run by the whole warp on the GPU: lane l owns every ctx.lanes()-th of 96 cells.
struct Wide {
    static constexpr auto grain = denizen::Grain::warp;
    static constexpr uint32_t cells = 96;
    uint32_t cell[cells] = {};

    DENIZEN_HD void on(const Add& m, auto& ctx)
    {
        for (uint32_t i = ctx.lane(); i < cells; i += ctx.lanes()) {
            cell[i] += m.n * (i + 1);
        }
    }
    DENIZEN_HD void on(const Read&, auto& ctx)
    {
        ctx.sync(); // the cells that other lanes wrote
        uint64_t sum = 0;
        for (uint32_t i = 0; i < cells; ++i) {
            sum += cell[i];
        }
        ctx.reply(Sum{sum});
    }
    DENIZEN_HD void on(const Pass& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Add{1});
        }
    }
    DENIZEN_HD void on(const Scatter& m, auto& ctx) { m.run(ctx); }
    DENIZEN_HD void on(const Who&, auto& ctx)
    {
        ctx.reply(
            Me{ctx.self().value, ctx.sender().value, ctx.worker(), ctx.workers(), ctx.lanes(), 0});
    }
    static constexpr uint64_t sum_of(uint32_t added)
    {
        return uint64_t{added} * cells * (cells + 1) / 2;
    }
};

struct alignas(128) Aligned {
    unsigned char bytes[200] = {};

    DENIZEN_HD void on(const Who&, auto& ctx)
    {
        const auto place = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(this) % 128);
        ctx.reply(Me{ctx.self().value, ctx.sender().value, ctx.worker(), ctx.workers(), ctx.lanes(),
                     place});
    }
};

struct Keeper {
    static constexpr uint32_t most = 8;
    uint32_t asker[most] = {};
    uint32_t number[most] = {};
    uint32_t held = 0;

    DENIZEN_HD void on(const Hold& m, auto& ctx)
    {
        asker[held % most] = ctx.sender().value;
        number[held % most] = m.number;
        ++held;
    }
    DENIZEN_HD void on(const Release&, auto& ctx)
    {
        for (uint32_t i = 0; i < held && i < most; ++i) {
            ctx.send(denizen::Address{asker[i]}, Answer{number[i]});
        }
        held = 0;
    }
    DENIZEN_HD void on(const Echo& m, auto& ctx) { ctx.reply(Answer{m.number}); }
};

using Office =
    denizen::Program<denizen::Actors<Counter, Wide, Aligned, Keeper>,
                     denizen::Messages<Add, Read, Sum, Pass, Scatter, Query, Misdirect, Stray, Tell,
                                       Who, Me, Hold, Release, Echo, Answer>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Office>;

class calls : public AtEveryPlace {
protected:
    static uint64_t sum_of(Rt& rt, Address a) { return rt.ask<Sum>(a, Read{}, 10s).value; }

    // Everything that has arrived from actors, which have all been heard.
    static std::vector<uint64_t> sums_at_host(Rt& rt, size_t expected)
    {
        std::vector<uint64_t> sums;
        while (sums.size() < expected) {
            const Message m = rt.receive(10s);
            EXPECT_EQ(m.header.type, Rt::id<Sum>());
            uint64_t value = 0;
            std::memcpy(&value, m.payload.data(), sizeof value);
            sums.push_back(value);
        }
        Sum more;
        EXPECT_EQ(rt.receive_many(&more, 1), 0u);
        return sums;
    }
};
DENIZEN_AT_EVERY_PLACE(calls);

// ---- spawn

TEST_P(calls, a_new_actor_has_its_initial_state_and_answers)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    EXPECT_FALSE(a.is_host());
    EXPECT_EQ(sum_of(rt, a), 0u);
    rt.send(a, Add{42});
    EXPECT_EQ(sum_of(rt, a), 42u); // a host thread's messages to one actor keep their order
    EXPECT_EQ(rt.stats().errors, 0u);
    EXPECT_TRUE(rt.spawn<Counter>(0).empty());
}

TEST_P(calls, a_hundred_thousand_actors_at_once)
{
    Rt rt(device(), options());
    constexpr uint32_t n = 100'000;
    const std::vector<Address> actors = rt.spawn<Counter>(n);
    ASSERT_EQ(actors.size(), n);
    std::vector<uint32_t> values;
    std::vector<Add> messages(n);
    std::vector<uint32_t> share(rt.description().workers, 0);
    for (uint32_t i = 0; i < n; ++i) {
        values.push_back(actors[i].value);
        messages[i].n = i;
        ASSERT_LT(actors[i].worker(), share.size());
        ++share[actors[i].worker()];
    }
    std::sort(values.begin(), values.end());
    EXPECT_EQ(std::unique(values.begin(), values.end()), values.end()) << "an address given twice";
    const auto [least, most] = std::minmax_element(share.begin(), share.end());
    EXPECT_LE(*most - *least, 1u) << "spread over all workers";

    rt.send_many(actors.data(), messages.data(), n);
    rt.broadcast<Counter>(Tell{}, 10s);
    rt.drain();
    std::vector<uint64_t> sums = sums_at_host(rt, n);
    std::sort(sums.begin(), sums.end());
    for (uint32_t i = 0; i < n; ++i) {
        ASSERT_EQ(sums[i], i) << "each actor got its own message, once";
    }
    const uint32_t step = n / scaled(5000);
    for (uint32_t i = 0; i < n; i += step) {
        ASSERT_EQ(sum_of(rt, actors[i]), i) << "and the address names that actor";
    }
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(calls, actors_spawned_in_uneven_batches_do_not_share_state)
{
    Rt rt(device(), options());
    std::vector<Address> all;
    for (const uint32_t batch : {1u, 2u, 3u, 5u, 8u, 13u, 21u, 1u, 34u}) {
        const auto some = rt.spawn<Counter>(batch);
        all.insert(all.end(), some.begin(), some.end());
        const auto wide = rt.spawn<Wide>(batch); // between them, of another size
        rt.send_many(wide.data(), std::vector<Add>(batch, Add{0xffffff}).data(), batch);
    }
    for (uint32_t i = 0; i < all.size(); ++i) {
        rt.send(all[i], Add{i + 1});
    }
    const std::vector<Sum> sums = rt.ask_many<Sum>(all, Read{});
    for (uint32_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(sums[i].value, i + 1u);
    }
}

TEST_P(calls, state_has_the_alignment_of_its_type)
{
    Rt rt(device(), options());
    rt.spawn<Counter>(3);
    for (const Address a : rt.spawn<Aligned>(7)) {
        EXPECT_EQ(rt.ask<Me>(a, Who{}).misplaced, 0u);
    }
}

TEST_P(calls, spawning_beyond_a_limit_says_which)
{
    Options o = options();
    o.max_actors = 4 * std::max(o.workers, 1u);
    if (o.workers == 0) {
        o.workers = 1;
    }
    o.state_bytes = 4096;
    Rt rt(device(), o);
    const std::string most = std::to_string(o.max_actors);
    expect_error(Errc::exhausted,
                 std::to_string(o.max_actors + 1) + " actors Counter exceed max_actors = " + most +
                     "; raise it",
                 [&] { rt.spawn<Counter>(o.max_actors + 1); });
    const auto some = rt.spawn<Counter>(o.max_actors); // the failed call took nothing
    expect_error(Errc::exhausted, "1 actors Counter exceed max_actors = " + most + "; raise it",
                 [&] { rt.spawn<Counter>(); });
    rt.send(some.back(), Add{1});
    EXPECT_EQ(sum_of(rt, some.back()), 1u);

    Options tight = options();
    tight.state_bytes = 4096;
    Rt other(device(), tight);
    expect_error(Errc::exhausted,
                 "100 actors Wide need 38400 bytes of state, 4096 are left; raise state_bytes",
                 [&] { other.spawn<Wide>(100); });
    EXPECT_EQ(other.ask<Sum>(other.spawn<Wide>(), Read{}).value, 0u);
}

// ---- send, broadcast, stop

TEST_P(calls, send_many_to_one_and_to_many)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(100);
    const uint32_t n = scaled(100'000);
    std::vector<Add> messages(n);
    std::vector<Address> to(n);
    std::vector<uint64_t> expected(actors.size(), 0);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t k = (i * 7919u) % 100;
        messages[i] = {i};
        to[i] = actors[k];
        expected[k] += i;
    }
    rt.send_many(to.data(), messages.data(), n);
    rt.send_many(actors[0], messages.data(), n);
    expected[0] += uint64_t{n} * (n - 1) / 2;
    rt.send_many(to.data(), messages.data(), 0);
    for (size_t k = 0; k < actors.size(); ++k) {
        EXPECT_EQ(sum_of(rt, actors[k]), expected[k]);
    }
}

TEST_P(calls, send_many_stops_at_a_bad_address_and_says_how_far_it_came)
{
    Rt rt(device(), options());
    const auto a = rt.spawn<Counter>(4);
    const Address wrong = rt.spawn<Keeper>();
    std::vector<Address> to(5, a[0]);
    to[3] = wrong;
    const std::vector<Add> messages(5, Add{1});
    expect_error(Errc::wrong_type,
                 named("Keeper", wrong) +
                     " has no handler for Add (3 of 5 messages were accepted before it)",
                 [&] { rt.send_many(to.data(), messages.data(), 5); });
    EXPECT_EQ(sum_of(rt, a[0]), 3u);
}

TEST_P(calls, broadcast_reaches_every_actor_of_its_type_once)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(333);
    const auto wide = rt.spawn<Wide>(17);
    rt.broadcast<Counter>(Add{5});
    rt.broadcast<Wide>(Add{3});
    const auto later = rt.spawn<Counter>(10);
    rt.broadcast<Counter>(Add{7});
    for (const Sum& s : rt.ask_many<Sum>(counters, Read{})) {
        EXPECT_EQ(s.value, 12u);
    }
    for (const Sum& s : rt.ask_many<Sum>(wide, Read{})) {
        EXPECT_EQ(s.value, Wide::sum_of(3));
    }
    for (const Sum& s : rt.ask_many<Sum>(later, Read{})) {
        EXPECT_EQ(s.value, 7u);
    }
    rt.stop(counters[7]);
    rt.broadcast<Counter>(Add{1});
    EXPECT_EQ(sum_of(rt, counters[8]), 13u);
    EXPECT_EQ(rt.stats().dead_letters, 0u) << "a stopped actor is not of its type any more";
    expect_error(Errc::wrong_type, "actor Keeper has no handler for Add",
                 [&] { rt.broadcast<Keeper>(Add{1}); });
}

TEST_P(calls, stop_comes_after_what_was_sent_before)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(5);
    const Address doomed = actors[2];
    for (int i = 0; i < 10; ++i) {
        rt.send(doomed, Pass{actors[3].value, 1});
    }
    rt.stop(doomed);
    rt.drain();
    EXPECT_EQ(sum_of(rt, actors[3]), 10u);
    const std::string text =
        named("Counter", doomed) + " has stopped; an address is not given out again, spawn another";
    expect_error(Errc::no_actor, text, [&] { rt.send(doomed, Add{1}); });
    expect_error(Errc::no_actor, text, [&] { rt.stop(doomed); });
    expect_error(Errc::no_actor, text, [&] { rt.ask<Sum>(doomed, Read{}); });
    EXPECT_EQ(sum_of(rt, actors[1]), 0u);
    const Address another = rt.spawn<Counter>();
    EXPECT_NE(another.value, doomed.value) << "an address is not given out again";
    EXPECT_EQ(rt.stats().errors, 0u);
}

// ---- between actors, and to the host

TEST_P(calls, actors_send_to_actors_and_are_answered)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(64);
    const auto wide = rt.spawn<Wide>(4);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < 64; ++i) {
        rt.send(actors[i], Pass{actors[(i * 5 + 1) % 64].value, i});
        sent += i;
    }
    rt.send(actors[0], Pass{wide[0].value, 9}); // to a whole-warp actor
    rt.send(wide[1], Pass{wide[2].value, 4});   // from one to another
    rt.drain();
    uint64_t arrived = 0;
    for (const Sum& s : rt.ask_many<Sum>(actors, Read{})) {
        arrived += s.value;
    }
    EXPECT_EQ(arrived, sent);
    EXPECT_EQ(sum_of(rt, wide[0]), Wide::sum_of(9));
    EXPECT_EQ(sum_of(rt, wide[2]), Wide::sum_of(4));
    EXPECT_EQ(sum_of(rt, wide[3]), 0u);

    const auto pair = rt.spawn<Counter>(2);
    rt.send(pair[0], Add{5});
    rt.drain();
    rt.send(pair[1], Query{pair[0].value});
    rt.drain();
    EXPECT_EQ(sum_of(rt, pair[1]), 5000u) << "a reply to an actor's message is a message to it";
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(calls, a_whole_warp_handler_sends_each_message_once)
{
    Rt rt(device(), options());
    const Address wide = rt.spawn<Wide>();
    const Address counter = rt.spawn<Counter>();
    for (int i = 0; i < 20; ++i) {
        rt.send(wide, Pass{counter.value, 10});
    }
    rt.drain();
    EXPECT_EQ(sum_of(rt, counter), 200u);
    const Me me = rt.ask<Me>(wide, Who{});
    EXPECT_EQ(me.lanes, on_gpu() ? 32u : 1u);
}

TEST_P(calls, lanes_send_each_a_message_of_its_own)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(8);
    uint64_t expected[8] = {};
    for (uint32_t i = 0; i < Scatter::count; ++i) {
        expected[i % 8] += i % 3 != 0 ? i + 1 : 0;
    }
    Scatter all{};
    for (uint32_t k = 0; k < 8; ++k) {
        all.to[k] = counters[k].value;
    }
    for (const Address from : {rt.spawn<Wide>(), rt.spawn<Counter>()}) {
        const uint64_t before = rt.stats().handled;
        for (int turn = 0; turn < 50; ++turn) {
            rt.send(from, all);
        }
        rt.drain();
        EXPECT_EQ(rt.stats().handled - before, 50u + 50u * 66) << "66 of 100 are sent";
    }
    for (uint32_t k = 0; k < 8; ++k) {
        EXPECT_EQ(sum_of(rt, counters[k]), 100 * expected[k]);
    }
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(calls, a_handler_knows_where_it_is_and_who_sent)
{
    Rt rt(device(), options());
    for (const Address a : rt.spawn<Counter>(9)) {
        const Me me = rt.ask<Me>(a, Who{});
        EXPECT_EQ(me.self, a.value);
        EXPECT_EQ(me.worker, a.worker());
        EXPECT_EQ(me.workers, rt.description().workers);
        EXPECT_EQ(me.lanes, 1u);
        EXPECT_TRUE(Address{me.sender}.is_reply_cell());
        rt.send(a, Who{}); // not asked: the reply goes to the host's ring
        const Message m = rt.receive(10s);
        ASSERT_EQ(m.header.type, Rt::id<Me>());
        EXPECT_EQ(m.header.sender, a.value);
        Me sent;
        ASSERT_EQ(m.payload.size(), sizeof sent);
        std::memcpy(&sent, m.payload.data(), sizeof sent);
        EXPECT_EQ(sent.sender, host.value);
    }
}

TEST_P(calls, receive_many_stops_in_front_of_another_type)
{
    Rt rt(device(), options());
    const Address counter = rt.spawn<Counter>();
    Sum sums[8];
    Me me[8];
    Address senders[8];
    EXPECT_EQ(rt.receive_many(sums, 8), 0u);
    for (int i = 0; i < 3; ++i) {
        rt.send(counter, Add{1});
        rt.send(counter, Tell{});
    }
    rt.send(counter, Who{});
    rt.send(counter, Tell{});
    rt.drain();
    size_t n = 0;
    ASSERT_TRUE(
        eventually([&] { return (n += rt.receive_many(sums + n, 8 - n, senders + n)) >= 3; }));
    ASSERT_EQ(n, 3u);
    for (uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(sums[i].value, i + 1) << "one actor's messages keep their order";
        EXPECT_EQ(senders[i].value, counter.value);
    }
    ASSERT_TRUE(eventually([&] { return rt.receive_many(me, 8) == 1; }));
    EXPECT_EQ(me[0].self, counter.value);
    EXPECT_EQ(rt.receive_many(me, 8), 0u);
    ASSERT_TRUE(eventually([&] { return rt.receive_many(sums, 8) == 1; }));
    expect_error(Errc::timeout, "no actor sent a message to the host within 0.1 s",
                 [&] { rt.receive(100ms); });
}

TEST_P(calls, receive_gives_messages_of_a_type)
{
    Rt rt(device(), options());
    const Address counter = rt.spawn<Counter>();
    rt.send(counter, Add{7});
    rt.send(counter, Tell{});
    EXPECT_EQ(rt.receive<Sum>(10s).value, 7u);
    rt.send(counter, Tell{});
    const auto got = rt.receive(10s);
    EXPECT_TRUE(got.is<Sum>());
    EXPECT_FALSE(got.is<Me>());
    EXPECT_EQ(got.type, "Sum");
    EXPECT_EQ(got.sender(), counter);
    EXPECT_EQ(got.as<Sum>().value, 7u);
    expect_error(Errc::wrong_type, "the message is a Sum, not a Me", [&] { got.as<Me>(); });
    rt.send(counter, Tell{});
    expect_error(Errc::wrong_type, "the message is a Sum, not a Me", [&] { rt.receive<Me>(10s); });
}

// ---- errors

TEST_P(calls, errors_of_the_caller_name_the_thing)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    const Address keeper = rt.spawn<Keeper>();
    AnyRuntime& any = rt.untyped();
    expect_error(Errc::wrong_type, named("Keeper", keeper) + " has no handler for Add",
                 [&] { rt.send(keeper, Add{1}); });
    expect_error(Errc::wrong_type, named("Counter", a) + " has no handler for Stray",
                 [&] { rt.ask<Sum>(a, Stray{}); });
    const Address unknown[] = {Address::actor(a.worker(), 17), Address::actor(2047, 1),
                               Address::actor(0, 200'000), Address{3u << 29}, host};
    for (const Address u : unknown) {
        char text[80];
        std::snprintf(text, sizeof text,
                      "address 0x%08x names no actor; spawn it first and use its address", u.value);
        expect_error(Errc::no_actor, text, [&] { rt.send(u, Add{1}); });
        expect_error(Errc::no_actor, text, [&] { rt.ask<Sum>(u, Read{}); });
        expect_error(Errc::no_actor, text, [&] { rt.stop(u); });
    }
    const uint64_t bytes = 0;
    expect_error(Errc::oversize, "Add has 4 bytes, not 8",
                 [&] { any.send(a, Rt::id<Add>(), &bytes, 8, 1s); });
    expect_error(Errc::oversize, "Add has 4 bytes, not 0",
                 [&] { any.send_many(&a, true, Rt::id<Add>(), &bytes, 0, 0, 1, 1s); });
    expect_error(Errc::oversize, "Add has 4 bytes, not 65536",
                 [&] { any.broadcast(0, Rt::id<Add>(), &bytes, 65536, 1s); });
    expect_error(Errc::wrong_type, "message type 15 is not one of the program's 15",
                 [&] { any.send(a, 15, &bytes, 4, 1s); });
    expect_error(Errc::wrong_type, "message type 4000000000 is not one of the program's 15",
                 [&] { any.ask_begin(a, 4'000'000'000u, &bytes, 4, 1s); });
    expect_error(Errc::bad_argument, "actor type 4 is not one of the program's 4",
                 [&] { any.spawn(4, 1, 1s); });
    EXPECT_EQ(sum_of(rt, a), 0u) << "nothing of it arrived";
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(calls, undeliverable_messages_of_actors_are_counted_and_the_first_is_named)
{
    {
        Rt rt(device(), options());
        const auto a = rt.spawn<Counter>(4);
        EXPECT_EQ(rt.stats().first_error, "");
        rt.stop(a[1]);
        rt.send(a[0], Pass{a[1].value, 3});
        rt.drain();
        rt.send(a[0], Misdirect{a[2].value});
        rt.send(a[0], Pass{Address::actor(a[2].worker(), 200'000).value, 1});
        rt.send(a[0], Pass{Address::actor(2047, 0).value, 1});
        rt.send(a[0], Pass{5u << 29, 1});
        rt.drain();
        const Stats s = rt.stats();
        EXPECT_EQ(s.dead_letters, 7u);
        EXPECT_EQ(s.errors, 7u);
        EXPECT_EQ(s.first_error, "Add to " + named("", a[1]) + ": no such actor (worker " +
                                     std::to_string(a[1].worker()) + ")");
        EXPECT_EQ(sum_of(rt, a[2]), 0u) << "the program goes on";
    }
    Rt rt(device(), options());
    const auto a = rt.spawn<Counter>(4);
    rt.send(a[0], Misdirect{a[2].value});
    rt.drain();
    EXPECT_EQ(rt.stats().first_error, "Stray to " + named("Counter", a[2]) +
                                          ": it has no handler for it (worker " +
                                          std::to_string(a[2].worker()) + ")");
}

// ---- asks

TEST_P(calls, an_ask_without_an_answer_ends_at_its_deadline)
{
    Rt rt(device(), options());
    const Address keeper = rt.spawn<Keeper>();
    expect_error(Errc::timeout,
                 "ask Hold to " + named("Keeper", keeper) + " was not answered within 0.1 s",
                 [&] { rt.ask<Answer>(keeper, Hold{1}, 100ms); });
    EXPECT_EQ(rt.ask<Answer>(keeper, Echo{5}).number, 5u);
    expect_error(Errc::wrong_type, "the reply is a Answer, not a Sum",
                 [&] { rt.ask<Sum>(keeper, Echo{5}); });
    expect_error(Errc::wrong_type, named("Keeper", keeper) + " answered with Answer, not Sum",
                 [&] { rt.ask_many<Sum>({keeper, keeper, keeper}, Echo{6}); });
    EXPECT_EQ(rt.ask<Answer>(keeper, Echo{7}).number, 7u);
}

TEST_P(calls, a_late_reply_is_never_taken_for_another_asks)
{
    Options o = options();
    o.asks = 3; // so that cells are used again at once
    Rt rt(device(), o);
    const Address keeper = rt.spawn<Keeper>();
    const uint32_t rounds = scaled(2000);
    for (uint32_t i = 0; i < rounds; ++i) {
        const uint32_t lost = 1'000'000 + i;
        EXPECT_EQ(error_of([&] { rt.ask<Answer>(keeper, Hold{lost}, 0ns); }).code(), Errc::timeout);
        if (i % 3 == 0) {
            EXPECT_EQ(error_of([&] { rt.ask<Answer>(keeper, Hold{lost}, 0ns); }).code(),
                      Errc::timeout);
        }
        ASSERT_EQ(rt.ask<Answer>(keeper, Echo{i}).number, i);
        rt.send(keeper, Release{}); // the late replies race with the next asks
        for (uint32_t k = 0; k < i % 5; ++k) {
            ASSERT_EQ(rt.ask<Answer>(keeper, Echo{i + 100 * k}).number, i + 100 * k);
        }
    }
    // Every cell is free again: as many asks as there are cells.
    rt.drain();
    AnyRuntime& any = rt.untyped();
    std::vector<Address> open;
    for (uint32_t i = 0; i < 3; ++i) {
        const Echo e{i};
        open.push_back(any.ask_begin(keeper, Rt::id<Echo>(), &e, sizeof e, 1s));
    }
    for (uint32_t i = 0; i < 3; ++i) {
        Answer a;
        any.ask_end(open[i], &a, sizeof a, 10s);
        EXPECT_EQ(a.number, i);
    }
}

// An ask that is refused draws an address for its reply and gives it back; after 4096 of them the
// 12-bit lap comes round to that of a reply that still lies in the cell.
TEST_P(calls, refused_asks_do_not_bring_back_an_old_reply)
{
    Options o = options();
    o.asks = 1;
    Rt rt(device(), o);
    const auto keepers = rt.spawn<Keeper>(2);
    rt.stop(keepers[1]);
    ASSERT_EQ(rt.ask<Answer>(keepers[0], Echo{77}).number, 77u);
    for (uint32_t i = 1; i < 4096; ++i) {
        ASSERT_EQ(error_of([&] { rt.ask<Answer>(keepers[1], Echo{0}); }).code(), Errc::no_actor);
    }
    for (uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(rt.ask<Answer>(keepers[0], Echo{i}).number, i);
    }
}

TEST_P(calls, asks_in_two_steps_and_when_all_reply_cells_are_taken)
{
    Options o = options();
    o.asks = 2;
    Rt rt(device(), o);
    AnyRuntime& any = rt.untyped();
    const Address keeper = rt.spawn<Keeper>();
    const auto hold = [&](uint32_t number) {
        const Hold m{number};
        return any.ask_begin(keeper, Rt::id<Hold>(), &m, sizeof m, 50ms);
    };
    const Address first = hold(11);
    const Address second = hold(22);
    EXPECT_FALSE(any.ask_ready(first));
    expect_error(Errc::exhausted,
                 "all 2 reply cells are taken by unanswered asks; raise asks or answer them",
                 [&] { hold(33); });
    any.ask_abandon(first); // given up, but its reply may still come: the cell stays taken
    EXPECT_EQ(error_of([&] { hold(44); }).code(), Errc::exhausted);
    rt.send(keeper, Release{});
    EXPECT_TRUE(eventually([&] { return any.ask_ready(second); }));
    Answer a;
    EXPECT_EQ(any.ask_end(second, &a, sizeof a, 10s).type, Rt::id<Answer>());
    EXPECT_EQ(a.number, 22u);
    rt.drain();
    for (uint32_t i = 0; i < 10; ++i) {
        EXPECT_EQ(rt.ask<Answer>(keeper, Echo{i}).number, i);
    }
    // Both cells are back.
    const Address third = hold(55);
    const Address fourth = hold(66);
    rt.send(keeper, Release{});
    any.ask_end(fourth, &a, sizeof a, 10s);
    EXPECT_EQ(a.number, 66u);
    any.ask_end(third, &a, sizeof a, 10s);
    EXPECT_EQ(a.number, 55u);
}

TEST_P(calls, ask_many_with_fewer_cells_than_asks)
{
    Options o = options();
    o.asks = 4;
    Rt rt(device(), o);
    const auto counters = rt.spawn<Counter>(50);
    for (uint32_t i = 0; i < 50; ++i) {
        rt.send(counters[i], Add{i});
    }
    std::vector<Address> to;
    for (uint32_t i = 0; i < scaled(4000) + 50; ++i) {
        to.push_back(counters[i * 3 % 50]);
    }
    const std::vector<Sum> sums = rt.ask_many<Sum>(to, Read{}, 20s);
    ASSERT_EQ(sums.size(), to.size());
    for (uint32_t i = 0; i < sums.size(); ++i) {
        ASSERT_EQ(sums[i].value, i * 3 % 50);
    }
    EXPECT_TRUE(rt.ask_many<Sum>({}, Read{}).empty());
    // One of them fails: the others' cells come back.
    rt.stop(counters[9]);
    EXPECT_EQ(error_of([&] { rt.ask_many<Sum>(counters, Read{}); }).code(), Errc::no_actor);
    rt.drain();
    for (uint32_t i = 0; i < 8; ++i) {
        EXPECT_EQ(sum_of(rt, counters[i]), i);
    }
}

// ---- whole program

TEST_P(calls, statistics_count_what_workers_did)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(30);
    rt.drain(); // the reply to spawn() comes a moment before it is counted
    const uint64_t before = rt.stats().handled;
    for (uint32_t i = 0; i < 300; ++i) {
        rt.send(counters[i % 30], Add{1});
    }
    rt.send(counters[0], Pass{counters[1].value, 50});
    rt.drain();
    const Stats s = rt.stats();
    EXPECT_EQ(s.handled - before, 351u);
    EXPECT_EQ(s.handled_by_worker.size(), rt.description().workers);
    EXPECT_EQ(std::accumulate(s.handled_by_worker.begin(), s.handled_by_worker.end(), uint64_t{0}),
              s.handled);
    EXPECT_EQ(s.mode, Mode::running);
    EXPECT_EQ(s.launches, 1u);
    EXPECT_EQ(rt.description().on_gpu, on_gpu());
    if (GetParam().workers != 0) {
        EXPECT_EQ(rt.description().workers, GetParam().workers);
    }
}

} // namespace
