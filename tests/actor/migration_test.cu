// SPDX-License-Identifier: Apache-2.0
// Actors that move while messages are on their way to them and from them: every message is handled
// exactly once and, between each two actors, in the order it was sent in; whoever sends need not
// know.
#include "actor/places.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>

namespace {

using namespace denizen;
using namespace denizen::test;

constexpr uint32_t peers = 6;
constexpr uint32_t most_under_way = 100; // tokens

struct Meet { // one of the others, by number
    uint32_t who;
    uint32_t address;
};
struct Hop { // passed on until `left` is 0
    uint32_t from;
    uint32_t order;
    uint32_t left;
    uint32_t seed;
};
struct Cargo { // the same over several slots
    uint32_t from;
    uint32_t order;
    uint32_t left;
    uint32_t seed;
    uint32_t load[30];
};
struct Numbered {
    uint32_t n;
};
struct Look {};
struct Seen {
    uint64_t handled;
    uint32_t from_host;
    uint32_t faults;
    uint32_t self;
};
struct Where {};
struct Here {
    uint32_t worker;
    uint32_t node;
};
struct Report { // to the host, numbered
    uint32_t who;
    uint32_t n;
};
struct Poke {}; // asks for a Report
struct Done {}; // a Hop has come to its end
struct Shout {  // broadcast
    uint32_t n;
};

struct Walker {
    uint64_t handled = 0;
    uint32_t who = 0;
    uint32_t from_host = 0;
    uint32_t faults = 0;
    uint32_t reports = 0;
    uint32_t shouts = 0;
    uint32_t address[peers] = {};
    uint32_t sent[peers] = {};
    uint32_t received[peers] = {};

    DENIZEN_HD void on(const Meet& m, auto& ctx)
    {
        address[m.who] = m.address;
        who = m.address == ctx.self().value ? m.who : who;
    }
    DENIZEN_HD void on(const Hop& m, auto& ctx) { pass(m, ctx); }
    DENIZEN_HD void on(const Cargo& m, auto& ctx)
    {
        for (uint32_t i = 0; i < 30; ++i) {
            faults += m.load[i] != m.from + m.order + i;
        }
        pass(m, ctx);
    }
    DENIZEN_HD void on(const Numbered& m, auto&)
    {
        faults += m.n != from_host;
        from_host = m.n + 1;
    }
    DENIZEN_HD void on(const Poke&, auto& ctx) { ctx.send(host, Report{who, reports++}); }
    DENIZEN_HD void on(const Shout& m, auto&)
    {
        faults += m.n != shouts;
        shouts = m.n + 1;
    }
    DENIZEN_HD void on(const Where&, auto& ctx) { ctx.reply(Here{ctx.worker(), ctx.node()}); }
    DENIZEN_HD void on(const Look&, auto& ctx)
    {
        ctx.reply(Seen{handled, from_host, faults + (shouts << 16), ctx.self().value});
    }

    DENIZEN_HD void pass(const auto& m, auto& ctx)
    {
        ++handled;
        if (m.from != peers) { // the host starts them
            faults += m.order != received[m.from] || ctx.sender().value != address[m.from];
            received[m.from] = m.order + 1;
        }
        if (m.left == 0) {
            ctx.send(host, Done{});
            return;
        }
        const uint32_t seed = m.seed * 1664525u + 1013904223u;
        const uint32_t to = (seed >> 16) % peers;
        if ((seed >> 8) % 4 == 0) {
            Cargo c{who, sent[to]++, m.left - 1, seed, {}};
            for (uint32_t i = 0; i < 30; ++i) {
                c.load[i] = c.from + c.order + i;
            }
            ctx.send(Address{address[to]}, c);
        } else {
            ctx.send(Address{address[to]}, Hop{who, sent[to]++, m.left - 1, seed});
        }
    }
};

using Walk = Program<Actors<Walker>, Messages<Meet, Hop, Cargo, Numbered, Look, Seen, Where, Here,
                                              Report, Poke, Shout, Done>>;

class Random {
public:
    explicit Random(uint32_t seed) : engine_(seed) {}
    uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

private:
    std::mt19937 engine_;
};

class migration : public AtEveryPlace {};
class migration_between_nodes : public migration {};

std::vector<Address> meet(Runtime<Walk>& rt)
{
    const std::vector<Address> all = rt.spawn<Walker>(peers);
    for (const Address a : all) {
        for (uint32_t i = 0; i < peers; ++i) {
            rt.send(a, Meet{i, all[i].value});
        }
    }
    rt.drain();
    return all;
}

void check(Runtime<Walk>& rt, const std::vector<Address>& all, uint64_t hops,
           const std::vector<uint32_t>& numbered, uint32_t shouts)
{
    rt.drain();
    uint64_t handled = 0;
    for (uint32_t i = 0; i < peers; ++i) {
        const Seen s = rt.ask<Seen>(all[i], Look{}, 60s);
        handled += s.handled;
        EXPECT_EQ(s.faults & 0xffff, 0u) << "actor " << i;
        EXPECT_EQ(s.faults >> 16, shouts) << "actor " << i;
        EXPECT_EQ(s.from_host, numbered[i]) << "actor " << i;
        EXPECT_EQ(s.self, all[i].value);
    }
    EXPECT_EQ(handled, hops);
    EXPECT_EQ(rt.stats().dead_letters, 0u) << rt.stats().first_error;
}

// Those who watch an actor are told wherever it is, and so is its supervisor.
struct Fragile {
    static constexpr bool can_fail = true;
    uint32_t n = 0;
    DENIZEN_HD void on(const Numbered& m, auto& ctx)
    {
        n += m.n;
        if (m.n == 0) {
            ctx.fail(7);
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Here{n, ctx.node()}); }
};
using Nursery = Program<Actors<Fragile>, Messages<Numbered, Look, Here, Down>>;

// Tokens run between the actors and the host sends, while the actors move about at random.
void walk_about(Device device, const Options& options, uint32_t seed, uint32_t moves, uint32_t hops,
                nanoseconds patience = 10s, bool may_find_no_room = false)
{
    Runtime<Walk> rt(device, options);
    const std::vector<Address> all = meet(rt);
    const uint32_t workers = rt.description().workers;
    const uint32_t nodes = rt.description().nodes;
    std::atomic<bool> over{false};
    std::vector<uint32_t> numbered(peers, 0);
    uint32_t started = 0;
    uint32_t shouts = 0;
    std::vector<uint32_t> reports(peers, 0);
    std::vector<uint32_t> poked(peers, 0);
    uint32_t done = 0;
    const auto take_reports = [&] {
        Report r[64];
        Done ends[64];
        while (const size_t n = rt.receive_many(ends, 64)) {
            done += static_cast<uint32_t>(n);
        }
        for (size_t n; (n = rt.receive_many(r, 64)) != 0;) {
            for (size_t i = 0; i < n; ++i) {
                EXPECT_EQ(r[i].n, reports[r[i].who]) << "from actor " << r[i].who;
                ++reports[r[i].who];
            }
        }
    };
    std::thread sender([&] {
        Random random(seed);
        while (!over.load()) {
            const uint32_t i = random() % peers;
            rt.send(all[i], Numbered{numbered[i]++}, 60s);
            rt.send(all[i], Poke{}, 60s);
            ++poked[i];
            if (random() % 4 == 0 && started - done < most_under_way) {
                rt.send(all[random() % peers], Hop{peers, 0, hops - 1, random()}, 60s);
                ++started;
            }
            if (random() % 16 == 0) {
                rt.broadcast<Walker>(Shout{shouts++}, 60s);
            }
            take_reports();
        }
    });
    Random random(seed + 1000);
    for (uint32_t m = 0; m < moves; ++m) {
        const Address a = all[random() % peers];
        const uint32_t worker = random() % workers;
        const uint32_t node = random() % nodes;
        const Error error = error_of([&] { rt.migrate(a, worker, node, patience); });
        if (error.code() != Errc::ok) {
            const std::string why = error.what();
            if (may_find_no_room && why.find("found no room in the stash") != std::string::npos) {
                continue; // it stays where it is, and nothing is lost
            }
            ADD_FAILURE() << why;
            break;
        }
        if (m % 8 == 0) {
            const Here here = rt.ask<Here>(a, Where{}, 60s);
            EXPECT_EQ(here.worker, worker);
            EXPECT_EQ(here.node, node);
        }
    }
    over = true;
    sender.join();
    check(rt, all, uint64_t{started} * hops, numbered, shouts);
    while (done < started || reports != poked) { // the kinds in turn; none is missing, or it fails
        const uint32_t before = done;
        const std::vector<uint32_t> reported = reports;
        take_reports();
        if (before == done && reported == reports) {
            break;
        }
    }
    EXPECT_EQ(done, started);
    EXPECT_EQ(reports, poked);
}

TEST_P(migration, under_load_keeps_every_message_and_its_order)
{
    for (uint32_t seed = 0; seed < 3; ++seed) {
        walk_about(device(), options(), seed, std::max(scaled(150), 10u), 40);
    }
}

TEST_P(migration_between_nodes, under_load_keeps_every_message_and_its_order)
{
    for (uint32_t seed = 2; seed < 4; ++seed) {
        walk_about(device(), options(), seed, std::max(scaled(120), 10u), 30);
    }
}

TEST_P(migration, with_small_rings)
{
    Options o = small_rings(options());
    o.outbox_slots = 4096;
    o.egress_slots = 16384;
    o.near_slots = o.local_slots = 2;
    walk_about(device(), o, 7, std::max(scaled(100), 10u), 12);
}

TEST_P(migration, an_actor_comes_home_and_leaves_again)
{
    Runtime<Walk> rt(device(), options());
    const std::vector<Address> all = meet(rt);
    const uint32_t workers = rt.description().workers;
    uint32_t n = 0;
    for (uint32_t round = 0; round < 50; ++round) {
        const uint32_t worker = (all[0].worker() + round * round) % workers;
        rt.send(all[0], Numbered{n++});
        rt.migrate(all[0], worker);
        rt.send(all[0], Numbered{n++});
        const Here here = rt.ask<Here>(all[0], Where{});
        EXPECT_EQ(here.worker, worker);
    }
    check(rt, all, 0, {n, 0, 0, 0, 0, 0}, 0);
}

TEST_P(migration, takes_no_more_memory_the_more_often)
{
    Options o = options();
    o.state_bytes = 8 << 10; // room for some 60
    Runtime<Walk> rt(device(), o);
    const std::vector<Address> all = meet(rt);
    const uint32_t workers = std::min(rt.description().workers, 3u);
    for (uint32_t round = 0; round < 200; ++round) {
        rt.migrate(all[round % peers], (round + round / peers) % workers);
    }
    check(rt, all, 0, {0, 0, 0, 0, 0, 0}, 0);
}

// The home has no room for what is sent while it moves: the actor stays, goes on, and is asked
// again.
TEST_P(migration, with_hardly_any_room_for_what_waits)
{
    Options o = options();
    o.stash_slots = 8;
    walk_about(device(), o, 11, std::max(scaled(30), 5u), 20, 300ms, true);
}

TEST_P(migration, is_in_a_snapshot)
{
    const std::string path = "/tmp/denizen-migration-" + std::to_string(getpid());
    Options o = options();
    std::vector<Address> all;
    {
        Runtime<Walk> rt(device(), o);
        all = meet(rt);
        const uint32_t workers = rt.description().workers;
        for (uint32_t i = 0; i < peers; ++i) {
            rt.migrate(all[i], i * i % workers);
            rt.send(all[i], Numbered{0});
        }
        rt.save(path);
        rt.migrate(all[0], 1 % workers);
    }
    o.restore = path;
    Runtime<Walk> rt(device(), o);
    const uint32_t workers = rt.description().workers;
    for (uint32_t i = 0; i < peers; ++i) {
        EXPECT_EQ(rt.ask<Here>(all[i], Where{}).worker, i * i % workers);
        rt.send(all[i], Numbered{1});
        rt.migrate(all[i], (i * i + 1) % workers);
        rt.send(all[i], Numbered{2});
        EXPECT_EQ(rt.ask<Here>(all[i], Where{}).worker, (i * i + 1) % workers);
    }
    check(rt, all, 0, {3, 3, 3, 3, 3, 3}, 0);
    std::remove(path.c_str());
}

TEST_P(migration, is_refused_where_it_cannot_be)
{
    Runtime<Walk> rt(device(), options());
    const std::vector<Address> all = meet(rt);
    const uint32_t workers = rt.description().workers;
    expect_error(Errc::bad_argument,
                 "worker " + std::to_string(workers) + " of node 0; there are " +
                     std::to_string(workers) + " workers on each of 1 nodes",
                 [&] { rt.migrate(all[0], workers); });
    EXPECT_EQ(error_of([&] { rt.migrate(Address::actor(0, 4000), 0); }).code(), Errc::no_actor);
    rt.stop(all[1]);
    EXPECT_EQ(error_of([&] { rt.migrate(all[1], 0); }).code(), Errc::no_actor);
    check(rt, {all[0], all[0], all[2], all[3], all[4], all[5]}, 0, {0, 0, 0, 0, 0, 0}, 0);
}

TEST_P(migration, holds_the_cells_for_all_its_orders_before_it_begins)
{
    for (const uint32_t asks : {1u, 2u}) {
        Options o = options();
        o.asks = asks;
        o.workers = std::max(o.workers, 2u);
        Runtime<Walk> rt(device(), o);
        const Address a = rt.spawn<Walker>();
        const auto move = [&](uint32_t worker) { rt.migrate(a, worker); };
        const uint32_t away = a.worker() == 0 ? 1 : 0;
        if (asks == 2) {
            move(away); // and back takes one more: the place there is vacated
        }
        expect_error_like(Errc::exhausted,
                          "moving actor .* takes " + std::to_string(asks + 1) +
                              " reply cells at a time; asks = " + std::to_string(asks) +
                              ", raise it",
                          [&] { move(asks == 1 ? away : a.worker()); });
    }
}

TEST_P(migration, what_is_done_to_an_actor_is_done_where_it_is)
{
    Runtime<Walk> rt(device(), options());
    const std::vector<Address> all = meet(rt);
    const uint32_t workers = rt.description().workers;
    rt.migrate(all[0], (all[0].worker() + 1) % workers);
    rt.pause(all[0]);
    rt.send(all[0], Numbered{0});
    rt.drain();
    EXPECT_EQ(rt.inspect(all[0]).life, Life::paused);
    rt.resume(all[0]);
    EXPECT_EQ(rt.ask<Seen>(all[0], Look{}).from_host, 1u);
    rt.restart(all[0]);
    EXPECT_EQ(rt.ask<Seen>(all[0], Look{}).from_host, 0u);
    rt.stop(all[0]);
    EXPECT_EQ(error_of([&] { rt.send(all[0], Numbered{0}); }).code(), Errc::no_actor);
}

void supervisors_and_watchers_find_an_actor_that_has_moved(Device device, const Options& options)
{
    Runtime<Nursery> rt(device, options);
    const std::vector<Address> children = rt.spawn<Fragile>(3);
    rt.supervise(children, Strategy::one_for_one);
    rt.watch(host, children[1]);
    const auto down = [&] {
        const Message m = rt.receive(20s);
        Down d{};
        std::memcpy(&d, m.payload.data(), sizeof d);
        EXPECT_EQ(d.actor, children[1].value);
        return d;
    };
    uint32_t incarnation = 1;
    for (uint32_t i = 0; i < 3; ++i) {
        rt.migrate(children[1], i % rt.description().workers, i % options.nodes);
        rt.send(children[1], Numbered{5});
        EXPECT_EQ(rt.ask<Here>(children[1], Look{}).worker, 5u);
        rt.send(children[1], Numbered{0});
        Down d = down();
        EXPECT_EQ(d.life, static_cast<uint32_t>(Life::failed));
        EXPECT_EQ(d.code, 7u);
        d = down();
        EXPECT_EQ(d.life, static_cast<uint32_t>(Life::running));
        EXPECT_EQ(d.incarnation, ++incarnation);
        EXPECT_EQ(rt.ask<Here>(children[1], Look{}).worker, 0u); // a new state
    }
    rt.stop(children[1]);
    EXPECT_EQ(down().life, static_cast<uint32_t>(Life::stopped));
}

TEST_P(migration, supervisors_and_watchers_find_an_actor_that_has_moved)
{
    supervisors_and_watchers_find_an_actor_that_has_moved(device(), options());
}

TEST_P(migration_between_nodes, supervisors_and_watchers_find_an_actor_that_has_moved)
{
    supervisors_and_watchers_find_an_actor_that_has_moved(device(), options());
}

DENIZEN_AT_EVERY_PLACE(migration);
DENIZEN_ON_SEVERAL_NODES(migration_between_nodes);

} // namespace
