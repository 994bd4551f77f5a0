// SPDX-License-Identifier: Apache-2.0
// Links between two runtimes of this process, over each of the two wires: what is promised of
// messages, what comes of a stream that breaks, of a host that is lost, and of bytes that are no
// messages.
#include <denizen/actor/runtime.hpp>
#include <denizen/cluster/link.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <random>
#include <support/scaled.hpp>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

namespace {

using namespace denizen;
using namespace std::chrono_literals;

struct Number {
    uint32_t value;
};
struct Long {
    uint32_t word[100];
};
struct Go {
    uint32_t to;
    uint32_t count;
};
struct Ask {};
struct Told {
    uint64_t count;
    uint32_t wrong;
};
struct Ball {
    uint32_t to;
    uint32_t left;
};

struct Sink {
    uint64_t count = 0;
    uint32_t next = 0;
    uint32_t wrong = 0;
    void see(uint32_t value)
    {
        wrong += value == next ? 0 : 1;
        next = value + 1;
        ++count;
    }
    void on(const Number& m, auto&) { see(m.value); }
    void on(const Long& m, auto&)
    {
        see(m.word[0]);
        for (uint32_t i = 0; i < 100; ++i) {
            wrong += m.word[i] == m.word[0] + i ? 0 : 1;
        }
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Told{count, wrong}); }
};

struct Source {
    uint32_t sent = 0;
    void on(const Go& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i, ++sent) {
            if (i % 8 == 7) {
                Long l;
                for (uint32_t k = 0; k < 100; ++k) {
                    l.word[k] = sent + k;
                }
                ctx.send(Address{m.to}, l);
            } else {
                ctx.send(Address{m.to}, Number{sent});
            }
        }
    }
    void on(const Ball& m, auto& ctx)
    {
        if (m.left != 0) {
            ctx.send(Address{m.to}, Ball{ctx.self().value, m.left - 1});
        }
    }
};

struct Meet {
    uint32_t to;
    uint32_t left;
};

// Sends, and does not return before the other host's has heard of it.
struct Waiter {
    inline static std::atomic<uint32_t> met;
    void on(const Meet& m, auto& ctx)
    {
        if (m.left == 0) {
            met = 1;
            return;
        }
        ctx.send(Address{m.to}, Meet{0, 0});
        const uint64_t begin = now_ns();
        while (met != 1 &&
               now_ns() - begin < 30'000'000'000) { // ends by the other host's, or fails
            std::this_thread::yield();
        }
        met = met == 1 ? 2 : 3;
    }
};

struct Picky : Sink {
    static constexpr Overflow overflow = Overflow::fail;
};

using Play = Program<Actors<Sink, Source, Picky, Waiter>,
                     Messages<Number, Long, Go, Ask, Told, Ball, Down, Meet>>;
constexpr uint32_t number = Play::message_id<Number>;
constexpr uint32_t go = Play::message_id<Go>;
constexpr uint32_t ask = Play::message_id<Ask>;
constexpr uint32_t ball = Play::message_id<Ball>;
constexpr uint32_t meet = Play::message_id<Meet>;

// How the hosts are linked, and how their threads wait: spun for, workers see to their messages,
// too.
enum class Over { rings, stream, spun_rings, spun_stream };

bool is_stream(Over over) { return over == Over::stream || over == Over::spun_stream; }
const char* name_of(Over over)
{
    constexpr const char* name[] = {"rings", "stream", "spun_rings", "spun_stream"};
    return name[static_cast<int>(over)];
}
LinkOptions waiting(Over over, std::chrono::milliseconds deadline)
{
    LinkOptions set;
    set.deadline = deadline;
    set.spin = over == Over::spun_rings || over == Over::spun_stream ? 100ms : set.spin;
    return set;
}
const auto all_ways =
    testing::Values(Over::rings, Over::stream, Over::spun_rings, Over::spun_stream);

// Two hosts and the link between them.
struct Two {
    explicit Two(Over over, std::chrono::milliseconds deadline = 20s)
        : set(waiting(over, deadline)), a(image_of<Play>(), options(0)),
          b(image_of<Play>(), options(1))
    {
        int sockets[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        if (!is_stream(over)) {
            const int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            EXPECT_EQ(ftruncate(memory, static_cast<off_t>(Link::memory_bytes)), 0);
            EXPECT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
            ab = Link::rings(a, 1, memory, sockets[0], true, set);
            ba = Link::rings(b, 0, dup(memory), sockets[1], false, set);
        } else {
            raw = dup(sockets[0]);
            ab = Link::stream(a, 1, sockets[0], 42, set);
            ba = Link::stream(b, 0, sockets[1], 42, set);
        }
    }
    ~Two()
    {
        ab.reset();
        ba.reset();
        if (raw >= 0) {
            ::close(raw);
        }
        a.close(10s);
        b.close(10s);
    }

    static Options options(uint32_t own)
    {
        Options o;
        o.device = Device::cpu();
        o.workers = 1;
        o.hosts = 2;
        o.host = own;
        o.max_actors = 64;
        o.dead_letter_slots = 1 << 17;
        return o;
    }

    // Its address on any host.
    static Address spawn(AnyRuntime& rt, uint32_t type)
    {
        return rt.far().format().to_far(rt.spawn(type, 1, 10s)[0]);
    }

    static Told told(AnyRuntime& from, Address sink)
    {
        Told t{};
        const Ask question;
        from.ask(sink, ask, &question, sizeof question, &t, sizeof t, 30s);
        return t;
    }

    void reconnect()
    {
        const uint64_t at_a = ab->halt();
        const uint64_t at_b = ba->halt();
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        static uint64_t nonce = 100;
        ++nonce;
        ab->resume(sockets[0], nonce, at_b);
        ba->resume(sockets[1], nonce, at_a);
    }

    template <class Done>
    static void wait(Done&& done)
    {
        const auto end = std::chrono::steady_clock::now() + 60s;
        while (!done() && std::chrono::steady_clock::now() < end) { // ends by done() or the time
            std::this_thread::sleep_for(1ms);
        }
        EXPECT_TRUE(done());
    }

    LinkOptions set;
    AnyRuntime a;
    AnyRuntime b;
    int raw = -1;
    std::unique_ptr<Link> ab;
    std::unique_ptr<Link> ba;
};

// Each host's source sends to the other's sink.
struct BothWays {
    explicit BothWays(Two& two)
        : t(two), sink_a(Two::spawn(t.a, Play::actor_id<Sink>)),
          sink_b(Two::spawn(t.b, Play::actor_id<Sink>)),
          source_a(Two::spawn(t.a, Play::actor_id<Source>)),
          source_b(Two::spawn(t.b, Play::actor_id<Source>))
    {
    }

    // So many messages more each way. `by`: whose thread tells b's source.
    void send(uint32_t count, AnyRuntime& by) const
    {
        const Go to_b{sink_b.value, count};
        const Go to_a{sink_a.value, count};
        t.a.send(source_a, go, &to_b, sizeof to_b, 60s);
        by.send(source_b, go, &to_a, sizeof to_a, 60s);
    }
    // All of them, in order and once.
    void arrive(uint32_t count) const
    {
        Two::wait([&] { return Two::told(t.b, sink_a).count == count; });
        Two::wait([&] { return Two::told(t.a, sink_b).count == count; });
        EXPECT_EQ(Two::told(t.a, sink_a).wrong, 0u);
        EXPECT_EQ(Two::told(t.a, sink_b).wrong, 0u);
    }

    Two& t;
    Address sink_a;
    Address sink_b;
    Address source_a;
    Address source_b;
};

class links : public testing::TestWithParam<Over> {};

TEST_P(links, handlers_send_both_ways_in_order_and_once)
{
    const uint32_t count = test::few_under_tsan(4'000, 20'000);
    Two t(GetParam());
    const BothWays both(t);
    for (uint32_t part = 0; part < 10; ++part) {
        both.send(count / 10, t.a); // to the other host by the link itself
    }
    both.arrive(count);
    Two::wait([&] { return t.ab->idle() && t.ba->idle(); });
    EXPECT_EQ(t.ab->counts().taken, t.ba->counts().delivered);
    EXPECT_EQ(t.ba->counts().taken, t.ab->counts().delivered);
    EXPECT_EQ(t.ab->counts().acknowledged, t.ab->counts().taken);
}

// Until a ball, thrown to an actor of host a by `from`, has crossed the link so many times.
void play(Two& t, AnyRuntime& from, uint64_t crossings)
{
    const Address one = Two::spawn(t.a, Play::actor_id<Source>);
    const Address other = Two::spawn(t.b, Play::actor_id<Source>);
    const Ball first{other.value, 2000};
    from.send(one, ball, &first, sizeof first, 10s);
    Two::wait([&] { return t.ab->counts().taken + t.ba->counts().taken == crossings; });
}

TEST_P(links, a_ball_goes_to_and_fro)
{
    Two t(GetParam());
    play(t, t.b, 2001); // the first by the host
}

// A ball between two hosts whose threads spin is carried by their workers: the links' threads only
// see to what these leave.
TEST_P(links, workers_carry_what_they_send)
{
    Two t(GetParam());
    play(t, t.a, 2000);
    EXPECT_GT(t.ab->counts().by_workers, 0u);
    EXPECT_GT(t.ba->counts().by_workers, 0u);
    EXPECT_GT(t.ab->counts().looks, 0u);
}

// One that does not keep up takes what has come itself, also where the links' threads sleep soon.
TEST_P(links, a_worker_that_is_behind_carries_what_comes)
{
    Two t(GetParam());
    const Address sink = Two::spawn(t.b, Play::actor_id<Sink>);
    const Address source = Two::spawn(t.a, Play::actor_id<Source>);
    uint32_t count = 0;
    Two::wait([&] {
        const Go more{sink.value, 4000};
        t.a.send(source, go, &more, sizeof more, 10s);
        count += more.count;
        Two::wait([&] { return t.ba->counts().delivered == count; });
        return t.ba->counts().by_workers != 0; // of those delivered: this host has sent nothing
    });
    Two::wait([&] { return Two::told(t.b, sink).count == count; });
    EXPECT_EQ(Two::told(t.b, sink).wrong, 0u);
}

// While a handler runs, its host's link's thread carries what it has sent.
TEST_P(links, handlers_that_do_not_return_hold_nothing_up)
{
    Two t(GetParam());
    const Address one = Two::spawn(t.a, Play::actor_id<Waiter>);
    const Address other = Two::spawn(t.b, Play::actor_id<Waiter>);
    for (uint32_t round = 1; round <= 20; ++round) {
        Waiter::met = 0;
        const Meet first{other.value, 1};
        t.a.send(one, meet, &first, sizeof first, 10s);
        Two::wait([&] { return Waiter::met == 2; });
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    }
}

TEST_P(links, many_threads_send_and_ask)
{
    Two t(GetParam());
    std::vector<Address> sinks;
    for (uint32_t i = 0; i < 4; ++i) {
        sinks.push_back(Two::spawn(i % 2 == 0 ? t.a : t.b, Play::actor_id<Sink>));
    }
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            AnyRuntime& rt = i < 2 ? t.a : t.b;
            for (uint32_t k = 0; k < 1000; ++k) {
                const Number n{k};
                rt.send(sinks[i], number, &n, sizeof n, 30s);
                if (k % 50 == 49) {
                    EXPECT_EQ(Two::told(rt, sinks[i]).count, k + 1);
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const Address sink : sinks) {
        EXPECT_EQ(Two::told(t.a, sink).wrong, 0u);
    }
}

// A mailbox that refuses what has no room does so for messages of another host too: none is lost
// without a word, and those behind it are not held up.
TEST_P(links, the_receivers_overflow_policy_decides)
{
    Two t(GetParam());
    const Address picky = Two::spawn(t.b, Play::actor_id<Picky>);
    const Address other = Two::spawn(t.b, Play::actor_id<Sink>);
    t.b.pause(t.b.far().format().to_short(picky), 10s);
    t.b.pause(10s); // nobody takes anything from its ring
    constexpr uint32_t count = 5000;
    for (uint32_t i = 0; i < count; ++i) {
        const Number n{i};
        t.a.send(picky, number, &n, sizeof n, 10s);
    }
    Two::wait([&] {
        const LinkCounts c = t.ba->counts();
        return c.delivered + c.refused == count;
    });
    t.b.resume();
    t.b.resume(t.b.far().format().to_short(picky), 10s);
    const Number n{0};
    t.a.send(other, number, &n, sizeof n, 10s);
    EXPECT_EQ(Two::told(t.a, other).count, 1u);
    const uint64_t handled = Two::told(t.a, picky).count;
    EXPECT_GT(t.ba->counts().refused, 0u);
    EXPECT_EQ(handled + t.ba->counts().refused, count);
    EXPECT_EQ(t.b.stats().dead_letters_by_reason[static_cast<size_t>(Reason::dropped)],
              t.ba->counts().refused);
}

TEST_P(links, a_lost_host_is_an_error_and_dead_letters)
{
    Two t(GetParam());
    const Address sink = Two::spawn(t.b, Play::actor_id<Sink>);
    const Address source = Two::spawn(t.a, Play::actor_id<Source>);
    t.b.pause(10s);
    const Go many{sink.value, 3000};
    t.a.send(source, go, &many, sizeof many, 10s);
    Two::wait([&] { return t.ab->counts().taken > 100; });
    const Ask question;
    const Address waits = t.a.ask_begin(sink, ask, &question, sizeof question, 10s);
    t.ab->lose("somebody has pulled a cable");
    Two::wait([&] { return t.ab->state() == Link::State::lost; });
    EXPECT_EQ(t.ab->why(), "host 1 was lost: somebody has pulled a cable");
    const auto code = [&](auto&& call) {
        try {
            call();
        } catch (const Error& e) {
            EXPECT_NE(std::string(e.what()).find("host 1 was lost: somebody"), std::string::npos);
            return e.code();
        }
        return Errc::ok;
    };
    Told told{};
    EXPECT_EQ(code([&] { t.a.ask_end(waits, &told, sizeof told, 10s); }), Errc::host_lost);
    const Number n{0};
    EXPECT_EQ(code([&] { t.a.send(sink, number, &n, sizeof n, 1s); }), Errc::host_lost);
    EXPECT_EQ(code([&] { Two::told(t.a, sink); }), Errc::host_lost);
    t.a.send(source, go, &many, sizeof many, 10s); // what handlers send is buried
    t.a.drain(30s);
    const auto lost = static_cast<size_t>(Reason::lost);
    Two::wait([&] { return t.ab->counts().taken >= 6001 && t.ab->idle(); });
    // The other side is told, and gives this one up.
    Two::wait([&] { return t.ba->state() != Link::State::up; });
    t.b.resume();
    t.b.drain(30s);
    const uint64_t dead = t.a.stats().dead_letters_by_reason[lost];
    const LinkCounts c = t.ab->counts();
    EXPECT_EQ(c.lost, dead);
    EXPECT_EQ(c.taken, 6001u);
    EXPECT_GE(c.acknowledged + c.lost, c.taken); // each is one or the other; at the cut maybe both
    size_t letters = 0;
    for (const DeadLetter& d : t.a.dead_letters().letters) {
        letters += d.reason == Reason::lost ? 1 : 0;
        EXPECT_NE(d.text.find("host 1 was lost"), std::string::npos);
    }
    EXPECT_EQ(letters, dead);
}

INSTANTIATE_TEST_SUITE_P(over, links, all_ways,
                         [](const auto& of) { return std::string(name_of(of.param)); });

// One thread watches while the host is lost: each watch is answered once, by the host or by its
// loss.
TEST_P(links, a_watch_is_answered_by_the_other_host_or_by_its_loss)
{
    Two t(GetParam());
    constexpr uint32_t count = 40;
    std::vector<Address> sinks;
    for (uint32_t i = 0; i < count; ++i) {
        sinks.push_back(Two::spawn(t.b, Play::actor_id<Sink>));
    }
    t.a.watch(host, sinks[0], 10s);
    t.b.stop(t.b.far().format().to_short(sinks[0]), 10s);
    const auto next = [&] {
        const auto m = t.a.receive(30s);
        EXPECT_EQ(m.header.type, Play::message_id<Down>);
        Down news{};
        std::memcpy(&news, m.payload.data(), sizeof news);
        EXPECT_EQ(news.life, static_cast<uint32_t>(Life::stopped));
        return news;
    };
    const Down first = next();
    EXPECT_EQ(first.actor, sinks[0].value);
    EXPECT_EQ(first.code, 0u);
    std::thread watches([&] {
        for (uint32_t i = 1; i < count; ++i) {
            t.a.watch(host, sinks[i], 10s);
        }
    });
    t.ab->lose("somebody has pulled a cable");
    watches.join();
    std::vector<uint32_t> told(count);
    for (uint32_t i = 1; i < count; ++i) {
        const Down news = next();
        EXPECT_EQ(news.code, failed_host);
        for (uint32_t k = 1; k < count; ++k) {
            told[k] += news.actor == sinks[k].value ? 1 : 0;
        }
    }
    for (uint32_t k = 1; k < count; ++k) {
        EXPECT_EQ(told[k], 1u);
    }
}

TEST(stream, one_that_breaks_goes_on_where_it_broke)
{
    constexpr uint32_t count = 40'000;
    Two t(Over::stream);
    const BothWays both(t);
    for (uint32_t part = 0; part < 20; ++part) {
        both.send(count / 20, t.b);
        std::this_thread::sleep_for(std::chrono::microseconds(part * 200));
        t.reconnect();
    }
    both.arrive(count);
    EXPECT_EQ(t.ab->counts().resumed, 20u);
}

TEST(stream, one_that_stays_broken_is_lost_after_the_deadline)
{
    Two t(Over::stream, 200ms);
    t.ab->halt();
    Two::wait(
        [&] { return t.ab->state() == Link::State::lost && t.ba->state() == Link::State::lost; });
    EXPECT_NE(t.ab->why().find("its connection broke and was not restored"), std::string::npos)
        << t.ab->why();
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    EXPECT_THROW(t.ab->resume(sockets[0], 1, 0), Error);
    ::close(sockets[1]);
}

// What comes over an open link is checked: bytes that are no frame, of another session, too long,
// or with messages that are none, end it. Nothing is delivered.
TEST(stream, garbage_ends_it)
{
    std::mt19937 random(1);
    for (uint32_t round = 0; round < 60; round += test::few_under_tsan(9, 1)) {
        AnyRuntime a(image_of<Play>(), Two::options(0));
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        LinkOptions set;
        set.deadline = 20s;
        auto link = Link::stream(a, 1, sockets[0], 42, set);
        std::vector<uint32_t> words(64);
        const auto put64 = [&](size_t at, uint64_t value) {
            words[at] = static_cast<uint32_t>(value);
            words[at + 1] = static_cast<uint32_t>(value >> 32);
        };
        // A frame as it should be, with one message for nobody.
        words[0] = 0x325a4e44;
        words[1] = 1;
        put64(2, 42);
        put64(8, 4u << 20);
        words[10] = 20;
        words[12] = a.far().format().far(0, 1).value;
        words[13] = a.far().format().far(1, 1).value;
        words[14] = number | 4u << 15;
        uint32_t bytes = 48 + 20;
        if (round < 50) { // one word of it is another
            const size_t at = round % 11;
            words[at] ^= 1u << random() % 32;
        } else {
            for (uint32_t& word : words) {
                word = static_cast<uint32_t>(random());
            }
            bytes = 256;
        }
        ASSERT_EQ(write(sockets[1], words.data(), bytes), static_cast<ssize_t>(bytes));
        if (round < 50) { // a frame that says more than has come is waited for: so its end
            shutdown(sockets[1], SHUT_WR);
        }
        Two::wait([&] { return link->state() != Link::State::up; });
        const LinkCounts c = link->counts();
        EXPECT_EQ(c.delivered, 0u);
        link.reset();
        ::close(sockets[1]);
        a.close(10s);
    }
}

// The next head would be read out of a payload.
TEST(stream, an_acknowledgement_within_a_message_ends_it)
{
    for (const uint32_t position : {0u, 4u, 20u}) { // nothing, a part, all of it
        AnyRuntime a(image_of<Play>(), Two::options(0));
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        LinkOptions set;
        set.deadline = 20s;
        auto link = Link::stream(a, 1, sockets[0], 42, set);
        const uint32_t payload = ~0u;
        a.send(a.far().format().far(1, 1), number, &payload, sizeof payload, 10s);
        unsigned char sent[48 + 20];
        ASSERT_EQ(recv(sockets[1], sent, sizeof sent, MSG_WAITALL),
                  static_cast<ssize_t>(sizeof sent));
        const uint32_t frame[12] = {0x325a4e44, 0, 42, 0, 0, 0, position, 0, 4u << 20, 0, 0, 0};
        ASSERT_EQ(write(sockets[1], frame, sizeof frame), static_cast<ssize_t>(sizeof frame));
        if (position == 4) {
            Two::wait([&] { return link->state() == Link::State::lost; });
            Two::wait([&] { return link->counts().lost == 1; });
        } else {
            Two::wait([&] { return link->counts().acknowledged == position / 20; });
            EXPECT_EQ(link->state(), Link::State::up);
        }
        EXPECT_EQ(link->counts().acknowledged, position / 20);
        link.reset();
        ::close(sockets[1]);
        a.close(10s);
    }
}

TEST(stream, messages_for_nobody_are_counted_and_the_link_goes_on)
{
    AnyRuntime a(image_of<Play>(), Two::options(0));
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    LinkOptions set;
    set.deadline = 20s;
    auto link = Link::stream(a, 1, sockets[0], 42, set);
    const FarFormat f = a.far().format();
    const Address sink = Two::spawn(a, Play::actor_id<Sink>);
    struct Bad {
        uint32_t destination, sender, kind;
    };
    const uint32_t self = f.far(1, 1).value;
    const uint32_t good = number | 4u << 15;
    const Bad bad[] = {
        {0, self, good},                                  // no address of a cluster's
        {f.far(1, 0).value, self, good},                  // of another host
        {f.far(0, 50).value, self, good},                 // no actor
        {f.far(0, 0x3ff7fff).value, self, good},          // a cell that nobody waits at
        {sink.value, f.far(0, 1).value, good},            // a sender that is ours
        {sink.value, self, 100u | 4u << 15},              // no message of the program
        {sink.value, self, number | 1u << 10 | 4u << 15}, // the runtime's own
        {sink.value, self, ask | 4u << 15},               // another length
        {sink.value, self, go | 4u << 15},                // the same
    };
    uint64_t position = 0;
    for (const Bad& one : bad) {
        const auto at = static_cast<uint32_t>(position);
        const uint32_t words[] = {0x325a4e44,      1,          42,       0, at, 0, 0, 0, // a frame
                                  4u << 20,        0,          20,       0, // of 20 bytes
                                  one.destination, one.sender, one.kind, 0, 1};
        ASSERT_EQ(write(sockets[1], words, sizeof words), static_cast<ssize_t>(sizeof words));
        position += 20;
    }
    Two::wait([&] { return link->counts().refused == std::size(bad); });
    EXPECT_EQ(link->state(), Link::State::up);
    EXPECT_EQ(link->counts().delivered, 0u);
    EXPECT_EQ(Two::told(a, sink).count, 0u);
    link.reset();
    ::close(sockets[1]);
    a.close(10s);
}

TEST(rings, memory_that_could_be_made_smaller_is_refused)
{
    AnyRuntime a(image_of<Play>(), Two::options(0));
    for (const bool sealed : {false, true}) {
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        const int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        ASSERT_EQ(ftruncate(memory, static_cast<off_t>(Link::memory_bytes - (sealed ? 4096 : 0))),
                  0);
        if (sealed) {
            ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        }
        EXPECT_THROW(Link::rings(a, 1, memory, sockets[0], true, {}), Error);
        ::close(sockets[1]);
    }
    a.close(10s);
}

TEST(addresses, mean_the_same_everywhere)
{
    for (const uint32_t hosts : {1u, 2u, 3u, 64u, 1023u}) {
        FarFormat f;
        f.hosts = hosts;
        f.host = hosts - 1;
        f.place_bits = 28 - static_cast<uint32_t>(std::bit_width(hosts));
        f.workers = 3;
        f.nodes = 2;
        f.local_bits = f.place_bits - 4;
        for (const Address a :
             {Address::actor(0, 0), Address::actor(2, 5, 1), Address::actor(1, 77), host}) {
            const Address far = f.to_far(a);
            EXPECT_TRUE(far.is_far());
            EXPECT_TRUE(far.is_host()); // not a node's
            EXPECT_FALSE(far.is_reply_cell());
            EXPECT_EQ(f.host_of(far), f.host);
            EXPECT_EQ(f.to_short(far), a);
            EXPECT_EQ(f.to_far(far), far);
        }
        const Address cell = f.to_far(Address::reply_cell(5, 1));
        EXPECT_TRUE(cell.is_far());
        EXPECT_EQ(f.place_of(cell) & 0xffff, 5u);
        EXPECT_EQ(f.to_far(nowhere), nowhere);
    }
    EXPECT_FALSE(host.is_far());
}

} // namespace
