// SPDX-License-Identifier: Apache-2.0
// The slots of a message that goes out: its payload, the stamp behind it, and zeros.
#include <denizen/actor/detail/outgoing.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace denizen {
namespace {

// What the slots of a message say, packet by packet, in the order of its bytes.
std::vector<unsigned char> said_by(const detail::Outgoing& m, uint32_t sequence)
{
    std::vector<unsigned char> bytes;
    for (uint32_t i = 0; i < slots_for(m.h.length); ++i) {
        const Slot slot = detail::slot_of(m, i, sequence + i);
        for (uint32_t k = 0; k < 4; ++k) {
            EXPECT_EQ(slot.packet[k].sequence, sequence + i) << "slot " << i << ", packet " << k;
            if (i == 0 && k == 0) {
                EXPECT_EQ(decode(slot.packet[0]), m.h);
                continue;
            }
            const auto* begin = reinterpret_cast<const unsigned char*>(slot.packet[k].word);
            bytes.insert(bytes.end(), begin, begin + packet_payload);
        }
    }
    return bytes;
}

TEST(Outgoing, SlotsHoldPayloadsOfEachLengthAtEachAddress)
{
    alignas(8) unsigned char room[256];
    for (uint32_t i = 0; i < sizeof room; ++i) {
        room[i] = static_cast<unsigned char>(i * 7 + 1);
    }
    const uint64_t stamp = 0x8877665544332211;
    for (uint32_t length = first_payload + 1; length < 200; ++length) {
        for (uint32_t at = 0; at < 4; ++at) {
            for (const uint32_t stamped : {0u, 8u}) {
                SCOPED_TRACE(testing::Message() << length << " bytes at " << at << ", " << stamped);
                detail::Outgoing m = detail::outgoing({3, 5, 7, 0, length}, room + at);
                m.stamp = stamp;
                m.h.length += stamped;
                std::vector<unsigned char> expected(room + at, room + at + length);
                const auto* end = reinterpret_cast<const unsigned char*>(&stamp);
                expected.insert(expected.end(), end, end + stamped);
                const std::vector<unsigned char> said = said_by(m, 1000);
                expected.resize(said.size(), 0);
                ASSERT_EQ(said, expected);
            }
        }
    }
}

} // namespace
} // namespace denizen
