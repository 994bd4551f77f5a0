// SPDX-License-Identifier: Apache-2.0
// Handlers that allocate: lists that grow in an actor's state, blocks that go from actor to actor,
// an arena that is full, each lane of a warp with a block of its own, and one arena for each node.
#include <actor/places.hpp>

#include <vector>

namespace {

struct Push {
    uint32_t value;
};
struct Read {};
struct Clear {};
struct Sum {
    uint64_t sum;
    uint32_t links;
    uint32_t refused; // that found no room
};
struct Block { // of `words` words, the first of which is the number of stations behind it
    uint32_t* words;
    uint32_t stations;
};
struct Begin { // pass a block on to `next`, and that to its next, `stations` times
    uint32_t stations;
};
struct Next {
    uint32_t address;
};
struct Fill { // one block of so many bytes for each lane
    uint32_t bytes;
};

struct Link {
    Link* next;
    uint32_t value;
};

// A list in the arena.
struct List {
    static constexpr bool allocates = true;
    Link* first = nullptr;
    uint32_t refused = 0;

    DENIZEN_HD void on(const Push& m, auto& ctx)
    {
        auto* link = static_cast<Link*>(ctx.arena().allocate(sizeof(Link)));
        if (link == nullptr) {
            ++refused;
            return;
        }
        *link = {first, m.value};
        first = link;
    }
    DENIZEN_HD void on(const Read&, auto& ctx)
    {
        Sum s{0, 0, refused};
        for (const Link* l = first; l != nullptr; l = l->next) {
            s.sum += l->value;
            ++s.links;
        }
        ctx.reply(s);
    }
    DENIZEN_HD void on(const Clear&, auto& ctx)
    {
        while (first != nullptr) {
            Link* const link = first;
            first = link->next;
            ctx.arena().deallocate(link);
        }
        refused = 0;
    }
};

// Checks and rewrites the block that it gets, and passes it on.
struct Station {
    static constexpr bool allocates = true;
    static constexpr uint32_t words = 24;
    uint32_t next = 0;
    uint32_t waiting = 0;
    uint32_t wrong = 0;

    DENIZEN_HD void on(const Next& m, auto&) { next = m.address; }
    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        auto* block = static_cast<uint32_t*>(ctx.arena().allocate(4 * words));
        if (block != nullptr) {
            pass(block, m.stations, ctx);
        }
    }
    DENIZEN_HD void on(const Block& m, auto& ctx)
    {
        ctx.fence();
        for (uint32_t i = 0; i < words; ++i) {
            wrong += m.words[i] != m.stations + i ? 1 : 0;
        }
        if (m.stations == 0) {
            ctx.arena().deallocate(m.words);
        } else {
            pass(m.words, m.stations - 1, ctx);
        }
    }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{wrong, 0, 0}); }

private:
    DENIZEN_HD void pass(uint32_t* block, uint32_t stations, auto& ctx)
    {
        for (uint32_t i = 0; i < words; ++i) {
            block[i] = stations + i;
        }
        ctx.fence();
        ctx.send(denizen::Address{next}, Block{block, stations});
    }
};

// A warp's handler: every lane allocates and fills its own.
struct Wide {
    static constexpr auto grain = denizen::Grain::warp;
    static constexpr bool allocates = true;
    uint32_t* block[32] = {};
    uint32_t size = 0;

    DENIZEN_HD void on(const Fill& m, auto& ctx)
    {
        auto* p = static_cast<uint32_t*>(ctx.arena().allocate(m.bytes));
        block[ctx.lane()] = p;
        for (uint32_t i = 0; p != nullptr && i < m.bytes / 4; ++i) {
            p[i] = ctx.lane() << 16 | i;
        }
        if (ctx.lane() == 0) {
            size = m.bytes;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Read&, auto& ctx)
    {
        Sum s{};
        for (uint32_t lane = 0; ctx.lane() == 0 && lane < ctx.lanes(); ++lane) {
            s.links += block[lane] != nullptr ? 1 : 0;
            for (uint32_t i = 0; block[lane] != nullptr && i < size / 4; ++i) {
                s.sum += block[lane][i] == (lane << 16 | i) ? 1 : 0;
            }
        }
        ctx.reply(s); // lane 0's
    }
    DENIZEN_HD void on(const Clear&, auto& ctx)
    {
        ctx.arena().deallocate(block[ctx.lane()]);
        block[ctx.lane()] = nullptr;
    }
};

using Allocating =
    denizen::Program<denizen::Actors<List, Station, Wide>,
                     denizen::Messages<Push, Read, Clear, Sum, Block, Begin, Next, Fill>>;

struct Idle {
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{}); }
};
using Plain = denizen::Program<denizen::Actors<Idle>, denizen::Messages<Read, Sum>>;

} // namespace

namespace denizen::test {
namespace {

class ArenaOfActors : public AtEveryPlace {};

TEST_P(ArenaOfActors, a_list_grows_in_an_actors_state)
{
    const uint32_t links = scaled(2000);
    Runtime<Allocating> rt(device(), options());
    const auto lists = rt.spawn<List>(8);
    for (uint32_t turn = 0; turn < 2; ++turn) { // the second with what the first has given back
        std::vector<Push> pushes;
        for (uint32_t i = 0; i < links; ++i) {
            pushes.push_back({i + turn});
        }
        for (const Address list : lists) {
            rt.send_many(list, pushes.data(), links);
        }
        for (const Address list : lists) {
            const Sum s = rt.ask<Sum>(list, Read{});
            EXPECT_EQ(s.links, links);
            EXPECT_EQ(s.refused, 0u);
            EXPECT_EQ(s.sum, uint64_t{links} * (links - 1) / 2 + uint64_t{turn} * links);
        }
        EXPECT_EQ(rt.arena().stats().live_blocks, uint64_t{links} * lists.size());
        for (const Address list : lists) {
            rt.send(list, Clear{});
        }
        rt.drain();
        EXPECT_EQ(rt.arena().stats().live_blocks, 0u);
    }
    EXPECT_EQ(rt.arena().stats().refused, 0u);
}

TEST_P(ArenaOfActors, a_block_goes_from_actor_to_actor)
{
    Runtime<Allocating> rt(device(), options());
    const auto all = rt.spawn<Station>(12);
    for (size_t i = 0; i < all.size(); ++i) {
        rt.send(all[i], Next{all[(i + 5) % all.size()].value});
    }
    rt.drain();
    constexpr uint32_t blocks = 4;
    for (const Address a : all) {
        for (uint32_t i = 0; i < blocks; ++i) {
            rt.send(a, Begin{scaled(500)});
        }
    }
    rt.drain();
    for (const Address a : all) {
        EXPECT_EQ(rt.ask<Sum>(a, Read{}).sum, 0u) << "words that were not as they had been written";
    }
    const ArenaStats stats = rt.arena().stats();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.failed + stats.refused, 0u);
}

TEST_P(ArenaOfActors, a_full_arena_is_null_and_has_room_again)
{
    constexpr uint32_t links = 32'800; // of 16 bytes
    Options o = options();
    o.arena_bytes = 512 << 10; // 32,768 of them
    Runtime<Allocating> rt(device(), o);
    const Address list = rt.spawn<List>();
    const std::vector<Push> pushes(links, Push{1});
    rt.send_many(list, pushes.data(), links);
    Sum s = rt.ask<Sum>(list, Read{}, 30s);
    EXPECT_EQ(s.links + s.refused, links);
    EXPECT_LE(s.links, 32'768u);
    EXPECT_GE(s.links, 30'000u);
    EXPECT_GE(s.refused, 32u);
    EXPECT_EQ(s.sum, s.links);
    EXPECT_EQ(rt.arena().stats().failed, s.refused);
    rt.send(list, Clear{});
    rt.send(list, Push{3});
    s = rt.ask<Sum>(list, Read{}, 30s);
    EXPECT_EQ(s.sum, 3u);
    EXPECT_EQ(s.refused, 0u);
}

TEST_P(ArenaOfActors, each_lane_has_a_block_of_its_own)
{
    Runtime<Allocating> rt(device(), options());
    const auto all = rt.spawn<Wide>(6);
    const uint32_t lanes = on_gpu() ? 32 : 1;
    for (const uint32_t bytes : {16u, 100u, 4096u, 40'000u}) {
        for (const Address a : all) {
            rt.send(a, Fill{bytes});
        }
        for (const Address a : all) {
            const Sum s = rt.ask<Sum>(a, Read{});
            EXPECT_EQ(s.links, lanes) << bytes;
            EXPECT_EQ(s.sum, uint64_t{lanes} * (bytes / 4)) << bytes;
            rt.send(a, Clear{});
        }
        rt.drain();
        EXPECT_EQ(rt.arena().stats().live_blocks, 0u) << bytes;
    }
}

TEST_P(ArenaOfActors, what_is_in_it_outlasts_leaving_the_gpu)
{
    Runtime<Allocating> rt(device(), options());
    const Address list = rt.spawn<List>();
    rt.send(list, Push{5});
    rt.drain();
    rt.park();
    rt.send(list, Push{6});
    const Sum s = rt.ask<Sum>(list, Read{});
    EXPECT_EQ(s.sum, 11u);
    EXPECT_EQ(s.links, 2u);
}

TEST_P(ArenaOfActors, a_program_that_does_not_allocate_has_none)
{
    Runtime<Plain> rt(device(), options());
    expect_error(Errc::bad_argument,
                 "no actor of the program allocates, so it has no arena: one whose handlers call "
                 "ctx.arena() declares `static constexpr bool allocates = true`",
                 [&] { rt.arena(); });
}

DENIZEN_AT_EVERY_PLACE(ArenaOfActors);

TEST(ArenaOfNodes, each_has_its_own)
{
    Options o;
    o.nodes = 2;
    o.workers = 2;
    Runtime<Allocating> rt(Device::cpu(), o);
    const Address here = rt.spawn<List>(1, on_node(0))[0];
    const Address there = rt.spawn<List>(1, on_node(1))[0];
    rt.send(here, Push{1});
    for (uint32_t i = 0; i < 3; ++i) {
        rt.send(there, Push{2});
    }
    rt.drain();
    EXPECT_EQ(rt.arena(0).stats().live_blocks, 1u);
    EXPECT_EQ(rt.arena(1).stats().live_blocks, 3u);
    expect_error(Errc::bad_argument, "there is no node 2; the program has 2", [&] { rt.arena(2); });
}

TEST(ArenaOfNodes, too_small_a_one_is_an_error)
{
    Options o;
    o.arena_bytes = 1000;
    EXPECT_EQ(error_of([&] { Runtime<Allocating> rt(Device::cpu(), o); }).code(),
              Errc::bad_argument);
}

} // namespace
} // namespace denizen::test
