// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/packet.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <thread>
#include <type_traits>

namespace denizen {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t rounds = 100'000;
#else
constexpr uint32_t rounds = 2'000'000;
#endif

bool operator==(const Packet& a, const Packet& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// A packet whose four words all follow from one number.
Packet stamped(uint32_t n) { return {{n, ~n, n * 2654435761u}, n}; }

TEST(Packet, LayoutIsSixteenBytesPayloadFirst)
{
    EXPECT_EQ(sizeof(Packet), 16u);
    EXPECT_EQ(alignof(Packet), 16u);
    EXPECT_EQ(offsetof(Packet, word), 0u);
    EXPECT_EQ(offsetof(Packet, sequence), 12u);
    EXPECT_TRUE(std::is_trivially_copyable_v<Packet>);
    EXPECT_TRUE(std::is_standard_layout_v<Packet>);
}

template <class S>
struct PacketAccess : testing::Test {};

template <Scope S>
struct ScopeIs {
    static constexpr Scope value = S;
};
using Scopes = testing::Types<ScopeIs<Scope::gpu>, ScopeIs<Scope::system>>;
TYPED_TEST_SUITE(PacketAccess, Scopes);

TYPED_TEST(PacketAccess, StoreThenLoadKeepsEveryByteAndTouchesNoOther)
{
    constexpr Scope scope = TypeParam::value;
    Packet around[3];
    std::memset(around, 0xa5, sizeof around);
    const Packet guard = around[0];
    unsigned char bytes[16];
    for (unsigned char i = 0; i < 16; ++i) {
        bytes[i] = static_cast<unsigned char>(17 * i + 3);
    }
    Packet value;
    std::memcpy(&value, bytes, sizeof value);
    store_packet<scope>(&around[1], value);
    EXPECT_TRUE(load_packet<scope>(&around[1]) == value);
    EXPECT_TRUE(around[0] == guard);
    EXPECT_TRUE(around[2] == guard);
}

// Two threads write one packet as fast as they can, two read it: whatever a reader sees must be one
// of the values that were written, whole.
TYPED_TEST(PacketAccess, IsNeverTorn)
{
    constexpr Scope scope = TypeParam::value;
    alignas(64) Packet shared[4] = {}; // the one in the middle of a line is as good as the first
    Packet* const packet = &shared[1];
    store_packet<scope>(packet, stamped(0));
    uint32_t torn[2] = {};
    uint32_t reading = 2;
    std::thread threads[4];
    for (uint32_t r = 0; r < 2; ++r) {
        threads[r] = std::thread([&, r] {
            while (load_packet<scope>(packet).sequence == 0) { // ends when a writer has begun
                std::this_thread::yield();
            }
            for (uint32_t n = 0; n < rounds; ++n) {
                const Packet p = load_packet<scope>(packet);
                torn[r] += p == stamped(p.sequence) ? 0 : 1;
            }
            fetch_add<Scope::system>(&reading, ~0u);
        });
    }
    for (uint32_t w = 0; w < 2; ++w) {
        threads[2 + w] = std::thread([&, w] {
            for (uint32_t n = 1; load<Scope::system>(&reading) != 0; ++n) { // ends with the readers
                store_packet<scope>(packet, stamped(2 * n + w));
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    EXPECT_EQ(torn[0] + torn[1], 0u);
}

// What was written before a packet is there once the packet is seen (host side of load/store).
TYPED_TEST(PacketAccess, CarriesWhatWasWrittenBeforeIt)
{
    constexpr Scope scope = TypeParam::value;
    Packet ping = {};
    Packet pong = {};
    uint32_t data = 0; // plain: ThreadSanitizer and the comparison both judge
    uint32_t wrong = 0;
    constexpr uint32_t turns = rounds / 100;
    std::thread other([&] {
        for (uint32_t n = 1; n <= turns; ++n) {
            while (load_packet<scope>(&ping).sequence !=
                   n) { // ends when the main thread has written n
                std::this_thread::yield();
            }
            wrong += data != n ? 1 : 0;
            data = ~n;
            store_packet<scope>(&pong, stamped(n));
        }
    });
    for (uint32_t n = 1; n <= turns; ++n) {
        data = n;
        store_packet<scope>(&ping, stamped(n));
        while (load_packet<scope>(&pong).sequence !=
               n) { // ends when the other thread has answered n
            std::this_thread::yield();
        }
        wrong += data != ~n ? 1 : 0;
    }
    other.join();
    EXPECT_EQ(wrong, 0u);
}

} // namespace
} // namespace denizen
