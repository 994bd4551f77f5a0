// SPDX-License-Identifier: Apache-2.0
// A team: the same text for handlers and tasks of a thread, a warp and a block.
#include "tasks.hpp"

#include <denizen/base/team.hpp>

namespace {

using namespace denizen;
using namespace denizen::test;

struct Pair { // an operation that keeps an order: what is not commutative shows it
    uint32_t first;
    uint32_t last;
    uint32_t gaps;
};
struct Join {
    DENIZEN_HD Pair operator()(const Pair& a, const Pair& b) const
    {
        return {a.first, b.last, a.gaps + b.gaps + (a.last + 1 == b.first ? 0u : 1u)};
    }
};

struct Seen {
    uint32_t size;
    uint32_t wrong;
};

// What goes wrong in one use of a team, summed over its ranks.
DENIZEN_HD inline Seen use(auto& ctx)
{
    const Team team(ctx);
    const uint32_t r = team.rank();
    const uint32_t n = team.size();
    uint32_t wrong = 0;
    for (uint32_t turn = 0; turn < 3; ++turn) {
        wrong += team.reduce(r + 1, Add{}) == n * (n + 1) / 2 ? 0 : 1;
        wrong += team.reduce(r + 5, Least{}) == 5 ? 0 : 1;
        wrong += team.reduce(-1.0 * r, Greatest{}) == 0.0 ? 0 : 1;
        wrong += team.scan(uint64_t{r} + 1, Add{}) == uint64_t{r + 1} * (r + 2) / 2 ? 0 : 1;
        const Pair all = team.reduce(Pair{r, r, 0}, Join{});
        wrong += all.first == 0 && all.last == n - 1 && all.gaps == 0 ? 0 : 1;
        const Pair mine = team.scan(Pair{r, r, 0}, Join{});
        wrong += mine.first == 0 && mine.last == r && mine.gaps == 0 ? 0 : 1;
    }
    team.sync();
    return {n, team.reduce(wrong, Add{})};
}

template <task::Grain G>
struct Used {
    static constexpr auto grain = G;
    Seen* seen;
    DENIZEN_HD void run(auto& ctx) const
    {
        const Seen now = use(ctx);
        if (ctx.lane() == 0) {
            store<Scope::system>(&seen->wrong, now.wrong);
            store<Scope::system>(&seen->size, now.size);
        }
    }
};
using OfThread = Used<task::Grain::thread>;
using OfWarp = Used<task::Grain::warp>;
using OfBlock = Used<task::Grain::block>;
using Uses = task::Program<OfThread, OfWarp, OfBlock>;

class teams_of_tasks : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(teams_of_tasks);

TEST_P(teams_of_tasks, reduce_and_scan)
{
    Array<Seen> seen(on_gpu(), 3);
    task::Runtime<Uses> rt(device(), options());
    for (uint32_t i = 0; i < 20; ++i) {
        for (uint32_t k = 0; k < 3; ++k) {
            seen[k] = {0, ~0u};
        }
        rt.spawn(OfThread{seen.data()});
        rt.spawn(OfWarp{seen.data() + 1});
        rt.spawn(OfBlock{seen.data() + 2});
        rt.wait();
        EXPECT_EQ(seen[0].size, 1u);
        EXPECT_EQ(seen[1].size, on_gpu() ? 32u : 1u);
        EXPECT_GE(seen[2].size, seen[1].size);
        for (uint32_t k = 0; k < 3; ++k) {
            EXPECT_EQ(seen[k].wrong, 0u) << k;
        }
    }
}

struct Try {};
struct Warp {
    static constexpr auto grain = Grain::warp;
    DENIZEN_HD void on(const Try&, auto& ctx) { ctx.reply(use(ctx)); }
};
struct Block {
    static constexpr auto grain = Grain::block;
    static constexpr uint32_t block_threads = 96; // no power of two
    DENIZEN_HD void on(const Try&, auto& ctx) { ctx.reply(use(ctx)); }
};
struct Thread {
    DENIZEN_HD void on(const Try&, auto& ctx) { ctx.reply(use(ctx)); }
};
using Actors3 = Program<Actors<Warp, Block, Thread>, Messages<Try, Seen>>;

class teams_of_actors : public AtEveryPlace {};
DENIZEN_AT_EVERY_PLACE(teams_of_actors);

TEST_P(teams_of_actors, reduce_and_scan)
{
    Runtime<Actors3> rt(device(), options());
    const auto threads = rt.spawn<Thread>(40);
    const std::pair<Address, uint32_t> teams[] = {{rt.spawn<Warp>(), 32}, {rt.spawn<Block>(), 96}};
    for (const auto& [team, size] : teams) {
        const Seen seen = rt.ask<Seen>(team, Try{}, 20s);
        EXPECT_EQ(seen.size, on_gpu() ? size : 1u);
        EXPECT_EQ(seen.wrong, 0u);
    }
    for (const Address thread : threads) {
        const Seen one = rt.ask<Seen>(thread, Try{}, 20s);
        EXPECT_EQ(one.size, 1u);
        EXPECT_EQ(one.wrong, 0u);
    }
}

} // namespace
