// SPDX-License-Identifier: Apache-2.0
// Traffic between many actors, from many host threads and to the host, accounted for message by
// message: nothing lost, nothing twice, order kept between each sender and receiver. With rings of
// ordinary size and with the smallest, where everything is always full.
#include <actor/places.hpp>
#include <denizen/actor/telemetry.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

// No message here is longer than a slot: longer ones would force larger rings than the smallest.
constexpr uint32_t most_peers = 48;
constexpr uint32_t most_threads = 4;
constexpr uint32_t most_senders = most_peers + most_threads; // actors, then host threads

struct Peer { // tells an actor its own place and, one by one, the addresses of all
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
struct Audit {};
struct Account {
    uint32_t ended;      // letters whose last hop was here
    uint32_t disordered; // letters that were not the next of their sender
    uint64_t received;
    uint64_t ids;     // sum of the ids of those that ended here
    uint64_t squares; // and of their squares, mod 2^64
};
static_assert(sizeof(Account) <= denizen::first_payload);
struct Burst { // `count` letters to one peer, in one handler
    uint32_t to;
    uint32_t count;
};
struct Shout { // `count` Heard to the host, in one handler
    uint32_t count;
};
struct Both { // the letters of a Burst, and beside the first of them `heard` Heard to the host
    uint32_t to;
    uint32_t count;
    uint32_t heard;
};
struct Heard {
    uint32_t place;
    uint32_t number;
};
struct Ball {
    uint32_t to;
    uint32_t left;
};
struct Landed {
    uint32_t caught;
};
struct Probe {
    uint64_t number;
};
struct Misdirect {
    uint32_t to;
};
struct Start { // the receiver tells all its peers to flood the next one
    uint32_t count;
};

struct Token { // goes from peer to peer for ever, until a Halt
    uint32_t random;
};
struct Halt {};
struct Halted {
    uint32_t tokens;
};

struct Relay {
    uint32_t me = 0;
    uint32_t count = 0;
    uint32_t shouted = 0;
    uint32_t caught = 0;
    uint32_t halted = 0;
    uint32_t tokens = 0; // that have come since
    uint32_t peer[most_peers] = {};
    uint32_t sent[most_peers] = {};
    uint32_t next[most_senders] = {};
    Account account = {};

    DENIZEN_HD void on(const Peer& m, auto&)
    {
        me = m.me;
        count = m.count;
        peer[m.place] = m.address;
    }
    DENIZEN_HD void on(const Letter& m, auto& ctx)
    {
        account.disordered += m.number != next[m.from];
        next[m.from] = m.number + 1;
        ++account.received;
        if (m.hops == 0) {
            ++account.ended;
            account.ids += m.id;
            account.squares += uint64_t{m.id} * m.id;
            return;
        }
        // To any peer but this one, by the letter's number and hop.
        const uint32_t step = 1 + (m.id * 2654435761u + m.hops * 40503u) % (count - 1);
        write((me + step) % count, m.id, m.hops - 1, ctx);
    }
    DENIZEN_HD void on(const Burst& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            write(m.to, i, 0, ctx);
        }
    }
    DENIZEN_HD void on(const Start& m, auto& ctx)
    {
        for (uint32_t i = 0; i < count; ++i) {
            ctx.send(denizen::Address{peer[i]}, Burst{(i + 1) % count, m.count});
        }
    }
    DENIZEN_HD void on(const Shout& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::host, Heard{me, shouted++});
        }
    }
    DENIZEN_HD void on(const Both& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            write(m.to, i, 0, ctx);
            if (i < m.heard) {
                ctx.send(denizen::host, Heard{me, shouted++});
            }
        }
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx)
    {
        ++caught;
        if (m.left == 0) {
            ctx.send(denizen::host, Landed{caught});
        } else {
            ctx.send(denizen::Address{m.to}, Ball{ctx.self().value, m.left - 1});
        }
    }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        if (halted != 0) {
            ++tokens;
            return;
        }
        const uint32_t random = m.random * 1664525u + 1013904223u;
        ctx.send(denizen::Address{peer[(random >> 8) % count]}, Token{random});
    }
    DENIZEN_HD void on(const Halt&) { halted = 1; }
    DENIZEN_HD void on(const Halted&, auto& ctx) { ctx.reply(Halted{tokens}); }
    DENIZEN_HD void on(const Misdirect& m, auto& ctx)
    {
        ctx.send(denizen::Address{m.to}, Heard{0, 0});
    }
    DENIZEN_HD void on(const Audit&, auto& ctx) { ctx.reply(account); }
    DENIZEN_HD void on(const Probe& m, auto& ctx) { ctx.reply(Probe{~m.number}); }

private:
    DENIZEN_HD void write(uint32_t to, uint32_t id, uint32_t hops, auto& ctx)
    {
        ctx.send(denizen::Address{peer[to]}, Letter{me, sent[to]++, id, hops});
    }
};

using Traffic =
    denizen::Program<denizen::Actors<Relay>,
                     denizen::Messages<Peer, Letter, Audit, Account, Burst, Shout, Heard, Ball,
                                       Landed, Probe, Misdirect, Start, Token, Halt, Halted, Both>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Traffic>;

// Spawns actors that know each other.
std::vector<Address> meet(Rt& rt, uint32_t n)
{
    const std::vector<Address> actors = rt.spawn<Relay>(n);
    for (uint32_t a = 0; a < n; ++a) {
        for (uint32_t b = 0; b < n; ++b) {
            rt.send(actors[a], Peer{a, b, actors[b].value, n}, 10s);
        }
    }
    rt.drain(30s);
    return actors;
}

struct Expected {
    uint64_t ended = 0;
    uint64_t received = 0;
    uint64_t ids = 0;
    uint64_t squares = 0;

    void add(uint64_t id, uint32_t hops)
    {
        ++ended;
        received += hops + 1;
        ids += id;
        squares += id * id;
    }
};

// Asks every actor what it got.
void expect_accounts(Rt& rt, const std::vector<Address>& actors, const Expected& expected)
{
    Expected found;
    uint64_t disordered = 0;
    for (const Account& a : rt.ask_many<Account>(actors, Audit{}, 30s)) {
        found.ended += a.ended;
        found.received += a.received;
        found.ids += a.ids;
        found.squares += a.squares;
        disordered += a.disordered;
    }
    EXPECT_EQ(found.ended, expected.ended);
    EXPECT_EQ(found.received, expected.received);
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.squares, expected.squares);
    EXPECT_EQ(disordered, 0u);
    const Stats s = rt.stats();
    EXPECT_EQ(s.errors, 0u) << s.first_error;
}

// One host thread's letters, numbered by receiver.
class Writer {
public:
    Writer(uint32_t place, size_t receivers) : place_(place), next_(receivers, 0) {}

    Letter to(uint32_t receiver, uint32_t id, uint32_t hops)
    {
        return {place_, next_[receiver]++, id, hops};
    }

private:
    uint32_t place_;
    std::vector<uint32_t> next_;
};

class traffic : public AtEveryPlace {
protected:
    // Streams `letters` from this thread, by batches.
    static void stream(Rt& rt, const std::vector<Address>& actors, uint32_t letters, uint32_t hops,
                       uint32_t thread, Expected& expected)
    {
        Writer writer(most_peers + thread, actors.size());
        std::vector<Address> to;
        std::vector<Letter> batch;
        for (uint32_t i = 0; i < letters;) {
            to.clear();
            batch.clear();
            for (const uint32_t end = std::min(letters, i + 1000 + i % 777); i < end; ++i) {
                const auto receiver = static_cast<uint32_t>((i * 2654435761u >> 7) % actors.size());
                to.push_back(actors[receiver]);
                batch.push_back(writer.to(receiver, i, hops));
                expected.add(i, hops);
            }
            rt.send_many(to.data(), batch.data(), batch.size(), 30s);
        }
    }

    static void relay(const Options& o, uint32_t actor_count, uint32_t letters, uint32_t hops)
    {
        Rt rt(device(), o);
        const auto actors = meet(rt, actor_count);
        rt.drain(); // replies come a moment before they are counted
        const uint64_t before = rt.stats().handled;
        Expected expected;
        try {
            stream(rt, actors, letters, hops, 0, expected);
            rt.drain(30s);
        } catch (const Error& e) {
            FAIL() << e.what() << "; " << rt.stats().first_error;
        }
        EXPECT_EQ(rt.stats().handled - before, expected.received) << "drain returned too early";
        expect_accounts(rt, actors, expected);
    }
};
DENIZEN_AT_EVERY_PLACE(traffic);

TEST_P(traffic, letters_of_three_hops_are_accounted_for)
{
    relay(options(), most_peers, scaled(1'000'000), 3);
}

// Every message a worker takes from the host makes three between the workers: they must not be let
// in faster than they leave.
TEST_P(traffic, two_actors_that_forward_to_each_other)
{
    relay(options(), 2, scaled(1'000'000), 3);
}

TEST_P(traffic, the_smallest_rings)
{
    relay(small_rings(options()), most_peers, scaled(40'000), 3);
    relay(small_rings(options()), 2, scaled(40'000), 3);
    Options o = small_rings(options()); // wide in front, narrow behind
    o.outbox_slots += (o.workers != 0 ? o.workers : 512) * 64;
    o.host_ring_slots = 256;
    relay(o, 9, scaled(40'000), 7);
}

TEST_P(traffic, several_host_threads_send_and_ask)
{
    Options o = options();
    o.asks = 2; // the askers also wait for each other's cells
    Rt rt(device(), o);
    const auto actors = meet(rt, 24);
    std::atomic<bool> sending{true};
    std::atomic<uint32_t> bad{0};
    std::atomic<uint32_t> asked{0};
    std::vector<Expected> expected(3);
    std::vector<std::thread> senders;
    for (uint32_t t = 0; t < 3; ++t) {
        senders.emplace_back([&, t] {
            if (t == 0) { // one by one
                Writer writer(most_peers, actors.size());
                for (uint32_t i = 0; i < scaled(100'000); ++i) {
                    rt.send(actors[i % 24], writer.to(i % 24, i, 1), 30s);
                    expected[0].add(i, 1);
                }
            } else {
                stream(rt, actors, scaled(200'000), t, t, expected[t]);
            }
        });
    }
    std::vector<std::thread> askers;
    for (uint32_t t = 0; t < 3; ++t) {
        askers.emplace_back([&, t] {
            for (uint64_t i = 0; sending.load() || i < 10; ++i) { // ends with the senders
                const uint64_t number = t * 1'000'000'000 + i;
                bad +=
                    rt.ask<Probe>(actors[(i * 5 + t) % 24], Probe{number}, 30s).number != ~number;
                ++asked;
            }
        });
    }
    for (std::thread& t : senders) {
        t.join();
    }
    sending = false;
    for (std::thread& t : askers) {
        t.join();
    }
    rt.drain(30s);
    EXPECT_GE(asked.load(), 30u);
    EXPECT_EQ(bad.load(), 0u) << "answers to somebody else's question";
    Expected all;
    for (const Expected& e : expected) {
        all.ended += e.ended;
        all.received += e.received;
        all.ids += e.ids;
        all.squares += e.squares;
    }
    expect_accounts(rt, actors, all);
}

TEST_P(traffic, threads_that_spawn_while_others_send)
{
    Rt rt(device(), options());
    std::vector<std::thread> threads;
    std::mutex lock;
    std::vector<uint32_t> seen;
    std::atomic<uint32_t> bad{0};
    for (uint32_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            for (uint32_t i = 0; i < 40; ++i) {
                const auto some = rt.spawn<Relay>(1 + (i + t) % 5, 30s);
                for (const Address a : some) {
                    bad += rt.ask<Probe>(a, Probe{a.value}, 30s).number != ~uint64_t{a.value};
                }
                const std::lock_guard guard(lock);
                for (const Address a : some) {
                    seen.push_back(a.value);
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    EXPECT_EQ(bad.load(), 0u);
    EXPECT_EQ(seen.size(), 3u * 8 * 15);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end()) << "an address given twice";
}

// ---- one handler, many messages

TEST_P(traffic, one_handler_sends_more_than_all_rings_hold)
{
    for (const bool small : {false, true}) {
        Rt rt(device(), small ? small_rings(options()) : options());
        if (rt.description().workers == 1) {
            GTEST_SKIP() << "one worker: the next test";
        }
        const auto actors = meet(rt, 4); // neighbours live on different workers
        Expected expected;
        const uint32_t count = 5000;
        for (const auto& [from, to] : {std::pair{0u, 1u}, std::pair{1u, 2u}, std::pair{0u, 3u}}) {
            if (actors[from].worker() == actors[to].worker()) {
                continue;
            }
            rt.send(actors[from], Burst{to, count}, 30s);
            for (uint32_t i = 0; i < count; ++i) {
                expected.add(i, 0);
            }
            rt.drain(30s);
        }
        expect_accounts(rt, actors, expected);
    }
}

// Most of a full outbox waits for the host, which does not look before all of the letters have
// come: they go by what is left of it.
TEST_P(traffic, a_full_outbox_lets_pass_what_has_room)
{
    constexpr uint32_t count = 5000;
    constexpr uint32_t egress = 16;
    constexpr uint32_t stuck = 90;
    for (const uint32_t outbox : {96u, 128u, 300u}) {
        Options o = small_rings(options());
        o.egress_slots = egress;
        o.outbox_slots = outbox;
        Rt rt(device(), o);
        if (rt.description().workers == 1) {
            GTEST_SKIP() << "one worker: its letters would wait for itself";
        }
        const auto actors = meet(rt, 2);
        ASSERT_NE(actors[0].worker(), actors[1].worker());
        Expected expected;
        for (uint32_t i = 0; i < count; ++i) {
            expected.add(i, 0);
        }
        const auto handled = [&] { return rt.stats().handled_by_worker[actors[1].worker()]; };
        const uint64_t before = handled();
        rt.send(actors[0], Both{1, count, egress + stuck}, 30s);
        const auto end = std::chrono::steady_clock::now() + 20s;
        while (handled() - before < count && rt.stats().errors == 0) { // ends: by them, or `end`
            ASSERT_LT(std::chrono::steady_clock::now(), end) << handled() - before;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        for (uint32_t n = 0; n < egress + stuck; ++n) {
            const Message m = rt.receive(20s);
            ASSERT_EQ(m.header.type, Rt::id<Heard>());
            Heard heard;
            std::memcpy(&heard, m.payload.data(), sizeof heard);
            ASSERT_EQ(heard.number, n);
        }
        rt.drain(30s);
        expect_accounts(rt, actors, expected);
    }
}

TEST_P(traffic, a_handler_may_fill_its_own_workers_rings_to_the_brim)
{
    for (const auto& [local, outbox] :
         {std::pair{2u, 2u}, std::pair{64u, 16u}, std::pair{64u, 2048u}}) {
        Options o = options();
        o.workers = 1;
        o.local_slots = local;
        o.outbox_slots = outbox;
        Rt rt(device(), o);
        const auto actors = meet(rt, 2);
        Expected expected;
        for (uint32_t round = 0; round < 5; ++round) {
            for (const uint32_t to : {0u, 1u}) {
                rt.send(actors[0], Burst{to, local + outbox}, 10s);
                rt.drain(30s);
                for (uint32_t i = 0; i < local + outbox; ++i) {
                    expected.add(i, 0);
                }
            }
        }
        expect_accounts(rt, actors, expected);
    }
}

TEST_P(traffic, a_handler_that_floods_its_own_worker_stops_the_program_with_an_error)
{
    for (const bool after_a_dead_letter : {false, true}) {
        Options o = options();
        o.workers = 1;
        o.local_slots = 64;
        o.outbox_slots = 16;
        Rt rt(device(), o);
        const auto actors = meet(rt, 2);
        if (after_a_dead_letter) {
            rt.send(actors[1], Misdirect{actors[0].value});
            rt.drain(30s);
            EXPECT_EQ(rt.stats().errors, 1u);
        }
        rt.send(actors[0], Burst{1, 64 + 16 + 1});
        const std::string text = "the program has stopped: outbox of worker 0 \\(16 parked "
                                 "messages\\) is full and Letter from " +
                                 named("Relay", actors[0]) + " to " + named("Relay", actors[1]) +
                                 " found no room; .*";
        expect_error_like(Errc::exhausted, text, [&] { rt.drain(30s); });
        expect_error_like(Errc::exhausted, text, [&] { rt.ask<Probe>(actors[1], Probe{1}); });
        rt.close();
    }
}

// Around a circle every handler waits for a worker that is in a handler itself.
TEST_P(traffic, actors_that_flood_each_other_stop_with_an_error_or_need_larger_rings)
{
    const uint32_t count = 3000;
    for (const bool large : {false, true}) {
        Options o = options();
        o.inbox_slots = o.near_slots = large ? 4096 : 2;
        o.cluster = 1; // shared memory has no room for rings of that size
        o.outbox_slots = 16;
        Rt rt(device(), o);
        const uint32_t n = std::min(rt.description().workers, most_peers);
        if (n == 1) {
            GTEST_SKIP() << "one worker: there is no circle";
        }
        const auto actors = meet(rt, n);
        Expected expected;
        rt.send(actors[0], Start{count});
        for (uint32_t i = 0; i < n * count; ++i) {
            expected.add(i % count, 0);
        }
        if (large) {
            rt.drain(30s);
            expect_accounts(rt, actors, expected);
        } else {
            expect_error_like(
                Errc::exhausted,
                "the program has stopped: outbox of worker [0-9]+ \\(16 parked messages\\) "
                "is full and Letter from actor Relay #.* found no room; .*",
                [&] { rt.drain(30s); });
        }
    }
}

// ---- jams

// More messages go round for ever than the rings hold: some are always parked. The host is heard
// all the same, and nothing is lost.
TEST_P(traffic, a_program_that_jams_itself_hears_the_host)
{
    Options o = options();
    o.near_slots = o.local_slots = o.inbox_slots = 16;
    Rt rt(device(), o);
    const auto actors = meet(rt, most_peers);
    const uint32_t tokens = 128 * rt.description().workers + 100;
    for (uint32_t i = 0; i < tokens; ++i) {
        rt.send(actors[i % most_peers], Token{i}, 20s);
    }
    EXPECT_EQ(rt.ask<Probe>(actors[5], Probe{5}, 20s).number, ~uint64_t{5});
    rt.broadcast<Relay>(Halt{}, 20s);
    rt.drain(20s);
    uint32_t found = 0;
    for (const Halted& h : rt.ask_many<Halted>(actors, Halted{}, 20s)) {
        found += h.tokens;
    }
    EXPECT_EQ(found, tokens);
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
    rt.stop(actors[0], 20s);
}

// A host that does not receive is let in no further: what it has sent waits in its rings, and not
// as answers in the outboxes.
TEST_P(traffic, a_jam_of_messages_to_the_host_keeps_the_host_out)
{
    Options o = options();
    o.egress_slots = 16;
    Rt rt(device(), o);
    const auto actors = meet(rt, 8);
    const uint32_t workers = rt.description().workers;
    const uint32_t rounds = 200;
    for (uint32_t i = 0; i < rounds; ++i) {
        rt.send(actors[i % 8], Shout{1}, 20s);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300)); // in which it could get worse
    uint32_t parked = 0;
    for (const WorkerTelemetry& w : rt.telemetry().workers) {
        parked += w.outbox;
    }
    EXPECT_LE(parked, 64 * workers); // what each of them had taken before it saw the jam
    for (uint32_t i = 0; i < rounds; ++i) {
        EXPECT_TRUE(rt.receive(20s).is<Heard>());
    }
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

// ---- to the host

TEST_P(traffic, the_host_does_not_read_and_nothing_is_lost)
{
    for (const uint32_t slots : {16u, 16384u}) {
        Options o = options();
        o.egress_slots = slots;
        Rt rt(device(), o);
        const auto actors = meet(rt, 8);
        const uint32_t rounds = scaled(4000) / 8;
        for (uint32_t r = 0; r < rounds; ++r) {
            for (const Address a : actors) {
                rt.send(a, Shout{10}, 30s);
            }
        }
        rt.send(actors[3], Shout{5000}, 30s); // and one handler, more than ring and outbox hold
        EXPECT_EQ(rt.ask<Probe>(actors[3], Probe{7}, 30s).number, ~uint64_t{7})
            << "an ask gets through beside it";
        rt.drain(30s);
        std::vector<uint32_t> next(8, 0);
        const uint32_t total = rounds * 8 * 10 + 5000;
        std::vector<Heard> some(100);
        std::vector<Address> senders(100);
        for (uint32_t n = 0; n < total;) {
            if (n % 3 == 0) {
                const Message m = rt.receive(20s);
                ASSERT_EQ(m.header.type, Rt::id<Heard>());
                std::memcpy(some.data(), m.payload.data(), sizeof(Heard));
                senders[0].value = m.header.sender;
                ASSERT_EQ(some[0].number, next[some[0].place]++);
                ASSERT_EQ(senders[0], actors[some[0].place]);
                ++n;
            }
            const size_t got = rt.receive_many(some.data(), 100, senders.data());
            for (size_t i = 0; i < got; ++i, ++n) {
                ASSERT_EQ(some[i].number, next[some[i].place]++) << "order of one sender";
                ASSERT_EQ(senders[i], actors[some[i].place]);
            }
        }
        EXPECT_EQ(next[3], rounds * 10 + 5000);
        EXPECT_EQ(next[0], rounds * 10);
        EXPECT_EQ(rt.receive_many(some.data(), 100), 0u);
        EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
    }
}

// After drain() the messages to the host can be taken without waiting, also those that had no room.
TEST_P(traffic, what_was_sent_to_the_host_is_there_after_drain)
{
    for (const uint32_t slots : {2u, 64u, 16384u}) {
        Options o = options();
        o.egress_slots = slots;
        Rt rt(device(), o);
        const auto actors = meet(rt, 5);
        for (uint32_t round = 0; round < scaled(100); ++round) {
            for (uint32_t a = 0; a < 5; ++a) {
                rt.send(actors[a], Shout{a * 7}, 30s);
            }
            rt.drain(30s);
            std::vector<Heard> heard(100);
            size_t n = 0;
            for (size_t got = 1; got != 0; n += got) {
                got = rt.receive_many(heard.data(), heard.size());
            }
            ASSERT_EQ(n, 70u) << "round " << round << ", " << slots << " slots";
        }
    }
}

TEST_P(traffic, several_host_threads_receive_each_message_once)
{
    Options o = options();
    o.egress_slots = 64;
    Rt rt(device(), o);
    const auto actors = meet(rt, 8);
    const uint32_t shouts = scaled(10'000) / 8;
    const uint32_t total = shouts * 8 * 4;
    std::vector<std::vector<uint8_t>> times(8, std::vector<uint8_t>(shouts * 4, 0));
    std::mutex lock;
    std::atomic<uint32_t> received{0};
    std::atomic<uint32_t> disordered{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
        readers.emplace_back([&] {
            std::vector<int64_t> last(8, -1);
            while (received.load() <
                   total) { // ends: the others count too, and receive() has a deadline
                Message m;
                try {
                    m = rt.receive(50ms);
                } catch (const Error& e) {
                    EXPECT_EQ(e.code(), Errc::timeout);
                    continue;
                }
                Heard h;
                std::memcpy(&h, m.payload.data(), sizeof h);
                disordered += h.number <= last[h.place]; // seen by one reader
                last[h.place] = h.number;
                const std::lock_guard guard(lock);
                ++times[h.place][h.number];
                ++received;
            }
        });
    }
    for (uint32_t i = 0; i < shouts; ++i) {
        for (const Address a : actors) {
            rt.send(a, Shout{4}, 30s);
        }
    }
    for (std::thread& t : readers) {
        t.join();
    }
    EXPECT_EQ(disordered.load(), 0u);
    for (const auto& of_actor : times) {
        EXPECT_EQ(std::count(of_actor.begin(), of_actor.end(), 1), shouts * 4);
    }
}

// ---- long chains, and an end in the middle

TEST_P(traffic, a_ball_is_thrown_to_and_fro)
{
    Rt rt(device(), small_rings(options()));
    const auto actors = meet(rt, 2);
    const uint32_t throws = scaled(on_gpu() ? 20'000 : 40'000);
    rt.send(actors[0], Ball{actors[1].value, throws});
    rt.drain(30s);
    const Message m = rt.receive(20s);
    ASSERT_EQ(m.header.type, Rt::id<Landed>());
    uint32_t caught = 0;
    std::memcpy(&caught, m.payload.data(), sizeof caught);
    EXPECT_EQ(m.header.sender, actors[throws % 2].value);
    EXPECT_EQ(caught, throws / 2 + (throws % 2 == 0 ? 1 : 1));
}

TEST_P(traffic, stopping_an_actor_in_the_middle_of_its_mail)
{
    Rt rt(device(), options());
    const auto actors = meet(rt, 4);
    const uint32_t bursts = scaled(400);
    for (uint32_t i = 0; i < bursts; ++i) {
        for (const uint32_t from : {0u, 1u, 3u}) {
            rt.send(actors[from], Burst{2, 50}, 30s);
        }
        if (i == bursts / 2) {
            rt.stop(actors[2], 30s);
        }
    }
    rt.drain(30s);
    const Stats s = rt.stats();
    // Handled so far: the introductions, the stop, the bursts, and their letters, alive or dead.
    EXPECT_EQ(s.handled_by_worker.size(), rt.description().workers);
    EXPECT_GE(s.dead_letters, uint64_t{bursts} / 2 * 150 - 150);
    EXPECT_LE(s.dead_letters, uint64_t{bursts} * 150);
    EXPECT_EQ(s.errors, s.dead_letters);
    EXPECT_EQ(s.first_error.find("Letter to actor #"), 0u) << s.first_error;
    uint64_t spawns = std::min<uint64_t>(4, rt.description().workers);
    EXPECT_EQ(s.handled, spawns + 16 + 1 + bursts * 3ull * 51);
}

} // namespace
