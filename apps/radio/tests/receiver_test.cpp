// SPDX-License-Identifier: Apache-2.0
#include "signal.hpp"

#include <denizen/radio/receiver.hpp>

#include "../src/scan.hpp"

#include <gtest/gtest.h>
#include <map>

namespace denizen::radio {
namespace {

using test::Signal;

std::vector<Message> receive(const std::vector<uint8_t>& iq, size_t piece)
{
    std::vector<Message> out;
    const auto sink = [&](const Message& m) { out.push_back(m); };
    Receiver receiver;
    for (size_t at = 0; at < iq.size(); at += piece)
        receiver.feed(iq.data() + at, std::min(piece, iq.size() - at), sink);
    receiver.finish(sink);
    EXPECT_EQ(receiver.counts().samples, iq.size() / 2);
    EXPECT_EQ(receiver.counts().messages, out.size());
    return out;
}

std::vector<std::string> frames(const std::vector<Message>& messages)
{
    std::vector<std::string> out;
    for (const Message& m : messages) out.push_back(to_hex(m.frame));
    return out;
}

TEST(Receiver, FindsStrongFramesAtEveryFractionOfASample)
{
    Signal signal(60000, 1);
    std::vector<std::string> sent;
    for (uint32_t k = 0; k < 100; ++k) {
        const Frame f = test::squitter(0x400000 + k, signal.random()() * 0x100000001ull >> 8);
        signal.add(f, 500 + 500 * k + k / 100.0, 24);
        sent.push_back(to_hex(f));
    }
    const std::vector<Message> got = receive(signal.bytes(), 1 << 20);
    EXPECT_EQ(frames(got), sent);
    for (uint32_t k = 0; k < got.size(); ++k)
        EXPECT_NEAR(static_cast<double>(got[k].position), 500 + 500 * k + k / 100.0, 1) << k;
}

// Messages across the borders of blocks and of pieces, and at the very end.
TEST(Receiver, DoesNotDependOnHowTheStreamIsCut)
{
    Signal signal(3 * block_samples + 777, 2);
    std::uniform_real_distribution<> snr(8, 30);
    std::uniform_real_distribution<> gap(700, 1200);
    for (double at = 100; at < 3 * block_samples + 500; at += gap(signal.random()))
        signal.add(test::squitter(0x400000 + signal.random()() % 4, signal.random()()), at,
                   snr(signal.random()));
    for (const double border : {1.0, 2.0, 3.0}) // just before, over and after each border
        for (const double from : {-900.0, -120.0, 300.0})
            signal.add(test::all_call(0x400001), border * block_samples + from, 25);
    const std::vector<uint8_t> iq = signal.bytes();
    const std::vector<Message> whole = receive(iq, iq.size());
    EXPECT_GT(whole.size(), 100u);
    for (const size_t piece : {1, 2, 3, 997, 4096, 131071, 131072, 131073, 132000}) {
        const std::vector<Message> got = receive(iq, piece);
        ASSERT_EQ(frames(got), frames(whole)) << piece;
        for (size_t k = 0; k < got.size(); ++k) {
            EXPECT_EQ(got[k].position, whole[k].position);
            EXPECT_EQ(got[k].level, whole[k].level);
        }
    }
}

TEST(Receiver, NoiseIsNoMessage)
{
    EXPECT_TRUE(receive(Signal(4'000'000, 3).bytes(), 1 << 20).empty());
}

TEST(Receiver, SilenceAndConstantsAreNoMessage)
{
    for (const int value : {0, 127, 128, 255})
        EXPECT_TRUE(
            receive(std::vector<uint8_t>(400000, static_cast<uint8_t>(value)), 4096).empty());
}

TEST(Receiver, FramesShorterThanABlockAndNothingAtAll)
{
    EXPECT_TRUE(receive({}, 1).empty());
    EXPECT_TRUE(receive({200}, 1).empty());
    Signal one(1000, 4);
    one.add(test::all_call(0x123456), 400.3, 25);
    EXPECT_EQ(receive(one.bytes(), 100).size(), 1u);
    // Cut within the frame there is none.
    std::vector<uint8_t> cut = one.bytes();
    cut.resize(2 * (400 + 100));
    EXPECT_TRUE(receive(cut, 100).empty());
}

TEST(Receiver, AddressesInTheParityCountOnlyOnceTheAircraftIsKnown)
{
    const Frame reply = test::altitude_reply(0xABCDEF, 0x0F38);
    Signal signal(3000, 5);
    signal.add(reply, 300, 25);
    signal.add(test::squitter(0xABCDEF, 0x2004D0F4CB1820), 1000, 25);
    signal.add(reply, 1700, 25);
    const std::vector<Message> got = receive(signal.bytes(), 4096);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].callsign, "AMC421");
    EXPECT_EQ(got[1].frame, reply);
    EXPECT_EQ(got[1].icao, 0xABCDEFu);
}

TEST(Receiver, InterrogatorsCodesCountOnlyForKnownAircraft)
{
    Signal signal(3000, 6);
    signal.add(test::all_call(0xABCDEF, 0x3C), 300, 25);
    signal.add(test::all_call(0xABCDEF), 1000, 25);
    signal.add(test::all_call(0xABCDEF, 0x3C), 1700, 25);
    signal.add(test::all_call(0xABCDEF, 0x7F), 2300, 25); // no such code
    const std::vector<Message> got = receive(signal.bytes(), 4096);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].interrogator, 0);
    EXPECT_EQ(got[1].interrogator, 0x3C);
}

// A DF11 that was sent with one wrong bit: of an aircraft that is known it is repaired, whatever
// the bit, unless it is one of the last seven, which may hold an interrogator's code.
TEST(Receiver, OneWrongBitOfAnAllCallIsRepaired)
{
    const Frame right = test::all_call(0xABCDEF);
    for (const uint32_t bit : {6u, 9u, 20u, 32u, 33u, 40u, 49u}) {
        Frame wrong = right;
        wrong.flip(bit);
        Frame worse = wrong;
        worse.flip(bit == 20 ? 30 : 20);
        Signal signal(3000, 11);
        signal.add(right, 300, 25);
        signal.add(wrong, 1000, 25);
        signal.add(worse, 1700, 25);
        const std::vector<Message> got = receive(signal.bytes(), 4096);
        ASSERT_EQ(got.size(), 2u) << bit;
        EXPECT_EQ(got[0].repaired, 0u);
        EXPECT_EQ(got[1].frame, right);
        EXPECT_EQ(got[1].repaired, 1u);
        EXPECT_EQ(got[1].icao, 0xABCDEFu);
        EXPECT_EQ(got[1].interrogator, 0);
        EXPECT_NEAR(static_cast<double>(got[1].position), 1000, 1);
    }
}

// What the loader picks for this machine is what the plain function says.
TEST(Scan, PositionsAreThoseOfThePlainFunction)
{
    Signal signal(40000, 7);
    for (uint32_t k = 0; k < 50; ++k)
        signal.add(test::squitter(k, k), 200 + 700 * k + k / 50.0, 6 + k % 20);
    const std::vector<uint8_t> iq = signal.bytes();
    std::vector<uint16_t> m(lead + 40000 + reach);
    scan::magnitudes(iq.data(), m.data() + lead, 40000);
    for (size_t k = 0; k < 40000; ++k) ASSERT_EQ(m[lead + k], magnitude(iq[2 * k], iq[2 * k + 1]));
    std::vector<uint32_t> sums(floor_means);
    const uint32_t floor = scan::floor(m.data() + lead, 40000, sums.data());
    // Rayleigh's mean is 0.886 of the root mean square.
    EXPECT_NEAR(floor, 0.886 * test::noise * magnitude_scale, 0.1 * test::noise * magnitude_scale);
    const Thresholds t = thresholds(floor);
    std::vector<uint32_t> expected;
    for (uint32_t k = 0; k < 40000; ++k)
        if (preamble_at(m.data() + lead + k, t) && bits_at(m.data() + lead + k, t))
            expected.push_back(k);
    std::vector<uint8_t> marks(block_samples);
    std::vector<uint32_t> found(block_samples);
    found.resize(scan::positions(m.data() + lead, 40000, t, marks.data(), found.data()));
    EXPECT_GT(found.size(), 50u);
    EXPECT_EQ(found, expected);
}

// One wrong bit is repaired for a known aircraft, and then says so; two are where they were
// doubtful.
TEST(Airspace, RepairsOnlyWhatKnownAircraftSend)
{
    const Frame right = test::squitter(0x400123, 0x2004D0F4CB1820);
    Reading sound{right, 0, {0, 0}};
    Frame wrong = right;
    wrong.flip(60);
    const Reading one{wrong, syndrome(wrong), {60, 0}, true, 8}; // not a doubtful bit
    Airspace airspace;
    EXPECT_FALSE(airspace.believe(one, 0, 1000));
    EXPECT_TRUE(airspace.believe(sound, 1000, 1000));
    const auto repaired = airspace.believe(one, 2000, 1000);
    ASSERT_TRUE(repaired);
    EXPECT_EQ(repaired->frame, right);
    EXPECT_EQ(repaired->repaired, 1u);
    wrong.flip(90);
    EXPECT_EQ(airspace.believe({wrong, syndrome(wrong), {60, 90}, true, 7}, 3000, 1000)->repaired,
              2u);
    EXPECT_FALSE(airspace.believe({wrong, syndrome(wrong), {0, 0}, true, 0}, 4000, 1000));
    // A minute later the address vouches for nothing any more.
    EXPECT_FALSE(airspace.believe(one, 4000 + 61 * 2'000'000ull, 1000));
}

TEST(Airspace, DoubtfulBitsAreRepairedForAnyone)
{
    Frame wrong = test::squitter(0x400123, 1);
    wrong.flip(60);
    Airspace airspace;
    EXPECT_TRUE(airspace.believe({wrong, syndrome(wrong), {60, 0}, true, 0}, 0, 1000));
    // But that does not confirm the address for others.
    const Frame reply = test::altitude_reply(0x400123, 0x0F38);
    EXPECT_FALSE(airspace.believe({reply, syndrome(reply), {0, 0}}, 1000, 1000));
}

} // namespace
} // namespace denizen::radio
