// SPDX-License-Identifier: Apache-2.0
// Urgent messages between two hosts: they overtake what is held up on its way, keep their own
// order, and are neither lost nor doubled where all is full, a stream breaks or snapshots are
// taken.
#include "two_hosts.hpp"

#include <filesystem>
#include <random>

namespace {

using namespace two_hosts;

constexpr uint32_t words = 200;

struct Slow { // of many slots
    uint32_t from;
    uint32_t number;
    uint32_t body[words];
};
struct Fast {
    static constexpr auto priority = Priority::urgent;
    uint32_t from;
    uint32_t number;
};
struct FastLong {
    static constexpr auto priority = Priority::urgent;
    uint32_t from;
    uint32_t number;
    uint32_t body[words];
};
struct Rush { // `count` of each to one actor, data first
    uint32_t to;
    uint32_t from;
    uint32_t count;
};
struct Stand { // until the word is not 0
    uint64_t word;
};
struct Count {};
struct Counted {
    uint32_t slow;
    uint32_t fast;
    uint32_t before; // data handled before the last urgent one
    uint32_t wrong;
};

struct Rusher {
    Counted counted = {};
    uint32_t sent[2] = {};
    uint32_t next[2][4] = {};

    template <class M>
    void take(uint32_t kind, const M& m)
    {
        counted.wrong += m.number != next[kind][m.from] ? 1 : 0;
        next[kind][m.from] = m.number + 1;
        (kind == 0 ? counted.slow : counted.fast) += 1;
        counted.before = kind == 1 ? counted.slow : counted.before;
    }
    template <class M>
    void take_long(uint32_t kind, const M& m)
    {
        for (uint32_t i = 0; i < words; ++i) {
            counted.wrong += m.body[i] != m.number + i ? 1 : 0;
        }
        take(kind, m);
    }
    void on(const Slow& m, auto&) { take_long(0, m); }
    void on(const Fast& m, auto&) { take(1, m); }
    void on(const FastLong& m, auto&) { take_long(1, m); }
    void on(const Rush& m, auto& ctx)
    {
        const Address to{m.to};
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(to, long_one<Slow>(m.from, sent[0]++));
        }
        for (uint32_t i = 0; i < m.count; ++i) {
            const uint32_t number = sent[1]++;
            if (number % 3 == 0) {
                ctx.send(to, long_one<FastLong>(m.from, number));
            } else {
                ctx.send(to, Fast{m.from, number});
            }
        }
    }
    void on(const Stand& m, auto&)
    {
        const auto* word = reinterpret_cast<const uint32_t*>(m.word);
        while (load<Scope::system>(word) == 0) { // ends by the test
            sched_yield();
        }
    }
    void on(const Count&, auto& ctx) { ctx.reply(counted); }

    template <class M>
    static M long_one(uint32_t from, uint32_t number)
    {
        M m{from, number, {}};
        for (uint32_t i = 0; i < words; ++i) {
            m.body[i] = number + i;
        }
        return m;
    }
};

using Race = Program<Actors<Rusher>, Messages<Slow, Fast, FastLong, Rush, Stand, Count, Counted>>;
using Hosts = Two<Race>;

template <class M>
void send(AnyRuntime& rt, Address to, const M& m, std::chrono::nanoseconds most = 60s)
{
    rt.send(to, Race::message_id<M>, &m, sizeof m, most);
}

Counted counted(AnyRuntime& from, Address actor)
{
    Counted c{};
    const Count question;
    from.ask(actor, Race::message_id<Count>, &question, sizeof question, &c, sizeof c, 60s);
    return c;
}

class far_urgent : public testing::TestWithParam<Over> {};

TEST_P(far_urgent, they_overtake_when_all_on_the_way_is_full_of_data)
{
    uint32_t go = 0;
    Hosts t(GetParam(), [](Options&) {});
    const Address to = Hosts::spawn<Rusher>(t.b);
    const Address from = Hosts::spawn<Rusher>(t.a);
    send(t.b, to, Stand{reinterpret_cast<uint64_t>(&go)});
    EXPECT_TRUE(Hosts::wait([&] { return !t.b.stuck(1ms).empty(); }));
    uint32_t slow = 0;
    try { // until the lane, the link and the worker's ring have no room
        for (;; ++slow) {
            send(t.a, to, Rusher::long_one<Slow>(0, slow), 300ms);
        }
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::full);
    }
    EXPECT_GT(slow, 100u);
    const uint64_t before = t.ba->counts().delivered;
    send(t.a, to, Fast{0, 0});
    send(t.a, to, Rusher::long_one<FastLong>(0, 1));
    send(t.a, from, Rush{to.value, 1, 2}); // by an actor
    EXPECT_TRUE(Hosts::wait([&] { return t.ba->counts().delivered >= before + 4; }));
    store<Scope::system>(&go, 1u);
    EXPECT_TRUE(Hosts::wait([&] { return t.still() && counted(t.a, to).slow == slow + 2; }));
    const Counted c = counted(t.a, to);
    EXPECT_EQ(c.fast, 4u);
    EXPECT_EQ(c.before, 0u);
    EXPECT_EQ(c.wrong, 0u);
    EXPECT_EQ(t.ab->counts().refused + t.ba->counts().refused, 0u);
}

// Each of two actors of either host to those of the other.
struct Crowd {
    std::vector<Address> all;
    uint32_t rounds = 0;

    void gather(Hosts& t)
    {
        for (AnyRuntime* rt : {&t.a, &t.b, &t.a, &t.b}) {
            all.push_back(Hosts::spawn<Rusher>(*rt));
        }
    }
    void rush(Hosts& t)
    {
        for (uint32_t i = 0; i < 4; ++i) {
            send(i % 2 == 0 ? t.a : t.b, all[i], Rush{all[(i + 1) % 4].value, i, 4});
        }
        ++rounds;
    }
    void check(Hosts& t) const
    {
        for (const Address a : all) {
            EXPECT_TRUE(Hosts::wait([&] { return counted(t.a, a).slow == 4 * rounds; }));
            EXPECT_TRUE(Hosts::wait([&] { return counted(t.a, a).fast == 4 * rounds; }));
            EXPECT_EQ(counted(t.a, a).wrong, 0u);
        }
        EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
        EXPECT_EQ(t.ab->counts().refused + t.ba->counts().refused, 0u);
        EXPECT_EQ(t.a.stats().errors + t.b.stats().errors, 0u);
    }
};

void small(Options& o)
{
    o.urgent_slots = o.inbox_slots = o.host_ring_slots = 2; // as many as the longest needs twice
    o.outbox_slots = 1 << 16;
}

TEST_P(far_urgent, each_pair_has_its_order_through_rings_of_the_least_size)
{
    Hosts t(GetParam(), small);
    Crowd crowd;
    crowd.gather(t);
    for (uint32_t i = 0; i < 24; ++i) {
        crowd.rush(t);
        if (is_stream(GetParam()) && i % 8 == 5) {
            const uint64_t at_a = t.ab->halt();
            const uint64_t at_b = t.ba->halt();
            int sockets[2];
            ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
            t.ab->resume(sockets[0], 100 + i, at_b);
            t.ba->resume(sockets[1], 100 + i, at_a);
        }
    }
    crowd.check(t);
}

TEST_P(far_urgent, none_is_lost_or_doubled_by_snapshots)
{
    const auto folder = std::filesystem::temp_directory_path() /
                        ("denizen-urgent-" + std::to_string(std::random_device{}()));
    std::filesystem::create_directory(folder);
    Crowd crowd;
    for (uint32_t turn = 0; turn < 3; ++turn) {
        Hosts t(GetParam(), [&](Options& o) {
            small(o);
            o.restore = turn == 0 ? "" : (folder / std::to_string(o.host)).string();
        });
        if (turn == 0) {
            crowd.gather(t);
        }
        for (uint32_t i = 0; i < 6; ++i) {
            crowd.rush(t);
        }
        if (turn == 2) {
            crowd.check(t);
            break;
        }
        bool still = false;
        while (!still) { // ends: what is between the hosts arrives
            t.a.hold(60s);
            t.b.hold(60s);
            still = Hosts::wait([&] { return t.still() && t.still(); }, 500ms);
            if (still) {
                t.a.save((folder / "0").string(), 60s);
                t.b.save((folder / "1").string(), 60s);
            }
            t.a.let_go();
            t.b.let_go();
        }
    }
    std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(over, far_urgent, all_ways,
                         [](const auto& of) { return std::string(name_of(of.param)); });

} // namespace
