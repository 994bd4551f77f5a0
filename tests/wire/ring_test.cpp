// SPDX-License-Identifier: Apache-2.0
// What every ring does, one body for all kinds, each started at 0 and just before 2^32.
#include "print.hpp"

#include <denizen/wire/channel.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

namespace denizen {
namespace {

template <class K, uint32_t Start>
struct Case {
    using Kind = K;
    static constexpr uint32_t start = Start;
    static constexpr bool has_credit = !std::is_same_v<K, Mpmc>;
};

template <class C>
class Ring : public testing::Test {
protected:
    using Kind = typename C::Kind;

    // A ring with one end on each side, as the runtime builds them.
    struct Pair {
        explicit Pair(uint32_t slots)
            : channel("test", slots, C::start), tx(channel.view()), rx(channel.view())
        {
        }
        Channel<Kind> channel;
        typename Kind::Sender tx;
        typename Kind::Receiver rx;
    };

    static Header header(uint32_t n, uint32_t length)
    {
        return {n, ~n, n % (max_type + 1), n % (max_flags + 1), length};
    }

    static std::vector<unsigned char> payload(uint32_t n, uint32_t length)
    {
        std::vector<unsigned char> bytes(length);
        for (uint32_t i = 0; i < length; ++i) {
            bytes[i] = static_cast<unsigned char>((n * 131 + i) * 2654435761u >> 24);
        }
        return bytes;
    }

    static Errc send(Pair& ring, uint32_t n, uint32_t length)
    {
        const std::vector<unsigned char> bytes = payload(n, length);
        return ring.tx.try_send(header(n, length), bytes.data());
    }

    // Receives one message and compares it with message n.
    static void expect_message(Pair& ring, uint32_t n, uint32_t length)
    {
        Header h;
        std::vector<unsigned char> bytes(length);
        ASSERT_EQ(ring.rx.try_receive(h, bytes.data(), length), Errc::ok) << "message " << n;
        EXPECT_TRUE(h == header(n, length)) << "message " << n;
        EXPECT_EQ(bytes, payload(n, length)) << "message " << n;
    }

    static Errc receive(Pair& ring)
    {
        Header h;
        unsigned char bytes[max_length];
        return ring.rx.try_receive(h, bytes, sizeof bytes);
    }
};

using Cases = testing::Types<Case<Spsc, 0>, Case<Mpsc, 0>, Case<Mpmc, 0>, Case<Spsc, 0u - 3>,
                             Case<Mpsc, 0u - 3>, Case<Mpmc, 0u - 3>>;
TYPED_TEST_SUITE(Ring, Cases);

TYPED_TEST(Ring, EndsAreTriviallyCopyable)
{
    EXPECT_TRUE(std::is_trivially_copyable_v<RingView>);
    EXPECT_TRUE(std::is_trivially_copyable_v<typename TypeParam::Kind::Sender>);
    EXPECT_TRUE(std::is_trivially_copyable_v<typename TypeParam::Kind::Receiver>);
}

TYPED_TEST(Ring, WordsThatTwoSidesWriteLieOnTheirOwnLines)
{
    EXPECT_EQ(alignof(RingWords), line);
    EXPECT_EQ(offsetof(RingWords, head) - offsetof(RingWords, tail), line);
    EXPECT_EQ(offsetof(RingWords, credit) - offsetof(RingWords, head), line);
    EXPECT_EQ(offsetof(RingWords, state) - offsetof(RingWords, credit), line);
}

TYPED_TEST(Ring, NewRingIsEmpty)
{
    typename TestFixture::Pair ring(2);
    EXPECT_EQ(this->receive(ring), Errc::empty);
    EXPECT_EQ(this->receive(ring), Errc::empty);
}

TYPED_TEST(Ring, HoldsExactlyItsCapacityLapAfterLap)
{
    for (const uint32_t capacity : {2u, 4u, 16u}) {
        typename TestFixture::Pair ring(capacity);
        uint32_t sent = 0;
        uint32_t received = 0;
        for (int lap = 0; lap < 9; ++lap) {
            while (sent - received < capacity) {
                ASSERT_EQ(this->send(ring, sent, 20), Errc::ok) << sent;
                ++sent;
            }
            ASSERT_EQ(this->send(ring, sent, 20), Errc::full) << sent;
            ASSERT_EQ(this->send(ring, sent, 20), Errc::full) << sent;
            while (received != sent) {
                this->expect_message(ring, received++, 20);
            }
            ASSERT_EQ(this->receive(ring), Errc::empty);
        }
    }
}

TYPED_TEST(Ring, MessagesOfAllLengthsShareARing)
{
    typename TestFixture::Pair ring(64);
    uint32_t n = 0;
    for (uint32_t length = 0; length <= first_payload + 31 * next_payload; ++length) {
        ASSERT_EQ(this->send(ring, n, length), Errc::ok) << length << " bytes";
        ASSERT_EQ(this->send(ring, n + 1, length / 2), Errc::ok) << length / 2 << " bytes";
        this->expect_message(ring, n, length);
        this->expect_message(ring, n + 1, length / 2);
        n += 2;
    }
    EXPECT_EQ(this->receive(ring), Errc::empty);
}

TYPED_TEST(Ring, LargestMessageGoesThrough)
{
    typename TestFixture::Pair ring(4096);
    for (uint32_t n = 0; n < 9; ++n) {
        ASSERT_EQ(this->send(ring, n, max_length), Errc::ok);
        ASSERT_EQ(this->send(ring, n + 100, max_length - 1), Errc::ok);
        this->expect_message(ring, n, max_length);
        this->expect_message(ring, n + 100, max_length - 1);
    }
}

TYPED_TEST(Ring, SmallestRingTakesTwoSlotMessages)
{
    typename TestFixture::Pair ring(2);
    for (uint32_t n = 0; n < 20; ++n) {
        ASSERT_EQ(this->send(ring, n, 84), Errc::ok);
        ASSERT_EQ(this->send(ring, n, 0), Errc::full);
        this->expect_message(ring, n, 84);
        ASSERT_EQ(this->send(ring, n, 36), Errc::ok); // so that the next long one starts at slot 1
        this->expect_message(ring, n, 36);
    }
}

TYPED_TEST(Ring, LongMessageWaitsUntilAllOfItsSlotsAreFree)
{
    typename TestFixture::Pair ring(8);
    for (uint32_t n = 0; n < 6; ++n) {
        ASSERT_EQ(this->send(ring, n, 36), Errc::ok);
    }
    ASSERT_EQ(this->send(ring, 6, 132), Errc::full); // 3 slots, 2 are free
    ASSERT_EQ(this->send(ring, 6, 84), Errc::ok);    // what was refused has taken nothing
    for (uint32_t n = 0; n < 6; ++n) {
        this->expect_message(ring, n, 36);
    }
    this->expect_message(ring, 6, 84);
    ASSERT_EQ(this->receive(ring), Errc::empty);
    ASSERT_EQ(this->send(ring, 7, 132), Errc::ok);
    this->expect_message(ring, 7, 132);
}

TYPED_TEST(Ring, OversizeIsRefusedAtHalfTheRingAndAt64KiB)
{
    struct Limit {
        uint32_t capacity;
        uint32_t longest;
    };
    for (const Limit l : {Limit{2, 84}, Limit{4, 84}, Limit{8, 180}, Limit{4096, 65536}}) {
        typename TestFixture::Pair ring(l.capacity);
        EXPECT_TRUE(fits(l.capacity, l.longest));
        EXPECT_FALSE(fits(l.capacity, l.longest + 1));
        EXPECT_EQ(this->send(ring, 1, l.longest + 1), Errc::oversize);
        EXPECT_EQ(this->send(ring, 2, l.longest), Errc::ok);
        this->expect_message(ring, 2, l.longest);
        EXPECT_EQ(this->receive(ring), Errc::empty);
    }
}

TYPED_TEST(Ring, FieldsOutOfRangeAreRefused)
{
    typename TestFixture::Pair ring(4);
    EXPECT_EQ(ring.tx.try_send({1, 2, max_type + 1, 0, 0}, nullptr), Errc::wrong_type);
    EXPECT_EQ(ring.tx.try_send({1, 2, 0, max_flags + 1, 0}, nullptr), Errc::wrong_type);
    EXPECT_EQ(this->receive(ring), Errc::empty);
    EXPECT_EQ(ring.tx.try_send({1, 2, max_type, max_flags, 0}, nullptr), Errc::ok);
}

TYPED_TEST(Ring, ShortBufferLeavesTheMessageAndTellsItsLength)
{
    typename TestFixture::Pair ring(8);
    ASSERT_EQ(this->send(ring, 1, 100), Errc::ok);
    Header h;
    unsigned char bytes[99];
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ring.rx.try_receive(h, bytes, sizeof bytes), Errc::oversize);
        EXPECT_EQ(h.length, 100u);
    }
    this->expect_message(ring, 1, 100);
}

TYPED_TEST(Ring, ClosedRefusesSendersAndDrainsBeforeItTellsReceivers)
{
    typename TestFixture::Pair ring(4);
    ASSERT_EQ(this->send(ring, 0, 8), Errc::ok);
    ASSERT_EQ(this->send(ring, 1, 84), Errc::ok);
    ring.channel.close();
    EXPECT_EQ(this->send(ring, 2, 8), Errc::closed);
    this->expect_message(ring, 0, 8);
    this->expect_message(ring, 1, 84);
    EXPECT_EQ(this->receive(ring), Errc::closed);
    EXPECT_EQ(this->receive(ring), Errc::closed);
}

TYPED_TEST(Ring, DeadConsumerStopsSenders)
{
    typename TestFixture::Pair ring(4);
    ASSERT_EQ(this->send(ring, 0, 8), Errc::ok);
    ring.channel.consumer_died();
    EXPECT_EQ(this->send(ring, 1, 8), Errc::peer_dead);
}

TYPED_TEST(Ring, DeadProducerIsToldAfterWhatItSent)
{
    typename TestFixture::Pair ring(4);
    ASSERT_EQ(this->send(ring, 0, 40), Errc::ok);
    ring.channel.producer_died();
    this->expect_message(ring, 0, 40);
    EXPECT_EQ(this->receive(ring), Errc::peer_dead);
    // Another producer may still live; what it sends arrives.
    ASSERT_EQ(this->send(ring, 1, 40), Errc::ok);
    this->expect_message(ring, 1, 40);
    EXPECT_EQ(this->receive(ring), Errc::peer_dead);
}

// A sender that stops between two packets, at each of them. The receiver must not take the message,
// nor give its slots back, before the last one is there; credit for what came before must be given,
// since it may be what the sender waits for.
TYPED_TEST(Ring, StoppedSenderHoldsUpItsMessageOnly)
{
    for (const uint32_t length : {0u, 20u, 60u}) {
        for (uint32_t place = 0; place < 4 * slots_for(length); ++place) {
            typename TestFixture::Pair ring(8);
            const RingView& view = ring.channel.view();
            ASSERT_EQ(this->send(ring, 0, 36), Errc::ok);
            const uint32_t ticket = TypeParam::start + 1;
            ASSERT_EQ(this->send(ring, 1, length), Errc::ok);
            ASSERT_EQ(this->send(ring, 2, 5), Errc::ok);
            Packet& late = view.slots[(ticket + place / 4) & view.mask].packet[place % 4];
            const Packet packet = late;
            late.sequence -= 8;
            this->expect_message(ring, 0, 36);
            std::thread sender;
            if (TypeParam::has_credit) {
                EXPECT_EQ(this->receive(ring), Errc::empty) << length << " bytes, packet " << place;
                EXPECT_EQ(load<Scope::system>(&view.words->credit), ticket);
                store_packet<Scope::system>(&late, packet);
            } else if (place == 0) {
                EXPECT_EQ(this->receive(ring), Errc::empty) << length << " bytes";
                store_packet<Scope::system>(&late, packet);
            } else { // an MPMC receiver takes the message by its header and waits for the rest
                sender = std::thread([&] {
                    while (load<Scope::system>(&view.words->head) == ticket) { // ends when taken
                        std::this_thread::yield();
                    }
                    for (uint32_t i = 0; i < slots_for(length); ++i) {
                        const Packet& first = view.slots[(ticket + i) & view.mask].packet[0];
                        EXPECT_NE(load_packet<Scope::system>(&first).sequence, ticket + i + 8);
                    }
                    store_packet<Scope::system>(&late, packet);
                });
            }
            this->expect_message(ring, 1, length);
            this->expect_message(ring, 2, 5);
            if (sender.joinable()) {
                sender.join();
            }
        }
    }
}

// What only rings with several producers have: tickets drawn from a shared word.
template <class C>
using TicketRing = Ring<C>;
using TicketCases =
    testing::Types<Case<Mpsc, 0>, Case<Mpmc, 0>, Case<Mpsc, 0u - 3>, Case<Mpmc, 0u - 3>>;
TYPED_TEST_SUITE(TicketRing, TicketCases);

TYPED_TEST(TicketRing, ClosedWaitsForAMessageWhoseTicketIsDrawn)
{
    typename TestFixture::Pair ring(4);
    const RingView& view = ring.channel.view();
    // A sender between its ticket and its write.
    const uint32_t ticket = fetch_add<Scope::system>(&view.words->tail, 1u);
    ring.channel.close();
    EXPECT_EQ(this->receive(ring), Errc::empty);
    const std::vector<unsigned char> bytes = this->payload(9, 30);
    store_message<Scope::system>(view.slots, view.mask, ticket, this->header(9, 30), bytes.data());
    this->expect_message(ring, 9, 30);
    EXPECT_EQ(this->receive(ring), Errc::closed);
}

TYPED_TEST(TicketRing, DeadProducersTicketDoesNotHideItsDeath)
{
    typename TestFixture::Pair ring(4);
    fetch_add<Scope::system>(&ring.channel.view().words->tail, 1u); // and dies before it writes
    ring.channel.producer_died();
    EXPECT_EQ(this->receive(ring), Errc::peer_dead);
}

// What only rings with one consumer have: credit in batches, and receiving in batches.
template <class C>
using CreditRing = Ring<C>;
using CreditCases =
    testing::Types<Case<Spsc, 0>, Case<Mpsc, 0>, Case<Spsc, 0u - 3>, Case<Mpsc, 0u - 3>>;
TYPED_TEST_SUITE(CreditRing, CreditCases);

TYPED_TEST(CreditRing, CreditComesAQuarterOfTheRingAtATime)
{
    typename TestFixture::Pair ring(16);
    const RingView& view = ring.channel.view();
    const auto credit = [&] { return load<Scope::system>(&view.words->credit) - TypeParam::start; };
    for (uint32_t n = 0; n < 16; ++n) {
        ASSERT_EQ(this->send(ring, n, 4), Errc::ok);
    }
    for (uint32_t n = 0; n < 15; ++n) {
        EXPECT_EQ(credit(), n / 4 * 4) << n << " received";
        this->expect_message(ring, n, 4);
    }
    EXPECT_EQ(credit(), 12u);
    this->expect_message(ring, 15, 4);
    EXPECT_EQ(credit(), 16u);
    ASSERT_EQ(this->send(ring, 16, 4), Errc::ok);
    this->expect_message(ring, 16, 4);
    EXPECT_EQ(credit(), 16u);
    EXPECT_EQ(this->receive(ring), Errc::empty); // nothing left: all credit at once
    EXPECT_EQ(credit(), 17u);
    EXPECT_EQ(ring.rx.position() - TypeParam::start, 17u);
}

TYPED_TEST(CreditRing, MessagesOfKnownTypeAndLengthAreReceivedShort)
{
    typename TestFixture::Pair ring(4);
    Header h;
    unsigned char bytes[36] = {};
    EXPECT_EQ(ring.rx.template try_receive_short<20>(3, h, bytes), Errc::empty);
    const std::vector<unsigned char> sent = this->payload(1, 20);
    for (int lap = 0; lap < 5; ++lap) {
        ASSERT_EQ(ring.tx.try_send({1, 2, 3, 4, 20}, sent.data()), Errc::ok);
        EXPECT_EQ(ring.rx.template try_receive_short<20>(9, h, bytes), Errc::wrong_type);
        EXPECT_EQ(ring.rx.template try_receive_short<16>(3, h, bytes), Errc::wrong_type);
        EXPECT_EQ(h.length, 20u);
        Header peeked;
        EXPECT_TRUE(ring.rx.peek(peeked));
        EXPECT_TRUE((peeked == Header{1, 2, 3, 4, 20}));
        ASSERT_EQ(ring.rx.template try_receive_short<20>(3, h, bytes), Errc::ok);
        EXPECT_TRUE(h == peeked);
        EXPECT_EQ(std::memcmp(bytes, sent.data(), 20), 0);
        EXPECT_EQ(bytes[20], 0); // not a byte too many
        EXPECT_FALSE(ring.rx.peek(peeked));
        EXPECT_EQ(ring.rx.template try_receive_short<20>(3, h, bytes), Errc::empty);
        EXPECT_EQ(load<Scope::system>(&ring.channel.view().words->credit), ring.rx.position());
    }
}

TYPED_TEST(CreditRing, ShortBatchesEndAtTheCountInFrontOfOthersOrWhereNothingIs)
{
    typename TestFixture::Pair ring(8);
    const auto credit = [&] { return load<Scope::system>(&ring.channel.view().words->credit); };
    std::vector<uint32_t> got;
    Errc found = Errc::ok;
    const auto receive = [&](uint32_t type, uint32_t count) {
        return ring.rx.template receive_short_batch<4>(
            type, count, found, [&](const Header& h, const unsigned char* bytes) {
                EXPECT_TRUE((h == Header{1, 2, type, 4, 4}));
                uint32_t value = 0;
                std::memcpy(&value, bytes, sizeof value);
                got.push_back(value);
            });
    };
    EXPECT_EQ(receive(3, 9), 0u);
    EXPECT_EQ(found, Errc::empty);
    std::vector<uint32_t> sent;
    for (uint32_t lap = 0; lap < 5; ++lap) {
        for (uint32_t i = 0; i < 6; ++i) {
            sent.push_back(10 * lap + i);
            const uint32_t type = i == 4 ? 5 : 3;
            ASSERT_EQ(ring.tx.try_send({1, 2, type, 4, 4}, &sent.back()), Errc::ok);
        }
        EXPECT_EQ(receive(3, 2), 2u);
        EXPECT_EQ(found, Errc::ok);
        EXPECT_EQ(receive(3, 9), 2u);
        EXPECT_EQ(found, Errc::wrong_type);
        EXPECT_EQ(receive(3, 9), 0u);
        EXPECT_EQ(found, Errc::wrong_type);
        EXPECT_EQ(receive(5, 1), 1u);
        EXPECT_EQ(found, Errc::ok);
        EXPECT_EQ(receive(3, 0), 0u);
        EXPECT_EQ(found, Errc::ok);
        EXPECT_EQ(receive(3, 9), 1u);
        EXPECT_EQ(found, Errc::empty);
        EXPECT_EQ(ring.rx.position() - TypeParam::start, 6 * (lap + 1));
        EXPECT_EQ(credit(), ring.rx.position()); // nothing left: all credit at once
    }
    EXPECT_EQ(got, sent);
    const std::vector<unsigned char> other = this->payload(1, 8);
    ASSERT_EQ(ring.tx.try_send({1, 2, 3, 4, 8}, other.data()), Errc::ok);
    EXPECT_EQ(receive(3, 9), 0u);
    EXPECT_EQ(found, Errc::wrong_type); // of another length
}

TYPED_TEST(Ring, BatchesSendWhatFitsAndReceiveWhatIsThere)
{
    typename TestFixture::Pair ring(8);
    struct Body {
        uint32_t number;
        uint32_t rest[4];
    };
    static_assert(sizeof(Body) == 20);
    std::vector<Body> bodies(100);
    for (uint32_t i = 0; i < bodies.size(); ++i) {
        bodies[i] = {i, {i + 1, i + 2, i + 3, i + 4}};
    }
    uint32_t sent = 0;
    uint32_t received = 0;
    const auto use = [&](const Header& h, const unsigned char* bytes) {
        Body b;
        std::memcpy(&b, bytes, sizeof b);
        EXPECT_EQ(h.length, sizeof b);
        EXPECT_EQ(h.type, 6u);
        EXPECT_EQ(std::memcmp(&b, &bodies[received], sizeof b), 0) << received;
        ++received;
    };
    const Header h{4, 5, 6, 7, sizeof(Body)};
    while (received < bodies.size()) {
        const auto left = static_cast<uint32_t>(bodies.size()) - sent;
        const uint32_t n =
            ring.tx.try_send_batch(h, &bodies[sent % bodies.size()], sizeof(Body), left);
        EXPECT_EQ(n, left < 8 ? left : 8);
        sent += n;
        EXPECT_EQ(ring.rx.receive_batch(3, use), n < 3 ? n : 3u);
        EXPECT_EQ(ring.rx.receive_batch(100, use), n < 3 ? 0u : n - 3);
        EXPECT_EQ(ring.rx.receive_batch(100, use), 0u);
    }
    EXPECT_EQ(sent, bodies.size());
    EXPECT_EQ(received, bodies.size());
}

TYPED_TEST(Ring, BatchTakesOneFieldOutOfAnArrayOfStructs)
{
    typename TestFixture::Pair ring(8);
    struct Row {
        uint64_t skipped;
        uint32_t wanted;
        uint32_t also_skipped;
    };
    const Row rows[3] = {{1, 10, 2}, {3, 11, 4}, {5, 12, 6}};
    EXPECT_EQ(ring.tx.try_send_batch({0, 0, 1, 0, 4}, &rows[0].wanted, sizeof(Row), 3), 3u);
    std::vector<uint32_t> got;
    EXPECT_EQ(ring.rx.receive_batch(9,
                                    [&](const Header&, const unsigned char* bytes) {
                                        uint32_t value = 0;
                                        std::memcpy(&value, bytes, sizeof value);
                                        got.push_back(value);
                                    }),
              3u);
    EXPECT_EQ(got, (std::vector<uint32_t>{10, 11, 12}));
}

TYPED_TEST(Ring, BatchStopsInFrontOfALongMessage)
{
    typename TestFixture::Pair ring(8);
    ASSERT_EQ(this->send(ring, 0, 36), Errc::ok);
    ASSERT_EQ(this->send(ring, 1, 37), Errc::ok);
    ASSERT_EQ(this->send(ring, 2, 36), Errc::ok);
    uint32_t used = 0;
    EXPECT_EQ(ring.rx.receive_batch(9,
                                    [&](const Header& h, const unsigned char*) {
                                        EXPECT_TRUE(h == this->header(0, 36));
                                        ++used;
                                    }),
              1u);
    EXPECT_EQ(used, 1u);
    this->expect_message(ring, 1, 37);
    this->expect_message(ring, 2, 36);
}

TYPED_TEST(Ring, BatchOfLongMessagesSendsWholeOnes)
{
    typename TestFixture::Pair ring(8);
    const std::vector<unsigned char> bytes = this->payload(1, 200); // of 3 slots
    const Header h{1, 2, 3, 4, 100};
    ASSERT_EQ(slots_for(h.length), 3u);
    ASSERT_EQ(this->send(ring, 1, 4), Errc::ok);
    EXPECT_EQ(ring.tx.try_send_batch(h, bytes.data(), 100, 2), 2u);
    EXPECT_EQ(ring.tx.try_send_batch(h, bytes.data(), 100, 2), 0u);
    this->expect_message(ring, 1, 4);
    EXPECT_EQ(ring.tx.try_send_batch({1, 2, 3, 4, 4}, bytes.data(), 4, 0), 0u);
    for (uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(ring.rx.receive_batch(9, [](const Header&, const unsigned char*) {}), 0u);
        Header got;
        std::vector<unsigned char> body(100);
        ASSERT_EQ(ring.rx.try_receive(got, body.data(), 100), Errc::ok);
        EXPECT_TRUE(got == h);
        EXPECT_TRUE(std::equal(body.begin(), body.end(), bytes.begin() + 100 * i));
    }
    EXPECT_EQ(this->receive(ring), Errc::empty);
    ring.channel.close();
    EXPECT_EQ(ring.tx.try_send_batch({1, 2, 3, 4, 4}, bytes.data(), 4, 1), 0u);
}

// The typed short cut of a single producer obeys the same rules as the general way.
TEST(SpscTyped, RefusesWhatTheGeneralWayRefuses)
{
    struct Body {
        uint32_t value;
    };
    Channel<Spsc> channel("typed", 2);
    Spsc::Sender tx(channel.view());
    Spsc::Receiver rx(channel.view());
    const Body body{42};
    EXPECT_EQ(tx.try_send(1, 2, max_type + 1, body), Errc::wrong_type);
    EXPECT_EQ(tx.try_send(1, 2, 3, body), Errc::ok);
    EXPECT_EQ(tx.try_send(1, 2, 3, body), Errc::ok);
    EXPECT_EQ(tx.try_send(1, 2, 3, body), Errc::full);
    Header h;
    Body got{};
    EXPECT_EQ(rx.try_receive(h, &got, sizeof got), Errc::ok);
    EXPECT_TRUE((h == Header{1, 2, 3, 0, sizeof(Body)}));
    EXPECT_EQ(got.value, 42u);
    EXPECT_EQ(rx.try_receive(h, &got, sizeof got), Errc::ok);
    EXPECT_EQ(rx.try_receive(h, &got, sizeof got), Errc::empty);
    channel.producer_died(); // some other one: this one's messages still count
    EXPECT_EQ(tx.try_send(1, 2, 3, Body{43}), Errc::ok);
    EXPECT_EQ(rx.try_receive(h, &got, sizeof got), Errc::ok);
    EXPECT_EQ(got.value, 43u);
    channel.consumer_died();
    EXPECT_EQ(tx.try_send(1, 2, 3, body), Errc::peer_dead);
    channel.close();
    EXPECT_EQ(tx.try_send(1, 2, 3, body), Errc::closed);
}

TEST(MpmcRing, SlotsFreedOutOfOrderAreUsedInOrder)
{
    Channel<Mpmc> channel("mpmc", 4, 0u - 2);
    const RingView& view = channel.view();
    Mpmc::Sender tx(view);
    Mpmc::Receiver rx(view);
    uint32_t value = 0;
    for (; value < 4; ++value) {
        ASSERT_EQ(tx.try_send({0, 0, 0, 0, 4}, &value), Errc::ok);
    }
    // A consumer has taken the first message and is still reading it.
    const uint32_t slow = fetch_add<Scope::system>(&view.words->head, 1u);
    Header h;
    uint32_t got = 0;
    for (uint32_t n = 1; n < 4; ++n) {
        ASSERT_EQ(rx.try_receive(h, &got, sizeof got), Errc::ok);
        EXPECT_EQ(got, n);
    }
    EXPECT_EQ(rx.try_receive(h, &got, sizeof got), Errc::empty);
    EXPECT_EQ(tx.try_send({0, 0, 0, 0, 4}, &value), Errc::full); // its slot is the next in order
    store_packet<Scope::system>(&view.slots[slow & view.mask].packet[0], {{0, 0, 0}, slow + 4});
    for (; value < 8; ++value) {
        ASSERT_EQ(tx.try_send({0, 0, 0, 0, 4}, &value), Errc::ok);
    }
    for (uint32_t n = 4; n < 8; ++n) {
        ASSERT_EQ(rx.try_receive(h, &got, sizeof got), Errc::ok);
        EXPECT_EQ(got, n);
    }
}

} // namespace
} // namespace denizen
