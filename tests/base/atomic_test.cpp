// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/atomic.hpp>

#include <support/threads.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace denizen {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint32_t rounds = 10'000;
#else
constexpr uint32_t rounds = 200'000;
#endif

using test::on_threads;

template <class T>
struct Atomic : testing::Test {};
using Words = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(Atomic, Words);

TYPED_TEST(Atomic, LoadReturnsWhatStoreWrote)
{
    TypeParam word = 0;
    const TypeParam value = static_cast<TypeParam>(0x8000000180000001u);
    store<Scope::system>(&word, value);
    EXPECT_EQ(load<Scope::gpu>(&word), value);
    store<Scope::block, Order::release>(&word, TypeParam{7});
    EXPECT_EQ((load<Scope::system, Order::acquire>(&word)), TypeParam{7});
}

TYPED_TEST(Atomic, FetchAddReturnsTheValueBeforeAndWraps)
{
    TypeParam word = static_cast<TypeParam>(~TypeParam{0});
    EXPECT_EQ((fetch_add<Scope::system>(&word, TypeParam{3})),
              static_cast<TypeParam>(~TypeParam{0}));
    EXPECT_EQ(word, TypeParam{2});
    EXPECT_EQ((fetch_add<Scope::gpu, Order::acq_rel>(&word, static_cast<TypeParam>(~TypeParam{0}))),
              TypeParam{2});
    EXPECT_EQ(word, TypeParam{1});
}

TYPED_TEST(Atomic, CompareExchangeTellsWhatItFound)
{
    TypeParam word = 5;
    TypeParam expected = 4;
    EXPECT_FALSE(compare_exchange<Scope::system>(&word, expected, TypeParam{9}));
    EXPECT_EQ(expected, TypeParam{5});
    EXPECT_EQ(word, TypeParam{5});
    EXPECT_TRUE((compare_exchange<Scope::system, Order::acq_rel>(&word, expected, TypeParam{9})));
    EXPECT_EQ(expected, TypeParam{5});
    EXPECT_EQ(word, TypeParam{9});
}

TYPED_TEST(Atomic, NoAdditionOfFourThreadsIsLost)
{
    TypeParam word = 0;
    on_threads(4, [&](uint32_t) {
        for (uint32_t i = 0; i < rounds; ++i) {
            fetch_add<Scope::system>(&word, TypeParam{1});
        }
    });
    EXPECT_EQ(word, TypeParam{4} * rounds);
}

TYPED_TEST(Atomic, FetchMaxReturnsTheValueBeforeAndOnlyRaises)
{
    TypeParam word = 5;
    EXPECT_EQ((fetch_max<Scope::system>(&word, TypeParam{4})), TypeParam{5});
    EXPECT_EQ(word, TypeParam{5});
    EXPECT_EQ((fetch_max<Scope::system, Order::acq_rel>(&word, TypeParam{5})), TypeParam{5});
    EXPECT_EQ(word, TypeParam{5});
    const TypeParam top_bit = static_cast<TypeParam>(TypeParam{1} << (8 * sizeof(TypeParam) - 1));
    EXPECT_EQ((fetch_max<Scope::gpu, Order::release>(&word, top_bit)), TypeParam{5});
    EXPECT_EQ((fetch_max<Scope::block, Order::acquire>(&word, TypeParam{9})), top_bit);
    EXPECT_EQ(word, top_bit) << "compared as unsigned";
}

// Each thread raises the word to its own residues; what it finds never falls, and is never less
// than what it wrote before.
TYPED_TEST(Atomic, NoMaximumOfFourThreadsIsLost)
{
    TypeParam word = 0;
    std::vector<uint32_t> fell(4, 0);
    on_threads(4, [&](uint32_t thread) {
        TypeParam least = 0;
        for (uint32_t i = 0; i < rounds; ++i) {
            const TypeParam mine = static_cast<TypeParam>(4 * i + thread);
            const TypeParam before = fetch_max<Scope::system>(&word, mine);
            fell[thread] += before < least ? 1 : 0;
            least = before < mine ? mine : before;
        }
    });
    EXPECT_EQ(fell, std::vector<uint32_t>(4, 0));
    EXPECT_EQ(word, static_cast<TypeParam>(4 * rounds - 1));
}

// What a thread wrote before it raised the word is seen by those who find the word raised.
TYPED_TEST(Atomic, FetchMaxOrdersPlainData)
{
    for (uint32_t i = 0; i < rounds / 100; ++i) {
        TypeParam word = 0;
        uint64_t plain = 0;
        on_threads(2, [&](uint32_t thread) {
            if (thread == 0) {
                plain = i;
                fetch_max<Scope::system, Order::release>(&word, TypeParam{7});
            } else {
                while ((fetch_max<Scope::system, Order::acquire>(&word, TypeParam{0})) != 7) {
                    std::this_thread::yield(); // ends when the other thread has run
                }
                EXPECT_EQ(plain, i);
            }
        });
    }
}

// A lock made of compare_exchange(acquire) and store(release) guards a plain word.
TYPED_TEST(Atomic, AcquireAndReleaseGuardPlainData)
{
    TypeParam lock = 0;
    uint64_t plain = 0;
    on_threads(4, [&](uint32_t) {
        for (uint32_t i = 0; i < rounds / 10; ++i) {
            TypeParam open = 0;
            while (!compare_exchange<Scope::system, Order::acquire>(&lock, open, TypeParam{1})) {
                open = 0; // ends when the holder has stored 0
                std::this_thread::yield();
            }
            ++plain;
            store<Scope::system, Order::release>(&lock, TypeParam{0});
        }
    });
    EXPECT_EQ(plain, uint64_t{4} * (rounds / 10));
}

} // namespace
} // namespace denizen
