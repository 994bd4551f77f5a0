// SPDX-License-Identifier: Apache-2.0
// Urgent messages between nodes: they overtake what the same actor has sent before, keep their own
// order, and are neither lost nor doubled where rings are full, actors move and snapshots are
// taken.
#include <actor/places.hpp>

#include <filesystem>

using namespace denizen;
using namespace denizen::test;

constexpr uint32_t max_rushers = 8;

struct Slow {
    uint32_t from;
    uint32_t number;
};
struct Fast {
    static constexpr auto priority = Priority::urgent;
    uint32_t from;
    uint32_t number;
};
struct FastLong { // of several slots
    static constexpr auto priority = Priority::urgent;
    uint32_t from;
    uint32_t number;
    uint32_t body[20];
};
struct Rush { // `count` of each to one actor, data first, in one handler
    uint32_t to;
    uint32_t place; // the receiver's and the sender's number
    uint32_t from;
    uint32_t count;
};
struct Held { // until the word is not 0
    uint64_t word;
};
struct Count {};
struct Counted {
    uint32_t slow;
    uint32_t fast;
    uint32_t before; // data handled before the first urgent one
    uint32_t disorder;
};

struct Rusher {
    Counted counted = {};
    uint32_t sent[2][max_rushers] = {};
    uint32_t next[2][max_rushers] = {};

    DENIZEN_HD void take(uint32_t kind, uint32_t from, uint32_t number)
    {
        counted.disorder += number != next[kind][from] ? 1 : 0;
        next[kind][from] = number + 1;
    }
    DENIZEN_HD void on(const Slow& m, auto&)
    {
        take(0, m.from, m.number);
        ++counted.slow;
        counted.before += counted.fast == 0 ? 1 : 0;
    }
    DENIZEN_HD void on(const Fast& m, auto&)
    {
        take(1, m.from, m.number);
        ++counted.fast;
    }
    DENIZEN_HD void on(const FastLong& m, auto&)
    {
        bool whole = true;
        for (uint32_t i = 0; i < 20; ++i) {
            whole &= m.body[i] == m.number + i;
        }
        counted.disorder += whole ? 0 : 1;
        take(1, m.from, m.number);
        ++counted.fast;
    }
    DENIZEN_HD void on(const Rush& m, auto& ctx)
    {
        const Address to{m.to};
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(to, Slow{m.from, sent[0][m.place]++});
        }
        for (uint32_t i = 0; i < m.count; ++i) {
            const uint32_t number = sent[1][m.place]++;
            if (number % 3 != 0) {
                ctx.send(to, Fast{m.from, number});
                continue;
            }
            FastLong large{m.from, number, {}};
            for (uint32_t k = 0; k < 20; ++k) {
                large.body[k] = number + k;
            }
            ctx.send(to, large);
        }
    }
    DENIZEN_HD void on(const Held& m, auto&)
    {
        const auto* word = reinterpret_cast<const uint32_t*>(m.word);
        while (load<Scope::system>(word) == 0) { // ends by the test
        }
    }
    DENIZEN_HD void on(const Count&, auto& ctx) { ctx.reply(counted); }
};

using Race = Program<Actors<Rusher>, Messages<Slow, Fast, FastLong, Rush, Held, Count, Counted>>;

namespace {

class urgent_nodes : public AtEveryPlace {};

std::vector<Place> places_of_urgent_nodes()
{
    return {
        {"cpu2x1", Device::cpu(), 1, false, 2},
        {"cpu2x2", Device::cpu(), 2, false, 2},
        {"cpu3x1", Device::cpu(), 1, false, 3},
#if defined(__CUDACC__)
        {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

DENIZEN_AT_PLACES(urgent_nodes, places_of_urgent_nodes());

TEST_P(urgent_nodes, they_overtake_data_of_their_sender)
{
    SharedWord go(on_gpu());
    Runtime<Race> rt(device(), options());
    const Address from = rt.spawn<Rusher>(1, on_node(0))[0];
    const auto there = rt.spawn<Rusher>(3, on_node(1));
    // A GPU's first stores to another one take longer, and what has not come overtakes nothing.
    rt.send(from, Rush{there[0].value, 0, 0, 5});
    rt.drain();
    const Address to = there[2];
    rt.send(to, Held{go.address()});
    EXPECT_TRUE(eventually([&] { return !rt.stuck(1ms).empty(); }));
    rt.send(from, Rush{to.value, 1, 0, 5});
    EXPECT_EQ(rt.ask<Counted>(from, Count{}).slow, 0u); // it has sent
    go.set(1);
    rt.drain();
    const auto counted = rt.ask<Counted>(to, Count{});
    EXPECT_EQ(counted.slow, 5u);
    EXPECT_EQ(counted.fast, 5u);
    EXPECT_EQ(counted.before, 0u);
    EXPECT_EQ(counted.disorder, 0u);
}

// Every actor to every one.
struct Crowd {
    std::vector<Address> all;
    uint32_t rounds = 0;

    void gather(Runtime<Race>& rt, uint32_t nodes)
    {
        for (uint32_t i = 0; i < 2 * nodes; ++i) {
            all.push_back(rt.spawn<Rusher>(1, on_node(i % nodes))[0]);
        }
    }
    void rush(Runtime<Race>& rt)
    {
        for (uint32_t i = 0; i < all.size(); ++i) {
            for (uint32_t k = 0; k < all.size(); ++k) {
                rt.send(all[i], Rush{all[k].value, k, i, 3}, 20s);
            }
        }
        ++rounds;
    }
    void check(Runtime<Race>& rt) const
    {
        rt.drain(60s);
        const uint32_t expected = 3 * rounds * static_cast<uint32_t>(all.size());
        for (const Address a : all) {
            const auto counted = rt.ask<Counted>(a, Count{});
            EXPECT_EQ(counted.slow, expected);
            EXPECT_EQ(counted.fast, expected);
            EXPECT_EQ(counted.disorder, 0u);
        }
        EXPECT_EQ(rt.stats().errors, 0u);
        EXPECT_EQ(rt.stats().dead_letters, 0u);
    }
};

TEST_P(urgent_nodes, each_pair_has_its_order_through_rings_of_the_least_size)
{
    Options o = options();
    o.urgent_slots = o.inbox_slots = 2; // as many as the longest message needs twice
    Runtime<Race> rt(device(), o);
    Crowd crowd;
    crowd.gather(rt, GetParam().nodes);
    for (uint32_t i = 0; i < scaled(40) + 5; ++i) {
        crowd.rush(rt);
    }
    crowd.check(rt);
}

TEST_P(urgent_nodes, none_is_lost_or_doubled_by_snapshots)
{
    const std::string path = testing::TempDir() + "denizen_urgent_" + GetParam().name + ".dzs";
    Options o = options();
    o.urgent_slots = o.inbox_slots = 2;
    Crowd crowd;
    for (uint32_t turn = 0; turn < 4; ++turn) {
        Options each = o;
        if (turn != 0) {
            each.restore = path;
        }
        Runtime<Race> rt(device(), each);
        if (turn == 0) {
            crowd.gather(rt, GetParam().nodes);
        }
        for (uint32_t i = 0; i < scaled(10) + 3; ++i) {
            crowd.rush(rt);
        }
        rt.save(path); // in the middle of it
        if (turn == 3) {
            crowd.check(rt);
        }
    }
    std::filesystem::remove(path);
}

TEST_P(urgent_nodes, an_actor_that_moves_keeps_their_order)
{
    Runtime<Race> rt(device(), options());
    Crowd crowd;
    const uint32_t nodes = GetParam().nodes;
    crowd.gather(rt, nodes);
    for (uint32_t i = 0; i < scaled(20) + 6; ++i) {
        crowd.rush(rt);
        rt.migrate(crowd.all[i % 2], i % GetParam().workers, (i / 2 + 1) % nodes, 30s);
        crowd.rush(rt);
    }
    crowd.check(rt);
}

} // namespace
