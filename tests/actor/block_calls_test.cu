// SPDX-License-Identifier: Apache-2.0
// What a handler of a block calls of its context is done once, and every thread gets the answer;
// what its threads each send is sent by each. A failure of any thread is the handler's. Tasks of a
// block, and numbers of threads that actors ask for.
#include <actor/places.hpp>

#include <denizen/base/team.hpp>

namespace block_calls {

using denizen::Grain;

struct Try {
    uint32_t collector;
};
struct Tried {
    uint32_t lanes;
    uint32_t differ; // calls whose answers are not the same in all threads
    uint32_t wrong;  // answers
};
struct Rank {
    uint32_t rank;
    uint32_t lanes;
    uint32_t by_task = 0;
};
struct Once {
    uint32_t what;
};
struct Look {};
struct Seen {
    uint32_t ranks;
    uint64_t rank_sum;
    uint32_t disorder;
    uint32_t once[8];
};
struct Fill {
    denizen::BufferRef data;
    uint32_t next;
    uint32_t left;
    DENIZEN_BUFFERS(data)
};

// One thread: counts what comes.
struct Collector {
    Seen seen = {};
    uint32_t warp[2] = {}; // that has sent last
    DENIZEN_HD void on(const Rank& m, auto&)
    {
        seen.disorder += m.rank / 32 < warp[m.by_task] ? 1 : 0;
        warp[m.by_task] = m.rank / 32;
        ++seen.ranks;
        seen.rank_sum += m.rank;
    }
    DENIZEN_HD void on(const Once& m, auto&) { ++seen.once[m.what % 8]; }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(seen); }
};

struct Child { // by a handler
    static constexpr bool spawned = true;
    static constexpr auto grain = Grain::block;
    uint32_t collector = 0;
    DENIZEN_HD void on(const Once& m, auto& ctx) { ctx.send(denizen::Address{collector}, m); }
};

struct Piece { // a task of a block: each thread tells its rank
    static constexpr auto grain = Grain::block;
    uint32_t collector;
    DENIZEN_HD void run(auto& ctx) const
    {
        ctx.send_each(denizen::Address{collector}, Rank{ctx.lane(), ctx.lanes(), 1});
        ctx.send(denizen::Address{collector}, Once{5});
    }
};
struct Breaks {
    static constexpr auto grain = Grain::block;
    static constexpr bool can_fail = true;
    uint32_t code;
    DENIZEN_HD void run(auto& ctx) const
    {
        if (ctx.lane() == ctx.lanes() - 1) {
            ctx.fail(code);
        }
    }
};

struct Caller {
    static constexpr auto grain = Grain::block;

    struct First;
    struct Second;
    using behaviours = denizen::Behaviours<First, Second>;
    denizen::Behaviour behaviour;

    uint32_t failed_tasks = 0;
    uint32_t code = 0;

    DENIZEN_HD void on(const denizen::TaskFailed& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            ++failed_tasks;
            code = m.code;
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Once{100 * failed_tasks + code}); }
    // Each thread fills its part, the next one finds all of it.
    DENIZEN_HD void on(const Fill& m, auto& ctx)
    {
        const auto data = ctx.template data<uint32_t>(m.data);
        const denizen::Team team(ctx);
        uint32_t wrong = 0;
        for (uint64_t i = team.rank(); i < data.size(); i += team.size()) {
            wrong += data[(i * 7) % data.size()] == m.left ? 0 : 1;
        }
        wrong = team.reduce(wrong, denizen::Add{});
        for (uint64_t i = team.rank(); i < data.size(); i += team.size()) {
            data[i] = m.left - 1;
        }
        if (m.left > 1 && wrong == 0) {
            ctx.keep(m.data);
            ctx.send(denizen::Address{m.next}, Fill{m.data, ctx.self().value, m.left - 1});
            ctx.release(m.data);
        } else {
            ctx.send(denizen::host, Once{wrong});
        }
    }
};
struct Caller::First {
    DENIZEN_HD static void on(Caller& caller, const Try& m, auto& ctx)
    {
        const denizen::Team team(ctx);
        const denizen::Address to{m.collector};
        Tried tried{team.size(), 0, 0};
        const auto same = [&](uint32_t answer) {
            const bool all =
                team.reduce(answer, denizen::Least{}) == team.reduce(answer, denizen::Greatest{});
            tried.differ += all ? 0 : 1;
        };
        const bool sent = ctx.send(to, Once{0});
        same(sent ? 1 : 0);
        tried.wrong += sent ? 0 : 1;
        const denizen::Address child = ctx.template spawn<Child>(m.collector);
        same(child.value);
        ctx.send(child, Once{1});
        const denizen::Timer soon = ctx.send_after(1000, to, Once{2});
        same(soon.value);
        const denizen::Timer never = ctx.send_after(3'600'000'000'000, to, Once{3});
        same(never.value);
        const bool cancelled = ctx.cancel(never);
        same(cancelled ? 1 : 0);
        tried.wrong += cancelled && !ctx.cancel(never) ? 0 : 1;
        // A different third of the threads.
        const bool mine = ctx.send_each(to, Rank{team.rank(), team.size()}, team.rank() % 3 == 0);
        tried.wrong += team.reduce(mine ? 0u : 1u, denizen::Add{});
        const bool spawned = ctx.spawn(Piece{m.collector});
        same(spawned ? 1 : 0);
        ctx.spawn(Breaks{77});
        ctx.publish(denizen::Topic("blocks"), Once{4});
        ctx.template become<Caller::Second>(caller);
        ctx.reply(tried);
    }
};
struct Caller::Second {
    DENIZEN_HD static void on(Caller& caller, const Try&, auto& ctx)
    {
        ctx.template become<Caller::First>(caller);
        ctx.reply(Tried{ctx.lanes(), 1000, 0});
    }
};

using Calls = denizen::Program<
    denizen::Actors<Caller, Collector, Child>,
    denizen::Messages<Try, Tried, Rank, Once, Look, Seen, Fill, denizen::TaskFailed>,
    denizen::Tasks<Piece, Breaks>>;

// Counts in vain what fails: a restart goes back to the last checkpoint.
struct Work {
    uint32_t number;
    uint32_t fails;  // the code
    uint32_t thread; // that fails, modulo the threads that there are
    uint32_t padding[20];
};
struct Counting {
    static constexpr auto grain = Grain::block;
    static constexpr uint32_t block_threads = 128;
    static constexpr bool can_fail = true;
    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
    uint32_t all = 0;
    uint32_t wrong = 0;
    DENIZEN_HD bool invariant() const { return all < 1'000'000'000; }
    DENIZEN_HD void on(const Work& m, auto& ctx)
    {
        const bool mine = m.thread % ctx.lanes() == ctx.lane();
        if (m.fails == 1) { // the invariant does not hold afterwards
            if (mine) {
                all = 1'000'000'000;
            }
            return;
        }
        if (m.fails != 0) {
            if (mine) {
                all = 1'000'000; // the restart takes this back
                ctx.fail(m.fails);
            }
            return;
        }
        if (mine) {
            ++all;
        }
        ctx.checkpoint();
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Rank{all, ctx.lanes()}); }
};
struct Slow {
    static constexpr auto grain = Grain::block;
    static constexpr uint32_t block_threads = 192;
    static constexpr uint64_t deadline_ns = 10'000'000;
    uint32_t unused = 0;
    DENIZEN_HD void on(const Work& m, auto& ctx) // its last thread alone takes its time
    {
        const uint64_t begin = ctx.now_ns();
        while (m.fails != 0 && ctx.lane() == ctx.lanes() - 1 &&
               ctx.now_ns() - begin < 15'000'000) { // ends by the clock
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Rank{ctx.lane(), ctx.lanes()}); }
};
using Failing =
    denizen::Program<denizen::Actors<Counting, Slow>, denizen::Messages<Work, Look, Rank>>;

// Who says nothing of its threads takes what the others say.
struct Silent {
    static constexpr auto grain = Grain::block;
    uint32_t unused = 0;
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Rank{ctx.lane(), ctx.lanes()}); }
};
template <class... A>
using Looked = denizen::Program<denizen::Actors<A...>, denizen::Messages<Work, Look, Rank>>;
static_assert(Failing::block_threads == 192);
static_assert(Looked<Silent, Counting>::block_threads == 128);
static_assert(Looked<Silent>::block_threads == denizen::default_block_threads);

} // namespace block_calls

namespace denizen::test {
namespace {

using namespace ::block_calls;

class calls_of_blocks : public AtEveryPlace {};
DENIZEN_AT_EVERY_PLACE(calls_of_blocks);

TEST_P(calls_of_blocks, are_done_once_and_all_threads_get_the_answer)
{
    Runtime<Calls> rt(device(), options());
    const Address caller = rt.spawn<Caller>();
    const Address collector = rt.spawn<Collector>();
    rt.subscribe(collector, "blocks", 20s);
    rt.drain();
    const Tried tried = rt.ask<Tried>(caller, Try{collector.value}, 20s);
    const uint32_t n = on_gpu() ? 256 : 1;
    EXPECT_EQ(tried.lanes, n);
    EXPECT_EQ(tried.differ, 0u);
    EXPECT_EQ(tried.wrong, 0u);
    const auto count = [&] {
        rt.drain();
        return rt.ask<Seen>(collector, Look{}, 20s);
    };
    ASSERT_TRUE(eventually([&] { return count().once[2] == 1; })) << "what was sent later";
    const Seen seen = count();
    const uint32_t thirds = (n + 2) / 3;
    EXPECT_EQ(seen.ranks, thirds + n) << "of the handler and of the task";
    EXPECT_EQ(seen.rank_sum, 3ull * thirds * (thirds - 1) / 2 + uint64_t{n} * (n - 1) / 2);
    EXPECT_EQ(seen.disorder, 0u) << "warp by warp, each of them";
    EXPECT_EQ(seen.once[0], 1u);
    EXPECT_EQ(seen.once[1], 1u) << "by way of the child";
    EXPECT_EQ(seen.once[3], 0u) << "cancelled";
    EXPECT_EQ(seen.once[4], 1u) << "published";
    EXPECT_EQ(seen.once[5], 1u) << "by the task";
    EXPECT_EQ(rt.ask<Once>(caller, Look{}, 20s).what, 177u) << "one task has failed with 77";
    EXPECT_EQ(rt.ask<Tried>(caller, Try{}, 20s).differ, 1000u) << "the second behaviour";
    EXPECT_EQ(rt.ask<Tried>(caller, Try{collector.value}, 20s).differ, 0u) << "the first again";
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    EXPECT_EQ(rt.stats().first_error, "");
}

TEST_P(calls_of_blocks, hand_buffers_on_that_all_threads_have_filled)
{
    Runtime<Calls> rt(device(), options());
    const auto callers = rt.spawn<Caller>(4);
    for (uint32_t turn = 0; turn < 8; ++turn) {
        const uint32_t hops = scaled(200);
        Buffer b = rt.buffer(5000 * sizeof(uint32_t), BufferKind::pinned);
        std::fill_n(static_cast<uint32_t*>(b.cpu()), 5000, hops);
        rt.send(callers[turn % 4], Fill{b.ref(), callers[(turn + 1) % 4].value, hops}, 20s);
        b.close();
        EXPECT_EQ(rt.receive<Once>(20s).what, 0u) << "words that were not there";
    }
    EXPECT_TRUE(eventually([&] { return rt.buffers().waiting == 0; }, 2s));
    EXPECT_EQ(rt.stats().first_error, "");
}

TEST_P(calls_of_blocks, a_thread_that_fails_is_the_whole_handlers_failure)
{
    Runtime<Failing> rt(device(), options());
    const auto all = rt.spawn<Counting>(12);
    rt.supervise(all, Strategy::one_for_one, {unlimited_restarts, 1h});
    std::vector<uint32_t> good(all.size(), 0);
    uint32_t bad = 0;
    for (uint32_t i = 0; i < scaled(2000); ++i) {
        const uint32_t to = i % static_cast<uint32_t>(all.size());
        const uint32_t fails = i % 11 == 5 ? 40 + i % 3 : i % 29 == 7 ? 1 : 0;
        rt.send(all[to], Work{i, fails, i * 37, {}}, 20s);
        good[to] += fails == 0 ? 1 : 0;
        bad += fails == 0 ? 0 : 1;
    }
    rt.drain();
    for (size_t i = 0; i < all.size(); ++i) {
        const Rank seen = rt.ask<Rank>(all[i], Look{}, 20s);
        EXPECT_EQ(seen.rank, good[i]);
        EXPECT_EQ(seen.lanes, on_gpu() ? 192u : 1u) << "the most that any actor asks for";
    }
    const Stats s = rt.stats();
    EXPECT_EQ(s.dead_letters, bad);
    EXPECT_EQ(s.dead_letters_by_reason[static_cast<size_t>(Reason::failed)], bad);
    for (const DeadLetter& letter : rt.dead_letters().letters) {
        EXPECT_TRUE(letter.code == failed_invariant || (letter.code >= 40 && letter.code < 43))
            << letter.code;
    }
    EXPECT_EQ(rt.description().worker_threads, on_gpu() ? 192u : 1u);
}

TEST_P(calls_of_blocks, the_slowest_thread_says_whether_a_deadline_was_kept)
{
    Runtime<Failing> rt(device(), options());
    const Address slow = rt.spawn<Slow>();
    rt.supervise({slow}, Strategy::resume);
    rt.send(slow, Work{0, 0, 0, {}}, 20s);
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    rt.send(slow, Work{1, 1, 0, {}}, 20s);
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 1u);
    EXPECT_EQ(rt.inspect(slow).failure, failed_deadline);
}

} // namespace
} // namespace denizen::test
