// SPDX-License-Identifier: Apache-2.0
// One program on several nodes: groups of CPU threads always, two GPUs where there are two. What
// holds on one node holds across them: every message exactly once and in order, a drain that ends
// when nothing is under way on any, and actors where they were asked for.
#include <actor/places.hpp>

#include <algorithm>
#include <cstring>
#include <set>

constexpr uint32_t most_actors = 16;

struct Meet { // tells an actor its own place and, one by one, the addresses of all
    uint32_t me;
    uint32_t place;
    uint32_t address;
    uint32_t count;
};
struct Letter {
    uint32_t from;   // the sender's place
    uint32_t number; // the sender's count of letters to this receiver
    uint32_t id;
    uint32_t hops;
};
struct Parcel { // a letter of several slots
    uint32_t from;
    uint32_t number;
    uint32_t body[30];
};
struct Mail { // write `count` letters, or parcels, to one place in one handler
    uint32_t to;
    uint32_t count;
    uint32_t parcels;
};
struct Ball {
    uint32_t to;
    uint32_t left;
};
struct Tick {};
struct Alarm {
    static constexpr auto priority = denizen::Priority::urgent;
    uint32_t number;
};
struct Audit {};
struct Account {
    uint32_t self;
    uint32_t received; // letters and parcels
    uint32_t disordered;
    uint32_t caught; // balls
    uint32_t ticks;
    uint32_t ticks_before_alarm;
    uint64_t ids; // sum over all letters
};
static_assert(sizeof(Account) <= denizen::first_payload);
struct Shout { // `count` Heard to the host, in one handler
    uint32_t count;
};
struct Heard {
    uint32_t place;
    uint32_t number;
};
struct Misdirect {
    uint32_t to;
};
struct Wait { // until the word is not 0
    uint64_t word;
};

struct Citizen {
    uint32_t me = 0;
    uint32_t count = 0;
    uint32_t shouted = 0;
    uint32_t peer[most_actors] = {};
    uint32_t sent[most_actors] = {};
    uint32_t next[most_actors] = {};
    Account account = {};

    DENIZEN_HD void on(const Meet& m, auto&)
    {
        me = m.me;
        count = m.count;
        peer[m.place] = m.address;
    }
    DENIZEN_HD void on(const Letter& m, auto& ctx)
    {
        take(m.from, m.number);
        account.ids += m.id;
        if (m.hops != 0) { // to any but this one, by the letter's number and hop
            const uint32_t step = 1 + (m.id * 2654435761u + m.hops * 40503u) % (count - 1);
            write((me + step) % count, m.id, m.hops - 1, ctx);
        }
    }
    DENIZEN_HD void on(const Parcel& m, auto&)
    {
        bool whole = true;
        for (uint32_t i = 0; i < 30; ++i) {
            whole &= m.body[i] == m.number * 31 + i;
        }
        account.disordered += !whole;
        take(m.from, m.number);
    }
    DENIZEN_HD void on(const Mail& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            if (m.parcels == 0) {
                write(m.to, i, 0, ctx);
                continue;
            }
            Parcel p{me, sent[m.to]++, {}};
            for (uint32_t k = 0; k < 30; ++k) {
                p.body[k] = p.number * 31 + k;
            }
            ctx.send(denizen::Address{peer[m.to]}, p);
        }
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx)
    {
        ++account.caught;
        if (m.left != 0) {
            ctx.send(denizen::Address{m.to}, Ball{ctx.self().value, m.left - 1});
        }
    }
    DENIZEN_HD void on(const Tick&, auto&) { ++account.ticks; }
    DENIZEN_HD void on(const Alarm&, auto&) { account.ticks_before_alarm = account.ticks; }
    DENIZEN_HD void on(const Audit&, auto& ctx)
    {
        account.self = ctx.self().value;
        ctx.reply(account);
    }
    DENIZEN_HD void on(const Shout& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::host, Heard{me, shouted++});
        }
    }
    DENIZEN_HD void on(const Misdirect& m, auto& ctx) { ctx.send(denizen::Address{m.to}, Tick{}); }
    DENIZEN_HD void on(const Wait& m, auto&)
    {
        const auto* word = reinterpret_cast<const uint32_t*>(m.word);
        while (denizen::load<denizen::Scope::system>(word) == 0) { // ends by the test
        }
    }

private:
    DENIZEN_HD void take(uint32_t from, uint32_t number)
    {
        account.disordered += number != next[from];
        next[from] = number + 1;
        ++account.received;
    }
    DENIZEN_HD void write(uint32_t to, uint32_t id, uint32_t hops, auto& ctx)
    {
        ctx.send(denizen::Address{peer[to]}, Letter{me, sent[to]++, id, hops});
    }
};

struct Other {
    DENIZEN_HD void on(const Tick&, auto&) {}
};

using Town = denizen::Program<denizen::Actors<Citizen, Other>,
                              denizen::Messages<Meet, Letter, Parcel, Mail, Ball, Tick, Alarm,
                                                Audit, Account, Shout, Heard, Misdirect, Wait>>;

// ---- those of whom a node is too full

struct Pour { // `count` drops, short or long, to one actor in one handler
    uint32_t to;
    uint32_t count;
    uint32_t large;
};
struct Poured {
    uint32_t sent;
    uint32_t refused;
};
struct Drop {
    uint32_t number;
};
struct Bucketful { // a drop of several slots
    uint32_t number;
    uint32_t body[30];
};
struct Level {
    uint32_t received;
    uint32_t first; // number of the first and the last that came
    uint32_t last;
    uint32_t disordered;
};

// A whole warp, which writes a message of several slots side by side.
struct Tap {
    static constexpr auto grain = denizen::Grain::warp;

    DENIZEN_HD void on(const Pour& m, auto& ctx)
    {
        uint32_t refused = 0;
        for (uint32_t i = 0; i < m.count; ++i) {
            Bucketful large{i, {}};
            for (uint32_t k = 0; k < 30; ++k) {
                large.body[k] = i + k;
            }
            const denizen::Address to{m.to};
            const bool sent = m.large != 0 ? ctx.send(to, large) : ctx.send(to, Drop{i});
            refused += sent ? 0 : 1;
        }
        ctx.reply(Poured{m.count - refused, refused});
    }
};

template <denizen::Overflow O>
struct Bucket {
    static constexpr auto overflow = O;
    Level level = {};

    DENIZEN_HD void on(const Drop& m, auto&) { take(m.number, true); }
    DENIZEN_HD void on(const Bucketful& m, auto&)
    {
        bool whole = true;
        for (uint32_t k = 0; k < 30; ++k) {
            whole &= m.body[k] == m.number + k;
        }
        take(m.number, whole);
    }
    DENIZEN_HD void on(const Audit&, auto& ctx) { ctx.reply(level); }
    DENIZEN_HD void on(const Wait& m, auto& ctx)
    {
        ctx.send(denizen::host, Tick{});
        const auto* word = reinterpret_cast<const uint32_t*>(m.word);
        while (denizen::load<denizen::Scope::system>(word) == 0) { // ends by the test
        }
    }

private:
    DENIZEN_HD void take(uint32_t number, bool whole)
    {
        level.disordered += !whole || (level.received != 0 && number <= level.last) ? 1 : 0;
        level.first = level.received == 0 ? number : level.first;
        level.last = number;
        ++level.received;
    }
};

using Patient = Bucket<denizen::Overflow::wait>;
using Picky = Bucket<denizen::Overflow::fail>;
using Fresh = Bucket<denizen::Overflow::drop_oldest>;
using Plumbing =
    denizen::Program<denizen::Actors<Tap, Patient, Picky, Fresh>,
                     denizen::Messages<Pour, Poured, Drop, Bucketful, Level, Audit, Wait, Tick>>;

namespace denizen::test {
namespace {

using Rt = Runtime<Town>;

class nodes : public AtEveryPlace {
protected:
    static uint32_t node_count() { return GetParam().nodes; }

    // `count` actors that know each other's addresses, on one node after the other: plainly spawned
    // they would all be on the first one where it has more workers than that.
    static std::vector<Address> meet(Rt& rt, uint32_t count)
    {
        std::vector<Address> actors;
        for (uint32_t i = 0; i < count; ++i) {
            actors.push_back(rt.spawn<Citizen>(1, on_node(i % node_count()))[0]);
        }
        introduce(rt, actors);
        return actors;
    }
    static void introduce(Rt& rt, const std::vector<Address>& actors)
    {
        const auto count = static_cast<uint32_t>(actors.size());
        for (uint32_t a = 0; a < count; ++a) {
            for (uint32_t b = 0; b < count; ++b) {
                rt.send(actors[a], Meet{a, b, actors[b].value, count}, 10s);
            }
        }
        rt.drain(20s);
    }

    static Account sum(Rt& rt, const std::vector<Address>& actors)
    {
        Account all{};
        for (const Account& a : rt.ask_many<Account>(actors, Audit{}, 20s)) {
            all.received += a.received;
            all.disordered += a.disordered;
            all.caught += a.caught;
            all.ticks += a.ticks;
            all.ids += a.ids;
        }
        return all;
    }

    // An address on each worker of each node.
    static std::vector<Address> one_on_each(Rt& rt)
    {
        return rt.spawn<Citizen>(rt.description().workers * node_count());
    }
};

TEST_P(nodes, actors_are_spread_over_all_workers_of_all_nodes)
{
    Rt rt(device(), options());
    const uint32_t workers = rt.description().workers;
    EXPECT_EQ(rt.description().nodes, node_count());
    std::set<std::pair<uint32_t, uint32_t>> places;
    const auto actors = one_on_each(rt);
    for (const Address a : actors) {
        EXPECT_LT(a.node(), node_count());
        EXPECT_LT(a.worker(), workers);
        places.insert({a.node(), a.worker()});
        EXPECT_EQ(rt.ask<Account>(a, Audit{}, 10s).self, a.value);
    }
    EXPECT_EQ(places.size(), node_count() * workers);
    rt.drain();
    const Stats stats = rt.stats();
    ASSERT_EQ(stats.handled_by_worker.size(), node_count() * workers);
    for (const uint64_t handled : stats.handled_by_worker) {
        EXPECT_EQ(handled, 2u); // the spawn and the question
    }
    EXPECT_EQ(stats.handled, 2 * actors.size());
}

TEST_P(nodes, broadcasts_batches_and_stops_reach_every_node)
{
    Rt rt(device(), options());
    const auto actors = meet(rt, most_actors);
    rt.broadcast<Citizen>(Tick{});
    const std::vector<Tick> ticks(actors.size());
    rt.send_many(actors.data(), ticks.data(), actors.size());
    for (const Address a : actors) {
        rt.send(a, Tick{});
    }
    rt.drain();
    for (const Account& a : rt.ask_many<Account>(actors, Audit{})) {
        EXPECT_EQ(a.ticks, 3u);
    }
    const auto last = std::max_element(actors.begin(), actors.end(),
                                       [](Address a, Address b) { return a.value < b.value; });
    ASSERT_EQ(last->node(), node_count() - 1);
    rt.stop(*last);
    EXPECT_EQ(error_of([&] { rt.send(*last, Tick{}); }).code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.stop(*last); }).code(), Errc::no_actor);
    const Address nowhere = Address::actor(0, 0, node_count());
    EXPECT_EQ(error_of([&] { rt.send(nowhere, Tick{}); }).code(), Errc::no_actor);
    // One that stays sends to the one that is gone.
    const Address other = *last == actors[0] ? actors[1] : actors[0];
    rt.send(other, Misdirect{last->value});
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 1u);
    EXPECT_TRUE(matches(rt.stats().first_error, "Tick to actor #[0-9]+ of worker [0-9]+ on node " +
                                                    std::to_string(last->node()) +
                                                    ": no such actor \\(worker [0-9]+ on node " +
                                                    std::to_string(last->node()) + "\\)"))
        << rt.stats().first_error;
    rt.send(other, Misdirect{nowhere.value});
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 2u);
}

TEST_P(nodes, every_letter_arrives_once_and_in_order)
{
    for (const bool small : {false, true}) {
        Options o = options();
        if (small) { // what the longest message allows
            o = small_rings(o);
        }
        // Room for all that is alive: handlers of two nodes that fill each other's rings wait for
        // each other.
        o.outbox_slots = small ? 4096 : 32768;
        Rt rt(device(), o);
        const auto actors = meet(rt, most_actors);
        constexpr uint32_t hops = 7;
        const uint32_t letters = scaled(4000);
        for (uint32_t i = 0; i < letters; ++i) {
            rt.send(actors[i % most_actors], Mail{(i * 7 + 1) % most_actors, 1, 0}, 20s);
        }
        for (uint32_t a = 0; a < most_actors; ++a) {
            rt.send(actors[a], Mail{(a + 5) % most_actors, small ? 20u : 500u, 0}, 20s);
            rt.send(actors[a], Mail{(a + 6) % most_actors, small ? 5u : 100u, 1}, 20s);
        }
        rt.drain();
        Account all = sum(rt, actors);
        EXPECT_EQ(all.received, letters + most_actors * (small ? 25 : 600));
        EXPECT_EQ(all.disordered, 0u);
        // Letters that travel on from actor to actor: each is one sender's next to that receiver.
        Rt travel(device(), o);
        const auto travellers = meet(travel, most_actors);
        for (uint32_t a = 0; a < most_actors; ++a) {
            // From outside each actor gets letters from itself only, numbered on.
            for (uint32_t n = 0; n < letters / most_actors; ++n) {
                travel.send(travellers[a], Letter{a, n, n, hops}, 20s);
            }
        }
        travel.drain();
        all = sum(travel, travellers);
        EXPECT_EQ(all.received, letters / most_actors * most_actors * (hops + 1));
        EXPECT_EQ(all.disordered, 0u);
        uint64_t expected = 0;
        for (uint32_t n = 0; n < letters / most_actors; ++n) {
            expected += uint64_t{n} * (hops + 1) * most_actors;
        }
        EXPECT_EQ(all.ids, expected);
        EXPECT_EQ(rt.stats().dead_letters + travel.stats().dead_letters, 0u);
    }
}

TEST_P(nodes, a_drain_ends_when_nothing_is_under_way_on_any_node)
{
    Rt rt(device(), options());
    const auto actors = one_on_each(rt);
    uint64_t caught = 0;
    for (uint32_t round = 0; round < scaled(400); ++round) {
        // Many short rallies: a drain that looks at one node at a time would miss the ball.
        const uint32_t balls = 1 + round % 3;
        for (uint32_t b = 0; b < balls; ++b) {
            const uint32_t hops = (round * 37 + b * 11) % 60;
            const size_t from = (round + b) % actors.size();
            const size_t to = (from + 1 + round % (actors.size() - 1)) % actors.size();
            rt.send(actors[from], Ball{actors[to].value, hops});
            caught += hops + 1;
        }
        rt.drain(20s);
        const uint64_t handled = rt.stats().handled;
        ASSERT_EQ(sum(rt, actors).caught, caught) << "round " << round;
        EXPECT_EQ(rt.stats().dead_letters, 0u);
        rt.drain(20s); // an answer comes a moment before its question is counted
        ASSERT_GE(rt.stats().handled, handled + actors.size());
    }
}

TEST_P(nodes, a_pause_stops_all_nodes_and_a_close_ends_what_is_under_way)
{
    Rt rt(device(), options());
    const auto actors = one_on_each(rt);
    rt.pause();
    const uint64_t before = rt.stats().handled;
    uint64_t expected = 0;
    for (size_t i = 0; i < actors.size(); ++i) {
        rt.send(actors[i], Ball{actors[(i + 1) % actors.size()].value, 99});
        expected += 100;
    }
    EXPECT_EQ(rt.stats().handled, before);
    EXPECT_EQ(error_of([&] { rt.drain(50ms); }).code(), Errc::timeout);
    rt.resume();
    rt.close(20s);
    EXPECT_EQ(rt.stats().handled, before + expected);
    EXPECT_EQ(error_of([&] { rt.send(actors[0], Tick{}); }).code(), Errc::closed);
}

TEST_P(nodes, a_parked_program_comes_back_on_all_nodes)
{
    if (!on_gpu()) {
        GTEST_SKIP() << "CPU threads sleep by themselves";
    }
    Rt rt(device(), options());
    const auto actors = one_on_each(rt);
    uint64_t caught = 0;
    for (uint32_t round = 0; round < 10; ++round) {
        rt.park(5s);
        EXPECT_TRUE(rt.parked());
        const Address to = actors[(round * 5 + 1) % actors.size()];
        rt.send(actors[round % actors.size()], Ball{to.value, 50});
        caught += 51;
        rt.drain(20s);
        ASSERT_EQ(sum(rt, actors).caught, caught);
    }
}

TEST_P(nodes, the_host_hears_every_node)
{
    Options o = options();
    o.egress_slots = 64;
    Rt rt(device(), o);
    const auto actors = meet(rt, most_actors);
    const uint32_t count = scaled(2000);
    for (const Address a : actors) {
        rt.send(a, Shout{count});
    }
    std::vector<uint32_t> next(most_actors, 0);
    uint32_t heard = 0;
    const auto take = [&](const Heard& h, Address sender) {
        ASSERT_LT(h.place, most_actors);
        EXPECT_EQ(sender.value, actors[h.place].value);
        EXPECT_EQ(h.number, next[h.place]++);
        ++heard;
    };
    Heard some[32];
    Address senders[32];
    while (heard < count * most_actors / 2) { // ends by messages, or by the deadline of receive()
        const size_t n = rt.receive_many(some, 32, senders);
        for (size_t i = 0; i < n; ++i) {
            take(some[i], senders[i]);
        }
        if (n == 0) {
            const Message m = rt.receive(20s);
            std::memcpy(some, m.payload.data(), sizeof *some);
            take(some[0], {m.header.sender});
        }
    }
    while (heard < count * most_actors) {
        const Message m = rt.receive(20s);
        std::memcpy(some, m.payload.data(), sizeof *some);
        take(some[0], {m.header.sender});
    }
    EXPECT_EQ(error_of([&] { rt.receive(10ms); }).code(), Errc::timeout);
}

// An actor's policy is its own, whichever node the sender is on. Its worker is busy while more is
// sent to it than its ring from there holds.
TEST_P(nodes, a_full_ring_is_dealt_with_as_the_actor_wants)
{
    SharedWord go(on_gpu());
    Options o = options();
    o.inbox_slots = 32;
    Runtime<Plumbing> rt(device(), o);
    const Address tap = rt.spawn<Tap>(1, on_node(0))[0];
    constexpr uint32_t count = 100;
    uint64_t dropped = 0;
    const auto pour = [&](Address to, bool large) {
        go.set(0);
        rt.send(to, Wait{go.address()});
        EXPECT_EQ(rt.receive(20s).header.sender, to.value);
        const auto poured = rt.ask<Poured>(tap, Pour{to.value, count, large ? 1u : 0u}, 20s);
        go.set(1);
        rt.drain(20s);
        const uint64_t before = dropped;
        const Stats stats = rt.stats();
        dropped = stats.dead_letters_by_reason[static_cast<uint32_t>(Reason::dropped)];
        EXPECT_EQ(stats.dead_letters, dropped);
        EXPECT_EQ(poured.sent + poured.refused, count);
        const auto level = rt.ask<Level>(to, Audit{}, 20s);
        EXPECT_EQ(level.received, poured.sent - (dropped - before));
        EXPECT_EQ(level.disordered, 0u);
        return std::pair(poured, level);
    };
    for (const bool large : {false, true}) {
        const uint32_t room = large ? 32 / 3 : 32; // of messages
        const auto [all, patient] = pour(rt.spawn<Patient>(1, on_node(1))[0], large);
        EXPECT_EQ(all.refused, 0u);
        EXPECT_EQ(patient.received, count);
        const auto [some, picky] = pour(rt.spawn<Picky>(1, on_node(1))[0], large);
        EXPECT_EQ(some.sent, room);
        EXPECT_EQ(picky.last, room - 1) << "those that found room";
        const auto [none, fresh] = pour(rt.spawn<Fresh>(1, on_node(1))[0], large);
        EXPECT_EQ(none.refused, 0u);
        EXPECT_EQ(fresh.received, room);
        EXPECT_EQ(fresh.first, count - room) << "the oldest are dropped";
        EXPECT_EQ(fresh.last, count - 1);
    }
}

TEST_P(nodes, urgent_messages_overtake_data)
{
    Rt rt(device(), options());
    for (const Address a : one_on_each(rt)) {
        rt.pause();
        for (int i = 0; i < 20; ++i) {
            rt.send(a, Tick{});
        }
        rt.send(a, Alarm{1});
        rt.resume();
        rt.drain();
        const auto account = rt.ask<Account>(a, Audit{});
        EXPECT_EQ(account.ticks, 20u);
        EXPECT_EQ(account.ticks_before_alarm, 0u);
    }
}

TEST_P(nodes, a_full_urgent_host_ring_says_so)
{
    Options o = options();
    o.urgent_slots = 2; // as many as the longest message needs twice: 8
    Rt rt(device(), o);
    const Address a = one_on_each(rt).back();
    rt.pause();
    expect_error_like(Errc::full,
                      "urgent host ring of worker [0-9]+ on node [0-9]+ \\([0-9]+ slots\\) is "
                      "full: its worker has not kept up for .*",
                      [&] {
                          for (int i = 0; i < 64; ++i) {
                              rt.send(a, Alarm{1}, 20ms);
                          }
                      });
    rt.resume();
    rt.drain();
}

TEST_P(nodes, a_stuck_handler_is_named_with_its_node)
{
    SharedWord go(on_gpu());
    Rt rt(device(), options());
    const Address a = one_on_each(rt).back();
    rt.send(a, Wait{go.address()});
    EXPECT_TRUE(eventually([&] { return !rt.stuck(1ms).empty(); }));
    const std::string where =
        "worker " + std::to_string(a.worker()) + " on node " + std::to_string(a.node());
    EXPECT_TRUE(matches(rt.stuck(1ms), where + " is stuck: actor Citizen #" +
                                           std::to_string(a.local()) + " of " + where +
                                           " has been handling Wait for .*"))
        << rt.stuck(1ms);
    go.set(1);
    rt.drain(20s);
}

TEST_P(nodes, a_program_that_ran_out_of_room_names_the_node)
{
    Options o = options();
    o.local_slots = 64;
    o.outbox_slots = 16;
    Rt rt(device(), o);
    const auto actors = meet(rt, most_actors);
    const auto last = std::find_if(actors.begin(), actors.end(),
                                   [&](Address a) { return a.node() == node_count() - 1; });
    const auto place = static_cast<uint32_t>(last - actors.begin());
    rt.send(*last, Mail{place, 1000, 0});
    expect_error_like(Errc::exhausted,
                      "the program has stopped: outbox of worker [0-9]+ on node " +
                          std::to_string(node_count() - 1) + " \\(16 parked messages\\) is full.*",
                      [&] { rt.drain(10s); });
    rt.close(5s);
}

// ---- placement

class Routed {
public:
    explicit Routed(Rt& rt) : rt_(rt), before_(rt.stats()) {}

    // How many messages took each route since then; the answers to the host left out.
    std::vector<uint64_t> since() const
    {
        rt_.drain();
        const Stats now = rt_.stats();
        std::vector<uint64_t> by_route;
        for (uint32_t r = 0; r < static_cast<uint32_t>(Route::to_host); ++r) {
            by_route.push_back(now.sent_by_route[r] - before_.sent_by_route[r]);
        }
        return by_route;
    }

private:
    Rt& rt_;
    Stats before_;
};

TEST_P(nodes, actors_are_spawned_where_they_are_asked_for)
{
    Options o = options();
    if (!on_gpu()) {
        o.workers = 5;
        o.cluster = 2;
    }
    Rt rt(device(), o);
    const Description& d = rt.description();
    const Address a = rt.spawn<Citizen>();
    const auto send = [&](Address to, Route route) {
        introduce(rt, {a, to});
        const Routed routed(rt);
        rt.send(a, Mail{1, 10, 0});
        std::vector<uint64_t> expected(static_cast<uint32_t>(Route::to_host), 0);
        expected[static_cast<uint32_t>(route)] = 10;
        EXPECT_EQ(routed.since(), expected) << "route " << static_cast<uint32_t>(route);
    };
    for (const Address b : rt.spawn<Citizen>(3, near(a))) {
        EXPECT_EQ(b.node(), a.node());
        EXPECT_EQ(b.worker(), a.worker());
        send(b, Route::worker);
    }
    const uint32_t together = d.cluster * d.per_sm;
    if (together > d.per_sm && d.workers > d.per_sm) {
        for (const Address b : rt.spawn<Citizen>(3, near(a, Near::cluster))) {
            EXPECT_EQ(b.node(), a.node());
            EXPECT_NE(b.worker() / d.per_sm, a.worker() / d.per_sm);
            EXPECT_EQ(b.worker() / together, a.worker() / together);
            send(b, Route::cluster);
        }
    }
    if (d.workers > together) {
        std::set<uint32_t> workers;
        for (const Address b : rt.spawn<Citizen>(d.workers, near(a, Near::node))) {
            EXPECT_EQ(b.node(), a.node());
            EXPECT_NE(b.worker() / together, a.worker() / together);
            workers.insert(b.worker());
        }
        EXPECT_EQ(workers.size(), d.workers - std::min(together, d.workers));
        send(rt.spawn<Citizen>(1, near(a, Near::node))[0], Route::gpu);
    }
    for (uint32_t n = 0; n < node_count(); ++n) {
        std::set<uint32_t> workers;
        for (const Address b : rt.spawn<Citizen>(d.workers, on_node(n))) {
            EXPECT_EQ(b.node(), n);
            workers.insert(b.worker());
        }
        EXPECT_EQ(workers.size(), d.workers);
        if (n != a.node()) {
            send(rt.spawn<Citizen>(1, on_node(n))[0], Route::peer);
        }
    }
}

TEST_P(nodes, workers_of_one_sm)
{
    Options o = options();
    if (!on_gpu()) {
        o.workers = 2;
        o.cluster = 1;
        Rt rt(device(), o);
        const Address a = rt.spawn<Citizen>();
        expect_error(Errc::bad_argument,
                     "worker 0 on node 0 is the only one of its SM; start more workers than SMs, "
                     "or use Near::worker or Near::cluster",
                     [&] { rt.spawn<Citizen>(1, near(a, Near::sm)); });
        expect_error(Errc::bad_argument,
                     "worker 0 on node 0 has no other SM in its cluster; start more workers or "
                     "larger clusters, or use Near::node",
                     [&] { rt.spawn<Citizen>(1, near(a, Near::cluster)); });
        return;
    }
    o.sms = 4;
    o.workers = 8;
    Rt rt(device(), o);
    ASSERT_EQ(rt.description().per_sm, 2u);
    const Address a = rt.spawn<Citizen>();
    const Address b = rt.spawn<Citizen>(1, near(a, Near::sm))[0];
    EXPECT_EQ(b.worker(), a.worker() ^ 1u);
    introduce(rt, {a, b});
    const Routed routed(rt);
    rt.send(a, Mail{1, 10, 0});
    EXPECT_EQ(routed.since()[static_cast<uint32_t>(Route::sm)], 10u);
}

TEST_P(nodes, placements_that_cannot_be)
{
    Options o = options();
    o.workers = Rt(device(), o).description().workers; // on a GPU the runtime's choice
    o.max_actors = 100 * node_count() * o.workers;
    Rt rt(device(), o);
    const Address a = rt.spawn<Citizen>();
    expect_error(Errc::bad_argument,
                 "spawning near the host; the program has " + std::to_string(node_count()) +
                     " nodes of " + std::to_string(rt.description().workers) + " workers",
                 [&] { rt.spawn<Citizen>(1, near(host)); });
    expect_error(Errc::bad_argument,
                 "spawning near worker 0 on node 6; the program has " +
                     std::to_string(node_count()) + " nodes of " +
                     std::to_string(rt.description().workers) + " workers",
                 [&] { rt.spawn<Citizen>(1, on_node(6)); });
    expect_error(Errc::exhausted,
                 "100 actors Citizen exceed max_actors = " + std::to_string(o.max_actors) +
                     ": worker 0 on node 0 has room for 99; raise it",
                 [&] { rt.spawn<Citizen>(100, near(a)); });
    rt.spawn<Citizen>(99, near(a));
    o.max_actors = 1u << 18;
    o.state_bytes = 1 << 16;
    Rt small(device(), o);
    expect_error_like(Errc::exhausted,
                      "1000 actors Citizen need [0-9]+ bytes of state on node 1, 65536 are left; "
                      "raise state_bytes",
                      [&] { small.spawn<Citizen>(1000, on_node(1)); });
    small.spawn<Citizen>(100, on_node(0));
    small.spawn<Citizen>(100, on_node(1)); // each node has that many bytes
}

std::vector<Place> places_of_several_nodes()
{
    return {
        {"cpu2x1", Device::cpu(), 1, false, 2}, {"cpu2x2", Device::cpu(), 2, false, 2},
        {"cpu3x1", Device::cpu(), 1, false, 3},
#if defined(__CUDACC__)
        {"gpu2", Device::gpu(), 0, true, 2},    {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

INSTANTIATE_TEST_SUITE_P(at, nodes, testing::ValuesIn(places_of_several_nodes()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(node_options, that_cannot_be)
{
    const auto refused = [](Options o) { return error_of([&] { Rt rt(Device::cpu(), o); }); };
    for (const uint32_t count : {0u, max_nodes + 1}) {
        Options o;
        o.nodes = count;
        EXPECT_EQ(std::string(refused(o).what()),
                  "nodes = " + std::to_string(count) + "; use 1 to " + std::to_string(max_nodes));
    }
    Options o;
    o.nodes = 2;
    o.workers = 1;
    o.idle = std::chrono::milliseconds(5);
    EXPECT_EQ(std::string(refused(o).what()),
              "idle = 5 ms with 2 nodes: a node that is idle cannot know that no other has work "
              "for it; use idle = 0 and call park()");
    o.idle = {};
    o.max_actors = 0;
    EXPECT_EQ(std::string(refused(o).what()),
              "max_actors = 0 on 2 workers; use 1 to 262,144 per worker");
    o.max_actors = 100;
    for (const uint32_t cluster : {3u, 32u}) {
        o.cluster = cluster;
        EXPECT_EQ(std::string(refused(o).what()), "cluster = " + std::to_string(cluster) +
                                                      "; use a power of two from 1 to 16, or 0");
    }
}

} // namespace
} // namespace denizen::test
