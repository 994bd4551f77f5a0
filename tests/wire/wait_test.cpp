// SPDX-License-Identifier: Apache-2.0
// Ends that wait: for a message, for room, for the bell. Deadlines of minutes stand for "never": a
// wake-up that is lost makes a test hang or fail, not pass late.
#include "print.hpp"

#include <denizen/wire/channel.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace denizen {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr uint32_t messages = 2'000;
#else
constexpr uint32_t messages = 20'000;
#endif

constexpr Header header{1, 2, 3, 0, 4};

template <class K, class W>
struct Waits {
    using Kind = K;
    using Wait = W;
};

template <class C>
struct Waiting : testing::Test {};
using Cases = testing::Types<Waits<Spsc, Spin>, Waits<Spsc, Backoff>, Waits<Spsc, Park>,
                             Waits<Mpsc, Spin>, Waits<Mpsc, Backoff>, Waits<Mpsc, Park>,
                             Waits<Mpmc, Spin>, Waits<Mpmc, Backoff>, Waits<Mpmc, Park>>;
TYPED_TEST_SUITE(Waiting, Cases);

// Spinning against each other on one core costs a time slice per message.
template <class Wait>
constexpr uint32_t messages_for = std::is_same_v<Wait, Spin> ? messages / 20 : messages;

TYPED_TEST(Waiting, BothSidesWaitForEachOther)
{
    using Wait = typename TypeParam::Wait;
    Channel<typename TypeParam::Kind> channel("wait", 2, 0u - 7);
    std::thread producer([&] {
        auto tx = channel.sender();
        for (uint32_t n = 0; n < messages_for<Wait>; ++n) {
            tx.send(header, &n, 5min); // two slots: it waits for room again and again
        }
    });
    auto rx = channel.receiver();
    for (uint32_t n = 0; n < messages_for<Wait>; ++n) {
        uint32_t got = ~n;
        rx.template receive<Wait>(&got, sizeof got, 5min);
        ASSERT_EQ(got, n);
    }
    producer.join();
}

template <class Kind>
struct Parking : testing::Test {};
using Kinds = testing::Types<Spsc, Mpsc, Mpmc>;
TYPED_TEST_SUITE(Parking, Kinds);

void wait_for_sleepers(const RingView& view, uint32_t n)
{
    while (load<Scope::system>(&view.words->sleeping) !=
           (n | unrung)) { // ends when n consumers have gone to bed
        std::this_thread::yield();
    }
}

TYPED_TEST(Parking, SleeperIsWokenByAMessage)
{
    Channel<TypeParam> channel("park", 2, 0u - 2);
    uint32_t got = 0;
    std::thread consumer([&] {
        auto rx = channel.receiver();
        rx.template receive<Park>(&got, sizeof got, 5min);
        rx.template receive<Park>(&got, sizeof got, 5min);
    });
    auto tx = channel.sender();
    for (uint32_t n = 1; n <= 2; ++n) {
        wait_for_sleepers(channel.view(), 1);
        tx.send(header, &n);
    }
    consumer.join();
    EXPECT_EQ(got, 2u);
    EXPECT_EQ(channel.view().words->sleeping, 0u);
}

TYPED_TEST(Parking, SleeperIsWokenByClose)
{
    Channel<TypeParam> channel("park", 2);
    Errc code = Errc::ok;
    std::thread consumer([&] {
        auto rx = channel.receiver();
        uint32_t got = 0;
        try {
            rx.template receive<Park>(&got, sizeof got, 5min);
        } catch (const Error& e) {
            code = e.code();
        }
    });
    wait_for_sleepers(channel.view(), 1);
    channel.close();
    consumer.join();
    EXPECT_EQ(code, Errc::closed);
}

TYPED_TEST(Parking, SleeperIsWokenByItsDeadline)
{
    Channel<TypeParam> channel("park", 2);
    auto rx = channel.receiver();
    uint32_t got = 0;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THROW(rx.template receive<Park>(&got, sizeof got, 20ms), Error);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
    EXPECT_EQ(channel.view().words->sleeping, 0u);
}

// One consumer gives up while another sleeps on: senders must still know that somebody sleeps.
TEST(ParkingTwo, OnesTimeOutDoesNotHideTheOther)
{
    Channel<Mpmc> channel("park", 4);
    uint32_t got = 0;
    std::thread sleeper([&] { channel.receiver().receive<Park>(&got, sizeof got, 5min); });
    wait_for_sleepers(channel.view(), 1);
    uint32_t nothing = 0;
    EXPECT_THROW(channel.receiver().receive<Park>(&nothing, sizeof nothing, 5ms), Error);
    EXPECT_EQ(load<Scope::system>(&channel.view().words->sleeping), 1u | unrung);
    const uint32_t value = 77;
    channel.sender().send(header, &value);
    sleeper.join();
    EXPECT_EQ(got, value);
}

// Producers and parked consumers, most of the time asleep: every message is received.
TEST(ParkingTwo, NoWakeUpIsLostBetweenMany)
{
    constexpr uint32_t consumers = 3;
    Channel<Mpmc> channel("park", 8, 0u - 11);
    std::vector<uint32_t> received(consumers);
    std::vector<std::thread> threads;
    for (uint32_t c = 0; c < consumers; ++c) {
        threads.emplace_back([&, c] {
            auto rx = channel.receiver();
            try {
                for (;;) { // ends when the ring is closed and empty
                    uint32_t got = 0;
                    rx.receive<Park>(&got, sizeof got, 5min);
                    ++received[c];
                }
            } catch (const Error& e) {
                EXPECT_EQ(e.code(), Errc::closed);
            }
        });
    }
    std::vector<std::thread> producers;
    for (uint32_t p = 0; p < 2; ++p) {
        producers.emplace_back([&, p] {
            auto tx = channel.sender();
            for (uint32_t n = 0; n < messages / 10; ++n) {
                tx.send(header, &n, 5min);
                if (n % (7 + p) == 0) { // let everybody fall asleep now and then
                    std::this_thread::sleep_for(std::chrono::microseconds(50));
                }
            }
        });
    }
    for (std::thread& t : producers) {
        t.join();
    }
    channel.close();
    for (std::thread& t : threads) {
        t.join();
    }
    EXPECT_EQ(received[0] + received[1] + received[2], 2 * (messages / 10));
}

} // namespace
} // namespace denizen
