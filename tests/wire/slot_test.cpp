// SPDX-License-Identifier: Apache-2.0
#include <denizen/wire/slot.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace denizen {
namespace {

constexpr Scope scope = Scope::system;

#if defined(DENIZEN_EMULATED)
constexpr uint32_t stride = 4093; // a prime: every remainder of packet and slot comes by
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t stride = 251; // a prime: every remainder of packet and slot comes by
#else
constexpr uint32_t stride = 1;
#endif

unsigned char byte_at(uint32_t length, uint32_t i)
{
    return static_cast<unsigned char>((length * 31 + i) * 2654435761u >> 24);
}

struct Ring {
    explicit Ring(uint32_t capacity, uint32_t start) : slots(new Slot[capacity]), mask(capacity - 1)
    {
        clear_slots(slots.get(), capacity, start);
    }
    std::unique_ptr<Slot[]> slots;
    uint32_t mask;
};

TEST(Slot, LayoutIsFourPacketsInOneAlignedLine)
{
    EXPECT_EQ(sizeof(Slot), 64u);
    EXPECT_EQ(alignof(Slot), 64u);
    EXPECT_EQ(first_payload, 3 * packet_payload);
    EXPECT_EQ(next_payload, 4 * packet_payload);
}

TEST(Slot, CountGrowsAtTheEdges)
{
    EXPECT_EQ(slots_for(0), 1u);
    EXPECT_EQ(slots_for(36), 1u);
    EXPECT_EQ(slots_for(37), 2u);
    EXPECT_EQ(slots_for(84), 2u);
    EXPECT_EQ(slots_for(85), 3u);
    EXPECT_EQ(slots_for(132), 3u);
    EXPECT_EQ(slots_for(65536), 1366u);
    for (uint32_t length = 1; length <= max_length; ++length) {
        const uint32_t room = first_payload + next_payload * (slots_for(length) - 1);
        ASSERT_GE(room, length);
        ASSERT_LT(room - length, next_payload);
    }
}

TEST(Slot, HeaderFieldsLieWhereTheDeviceReadsThem)
{
    const Packet p = encode({0x12345678, 0x9abcdef0, 0x2a5, 0x15, 65536}, 77);
    EXPECT_EQ(p.word[0], 0x12345678u);
    EXPECT_EQ(p.word[1], 0x2a5u | 0x15u << 10 | 65536u << 15);
    EXPECT_EQ(p.word[2], 0x9abcdef0u);
    EXPECT_EQ(p.sequence, 77u);
}

TEST(Slot, HeaderFieldsDoNotRunIntoEachOther)
{
    const uint32_t addresses[] = {0, 1, ~0u};
    for (const uint32_t destination : addresses) {
        for (const uint32_t sender : addresses) {
            for (const uint32_t type : {0u, 1u, max_type}) {
                for (const uint32_t flags : {0u, 1u, max_flags}) {
                    for (const uint32_t length : {0u, 1u, max_length}) {
                        const Header h{destination, sender, type, flags, length};
                        EXPECT_TRUE(decode(encode(h, 5)) == h);
                    }
                }
            }
        }
    }
}

// Every payload size, from exactly sized buffers, at tickets that run over 2^32.
TEST(Slot, EveryLengthComesBackWhole)
{
    constexpr uint32_t capacity = 2048;
    uint32_t ticket = 0u - 3 * capacity;
    Ring ring(capacity, ticket);
    for (uint32_t length = 0; length <= max_length; length += length < 400 ? 1 : stride) {
        const std::unique_ptr<unsigned char[]> sent(new unsigned char[length]);
        for (uint32_t i = 0; i < length; ++i) {
            sent[i] = byte_at(length, i);
        }
        const Header h{length, ticket, length & max_type, length & max_flags, length};
        store_message<scope>(ring.slots.get(), ring.mask, ticket, h, sent.get());
        const Packet first = load_packet<scope>(&ring.slots[ticket & ring.mask].packet[0]);
        ASSERT_EQ(first.sequence, ticket + 1);
        ASSERT_TRUE(decode(first) == h);
        const std::unique_ptr<unsigned char[]> got(new unsigned char[length]);
        ASSERT_TRUE(load_payload<scope>(ring.slots.get(), ring.mask, ticket, length, got.get()));
        ASSERT_EQ(std::memcmp(sent.get(), got.get(), length), 0) << length << " bytes";
        ticket += slots_for(length);
    }
}

TEST(Slot, WholeSlotsAreWrittenAndNoOther)
{
    constexpr uint32_t capacity = 8;
    for (const uint32_t length : {0u, 1u, 12u, 13u, 36u, 37u, 84u, 85u, 180u}) {
        const uint32_t start = 0u - 2; // the message runs over 2^32 and over the end of the ring
        Ring ring(capacity, start);
        const std::vector<unsigned char> payload(length, 0xee);
        store_message<scope>(ring.slots.get(), ring.mask, start, {1, 2, 3, 4, length},
                             payload.data());
        for (uint32_t s = 0; s < capacity; ++s) {
            const uint32_t ticket = start + s;
            const bool used = s < slots_for(length);
            for (const Packet& p : ring.slots[ticket & ring.mask].packet) {
                EXPECT_EQ(p.sequence, used ? ticket + 1 : ticket + 1 - capacity)
                    << length << " bytes, slot " << s;
            }
        }
    }
}

// Holds back one packet at a time, also those that carry nothing: none may be missing when the
// reader gives the slots back, or it would land on the next lap's message.
TEST(Slot, EveryPacketIsAwaited)
{
    constexpr uint32_t capacity = 4;
    for (const uint32_t start : {0u, 0u - 1}) {
        for (const uint32_t length : {0u, 1u, 24u, 36u, 37u, 84u, 85u}) {
            Ring ring(capacity, start);
            std::vector<unsigned char> payload(length, 0x5a);
            store_message<scope>(ring.slots.get(), ring.mask, start, {1, 2, 3, 4, length},
                                 payload.data());
            for (uint32_t place = 1; place < 4 * slots_for(length); ++place) {
                Packet& late = ring.slots[(start + place / 4) & ring.mask].packet[place % 4];
                const Packet arrived = late;
                late.sequence -= capacity;
                EXPECT_FALSE(
                    load_payload<scope>(ring.slots.get(), ring.mask, start, length, payload.data()))
                    << length << " bytes, packet " << place;
                late = arrived;
            }
            EXPECT_TRUE(
                load_payload<scope>(ring.slots.get(), ring.mask, start, length, payload.data()));
            EXPECT_EQ(payload, std::vector<unsigned char>(length, 0x5a));
        }
    }
}

// Not inlined: g++ 12 would warn of the 16-byte reads that it can see are not made.
[[gnu::noinline]] void store_general(Slot* slot, uint32_t ticket, const Header& h,
                                     const void* payload)
{
    store_message<scope>(slot, 0, ticket, h, payload);
}

template <uint32_t L>
void short_equals_general()
{
    const uint32_t ticket = 0u - 1;
    std::vector<unsigned char> payload(L); // nothing to read behind it
    for (uint32_t i = 0; i < L; ++i) {
        payload[i] = byte_at(L, i);
    }
    const Header h{11, 22, 33, 7, L};
    Slot fast = {};
    Slot general = {};
    store_short<scope, L>(&fast, ticket, h, payload.data());
    store_general(&general, ticket, h, payload.data());
    EXPECT_EQ(std::memcmp(&fast, &general, sizeof fast), 0) << L << " bytes";

    Header got_header;
    std::vector<unsigned char> got(L);
    EXPECT_TRUE((load_short<scope, L>(&fast, ticket, got_header, got.data())));
    EXPECT_TRUE(got_header == h);
    EXPECT_EQ(got, payload) << L << " bytes";
    for (Packet& late : fast.packet) {
        const Packet arrived = late;
        late.sequence = ticket; // what a lap of one slot would have left
        EXPECT_FALSE((load_short<scope, L>(&fast, ticket, got_header, got.data())));
        late = arrived;
    }
}

TEST(Slot, ShortMessagesOfKnownLengthAreTheSameBytes)
{
    [&]<size_t... L>(std::index_sequence<L...>) {
        (short_equals_general<static_cast<uint32_t>(L)>(), ...);
    }(std::make_index_sequence<first_payload + 1>{});
}

TEST(Slot, ClearedSlotsMatchNoTicketOfTheFirstLap)
{
    for (const uint32_t capacity : {2u, 4u, 64u}) {
        for (const uint32_t start : {0u, 1u, 3u, 0u - 1, 0u - capacity, 0x80000000u}) {
            Ring ring(capacity, start);
            for (uint32_t i = 0; i < capacity; ++i) {
                for (const Packet& p : ring.slots[(start + i) & ring.mask].packet) {
                    EXPECT_EQ(p.sequence, start + i + 1 - capacity);
                    EXPECT_NE(p.sequence, start + i + 1);
                }
            }
        }
    }
}

} // namespace
} // namespace denizen
