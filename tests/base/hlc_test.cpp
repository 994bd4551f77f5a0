// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/hlc.hpp>

#include <base/hlc_cases.hpp>
#include <support/threads.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

namespace denizen {
namespace {

using hlc::Stamp;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t ticks = 1'000'000;
#else
constexpr uint32_t ticks = 100'000'000;
#endif

using test::on_threads;

Stamp tick(uint64_t& word, uint64_t now_us) { return hlc::tick<Scope::system>(&word, now_us); }

bool update(uint64_t& word, Stamp remote, uint64_t now_us, Stamp& drawn)
{
    return hlc::update<Scope::system>(&word, remote, now_us, drawn);
}

TEST(Hlc, StampHolds48BitsOfMicrosecondsAnd16OfCount)
{
    constexpr Stamp s = Stamp::of(0xfedc'ba98'7654, 0x3210);
    static_assert(sizeof(Stamp) == 8);
    static_assert(s.value == 0xfedc'ba98'7654'3210);
    static_assert(s.micros() == 0xfedc'ba98'7654 && s.logical() == 0x3210);
    EXPECT_LT(Stamp::of(7, 65'535), Stamp::of(8, 0));
    EXPECT_LT(Stamp::of(7, 1), Stamp::of(7, 2));
    EXPECT_EQ(Stamp::of(7, 2), (Stamp{7 << 16 | 2}));
    EXPECT_FALSE(Stamp::of(7, 2) < Stamp::of(7, 2));
}

TEST(Hlc, TickFollowsThePaper)
{
    uint64_t word = 0;
    EXPECT_EQ(tick(word, 10), Stamp::of(10, 0)); // physical time is ahead: it, and count 0
    EXPECT_EQ(tick(word, 10), Stamp::of(10, 1)); // it stands still: the count goes on
    EXPECT_EQ(tick(word, 7), Stamp::of(10, 2));  // it goes back: the same
    EXPECT_EQ(tick(word, 11), Stamp::of(11, 0));
}

TEST(Hlc, UpdateFollowsThePaper)
{
    uint64_t word = 0;
    Stamp s;
    tick(word, 10);
    EXPECT_TRUE(update(word, Stamp::of(20, 5), 15, s)); // the message is ahead: its count + 1
    EXPECT_EQ(s, Stamp::of(20, 6));
    EXPECT_TRUE(update(word, Stamp::of(20, 9), 15, s)); // level with us: the greater count + 1
    EXPECT_EQ(s, Stamp::of(20, 10));
    EXPECT_TRUE(update(word, Stamp::of(20, 2), 15, s));
    EXPECT_EQ(s, Stamp::of(20, 11));
    EXPECT_TRUE(update(word, Stamp::of(3, 60'000), 15, s)); // behind: our count + 1
    EXPECT_EQ(s, Stamp::of(20, 12));
    EXPECT_TRUE(update(word, Stamp::of(20, 40), 21, s)); // physical time is ahead of both
    EXPECT_EQ(s, Stamp::of(21, 0));
    EXPECT_EQ(tick(word, 21), Stamp::of(21, 1));
}

TEST(Hlc, AFullCountCarriesIntoTheMicroseconds)
{
    uint64_t word = 0;
    Stamp last = tick(word, 10);
    for (uint32_t i = 1; i < 65'536 + 10; ++i) {
        const Stamp s = tick(word, 10);
        ASSERT_EQ(s.value, last.value + 1);
        last = s;
    }
    EXPECT_EQ(last, Stamp::of(11, 9));
    EXPECT_EQ(tick(word, 11), Stamp::of(11, 10)); // time has caught up, the order holds
    EXPECT_EQ(tick(word, 12), Stamp::of(12, 0));
    EXPECT_TRUE(update(word, Stamp::of(12, 65'535), 12, last));
    EXPECT_EQ(last, Stamp::of(13, 0));
}

TEST(Hlc, AStampTooFarAheadIsRefusedAndChangesNothing)
{
    uint64_t word = 0;
    tick(word, 1000);
    const uint64_t before = word;
    Stamp drawn = Stamp::of(1, 2);
    EXPECT_FALSE(update(word, Stamp::of(1000 + hlc::max_drift_us + 1, 0), 1000, drawn));
    EXPECT_FALSE(update(word, Stamp{~uint64_t{0}}, 1000, drawn));
    EXPECT_EQ(word, before);
    EXPECT_EQ(drawn, Stamp::of(1, 2));
    const Stamp edge = Stamp::of(1000 + hlc::max_drift_us, 65'535);
    EXPECT_TRUE(update(word, edge, 1000, drawn));
    EXPECT_EQ(drawn.value, edge.value + 1);
    EXPECT_EQ(hlc::max_drift_us, 60u * 1'000'000);
}

TEST(Hlc, HostTimeIsMicrosecondsSince2026)
{
    const auto days_2026 = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};
    EXPECT_EQ(std::chrono::microseconds(days_2026.time_since_epoch()).count(),
              static_cast<int64_t>(hlc::epoch_us));
    const auto before = std::chrono::system_clock::now();
    const uint64_t now = hlc::now_us();
    if (before < days_2026) {
        EXPECT_EQ(now, 0u);
        GTEST_SKIP() << "this machine's clock is set before 2026";
    }
    const auto at = days_2026 + std::chrono::microseconds(now);
    EXPECT_LT(at - before, std::chrono::minutes(1));
    EXPECT_LT(before - at, std::chrono::minutes(1));
}

// A random history of one clock against the paper's algorithm, word for word.
TEST(Hlc, ARandomHistoryIsThePapers)
{
    std::mt19937_64 random(1);
    uint64_t word = 0;
    uint64_t l = 0; // the paper's names: l physical part, c count
    uint64_t c = 0;
    for (uint32_t i = 0; i < 100'000; ++i) {
        const uint64_t pt = 100 + i / 7 + random() % 5;
        Stamp drawn;
        if (random() % 2 == 0) {
            drawn = tick(word, pt);
            c = pt > l ? 0 : c + 1;
            l = pt > l ? pt : l;
        } else {
            const Stamp m =
                Stamp::of(100 + i / 7 + random() % 9, static_cast<uint32_t>(random() % 50));
            ASSERT_TRUE(update(word, m, pt, drawn));
            const uint64_t old = l;
            l = std::max({l, m.micros(), pt});
            c = l == old && l == m.micros() ? std::max<uint64_t>(c, m.logical()) + 1
                : l == old                  ? c + 1
                : l == m.micros()           ? m.logical() + 1
                                            : 0;
        }
        ASSERT_EQ(drawn, Stamp::of(l, static_cast<uint32_t>(c))) << "event " << i;
    }
}

TEST(Hlc, CauseComesBeforeEffectAlongFiveNodes) { EXPECT_EQ(test::five_nodes(10'000), 0u); }

TEST(Hlc, NoStampIsDrawnTwice)
{
    for (uint32_t threads : {4u, 3u}) { // 3 does not divide 65,536
        const uint32_t per_thread = (threads == 4 ? ticks : ticks / 10) / threads;
        const uint64_t bits = test::bits_for(threads, per_thread);
        std::vector<uint32_t> seen(bits / 32 + 1, 0);
        const uint64_t begin = uint64_t{1'000'000} << 16;
        uint64_t word = begin;
        uint32_t repeated = 0;
        uint32_t fell = 0;
        uint32_t outside = 0;
        const test::Draws draws{&word,      seen.data(), bits,  begin,   threads,
                                per_thread, &repeated,   &fell, &outside};
        on_threads(threads, [&](uint32_t i) { test::draw<Scope::system>(draws, i); });
        EXPECT_EQ(repeated, 0u);
        EXPECT_EQ(fell, 0u);
        EXPECT_EQ(outside, 0u);
        uint64_t drawn = 0;
        for (uint32_t of_32 : seen) {
            drawn += static_cast<uint32_t>(__builtin_popcount(of_32));
        }
        EXPECT_EQ(drawn, uint64_t{threads} * per_thread);
    }
}

// Two clocks, two threads each, by the system's time: whatever a thread takes over from the other
// clock, it draws a later stamp.
TEST(Hlc, TwoClocksThatHearOfEachOtherStayInOrder)
{
    uint64_t word[2] = {0, 0};
    uint64_t told[2] = {0, 0}; // the last message to each side
    std::vector<uint32_t> wrong(4, 0);
    on_threads(4, [&](uint32_t thread) {
        const uint32_t side = thread % 2;
        Stamp last;
        for (uint32_t i = 0; i < ticks / 500; ++i) {
            const uint64_t now = hlc::now_us() + 1000 * side;
            const Stamp message{load<Scope::system>(&told[side])};
            Stamp received;
            if (!hlc::update<Scope::system>(&word[side], message, now, received)) {
                ++wrong[thread];
            }
            const Stamp sent = hlc::tick<Scope::system>(&word[side], now);
            wrong[thread] += message < received && last < received && received < sent ? 0 : 1;
            last = sent;
            fetch_max<Scope::system>(&told[1 - side], sent.value);
        }
    });
    EXPECT_EQ(wrong, std::vector<uint32_t>(4, 0));
}

} // namespace
} // namespace denizen
