// SPDX-License-Identifier: Apache-2.0
// Where tasks end: arguments of all 44 bytes, no counter left, and a task that never returns.
#include "tasks.hpp"

#include <support/leaks.hpp>

namespace {

using namespace denizen;
using namespace denizen::test;
using task::Counter;

// The most that a task may be. Looks at every word and hands the next number on: into its own
// deque, to a worker by name, and through a counter.
struct Full {
    uint32_t word[9]; // the number times each index + 1
    uint32_t seen[2]; // an address: Seen
    DENIZEN_HD static Full make(uint32_t number, uint64_t seen)
    {
        Full f{};
        for (uint32_t i = 0; i < 9; ++i) {
            f.word[i] = number * (i + 1);
        }
        f.seen[0] = static_cast<uint32_t>(seen);
        f.seen[1] = static_cast<uint32_t>(seen >> 32);
        return f;
    }
    DENIZEN_HD void run(auto& ctx) const;
};
static_assert(sizeof(Full) == 44);
struct Seen {
    uint32_t ran[32]; // by number
    uint32_t wrong;
};

DENIZEN_HD void Full::run(auto& ctx) const
{
    const uint64_t address = uint64_t{seen[1]} << 32 | seen[0];
    auto* const all = reinterpret_cast<Seen*>(address);
    for (uint32_t i = 0; i < 9; ++i) {
        if (word[i] != word[0] * (i + 1)) {
            fetch_add<Scope::gpu>(&all->wrong, 1u);
            return;
        }
    }
    const uint32_t number = word[0];
    fetch_add<Scope::gpu>(&all->ran[number % 32], 1u);
    if (number >= 8) { // 8 to 15: the leaves
        return;
    }
    const Full left = make(2 * number, address);
    const Full right = make(2 * number + 1, address);
    if (number == 1) {
        ctx.spawn(left);
        ctx.spawn(right);
    } else if (number < 4) {
        ctx.spawn_on(number, left);
        ctx.spawn_on(number + 1, right);
    } else {
        ctx.arrive(ctx.when(1, left));
        ctx.arrive(ctx.when(1, right));
    }
}

struct Leaf {
    uint64_t* count;
    DENIZEN_HD void run(auto&) const { fetch_add<Scope::gpu>(count, uint64_t{1}); }
};

// Takes every counter there is, is told when none is left, and gives all of them their arrival.
struct TakeAll {
    uint64_t* taken;
    uint64_t* ran;
    uint32_t* counters; // room for `most`
    uint32_t most;      // more than there are
    DENIZEN_HD void run(auto& ctx) const
    {
        uint32_t n = 0;
        for (; n < most; ++n) {
            const Counter c = ctx.when(1, Leaf{ran});
            if (c.index == 0) {
                break;
            }
            counters[n] = c.index;
        }
        store<Scope::system>(taken, uint64_t{n});
        ctx.arrive(Counter{0}); // of no counter: nothing
        for (uint32_t i = 0; i < n; ++i) {
            ctx.arrive(Counter{counters[i]});
        }
    }
};

struct Spin {
    uint32_t* began;
    uint32_t* release;
    DENIZEN_HD void run(auto&) const
    {
        store<Scope::system>(began, 1u);
        while (load<Scope::system>(release) == 0) {
            relax(); // ends by the test, on the CPU; on a GPU with its context
        }
    }
};

using Limits = task::Program<Full, Leaf, TakeAll, Spin>;

class TaskLimits : public TasksAtEveryPlace {};
DENIZEN_TASKS_AT_EVERY_PLACE(TaskLimits);

TEST_P(TaskLimits, FortyFourBytes)
{
    Array<Seen> seen(on_gpu(), 1);
    task::Runtime<Limits> rt(device(), options());
    constexpr uint32_t rounds = 20;
    for (uint32_t i = 0; i < rounds; ++i) {
        rt.spawn(Full::make(1, reinterpret_cast<uint64_t>(seen.data())));
    }
    rt.wait();
    EXPECT_EQ(seen[0].wrong, 0u);
    for (uint32_t number = 1; number < 16; ++number) {
        EXPECT_EQ(seen[0].ran[number], rounds) << number;
    }
}

TEST_P(TaskLimits, AllCountersInUse)
{
    constexpr uint32_t most = 100'000;
    Array<uint64_t> count(on_gpu(), 2);
    Array<uint32_t> taken(on_gpu(), most);
    task::Options o = options();
    o.counters = 100;
    o.sms = on_gpu() ? 2 : 0; // workers keep 128 each for their next continuations
    task::Runtime<Limits> rt(device(), o);
    uint64_t all = 0;
    for (uint32_t i = 0; i < 5; ++i) { // they are given back each time
        rt.spawn(TakeAll{&count[0], &count[1], taken.data(), most});
        rt.wait();
        const uint64_t n = load<Scope::system>(&count[0]);
        EXPECT_GE(n, o.counters) << "beside what workers keep for their next continuations";
        EXPECT_LT(n, most) << "it was told";
        all += n;
        EXPECT_EQ(load<Scope::system>(&count[1]), all);
    }
}

TEST_P(TaskLimits, ATaskThatNeverReturnsIsGivenUp)
{
    if (on_gpu() && !in_a_process_of_its_own()) {
        return;
    }
    const LeaksAreMeant scope;
    const SharedWord began(on_gpu());
    SharedWord release(on_gpu());
    {
        task::Runtime<Limits> rt(device(), options());
        rt.spawn(Spin{reinterpret_cast<uint32_t*>(began.address()),
                      reinterpret_cast<uint32_t*>(release.address())});
        EXPECT_TRUE(eventually([&] { return began.get() == 1; }));
        expect_error(Errc::stuck, "a task does not return: its worker was left behind after 0.3 s",
                     [&] { rt.close(300ms); });
        rt.close(); // harmless
        expect_error(Errc::closed, "the runtime has been closed", [&] { rt.spawn(Leaf{nullptr}); });
    }
    if (!on_gpu()) {
        release.set(1); // now it returns, and its thread ends by itself
    } else {            // the context is gone
        EXPECT_NE(error_of([] { task::Runtime<Limits> rt(device(), options()); }).code(), Errc::ok);
    }
    // The process goes on, on the CPU.
    Array<uint64_t> count(false, 1);
    task::Runtime<Limits> rt(Device::cpu(), options());
    rt.spawn(Leaf{count.data()});
    rt.wait();
    EXPECT_EQ(count[0], 1u);
}

} // namespace
