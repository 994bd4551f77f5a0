// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>
#include <denizen/radio/detail/demodulate.hpp>
#include <denizen/radio/message.hpp>

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace denizen::radio {
namespace {

// Bit by bit, as the standard writes the division.
uint32_t long_division(const Frame& f)
{
    uint32_t rest = 0;
    for (uint32_t n = 1; n <= f.bits(); ++n) {
        const uint32_t carry = rest >> 23 & 1;
        rest = (rest << 1 | f.bit(n)) & 0xFFFFFF;
        if (carry != 0) rest ^= crc24_generator;
    }
    return rest;
}

TEST(Parity, AgreesWithLongDivision)
{
    std::mt19937_64 random(1);
    for (int i = 0; i < 1000; ++i) {
        Frame f{random() >> 8, random() >> 8};
        if (f.bits() == short_bits) f.tail = 0;
        EXPECT_EQ(syndrome(f), long_division(f));
    }
}

// Frames off the air, with the parity's combination known: none, a code, an address.
TEST(Parity, OfKnownFrames)
{
    EXPECT_EQ(syndrome(frame_of("8D40621D58C382D690C8AC2863A7")), 0u);
    EXPECT_EQ(syndrome(frame_of("5f4d20232daf3c")), 0x3Cu);
    EXPECT_EQ(syndrome(frame_of("02e60eb9be4118")), 0x4D2023u);
}

// All but the first bit, which says how long the frame is.
TEST(Parity, EverySingleErrorHasItsOwnSyndrome)
{
    const Frame right = frame_of("8D40621D58C382D690C8AC2863A7");
    std::map<uint32_t, uint32_t> seen;
    uint32_t of_n = 1;
    for (uint32_t n = long_bits; n > 1; --n, of_n = earlier_error(of_n)) {
        Frame wrong = right;
        wrong.flip(n);
        EXPECT_EQ(syndrome(wrong), of_n) << n;
        EXPECT_TRUE(seen.emplace(of_n, n).second) << n << " and " << seen[of_n];
    }
}

TEST(Frames, FieldsCountBitsFromOne)
{
    const Frame f = frame_of("8D40621D58C382D690C8AC2863A7");
    EXPECT_EQ(f.format(), 17u);
    EXPECT_EQ(f.bits(), long_bits);
    EXPECT_EQ(f.part(9, 32), 0x40621Du);
    EXPECT_EQ(f.part(33, 37), 11u);
    EXPECT_EQ(f.part(53, 60), f.part(53, 56) << 4 | f.part(57, 60)); // over the middle
    EXPECT_EQ(f.field(57, 112), f.tail);
    EXPECT_EQ(to_hex(f), "8d40621d58c382d690c8ac2863a7");
}

TEST(Frames, TextThatIsNoneIsRefused)
{
    for (const char* text : {"", "8D4062", "8D40621D58C382", "zz4d20237a55a6",
                             "5d4d20237a55a65d4d20237a55a6", "0x4d20237a55a6"}) {
        EXPECT_THROW(frame_of(text), Error) << text;
    }
    EXPECT_NO_THROW(frame_of("5d4d20237a55a6"));
}

TEST(Messages, FieldsThatAreNotAvailableAreEmpty)
{
    // Velocity with no component, no vertical rate, no difference of altitudes.
    const Message m = decode(frame_of("8d48502099000000000000000000"), 0x485020);
    EXPECT_EQ(m.typecode, 19);
    EXPECT_FALSE(m.groundspeed || m.track || m.vertical_rate || m.geo_minus_baro);
    EXPECT_EQ(decode(frame_of("20000000000000"), 1).altitude, std::nullopt);
}

} // namespace
} // namespace denizen::radio
