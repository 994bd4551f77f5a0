// SPDX-License-Identifier: Apache-2.0
// Items that circulate between threads: each is received once, in its sender's order, whole.
#include <denizen/flow/channel.hpp>

#include <gtest/gtest.h>

#include <support/threads.hpp>

#include <chrono>
#include <set>
#include <thread>

namespace denizen::flow {
namespace {

struct Item {
    uint64_t number;
    uint64_t copies[3];
};

Item item(uint64_t n) { return {n, {n * 3, n * 5, n * 7}}; }
bool whole(const Item& i)
{
    return i.copies[0] == i.number * 3 && i.copies[1] == i.number * 5 &&
           i.copies[2] == i.number * 7;
}

TEST(UncheckedRing, DeliversInOrderOverManyLaps)
{
    UncheckedRing<Item> ring(3);
    Item got{};
    EXPECT_FALSE(ring.try_receive(got));
    for (uint64_t n = 0; n < 100; n += 3) {
        for (uint64_t k = 0; k < 3; ++k) ring.send(item(n + k));
        for (uint64_t k = 0; k < 3; ++k) {
            ASSERT_TRUE(ring.try_receive(got));
            EXPECT_EQ(got.number, n + k);
            EXPECT_TRUE(whole(got));
        }
        EXPECT_FALSE(ring.try_receive(got));
    }
}

// Two threads, `depth` items going round: every one comes back as often as it was sent, changed by
// the other thread, in order.
void circulate(uint32_t depth, uint64_t rounds)
{
    Channel<Item> there(depth);
    Channel<Item> back(depth);
    std::thread other([&] {
        Item i{};
        while (there.receive(i)) { // ends when `there` is closed
            back.send(item(i.number + 1));
        }
        back.close();
    });
    for (uint64_t n = 0; n < depth; ++n) there.send(item(n * 1'000'000));
    Item i{};
    for (uint64_t n = 0; n < rounds; ++n) {
        ASSERT_TRUE(back.receive(i));
        ASSERT_TRUE(whole(i));
        ASSERT_EQ(i.number, n % depth * 1'000'000 + 2 * (n / depth) + 1);
        there.send(item(i.number + 1));
    }
    there.close();
    uint32_t left = 0;
    while (back.receive(i)) ++left; // ends when the other thread has closed
    EXPECT_EQ(left, depth);
    other.join();
}

TEST(Channel, ItemsCirculateOneDeep) { circulate(1, 20'000); }
TEST(Channel, ItemsCirculateSixtyFourDeep) { circulate(64, 200'000); }
TEST(Channel, SlotsAreReusedAtOnceWhenTheRingIsExactlyFull) { circulate(2, 50'000); }

TEST(Channel, MergesSendersAndKeepsTheOrderOfEach)
{
    constexpr uint32_t senders = 3;
    constexpr uint64_t each = 20'000;
    constexpr uint32_t depth = 8; // of each sender
    Channel<Item> merged(depth, senders);
    std::vector<std::unique_ptr<Channel<Item>>> returns;
    for (uint32_t s = 0; s < senders; ++s) {
        returns.push_back(std::make_unique<Channel<Item>>(depth));
        for (uint32_t k = 0; k < depth; ++k) returns[s]->send(item(0));
    }
    uint64_t next[senders] = {};
    test::on_threads(senders + 1, [&](uint32_t me) {
        if (me < senders) {
            Item free{};
            for (uint64_t n = 0; n < each && returns[me]->receive(free); ++n) {
                merged.send(item(me * each + n), me);
            }
            merged.close(me);
            return;
        }
        Item i{};
        while (merged.receive(i)) { // ends when all have closed
            const uint64_t from = i.number / each;
            EXPECT_TRUE(whole(i));
            EXPECT_EQ(i.number % each, next[from]++);
            returns[from]->send(i);
        }
    });
    for (const uint64_t n : next) EXPECT_EQ(n, each);
}

// A sender that stops for good in the middle of its work holds up nobody else.
TEST(Channel, ASilentSenderHoldsUpNobody)
{
    Channel<Item> merged(4, 2);
    Item i{};
    for (uint64_t n = 0; n < 100; ++n) {
        merged.send(item(n), 1);
        ASSERT_TRUE(merged.try_receive(i));
        EXPECT_EQ(i.number, n);
    }
    EXPECT_FALSE(merged.try_receive(i));
}

TEST(Channel, WakesASleepingReceiver)
{
    Channel<Item> channel(1);
    Channel<Item> answers(1);
    std::thread receiver([&] {
        Item i{};
        while (channel.receive(i)) answers.send(i); // ends when closed
    });
    Item i{};
    for (uint64_t n = 0; n < 20; ++n) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2)); // it sleeps by then, mostly
        channel.send(item(n));
        ASSERT_TRUE(answers.receive(i));
        EXPECT_EQ(i.number, n);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    channel.close(); // wakes it, too
    receiver.join();
}

} // namespace
} // namespace denizen::flow
