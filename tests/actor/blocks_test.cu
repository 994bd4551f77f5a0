// SPDX-License-Identifier: Apache-2.0
// Actors of a block, of a warp and of a thread in one program pass letters on to each other, short
// ones and ones of many slots. Every letter is accounted for, and each thread of a team sees what
// the others wrote: on one worker and on many, through rings of two slots, and while the kernel is
// exchanged every few microseconds.
#include <actor/places.hpp>

#include <denizen/base/team.hpp>

namespace blocks {

using denizen::Grain;

struct Meet {
    uint32_t next;
};
struct Hop {
    uint32_t id;
    uint32_t left;
};
constexpr uint32_t words = 301;
struct Long { // word i is id + left + i
    uint32_t id;
    uint32_t left;
    uint32_t word[words];
};
struct Ask {};
struct Got {
    uint64_t received;
    uint64_t ended;
    uint64_t ids;     // of those that ended here
    uint32_t wrong;   // words, and sums of the team
    uint32_t lanes;   //
    uint32_t refused; // sends
};

// A letter goes on as a long one if what is left is even.
template <Grain G>
struct Postman {
    static constexpr auto grain = G;

    Got got = {};
    uint32_t next = 0;
    uint32_t seen[512] = {}; // a word of each thread
    Long draft = {};

    DENIZEN_HD void on(const Meet& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            next = m.next;
            got.lanes = ctx.lanes();
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Hop& m, auto& ctx) { handle(m.id, m.left, 0, ctx); }
    DENIZEN_HD void on(const Long& m, auto& ctx)
    {
        uint32_t wrong = 0;
        for (uint32_t i = ctx.lane(); i < words; i += ctx.lanes()) {
            wrong += m.word[i] == m.id + m.left + i ? 0 : 1;
        }
        handle(m.id, m.left, wrong, ctx);
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(got); }

private:
    DENIZEN_HD void handle(uint32_t id, uint32_t left, uint32_t wrong, auto& ctx)
    {
        const denizen::Team team(ctx);
        const uint32_t r = team.rank();
        const uint32_t n = team.size();
        seen[r] = id + r;
        team.sync();
        wrong += seen[(r + 1) % n] == id + (r + 1) % n ? 0 : 1;
        team.sync();
        wrong += team.scan(r + 1, denizen::Add{}) == (r + 1) * (r + 2) / 2 ? 0 : 1;
        wrong = team.reduce(wrong, denizen::Add{});
        bool sent = true;
        if (left != 0) {
            if (left % 2 == 0) {
                sent = ctx.send(denizen::Address{next}, Hop{id, left - 1});
            } else {
                for (uint32_t i = r; i < words; i += n) {
                    draft.word[i] = id + left - 1 + i;
                }
                if (r == n - 1) {
                    draft.id = id;
                    draft.left = left - 1;
                }
                team.sync();
                sent = ctx.send(denizen::Address{next}, draft);
            }
        }
        const uint32_t refused = team.reduce(sent ? 0u : 1u, denizen::Add{});
        if (r == 0) {
            ++got.received;
            got.ended += left == 0 ? 1 : 0;
            got.ids += left == 0 ? id : 0;
            got.wrong += wrong;
            got.refused += refused;
        }
        team.sync(); // `seen` is the next letter's
    }
};

using Block = Postman<Grain::block>;
using Warp = Postman<Grain::warp>;
using Thread = Postman<Grain::thread>;
using Post = denizen::Program<denizen::Actors<Thread, Warp, Block>,
                              denizen::Messages<Meet, Hop, Long, Ask, Got>>;
using BlocksAlone =
    denizen::Program<denizen::Actors<Block>, denizen::Messages<Meet, Hop, Long, Ask, Got>>;

} // namespace blocks

namespace denizen::test {
namespace {

using namespace ::blocks;

class actors_of_blocks : public AtEveryPlace {
protected:
    // A circle of `each` actors of every type that the program has, in turn.
    template <class P>
    static std::vector<Address> circle(Runtime<P>& rt, uint32_t each)
    {
        std::vector<Address> all;
        for (uint32_t i = 0; i < each; ++i) {
            all.push_back(rt.template spawn<Block>());
            if constexpr (P::template actor_id<Warp> != no_type) {
                all.push_back(rt.template spawn<Warp>());
                all.push_back(rt.template spawn<Thread>());
            }
        }
        for (size_t i = 0; i < all.size(); ++i) {
            rt.send(all[i], Meet{all[(i + 1) % all.size()].value}, 20s);
        }
        rt.drain();
        return all;
    }

    template <class P>
    static void expect_all(Runtime<P>& rt, const std::vector<Address>& all, uint64_t letters,
                           uint64_t hops)
    {
        Got sum{};
        for (const Address a : all) {
            const Got got = rt.template ask<Got>(a, Ask{}, 20s);
            sum.received += got.received;
            sum.ended += got.ended;
            sum.ids += got.ids;
            EXPECT_EQ(got.wrong, 0u) << got.lanes << " lanes";
            EXPECT_EQ(got.refused, 0u) << got.lanes << " lanes";
        }
        EXPECT_EQ(sum.received, letters * (hops + 1));
        EXPECT_EQ(sum.ended, letters);
        EXPECT_EQ(sum.ids, letters * (letters - 1) / 2);
        const Stats s = rt.stats();
        EXPECT_EQ(s.errors, 0u) << s.first_error;
        EXPECT_EQ(s.dead_letters, 0u);
    }

    template <class P>
    static void account(Runtime<P>& rt, const std::vector<Address>& all, uint32_t letters,
                        uint32_t hops)
    {
        for (uint32_t id = 0; id < letters; ++id) {
            rt.send(all[id % all.size()], Hop{id, hops}, 60s);
        }
        rt.drain();
        expect_all(rt, all, letters, hops);
    }
};
DENIZEN_AT_EVERY_PLACE(actors_of_blocks);

TEST_P(actors_of_blocks, have_as_many_threads_as_the_description_says)
{
    Runtime<Post> rt(device(), options());
    const auto all = circle(rt, 1);
    EXPECT_EQ(rt.description().worker_threads, on_gpu() ? 256u : 1u);
    EXPECT_EQ(rt.ask<Got>(all[0], Ask{}, 20s).lanes, rt.description().worker_threads);
    EXPECT_EQ(rt.ask<Got>(all[1], Ask{}, 20s).lanes, on_gpu() ? 32u : 1u);
    EXPECT_EQ(rt.ask<Got>(all[2], Ask{}, 20s).lanes, 1u);
    EXPECT_EQ(rt.description().geometry.find("a block of 256 threads") != std::string::npos,
              on_gpu())
        << rt.description().geometry;
}

TEST_P(actors_of_blocks, pass_letters_on_among_themselves)
{
    Runtime<BlocksAlone> rt(device(), options());
    account(rt, circle(rt, 24), scaled(400), 60);
}

TEST_P(actors_of_blocks, pass_letters_on_to_warps_and_threads)
{
    Runtime<Post> rt(device(), options());
    account(rt, circle(rt, 12), scaled(800), 60);
}

TEST_P(actors_of_blocks, live_on_one_worker_by_the_dozen)
{
    Options o = options();
    o.workers = 1;
    Runtime<Post> rt(device(), o);
    account(rt, circle(rt, 40), scaled(300), 50);
}

TEST_P(actors_of_blocks, wait_for_room_in_the_smallest_rings)
{
    Options o = small_rings(options());
    o.outbox_slots = 1u << 15; // a letter has many slots
    Runtime<Post> rt(device(), o);
    account(rt, circle(rt, 8), 64, scaled(200));
}

// One actor of each grain at a time is in a handler when its kernel is to end.
TEST_P(actors_of_blocks, go_on_from_breath_to_breath)
{
    for (const int us : {1, 30, 500}) {
        Options o = options();
        o.breath = std::chrono::microseconds(us);
        Runtime<Post> rt(device(), o);
        const auto all = circle(rt, 10);
        account(rt, all, scaled(400), 40);
        const auto handed_over = [&] { // the letters may have arrived within a breath
            (void)rt.ask<Got>(all[0], Ask{}, 20s);
            return rt.stats().handovers.count > 0;
        };
        EXPECT_TRUE(eventually(handed_over)) << us;
        EXPECT_EQ(rt.stats().launches, 1u);
    }
}

TEST_P(actors_of_blocks, leave_and_come_back)
{
    Runtime<Post> rt(device(), options());
    const auto all = circle(rt, 6);
    for (uint32_t i = 0; i < 5; ++i) {
        rt.pause(20s);
        rt.resume();
        rt.drain();
        rt.park(20s);
        EXPECT_EQ(rt.parked(), on_gpu());
        rt.send(all[0], Hop{0, 30}, 20s); // brings the program back
    }
    rt.drain();
    uint64_t received = 0;
    for (const Address a : all) {
        received += rt.ask<Got>(a, Ask{}, 20s).received;
    }
    EXPECT_EQ(received, 5u * 31);
}

// Each message takes the general way then.
TEST_P(actors_of_blocks, are_observed)
{
    Runtime<Post> rt(device(), options());
    const auto all = circle(rt, 6);
    rt.observe(true);
    ASSERT_TRUE(eventually([&] { return rt.telemetry().observed; }));
    account(rt, all, 90, 30);
    const auto handled = [&] {
        uint64_t sum = 0;
        for (const ActorTypeTelemetry& t : rt.telemetry().actor_types) {
            sum += t.handled;
        }
        return sum;
    };
    // A handler counts a moment after its answer has come: each Meet, each letter, each Ask.
    EXPECT_TRUE(eventually([&] { return handled() == 18u + 90 * 31 + 18; }, 5s)) << handled();
}

TEST_P(actors_of_blocks, take_later_what_came_while_they_did_not_run)
{
    Runtime<Post> rt(device(), options());
    const auto all = circle(rt, 4);
    for (const Address a : all) {
        rt.pause(a, 20s);
    }
    for (uint32_t id = 0; id < 60; ++id) {
        rt.send(all[id % all.size()], Hop{id, 1}, 20s); // goes on as a long one
    }
    for (uint32_t turn = 0; turn < 2; ++turn) {
        for (const Address a : all) {
            rt.resume(a, 20s);
            rt.pause(a, 20s);
        }
    }
    for (const Address a : all) {
        rt.resume(a, 20s);
    }
    rt.drain();
    expect_all(rt, all, 60, 1);
}

TEST_P(actors_of_blocks, get_what_goes_to_all_of_their_type)
{
    Runtime<Post> rt(device(), options());
    const auto all = circle(rt, 5);
    rt.broadcast<Block>(Hop{1, 0}, 20s);
    Long letter{};
    for (uint32_t i = 0; i < words; ++i) {
        letter.word[i] = i;
    }
    rt.broadcast<Block>(letter, 20s);
    rt.drain();
    for (size_t i = 0; i < all.size(); ++i) {
        const Got got = rt.ask<Got>(all[i], Ask{}, 20s);
        EXPECT_EQ(got.received, i % 3 == 0 ? 2u : 0u);
        EXPECT_EQ(got.wrong, 0u);
    }
}

TEST_P(actors_of_blocks, move_to_another_worker_with_what_they_know)
{
    Runtime<Post> rt(device(), options());
    if (rt.description().workers < 2) {
        GTEST_SKIP() << "there is no other worker";
    }
    const auto all = circle(rt, 4);
    account(rt, all, 48, 20);
    for (size_t i = 0; i < all.size(); i += 3) {
        rt.migrate(all[i], (all[i].worker() + 1) % rt.description().workers, 0, 20s);
    }
    for (uint32_t id = 0; id < 48; ++id) {
        rt.send(all[id % all.size()], Hop{id, 20}, 20s);
    }
    rt.drain();
    uint64_t received = 0;
    for (const Address a : all) {
        const Got got = rt.ask<Got>(a, Ask{}, 20s);
        received += got.received;
        EXPECT_EQ(got.wrong, 0u);
    }
    EXPECT_EQ(received, 2u * 48 * 21);
}

} // namespace
} // namespace denizen::test
