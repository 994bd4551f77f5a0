// SPDX-License-Identifier: Apache-2.0
// The owner of a ring and what its errors say: which ring, how large, which side stalls, what to
// do.
#include "print.hpp"

#include <denizen/wire/channel.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

namespace denizen {
namespace {

using namespace std::chrono_literals;

// The text with the time that has passed, `0.1 s` or `6e-08 s`, written as `T s`.
std::string without_time(std::string text)
{
    const size_t end = text.find(" s", text.find(" for "));
    if (end == std::string::npos) {
        return text;
    }
    const size_t begin = text.rfind(' ', end - 1) + 1;
    if (end == begin || text.find_first_not_of("0123456789.e-", begin) != end) {
        return text;
    }
    text.erase(begin, end - begin);
    text.insert(begin, 1, 'T');
    return text;
}

// Expects `call` to throw Error with this code and this text, but for the time that has passed.
void expect_error(Errc code, const std::string& text, const std::function<void()>& call)
{
    try {
        call();
        ADD_FAILURE() << "no error; expected: " << text;
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), code);
        EXPECT_EQ(without_time(e.what()), text);
    }
}

template <class Kind>
class ChannelOf : public testing::Test {
protected:
    static constexpr uint32_t start = 0u - 1;
    uint32_t value = 1234;
    Header header{1, 2, 3, 4, sizeof value};
    unsigned char bytes[max_length] = {};
};

using Kinds = testing::Types<Spsc, Mpsc, Mpmc>;
TYPED_TEST_SUITE(ChannelOf, Kinds);

TYPED_TEST(ChannelOf, CapacityMustBeAPowerOfTwo)
{
    for (const uint32_t slots : {0u, 1u, 3u, 48u, 1u << 21, ~0u}) {
        expect_error(Errc::bad_argument,
                     "ring \"orders\": " + std::to_string(slots) +
                         " slots; use a power of two from 2 to 1048576",
                     [&] { Channel<TypeParam>("orders", slots); });
    }
    for (const uint32_t slots : {2u, 4u, 1u << 20}) {
        EXPECT_EQ(Channel<TypeParam>("orders", slots).view().capacity(), slots);
    }
}

TYPED_TEST(ChannelOf, SendAndReceiveCarryHeaderAndPayload)
{
    Channel<TypeParam> channel("orders", 4, this->start);
    auto tx = channel.sender();
    auto rx = channel.receiver();
    tx.send(this->header, &this->value);
    uint32_t got = 0;
    EXPECT_TRUE(rx.receive(&got, sizeof got) == this->header);
    EXPECT_EQ(got, 1234u);
}

TYPED_TEST(ChannelOf, FullNamesTheConsumer)
{
    Channel<TypeParam> channel("orders", 4, this->start);
    auto tx = channel.sender();
    for (int i = 0; i < 4; ++i) {
        tx.send(this->header, &this->value);
    }
    EXPECT_EQ(tx.try_send(this->header, &this->value), Errc::full);
    expect_error(Errc::full,
                 "ring \"orders\" (4 slots) is full: its consumer has not moved for T s; "
                 "wait longer, drain it faster or make it larger",
                 [&] { tx.send(this->header, &this->value, 1ms); });
    for (const auto past : {0ns, -1ns}) {
        expect_error(Errc::full,
                     "ring \"orders\" (4 slots) is full: its consumer has not moved for T s; "
                     "wait longer, drain it faster or make it larger",
                     [&] { tx.send(this->header, &this->value, past); });
    }
    // Nothing of what was refused is in the ring.
    auto rx = channel.receiver();
    Header h;
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(rx.try_receive(h, this->bytes, sizeof this->bytes), Errc::ok);
    }
    EXPECT_EQ(rx.try_receive(h, this->bytes, sizeof this->bytes), Errc::empty);
}

TYPED_TEST(ChannelOf, EmptyNamesTheProducers)
{
    Channel<TypeParam> channel("orders", 8, this->start);
    auto rx = channel.receiver();
    const std::string text =
        "ring \"orders\" (8 slots) is empty: its producers sent nothing for T s";
    const auto receive = [&](auto wait, std::chrono::nanoseconds deadline) {
        expect_error(Errc::timeout, text,
                     [&] { rx.receive(this->bytes, sizeof this->bytes, deadline, wait); });
    };
    receive(Spin{}, 1ms);
    receive(Backoff{}, 1ms);
    receive(Park{}, 1ms);
    receive(Spin{}, 0ns);
    receive(Backoff{}, -1ns);
    receive(Park{}, -1h);
}

TYPED_TEST(ChannelOf, ClosedIsSaidToBothSides)
{
    Channel<TypeParam> channel("orders", 2, this->start);
    auto tx = channel.sender();
    auto rx = channel.receiver();
    tx.send(this->header, &this->value);
    channel.close();
    expect_error(Errc::closed, "ring \"orders\" (2 slots) is closed",
                 [&] { tx.send(this->header, &this->value); });
    rx.receive(this->bytes, sizeof this->bytes); // what was sent before
    expect_error(Errc::closed, "ring \"orders\" (2 slots) is closed",
                 [&] { rx.receive(this->bytes, sizeof this->bytes); });
}

TYPED_TEST(ChannelOf, OversizeNamesLengthSlotsAndLimits)
{
    Channel<TypeParam> channel("orders", 8, this->start);
    auto tx = channel.sender();
    expect_error(Errc::oversize,
                 "ring \"orders\" (8 slots): a message of 181 bytes takes 5 slots; "
                 "the limit is half the ring and 65536 bytes: make the ring larger or send a "
                 "reference to a buffer",
                 [&] { tx.send({0, 0, 0, 0, 181}, this->bytes); });
    Channel<TypeParam> large("large", 8192, this->start);
    expect_error(Errc::oversize,
                 "ring \"large\" (8192 slots): a message of 65537 bytes takes 1366 slots; "
                 "the limit is half the ring and 65536 bytes: make the ring larger or send a "
                 "reference to a buffer",
                 [&] { large.sender().send({0, 0, 0, 0, 65537}, this->bytes); });
}

TYPED_TEST(ChannelOf, ShortBufferIsNamedAndTheMessageStays)
{
    Channel<TypeParam> channel("orders", 8, this->start);
    channel.sender().send({0, 0, 0, 0, 100}, this->bytes);
    auto rx = channel.receiver();
    expect_error(Errc::oversize,
                 "ring \"orders\" (8 slots): the next message has 100 bytes, the buffer 99; "
                 "it stays in the ring",
                 [&] { rx.receive(this->bytes, 99); });
    EXPECT_EQ(rx.receive(this->bytes, 100).length, 100u);
}

TYPED_TEST(ChannelOf, WrongTypeNamesTheLimit)
{
    Channel<TypeParam> channel("orders", 8, this->start);
    expect_error(Errc::wrong_type,
                 "ring \"orders\" (8 slots): message type 1024 is out of range, "
                 "the limit is 1023",
                 [&] { channel.sender().send({0, 0, 1024, 0, 4}, &this->value); });
}

TYPED_TEST(ChannelOf, DeadPeerNamesTheSide)
{
    Channel<TypeParam> channel("orders", 8, this->start);
    auto tx = channel.sender();
    auto rx = channel.receiver();
    tx.send(this->header, &this->value);
    channel.consumer_died();
    expect_error(Errc::peer_dead,
                 "ring \"orders\" (8 slots): the consumer is gone; "
                 "close the ring and open a new one",
                 [&] { tx.send(this->header, &this->value); });
    channel.producer_died();
    rx.receive(this->bytes, sizeof this->bytes);
    expect_error(Errc::peer_dead,
                 "ring \"orders\" (8 slots): the producer is gone; "
                 "close the ring and open a new one",
                 [&] { rx.receive(this->bytes, sizeof this->bytes); });
}

} // namespace
} // namespace denizen
