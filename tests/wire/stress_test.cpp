// SPDX-License-Identifier: Apache-2.0
// Every message is numbered by its producer and audited at the end: nothing lost, nothing twice, in
// order, no byte changed. Threads yield, sleep and spin at random places, by a seed that is
// printed; DENIZEN_SEED repeats a run's choices.
#include "print.hpp"
#include "support/scaled.hpp"
#include "support/threads.hpp"

#include <denizen/wire/channel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace denizen {
namespace {

using namespace std::chrono_literals;

#if defined(DENIZEN_EMULATED)
constexpr uint32_t messages = 200; // per run, over all producers
#elif defined(__SANITIZE_THREAD__)
constexpr uint32_t messages = 2'000; // per run, over all producers
#elif defined(__SANITIZE_ADDRESS__)
constexpr uint32_t messages = 10'000;
#else
constexpr uint32_t messages = 24'000;
#endif

uint64_t base_seed()
{
    static const uint64_t seed = [] {
        const char* wanted = std::getenv("DENIZEN_SEED");
        const uint64_t s =
            wanted != nullptr ? std::strtoull(wanted, nullptr, 0) : std::random_device{}();
        printf("DENIZEN_SEED=%llu\n", static_cast<unsigned long long>(s));
        fflush(stdout); // also seen if a lost message makes the test hang
        return s;
    }();
    return seed;
}

uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t x = (static_cast<uint64_t>(a) << 32 | b) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return static_cast<uint32_t>(x >> 32);
}

// Gets in the way of its thread.
class Chaos {
public:
    explicit Chaos(uint64_t seed) : random_(seed) {}

    void disturb()
    {
        const uint64_t dice = random_() % 256;
        if (dice < 16) {
            std::this_thread::yield();
        } else if (dice < 64) {
            for (uint64_t i = random_() % 200; i != 0; --i) {
                relax();
            }
        } else if (dice < 65) {
            std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
        }
    }

    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

private:
    std::minstd_rand random_;
};

// Message n of producer p, all of it: the receiver computes it again.
struct Message {
    static constexpr uint32_t longest(uint32_t capacity)
    {
        const uint32_t slots = capacity == 2 ? 2 : capacity / 2;
        const uint32_t fitting = first_payload + next_payload * (slots - 1);
        return fitting < 3000 ? fitting : 3000;
    }

    Message(uint32_t producer, uint32_t number, uint32_t limit)
    {
        const uint32_t r = mix(producer, number);
        // Mostly short, sometimes as long as the ring takes.
        const uint32_t length = r % 8 < 5 ? r / 8 % (first_payload + 1) : r / 8 % (limit + 1);
        header = {producer, number, r % (max_type + 1), r % (max_flags + 1), length};
        for (uint32_t i = 0; i < length; ++i) {
            bytes[i] = static_cast<unsigned char>(mix(r, i / 4) >> i % 4 * 8);
        }
    }

    Header header;
    unsigned char bytes[3000];
};

enum class How { tries, waits };

struct Setting {
    uint32_t producers;
    uint32_t consumers;
    uint32_t capacity;
    uint32_t start;
    How how;
};

std::ostream& operator<<(std::ostream& out, const Setting& s)
{
    return out << s.producers << " producers, " << s.consumers << " consumers, " << s.capacity
               << " slots, from ticket " << s.start
               << (s.how == How::tries ? ", trying" : ", waiting");
}

struct Record {
    uint32_t producer;
    uint32_t number;
};

template <class Kind>
class Audit {
public:
    Audit(const Setting& setting, uint64_t seed)
        : s_(setting), seed_(seed), channel_("stress", setting.capacity, setting.start),
          per_producer_((test::quick() ? messages / 4 : messages) / setting.producers),
          received_(setting.consumers)
    {
    }

    void run()
    {
        std::vector<std::thread> consumers;
        std::vector<std::thread> producers;
        for (uint32_t c = 0; c < s_.consumers; ++c) {
            consumers.emplace_back([this, c] { consume(c); });
        }
        for (uint32_t p = 0; p < s_.producers; ++p) {
            producers.emplace_back([this, p] { produce(p); });
        }
        for (std::thread& t : producers) {
            t.join();
        }
        channel_.close();
        for (std::thread& t : consumers) {
            t.join();
        }
        judge();
    }

private:
    void produce(uint32_t p)
    {
        Chaos chaos(seed_ + 100 + p);
        typename Kind::Sender raw(channel_.view());
        auto waiting = channel_.sender();
        const uint32_t limit = Message::longest(s_.capacity);
        for (uint32_t n = 0; n < per_producer_; ++n) {
            const Message m(p, n, limit);
            if (s_.how == How::waits) {
                waiting.send(m.header, m.bytes, 5min);
            } else {
                Errc code = raw.try_send(m.header, m.bytes);
                while (code == Errc::full) { // ends when a consumer has made room
                    std::this_thread::yield();
                    chaos.disturb();
                    code = raw.try_send(m.header, m.bytes);
                }
                if (code != Errc::ok) {
                    ADD_FAILURE() << "try_send: " << to_string(code);
                    return;
                }
            }
            chaos.disturb();
        }
    }

    void consume(uint32_t c)
    {
        Chaos chaos(seed_ + 200 + c);
        typename Kind::Receiver raw(channel_.view());
        auto waiting = channel_.receiver();
        const uint32_t limit = Message::longest(s_.capacity);
        const std::unique_ptr<unsigned char[]> bytes(new unsigned char[limit]);
        for (;;) { // ends when the ring is closed and empty, or at the first wrong message
            Header h;
            Errc code = Errc::ok;
            if (s_.how == How::waits) {
                try {
                    h = chaos.below(2) == 0
                            ? waiting.template receive<Park>(bytes.get(), limit, 5min)
                            : waiting.template receive<Backoff>(bytes.get(), limit, 5min);
                } catch (const Error& e) {
                    code = e.code();
                }
            } else {
                code = raw.try_receive(h, bytes.get(), limit);
            }
            if (code == Errc::closed) {
                return;
            }
            if (code == Errc::empty) {
                std::this_thread::yield();
                chaos.disturb();
                continue;
            }
            if (code != Errc::ok || !is_whole(h, bytes.get(), limit)) {
                ADD_FAILURE() << "consumer " << c << " after " << received_[c].size()
                              << " messages: " << to_string(code) << ", message " << h.sender
                              << " of producer " << h.destination << ", " << h.length << " bytes";
                std::quick_exit(1); // the producers wait for a consumer that is not coming back
            }
            received_[c].push_back({h.destination, h.sender});
            chaos.disturb();
        }
    }

    bool is_whole(const Header& h, const unsigned char* bytes, uint32_t limit) const
    {
        if (h.destination >= s_.producers || h.sender >= per_producer_) {
            return false;
        }
        const Message expected(h.destination, h.sender, limit);
        return h == expected.header &&
               std::equal(bytes, bytes + h.length,
                          static_cast<const unsigned char*>(expected.bytes));
    }

    void judge() const
    {
        std::vector<std::vector<uint32_t>> times(s_.producers,
                                                 std::vector<uint32_t>(per_producer_));
        for (uint32_t c = 0; c < s_.consumers; ++c) {
            std::vector<uint32_t> next(s_.producers);
            for (const Record& r : received_[c]) {
                EXPECT_GE(r.number, next[r.producer]) << "consumer " << c << " got producer "
                                                      << r.producer << "'s messages out of order";
                next[r.producer] = r.number + 1;
                ++times[r.producer][r.number];
            }
        }
        for (uint32_t p = 0; p < s_.producers; ++p) {
            for (uint32_t n = 0; n < per_producer_; ++n) {
                EXPECT_EQ(times[p][n], 1u) << "message " << n << " of producer " << p;
            }
        }
    }

    Setting s_;
    uint64_t seed_;
    Channel<Kind> channel_;
    uint32_t per_producer_;
    std::vector<std::vector<Record>> received_;
};

template <class Kind>
void stress(std::vector<uint32_t> producers, std::vector<uint32_t> consumers)
{
    uint64_t seed = base_seed();
    for (const uint32_t p : producers) {
        for (const uint32_t c : consumers) {
            for (const uint32_t capacity :
                 {2u, 16u, 512u}) { // the last keeps its distance (spsc.hpp)
                for (const How how : {How::tries, How::waits}) {
                    // Near 2^32 for the sequence, and in the middle for sign mistakes.
                    const uint32_t start = how == How::tries ? 0u - 1000 : 0x80000000u - 777;
                    const Setting setting{p, c, capacity, start, how};
                    SCOPED_TRACE(testing::Message() << setting << ", DENIZEN_SEED=" << base_seed());
                    Audit<Kind>(setting, seed += 1000).run();
                    if (testing::Test::HasFailure()) {
                        return;
                    }
                }
            }
        }
    }
}

TEST(Stress, Spsc) { stress<Spsc>({1}, {1}); }
TEST(Stress, Mpsc) { stress<Mpsc>({1, 2, 4}, {1}); }
TEST(Stress, MpmcOneConsumer) { stress<Mpmc>({1, 2, 4}, {1}); }
TEST(Stress, MpmcTwoConsumers) { stress<Mpmc>({1, 2, 4}, {2}); }
TEST(Stress, MpmcThreeConsumers) { stress<Mpmc>({1, 2, 4}, {3}); }

// Batches of any size by all threads at once: each message comes once, and each producer's in
// order.
template <class Kind>
void stress_of_batches(uint32_t producers, uint32_t consumers)
{
    struct Body {
        uint32_t number, inverse;
    };
    for (const uint32_t capacity : {2u, 16u, 512u}) {
        SCOPED_TRACE(testing::Message() << producers << " to " << consumers << " by " << capacity);
        const uint32_t each = messages / producers;
        Channel<Kind> channel("batches", capacity, 0u - 1000);
        std::vector<std::vector<Record>> received(consumers);
        std::atomic<uint32_t> left{producers * each};
        const auto end = std::chrono::steady_clock::now() + 2min; // what is lost never comes
        const auto late = [&] { return std::chrono::steady_clock::now() > end; };
        test::on_threads(producers + consumers, [&](uint32_t thread) {
            Chaos chaos(base_seed() + thread);
            if (thread < producers) {
                typename Kind::Sender tx(channel.view());
                std::vector<Body> bodies(each);
                for (uint32_t i = 0; i < each; ++i) bodies[i] = {i, ~i};
                for (uint32_t sent = 0; sent < each && !late();) { // the consumers make room
                    const uint32_t most = std::min(each - sent, 1 + chaos.below(2 * capacity));
                    const uint32_t n = tx.try_send_batch({thread, 0, 1, 0, sizeof(Body)},
                                                         &bodies[sent], sizeof(Body), most);
                    if (n == 0) std::this_thread::yield();
                    sent += n;
                }
                return;
            }
            typename Kind::Receiver rx(channel.view());
            std::vector<Record>& mine = received[thread - producers];
            while (static_cast<int32_t>(left.load()) > 0 && !late()) { // until all have come
                const uint32_t n = rx.receive_batch(
                    1 + chaos.below(2 * capacity), [&](const Header& h, const unsigned char* at) {
                        Body body;
                        std::memcpy(&body, at, sizeof body);
                        EXPECT_EQ(body.inverse, ~body.number);
                        mine.push_back({h.destination, body.number});
                    });
                if (n == 0) std::this_thread::yield();
                left.fetch_sub(n);
            }
        });
        std::vector<std::vector<uint32_t>> times(producers, std::vector<uint32_t>(each));
        for (const std::vector<Record>& of : received) {
            std::vector<uint32_t> next(producers);
            for (const Record& r : of) {
                ASSERT_LT(r.number, each);
                EXPECT_GE(r.number, next[r.producer]) << "of producer " << r.producer;
                next[r.producer] = r.number + 1;
                ++times[r.producer][r.number];
            }
        }
        for (const auto& of : times) EXPECT_EQ(of, std::vector<uint32_t>(each, 1));
        if (testing::Test::HasFailure()) return;
    }
}

TEST(Stress, MpscBatches) { stress_of_batches<Mpsc>(3, 1); }
TEST(Stress, MpmcBatches) { stress_of_batches<Mpmc>(2, 2); }

} // namespace
} // namespace denizen
