// SPDX-License-Identifier: Apache-2.0
// Coroutines that wait for each other on pools of any size: none is forgotten, none runs twice.
#include <denizen/flow/async_channel.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace denizen::flow {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint64_t rounds = 1'000;
#else
constexpr uint64_t rounds = 20'000;
#endif

using Ints = AsyncChannel<uint64_t>;

Coroutine pass_on(Ints& from, Ints& to, uint64_t add)
{
    for (uint64_t x = 0; co_await from.receive(x);) to.send(x + add);
    to.close();
}

Coroutine drive(Ints& from, Ints& to, uint64_t items, uint64_t members, uint64_t& received)
{
    std::vector<uint64_t> expected;
    for (uint64_t i = 0; i < items; ++i) {
        to.send(i * 1'000'000);
        expected.push_back(i * 1'000'000 + members);
    }
    for (uint64_t n = 0; n < rounds; ++n) {
        uint64_t x = 0;
        if (!co_await from.receive(x)) throw std::runtime_error("the ring has closed");
        if (x != expected[n % items]) throw std::runtime_error("an item was lost or overtaken");
        expected[n % items] += members;
        to.send(x);
        received += 1;
    }
    to.close();
    for (uint64_t x = 0; co_await from.receive(x);) { // ends: the closing comes round
    }
}

// `members` coroutines in a ring; `items` go round.
void ring(uint32_t threads, uint64_t members, uint64_t items)
{
    std::vector<std::unique_ptr<Ints>> channels;
    for (uint64_t i = 0; i <= members; ++i) {
        channels.push_back(std::make_unique<Ints>(static_cast<uint32_t>(items)));
    }
    uint64_t received = 0;
    {
        Scheduler scheduler(std::vector<int>(threads, -1));
        for (uint64_t i = 0; i < members; ++i) {
            scheduler.spawn(pass_on(*channels[i], *channels[i + 1], 1));
        }
        scheduler.spawn(drive(*channels[members], *channels[0], items, members, received));
        scheduler.wait();
    }
    EXPECT_EQ(received, rounds);
}

TEST(Scheduler, RingsOfCoroutines)
{
    ring(1, 1, 1);
    ring(1, 5, 3);
    ring(2, 1, 1);
    ring(2, 7, 4);
    ring(4, 3, 64);
}

// Two pairs that wake each other all the time leave room for a third coroutine on the same thread.
TEST(Scheduler, NobodyStarves)
{
    std::atomic<bool> enough{false};
    const auto ping = [&](Ints& from, Ints& to) -> Coroutine {
        uint64_t x = 0;
        while (!enough.load() && co_await from.receive(x)) to.send(x); // ends: by the third
        to.close();
    };
    const auto third = [&]() -> Coroutine {
        for (int i = 0; i < 100; ++i) co_await Yield();
        for (int i = 0; i < 3; ++i) co_await Nap();
        enough = true;
    };
    Ints a(1);
    Ints b(1);
    a.send(1);
    Scheduler scheduler({-1});
    scheduler.spawn(ping(a, b));
    scheduler.spawn(ping(b, a));
    scheduler.spawn(third());
    scheduler.wait();
    EXPECT_TRUE(enough.load());
}

TEST(Scheduler, AThreadSendsToACoroutine)
{
    AsyncChannel<uint64_t> there(8, 2);
    std::atomic<uint64_t> sum{0};
    const auto add = [&]() -> Coroutine {
        for (uint64_t x = 0; co_await there.receive(x);) sum += x;
    };
    Scheduler scheduler({-1});
    scheduler.spawn(add());
    std::vector<std::thread> senders;
    for (uint32_t s = 0; s < 2; ++s) {
        senders.emplace_back([&, s] {
            for (uint64_t n = 1; n <= 8; ++n) {
                there.send(n + 100 * s, s);
                if (n % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            there.close(s);
        });
    }
    for (std::thread& sender : senders) sender.join();
    scheduler.wait();
    EXPECT_EQ(sum.load(), 2u * 36 + 800);
}

TEST(Scheduler, ManyShortOnes)
{
    Scheduler scheduler({-1, -1}, 64);
    std::atomic<uint32_t> ran{0};
    const auto one = [&]() -> Coroutine {
        ran += 1;
        co_await Yield();
        ran += 1;
    };
    uint32_t spawned = 0;
    while (spawned < 500) { // ends: those before it make room
        try {
            scheduler.spawn(one());
            ++spawned;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::full);
            std::this_thread::yield();
        }
    }
    scheduler.wait();
    EXPECT_EQ(ran.load(), 1'000u);
}

TEST(Scheduler, WhatACoroutineThrowsComesOutOfWait)
{
    Scheduler scheduler({-1});
    const auto fails = []() -> Coroutine {
        co_await Yield();
        throw std::runtime_error("no more");
    };
    scheduler.spawn(fails());
    EXPECT_THROW(scheduler.wait(), std::runtime_error);
    EXPECT_NO_THROW(scheduler.wait());
}

TEST(Scheduler, WhatItRefuses)
{
    EXPECT_THROW(Scheduler(std::vector<int>{}), Error);
    EXPECT_THROW(Scheduler({100'000}), Error);
    EXPECT_THROW(Scheduler({-2}), Error);
}

} // namespace
} // namespace denizen::flow
