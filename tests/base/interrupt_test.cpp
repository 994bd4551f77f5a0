// SPDX-License-Identifier: Apache-2.0
// How work that takes long is ended from outside: loops over items, and threads that work together.
#include <denizen/base/interrupt.hpp>
#include <denizen/base/on_threads.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>

using namespace denizen;

namespace {

struct Pressed {};

std::atomic<uint32_t> looks{0};

void never_pressed() { looks.fetch_add(1); }
void pressed() { throw Pressed{}; }

// As a call that has just begun: its first look is not 50 ms away.
struct Called : Interruptible {
    explicit Called(InterruptCheck check) : Interruptible(check)
    {
        detail::interrupt_watch.looked_ns = 0;
    }
};

TEST(Interrupt, ALoopVisitsEachItemOnceAndLooks)
{
    const Called called(&never_pressed);
    looks = 0;
    std::vector<uint32_t> visited;
    interruptibly(3u, 3u + 3 * static_cast<uint32_t>(items_per_check) + 7,
                  [&](uint32_t i) { visited.push_back(i); });
    std::vector<uint32_t> all(3 * items_per_check + 7);
    std::iota(all.begin(), all.end(), 3u);
    EXPECT_EQ(visited, all);
    EXPECT_GE(looks.load(), 1u);
    interruptibly(5, 5, [](int) { FAIL(); });
}

TEST(Interrupt, ALoopEndsBeforeTheNextItems)
{
    const Called called(&pressed);
    size_t visited = 0;
    EXPECT_THROW(interruptibly(size_t{0}, size_t{1} << 40, [&](size_t) { ++visited; }), Pressed);
    EXPECT_EQ(visited, 0u);
}

TEST(Interrupt, MemoryIsFilledInPieces)
{
    std::vector<uint32_t> values{1, 2, 3};
    assign_interruptibly(values, size_t{3} << 20, 7u);
    EXPECT_EQ(values, std::vector<uint32_t>(size_t{3} << 20, 7u));
    resize_interruptibly(values, size_t{5} << 20);
    EXPECT_EQ(values.size(), size_t{5} << 20);
    EXPECT_EQ(values[(size_t{3} << 20) - 1], 7u);
    EXPECT_EQ(values.back(), 0u);
    resize_interruptibly(values, 10);
    EXPECT_EQ(values, std::vector<uint32_t>(10, 7u));
    const Called called(&pressed);
    EXPECT_THROW(assign_interruptibly(values, size_t{1} << 20, 8u), Pressed);
    EXPECT_TRUE(values.empty());
}

// Those whose thread nobody interrupts end as well, and the error is the caller's.
TEST(Interrupt, AllThreadsLeaveWithTheCaller)
{
    for (uint32_t round = 0; round < 50; ++round) {
        const Called called(&pressed);
        std::atomic<uint32_t> under_way{0};
        EXPECT_THROW(on_threads(4,
                                [&](uint32_t i) {
                                    under_way.fetch_add(1);
                                    while (i == 0 && under_way.load() < 4) {
                                    } // ends: all begin
                                    for (;;) check_interrupt(); // ends: the caller is interrupted
                                }),
                     Pressed);
    }
    check_interrupt(); // on_threads() has left nothing behind
}

TEST(Interrupt, AnErrorOfAnotherThreadEndsTheCallerAndIsTold)
{
    const Called called(&never_pressed);
    for (uint32_t round = 0; round < 50; ++round) {
        try {
            on_threads(3, [&](uint32_t i) {
                if (i == 2) throw std::runtime_error("out of memory");
                for (;;) check_interrupt(); // ends: thread 2 has thrown
            });
            ADD_FAILURE() << "it has returned";
        } catch (const std::runtime_error& error) {
            EXPECT_EQ(std::string(error.what()), "out of memory");
        }
    }
}

TEST(Interrupt, ThreadsWithinThreadsLeaveTheirOwn)
{
    on_threads(2, [&](uint32_t) {
        EXPECT_THROW(on_threads(2,
                                [](uint32_t i) {
                                    if (i == 1) throw Pressed{};
                                    for (;;) check_interrupt(); // ends: the other has thrown
                                }),
                     Pressed);
        check_interrupt(); // the outer ones go on
    });
}

} // namespace
