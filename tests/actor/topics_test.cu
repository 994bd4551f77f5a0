// SPDX-License-Identifier: Apache-2.0
// Topics: who gets what is published, how often and in which order; while actors come and go, on
// one node and on two, from handlers and from the host.
#include <actor/places.hpp>

#include <cstring>
#include <filesystem>
#include <random>

using namespace denizen;
using namespace denizen::test;

constexpr uint32_t max_speakers = 8;

struct Note { // of speaker `from`: numbered
    uint32_t from;
    uint32_t number;
};
struct Fat { // the same in several slots
    uint32_t from;
    uint32_t number;
    uint32_t filling[40];
};
struct Alarm { // overtakes data
    static constexpr auto priority = Priority::urgent;
    uint32_t number;
};
struct Join {
    TopicPattern pattern;
};
struct Part {
    TopicPattern pattern;
};
struct Speak { // publish `count` notes, numbered on
    Topic topic;
    uint32_t from;
    uint32_t count;
};
struct SpeakFat {
    Topic topic;
    uint32_t from;
    uint32_t count;
};
struct Name {}; // publish to literals
struct End {};  // ctx.stop(self)
struct Parcel {
    BufferRef data;
    DENIZEN_BUFFERS(data)
};
struct Look {};
struct Seen {
    uint64_t count;    // notes received; of a speaker: that were sent, as publish() tells
    uint64_t sum;      // of their numbers
    uint32_t disorder; // that came behind a later one of their speaker
    uint32_t alarms;
};

struct Reader {
    uint64_t count = 0;
    uint64_t sum = 0;
    uint32_t disorder = 0;
    uint32_t alarms = 0;
    uint32_t next[max_speakers] = {};

    DENIZEN_HD void take(uint32_t from, uint32_t number)
    {
        disorder += number + 1 < next[from % max_speakers] ? 1 : 0;
        next[from % max_speakers] = number + 1;
        sum += number;
        ++count;
    }
    DENIZEN_HD void on(const Note& m, auto&) { take(m.from, m.number); }
    DENIZEN_HD void on(const Fat& m, auto&)
    {
        bool whole = true;
        for (uint32_t i = 0; i < 40; ++i) {
            whole = whole && m.filling[i] == m.number + i;
        }
        disorder += whole ? 0 : 1;
        take(m.from, m.number);
    }
    DENIZEN_HD void on(const Alarm&, auto&) { ++alarms; }
    DENIZEN_HD void on(const Join& m, auto& ctx) { ctx.subscribe(m.pattern); }
    DENIZEN_HD void on(const Part& m, auto& ctx) { ctx.unsubscribe(m.pattern); }
    DENIZEN_HD void on(const End&, auto& ctx) { ctx.stop(ctx.self()); }
    DENIZEN_HD void on(const Parcel& m, auto& ctx)
    {
        for (const uint32_t word : ctx.template data<uint32_t>(m.data)) {
            sum += word;
        }
        ++count;
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, sum, disorder, alarms}); }
};

struct Speaker {
    uint64_t told = 0;
    uint32_t next = 0;

    DENIZEN_HD void on(const Speak& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            told += ctx.publish(m.topic, Note{m.from, next++});
        }
    }
    DENIZEN_HD void on(const SpeakFat& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            Fat fat{m.from, next++, {}};
            for (uint32_t k = 0; k < 40; ++k) {
                fat.filling[k] = fat.number + k;
            }
            told += ctx.publish(m.topic, fat);
        }
    }
    DENIZEN_HD void on(const Name&, auto& ctx)
    {
        told += ctx.publish("market/EURUSD", Note{0, 1});
        told += ctx.publish("market/GBPUSD", Note{0, 2});
    }
    DENIZEN_HD void on(const Parcel& m, auto& ctx) { told += ctx.publish("parcels", m); }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{told, 0, 0, 0}); }
};

// Takes only what there is room for.
struct Fussy {
    static constexpr auto overflow = Overflow::fail;
    uint64_t count = 0;

    DENIZEN_HD void on(const Note&, auto&) { ++count; }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0, 0, 0}); }
};

// Run by the whole warp.
struct Choir {
    static constexpr auto grain = Grain::warp;
    uint64_t told = 0;
    uint32_t next = 0;

    template <class M>
    DENIZEN_HD void say(const M& message, const Topic& topic, auto& ctx)
    {
        const uint32_t sent = ctx.publish(topic, message);
        if (ctx.lane() == 0) {
            told += sent;
            ++next;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Speak& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            say(Note{m.from, next}, m.topic, ctx);
        }
    }
    DENIZEN_HD void on(const SpeakFat& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            Fat fat{m.from, next, {}};
            for (uint32_t k = 0; k < 40; ++k) {
                fat.filling[k] = fat.number + k;
            }
            say(fat, m.topic, ctx);
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{told, 0, 0, 0}); }
};

using Forum =
    Program<Actors<Reader, Speaker, Choir, Fussy>,
            Messages<Note, Fat, Alarm, Join, Part, Speak, SpeakFat, Name, End, Parcel, Look, Seen>>;

namespace {

Topic topic(const std::string& name)
{
    return Topic::of(name.data(), static_cast<uint32_t>(name.size()));
}

class topics : public AtEveryPlace {};

std::vector<Place> places_of_topics()
{
    return {
        {"cpu1", Device::cpu(), 1, false},      {"cpu3", Device::cpu(), 3, false},
        {"cpu2x2", Device::cpu(), 2, false, 2},
#if defined(__CUDACC__)
        {"gpu", Device::gpu(), 0, true},        {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

DENIZEN_AT_PLACES(topics, places_of_topics());

uint64_t received(Runtime<Forum>& rt, Address reader) { return rt.ask<Seen>(reader, Look{}).count; }

TEST_P(topics, exact_and_by_prefix_and_by_both)
{
    Runtime<Forum> rt(device(), options());
    const auto r = rt.spawn<Reader>(6);
    rt.subscribe(r[0], "market/EURUSD");
    rt.subscribe(r[1], "market/*");
    rt.subscribe(r[2], "*");
    rt.subscribe(r[3], "market/EURUSD");
    rt.subscribe(r[3], "market/*");
    rt.subscribe(r[3], "market/*"); // twice the same is once
    rt.subscribe(r[4], "market/EURUSD*");
    rt.subscribe(r[5], "market"); // another topic
    EXPECT_EQ(rt.publish("market/EURUSD", Note{0, 0}), 6u);
    EXPECT_EQ(rt.publish("market/EURUSDT", Note{0, 1}), 4u);
    EXPECT_EQ(rt.publish("market/", Note{0, 2}), 3u);
    EXPECT_EQ(rt.publish("market", Note{0, 3}), 2u);
    EXPECT_EQ(rt.publish("weather", Note{0, 4}), 1u);
    EXPECT_EQ(rt.publish("123456789012345", Note{0, 5}), 1u);
    rt.drain();
    const uint64_t expected[] = {1, 3, 6, 4, 2, 1};
    for (size_t i = 0; i < r.size(); ++i) {
        const Seen s = rt.ask<Seen>(r[i], Look{});
        EXPECT_EQ(s.count, expected[i]) << i;
        EXPECT_EQ(s.disorder, 0u) << i;
    }
    // By literals of a handler.
    const Address speaker = rt.spawn<Speaker>();
    rt.send(speaker, Name{});
    rt.drain();
    EXPECT_EQ(rt.ask<Seen>(speaker, Look{}).count, 6u + 3u);
    EXPECT_EQ(received(rt, r[0]), 2u);
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(topics, who_has_left_gets_no_more)
{
    Runtime<Forum> rt(device(), options());
    const auto r = rt.spawn<Reader>(3);
    EXPECT_EQ(rt.publish("a", Note{0, 0}), 0u);
    for (const Address reader : r) {
        rt.subscribe(reader, "a");
        rt.subscribe(reader, "a*");
    }
    EXPECT_EQ(rt.publish("a", Note{0, 0}), 6u);
    rt.unsubscribe(r[1], "a");
    rt.unsubscribe(r[1], "b"); // never was
    EXPECT_EQ(rt.publish("a", Note{0, 1}), 5u);
    rt.unsubscribe(r[1], "a*");
    EXPECT_EQ(rt.publish("a", Note{0, 2}), 4u);
    rt.subscribe(r[1], "a");
    EXPECT_EQ(rt.publish("a", Note{0, 3}), 5u);
    rt.drain();
    EXPECT_EQ(received(rt, r[0]), 8u);
    EXPECT_EQ(received(rt, r[1]), 4u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(topics, who_has_stopped_is_forgotten)
{
    Runtime<Forum> rt(device(), options());
    const auto r = rt.spawn<Reader>(4);
    for (const Address reader : r) {
        rt.send(reader, Join{topic("news")});
        rt.subscribe(reader, "ne*");
    }
    rt.drain();
    EXPECT_EQ(rt.publish("news", Note{0, 0}), 8u);
    rt.stop(r[0]);
    rt.send(r[1], End{});
    rt.drain();
    EXPECT_EQ(rt.publish("news", Note{0, 1}), 4u);
    rt.drain();
    rt.restart(r[2]); // keeps its subscriptions
    EXPECT_EQ(rt.publish("news", Note{0, 2}), 4u);
    rt.drain();
    EXPECT_EQ(received(rt, r[2]), 2u);
    EXPECT_EQ(received(rt, r[3]), 6u);
    // A handler whose actor stops with its subscription still on its way.
    const Address brief = rt.spawn<Reader>();
    rt.send(brief, Join{topic("brief")});
    rt.send(brief, End{});
    rt.drain();
    EXPECT_EQ(rt.publish("brief", Note{0, 0}), 0u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(topics, many_subscribers_each_once_and_in_order)
{
    Options o = options();
    o.subscriptions = 2048;
    o.outbox_slots = 8192; // a publication may have to wait in there as a whole
    Runtime<Forum> rt(device(), o);
    const auto r = rt.spawn<Reader>(scaled(1000));
    for (const Address reader : r) {
        rt.send(reader, Join{topic("all")});
    }
    rt.drain();
    const auto n = static_cast<uint32_t>(r.size());
    const Address speaker = rt.spawn<Speaker>();
    const Address choir = rt.spawn<Choir>();
    for (uint32_t i = 0; i < 5; ++i) {
        rt.send(speaker, Speak{topic("all"), 0, 1});
        rt.send(choir, Speak{topic("all"), 1, 1});
        rt.send(choir, SpeakFat{topic("all"), 1, 1});
        rt.send(speaker, SpeakFat{topic("all"), 0, 1});
        EXPECT_EQ(rt.publish("all", Note{2, i}, 20s), n);
    }
    rt.drain();
    EXPECT_EQ(rt.ask<Seen>(speaker, Look{}).count, 10ull * n);
    EXPECT_EQ(rt.ask<Seen>(choir, Look{}).count, 10ull * n);
    for (const Seen& s : rt.ask_many<Seen>(r, Look{})) {
        EXPECT_EQ(s.count, 25u);
        EXPECT_EQ(s.sum, 45u + 45u + 10u);
        EXPECT_EQ(s.disorder, 0u);
    }
}

TEST_P(topics, a_full_table)
{
    Options o = options();
    o.subscriptions = 4;
    Runtime<Forum> rt(device(), o);
    const auto r = rt.spawn<Reader>(5);
    for (uint32_t i = 0; i < 4; ++i) {
        rt.subscribe(r[i], "a");
    }
    const std::string text = "table of subscriptions (4 entries) is full and ";
    expect_error_like(Errc::exhausted,
                      "table of subscriptions \\(4 entries\\) is full and actor Reader #[0-9]+ of "
                      "worker [0-9]+.* cannot subscribe; raise subscriptions",
                      [&] { rt.subscribe(r[4], "a"); });
    rt.subscribe(r[3], "a"); // is there already
    EXPECT_EQ(rt.stats().errors, 0u);
    rt.send(r[4], Join{topic("b")});
    rt.drain();
    EXPECT_EQ(rt.stats().errors, 1u);
    EXPECT_EQ(rt.stats().first_error.rfind(text, 0), 0u) << rt.stats().first_error;
    EXPECT_EQ(rt.publish("b", Note{0, 0}), 0u);
    rt.unsubscribe(r[0], "a");
    rt.subscribe(r[4], "b");
    EXPECT_EQ(rt.publish("b", Note{0, 0}), 1u);
    EXPECT_EQ(rt.publish("a", Note{0, 0}), 3u);
}

TEST_P(topics, what_is_no_topic)
{
    Runtime<Forum> rt(device(), options());
    const Address r = rt.spawn<Reader>();
    expect_error(Errc::bad_argument, "topic \"\" is empty", [&] { rt.publish("", Note{0, 0}); });
    const std::string longest(255, 'x');
    expect_error(Errc::bad_argument, "topic \"" + longest + "y\" has 256 bytes; use at most 255",
                 [&] { rt.publish(longest + "y", Note{0, 0}); });
    expect_error(Errc::bad_argument,
                 "topic \"a*\" has a '*'; only subscriptions are to many topics",
                 [&] { rt.publish("a*", Note{0, 0}); });
    expect_error(Errc::bad_argument, "pattern \"a*b\" has a '*' that is not its end",
                 [&] { rt.subscribe(r, "a*b"); });
    expect_error(Errc::bad_argument,
                 "pattern \"" + longest + "y*\" has 257 bytes; use at most 255, and a '*'",
                 [&] { rt.subscribe(r, longest + "y*"); });
    rt.subscribe(r, "123456789012345*");
    EXPECT_EQ(rt.publish("123456789012345", Note{0, 0}), 1u);
    const Error e = error_of([&] { rt.subscribe(Address::actor(0, 77), "a"); });
    EXPECT_EQ(e.code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.publish("", Seen{}); }).code(), Errc::bad_argument);
    Options odd = options();
    odd.subscriptions = 1000;
    expect_error(Errc::bad_argument, "subscriptions = 1000; use a power of two from 2 to 1048576",
                 [&] { Runtime<Forum>(device(), odd); });
}

TEST_P(topics, the_host_subscribes_too_and_its_publications_come_in_order)
{
    Runtime<Forum> rt(device(), options());
    const Address r = rt.spawn<Reader>();
    rt.subscribe(host, "a*");
    rt.subscribe(r, "ab");
    const uint32_t n = scaled(400);
    for (uint32_t i = 0; i < n; ++i) {
        EXPECT_EQ(rt.publish("ab", Note{0, i}), 2u);
        if (i % 10 == 0) {
            EXPECT_EQ(rt.publish("ab", Alarm{i}), 2u); // urgent, by another way
        }
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < n + (n + 9) / 10; ++i) {
        const Message m = rt.receive();
        if (m.header.type == Runtime<Forum>::id<Note>()) {
            Note note{};
            std::memcpy(&note, m.payload.data(), sizeof note);
            EXPECT_EQ(note.number, next++);
        }
    }
    EXPECT_EQ(next, n);
    rt.drain();
    const Seen s = rt.ask<Seen>(r, Look{});
    EXPECT_EQ(s.count, n);
    EXPECT_EQ(s.disorder, 0u);
    EXPECT_EQ(s.alarms, (n + 9) / 10);
}

// Many threads publish, long and short, urgent and not: the two messages of each publication stay
// together.
TEST_P(topics, host_threads_publish_at_once)
{
    Runtime<Forum> rt(device(), options());
    const auto r = rt.spawn<Reader>(4);
    for (uint32_t t = 0; t < 4; ++t) {
        rt.subscribe(r[t], "t" + std::to_string(t));
    }
    const uint32_t n = scaled(200) + 5;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const std::string name = "t" + std::to_string(t);
            for (uint32_t i = 0; i < n; ++i) {
                if (i % 3 == 0) {
                    Fat fat{t, i, {}};
                    for (uint32_t k = 0; k < 40; ++k) {
                        fat.filling[k] = i + k;
                    }
                    EXPECT_EQ(rt.publish(name, fat, 20s), 1u);
                } else {
                    EXPECT_EQ(rt.publish(name, Note{t, i}, 20s), 1u);
                }
                EXPECT_EQ(rt.publish(name, Alarm{i}, 20s), 1u);
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    rt.drain();
    for (const Seen& s : rt.ask_many<Seen>(r, Look{})) {
        EXPECT_EQ(s.count, n);
        EXPECT_EQ(s.alarms, n);
        EXPECT_EQ(s.sum, uint64_t{n} * (n - 1) / 2);
        EXPECT_EQ(s.disorder, 0u);
    }
}

// More patterns come and go than there are entries: none is lost, and none is left.
TEST_P(topics, entries_are_used_again)
{
    Options o = options();
    o.subscriptions = 16;
    Runtime<Forum> rt(device(), o);
    const Address r = rt.spawn<Reader>();
    std::mt19937 random(7);
    std::vector<std::string> joined;
    uint32_t fresh = 0;
    const uint32_t n = scaled(3000) + 100;
    for (uint32_t i = 0; i < n; ++i) {
        if (joined.size() < 16 && (joined.empty() || random() % 2 == 0)) {
            joined.push_back("t" + std::to_string(fresh++) + (random() % 4 == 0 ? "/*" : ""));
            rt.subscribe(r, joined.back());
        } else {
            std::swap(joined[random() % joined.size()], joined.back());
            rt.unsubscribe(r, joined.back());
            joined.pop_back();
        }
        if (i % 20 == 0) {
            for (std::string name : joined) {
                if (name.back() == '*') {
                    name.back() = 'x';
                }
                EXPECT_EQ(rt.publish(name, Note{0, 0}), 1u) << name;
            }
        }
    }
    EXPECT_EQ(rt.publish("t0x", Note{0, 0}), 0u);
    EXPECT_EQ(rt.stats().errors, 0u);
}

// Readers come and go by their own handlers, and by the host, while speakers on all workers
// publish. What publish() tells is what arrives; who stays gets everything, in order.
TEST_P(topics, comings_and_goings_under_load)
{
    Options o = options();
    o.subscriptions = 256;
    o.urgent_slots = 2; // changes wait in outboxes too
    Runtime<Forum> rt(device(), o);
    const auto staying = rt.spawn<Reader>(6);
    const auto restless = rt.spawn<Reader>(12);
    const auto speakers = rt.spawn<Speaker>(4);
    const auto choirs = rt.spawn<Choir>(2);
    const std::string names[] = {"room/1", "room/2", "hall/1", "hall/2"};
    for (const Address r : staying) {
        rt.subscribe(r, "*");
    }
    const uint32_t rounds = scaled(400) + 10;
    std::thread host_changes([&] {
        for (uint32_t i = 0; i < rounds / 4; ++i) {
            const Address r = restless[i % restless.size()];
            i % 8 < 4 ? rt.subscribe(r, "hall/*", 20s) : rt.unsubscribe(r, "hall/*", 20s);
        }
    });
    uint64_t told_host = 0;
    uint64_t published = 0;
    std::mt19937 random(3);
    for (uint32_t i = 0; i < rounds; ++i) {
        const std::string& name = names[random() % 4];
        const Address r = restless[random() % restless.size()];
        const TopicPattern pattern =
            random() % 2 == 0 ? TopicPattern(topic(name)) : TopicPattern("room/*");
        random() % 2 == 0 ? rt.send(r, Join{pattern}, 20s) : rt.send(r, Part{pattern}, 20s);
        for (uint32_t k = 0; k < 4; ++k) {
            rt.send(speakers[k], Speak{topic(name), k, 2}, 20s);
            published += 2;
        }
        for (uint32_t k = 0; k < 2; ++k) {
            i % 2 == 0 ? rt.send(choirs[k], Speak{topic(name), 4 + k, 2}, 20s)
                       : rt.send(choirs[k], SpeakFat{topic(name), 4 + k, 2}, 20s);
            published += 2;
        }
        if (i % 10 == 0) {
            told_host += rt.publish(name, Note{6, i}, 20s);
            ++published;
        }
    }
    host_changes.join();
    rt.drain();
    uint64_t told = told_host;
    for (const Address s : speakers) {
        told += rt.ask<Seen>(s, Look{}).count;
    }
    for (const Address c : choirs) {
        told += rt.ask<Seen>(c, Look{}).count;
    }
    uint64_t arrived = 0;
    for (const Seen& s : rt.ask_many<Seen>(staying, Look{})) {
        EXPECT_EQ(s.count, published);
        EXPECT_EQ(s.disorder, 0u);
        arrived += s.count;
    }
    for (const Seen& s : rt.ask_many<Seen>(restless, Look{})) {
        EXPECT_EQ(s.disorder, 0u);
        arrived += s.count;
    }
    EXPECT_EQ(arrived, told);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    EXPECT_EQ(rt.stats().errors, 0u);
    // Nothing is left behind but those who stay.
    for (const Address r : restless) {
        for (const std::string& name : names) {
            rt.unsubscribe(r, name);
        }
        rt.unsubscribe(r, "room/*");
        rt.unsubscribe(r, "hall/*");
    }
    for (const std::string& name : names) {
        EXPECT_EQ(rt.publish(name, Note{7, 0}), staying.size());
    }
}

TEST_P(topics, what_a_message_refers_to_lives_until_the_last_subscriber_has_it)
{
    Runtime<Forum> rt(device(), options());
    const auto r = rt.spawn<Reader>(5);
    const Address speaker = rt.spawn<Speaker>();
    for (const Address reader : r) {
        rt.subscribe(reader, "parcels");
    }
    Buffer buffer = rt.buffer(256, BufferKind::pinned);
    auto* words = static_cast<uint32_t*>(buffer.data());
    std::fill_n(words, 64, 3u);
    EXPECT_EQ(rt.publish("parcels", Parcel{buffer.ref()}), 5u);
    rt.send(speaker, Parcel{buffer.ref()});
    EXPECT_EQ(rt.publish("nobody", Parcel{buffer.ref()}), 0u);
    buffer.close();
    rt.drain();
    for (const Seen& s : rt.ask_many<Seen>(r, Look{})) {
        EXPECT_EQ(s.count, 2u);
        EXPECT_EQ(s.sum, 2u * 64 * 3);
    }
    EXPECT_EQ(rt.buffers().waiting, 0u);
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(topics, a_snapshot_knows_who_subscribes)
{
    const std::string path = testing::TempDir() + "denizen_topics_" + GetParam().name + ".dzs";
    std::vector<Address> r;
    {
        Runtime<Forum> rt(device(), options());
        r = rt.spawn<Reader>(3);
        rt.subscribe(r[0], "a/*");
        rt.subscribe(r[1], "a/b");
        rt.send(r[2], Join{topic("c")});
        rt.drain();
        rt.save(path);
    }
    Options o = options();
    o.restore = path;
    Runtime<Forum> rt(device(), o);
    EXPECT_EQ(rt.publish("a/b", Note{0, 0}), 2u);
    EXPECT_EQ(rt.publish("c", Note{0, 1}), 1u);
    rt.unsubscribe(r[0], "a/*");
    EXPECT_EQ(rt.publish("a/b", Note{0, 2}), 1u);
    rt.drain();
    EXPECT_EQ(received(rt, r[1]), 2u);
    std::filesystem::remove(path);
}

// What finds no room at an actor that says so is not sent, and not counted.
TEST_P(topics, who_refuses_is_not_counted)
{
    Options o = options();
    o.local_slots = 16;
    Runtime<Forum> rt(device(), o);
    const Address speaker = rt.spawn<Speaker>();
    const Address fussy = rt.spawn<Fussy>(1, near(speaker))[0];
    rt.subscribe(fussy, "notes");
    rt.send(speaker, Speak{topic("notes"), 0, 100});
    rt.drain();
    const uint64_t told = rt.ask<Seen>(speaker, Look{}).count;
    EXPECT_GT(told, 0u);
    EXPECT_LT(told, 100u); // all in one handler: the ring is full before its reader runs
    EXPECT_EQ(received(rt, fussy), told);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

// Addresses that are no subscriber's.
TEST_P(topics, only_actors_and_the_host_subscribe)
{
    Runtime<Forum> rt(device(), options());
    const Address cell = Address::reply_cell(3, 1);
    EXPECT_EQ(error_of([&] { rt.subscribe(cell, "a"); }).code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.subscribe(Address::actor(2000, 0), "a"); }).code(), Errc::no_actor);
    EXPECT_EQ(rt.publish("a", Note{0, 0}), 0u);
}

// A subscriber keeps its address, and so its subscriptions.
TEST_P(topics, a_subscriber_that_has_moved)
{
    Runtime<Forum> rt(device(), options());
    const Address r = rt.spawn<Reader>();
    rt.subscribe(r, "a");
    const uint32_t workers = rt.description().workers;
    rt.migrate(r, (r.worker() + 1) % workers, GetParam().nodes - 1);
    EXPECT_EQ(rt.publish("a", Note{0, 0}), 1u);
    rt.drain();
    EXPECT_EQ(received(rt, r), 1u);
    rt.stop(r);
    rt.drain();
    EXPECT_EQ(rt.publish("a", Note{0, 1}), 0u);
}

static_assert(Topic("market/EURUSD").key == TopicKey::of("market/EURUSD", 13, false));
static_assert(TopicPattern("market/*").key == Topic("market/EURUSD").key.prefix(7));
static_assert(TopicPattern("*").key == Topic("x").key.prefix(0));
static_assert(TopicPattern("market/").key == Topic("market/").key);
static_assert(Topic("123456789012345").key.length() == 15);

} // namespace
