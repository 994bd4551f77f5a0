// SPDX-License-Identifier: Apache-2.0
// Topics of more than 15 bytes: their keys, who gets what, from handlers and from the host.
#include <actor/places.hpp>

#include <filesystem>

using namespace denizen;
using namespace denizen::test;

struct LongNote {
    uint32_t bit;
};
struct LongAlarm { // by another way
    static constexpr auto priority = Priority::urgent;
    uint32_t bit;
};
struct Enter {};
struct Utter { // publish to a topic made at run time
    LongTopic topic;
    uint32_t bit;
};
struct Recite {}; // publish to literals
struct Tell {};
struct Tally {
    uint32_t count;
    uint32_t bits;
};

struct Listener {
    uint32_t count = 0;
    uint32_t bits = 0;

    DENIZEN_HD void take(uint32_t bit)
    {
        ++count;
        bits |= 1u << bit;
    }
    DENIZEN_HD void on(const LongNote& m, auto&) { take(m.bit); }
    DENIZEN_HD void on(const LongAlarm& m, auto&) { take(m.bit); }
    DENIZEN_HD void on(const Enter&, auto& ctx)
    {
        ctx.subscribe("plant/north/hall-7/*");
        ctx.subscribe("plant/north/hall-7/motor");
    }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.reply(Tally{count, bits}); }
};

struct Lecturer {
    uint32_t told = 0;

    DENIZEN_HD void on(const Utter& m, auto& ctx) { told += ctx.publish(m.topic, LongNote{m.bit}); }
    DENIZEN_HD void on(const Recite&, auto& ctx)
    {
        told += ctx.publish("plant/north/hall-7/motor", LongNote{0});
        told += ctx.publish("plant/north/hall-7/pumps", LongNote{1});
        told += ctx.publish("plant/north/hall-8/motor", LongAlarm{2});
        told += ctx.publish("plant/north", LongNote{3});
    }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.reply(Tally{told, 0}); }
};

// Run by the whole warp.
struct Chorus {
    static constexpr auto grain = Grain::warp;
    uint32_t told = 0;

    DENIZEN_HD void on(const Utter& m, auto& ctx)
    {
        const uint32_t sent = ctx.publish(m.topic, LongNote{m.bit});
        if (ctx.lane() == 0) {
            told += sent;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.reply(Tally{told, 0}); }
};

using Academy = Program<Actors<Listener, Lecturer, Chorus>,
                        Messages<LongNote, LongAlarm, Enter, Utter, Recite, Tell, Tally>>;

namespace {

LongTopic topic(const std::string& name)
{
    return LongTopic::of(name.data(), static_cast<uint32_t>(name.size()));
}

// Byte i is i % 251 + 1, but for the '*'.
std::string text(uint32_t n)
{
    std::string made;
    for (uint32_t i = 0; i < n; ++i) {
        made += static_cast<char>(i % 251 + 1 == '*' ? 7 : i % 251 + 1);
    }
    return made;
}

class long_topics : public AtEveryPlace {};

std::vector<Place> places_of_long_topics()
{
    return {
        {"cpu1", Device::cpu(), 1, false},      {"cpu3", Device::cpu(), 3, false},
        {"cpu2x2", Device::cpu(), 2, false, 2},
#if defined(__CUDACC__)
        {"gpu", Device::gpu(), 0, true},        {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

DENIZEN_AT_PLACES(long_topics, places_of_long_topics());

Tally tally(Runtime<Academy>& rt, Address a) { return rt.ask<Tally>(a, Tell{}); }

// The digests are those of hashlib.blake2s(text, digest_size=14) in Python.
TEST(LongTopicKey, IsADigestOfPublishedText)
{
    struct {
        uint32_t length;
        const char* digest;
    } const known[] = {{16, "42fc2d0631802807c8d4cc9646ef"},
                       {64, "c3cab8364488a7bd23ca63728f8d"},
                       {65, "b87dd893ece2a39f55b797876e85"},
                       {255, "89e3375e86c885b2c183f8d98ac4"}};
    for (const auto& each : known) {
        const std::string name = text(each.length);
        const TopicKey key = topic(name).key;
        std::string found;
        for (uint32_t i = 0; i < 14; ++i) {
            char byte[3];
            std::snprintf(byte, sizeof byte, "%02x", key.word[i / 4] >> 8 * (i % 4) & 0xff);
            found += byte;
        }
        EXPECT_EQ(found, each.digest) << each.length;
        EXPECT_EQ(key.length(), each.length);
        EXPECT_TRUE(key.valid());
        EXPECT_TRUE(key.is_long());
        EXPECT_FALSE(key.is_prefix());
    }
    constexpr LongTopic made("plant/north/hall-7/motor");
    EXPECT_EQ(made.key, topic("plant/north/hall-7/motor").key);
    EXPECT_FALSE(topic("123456789012345").key.is_long());
    EXPECT_EQ(topic("123456789012345").key, Topic("123456789012345").key);
    EXPECT_EQ(topic(text(255) + "more").key, topic(text(255)).key);
}

TEST_P(long_topics, exact_and_by_prefixes_of_any_length)
{
    Runtime<Academy> rt(device(), options());
    const std::string longest(255, 'x');
    const std::string patterns[] = {"*",
                                    "xx*",
                                    std::string(15, 'x') + "*",
                                    std::string(16, 'x') + "*",
                                    std::string(31, 'x') + "*",
                                    std::string(32, 'x') + "*",
                                    std::string(64, 'x') + "*",
                                    longest + "*",
                                    longest,
                                    std::string(254, 'x') + "y",
                                    std::string(16, 'x')};
    const auto r = rt.spawn<Listener>(static_cast<uint32_t>(std::size(patterns)));
    for (size_t i = 0; i < r.size(); ++i) {
        rt.subscribe(r[i], patterns[i]);
    }
    struct {
        std::string topic;
        std::vector<uint32_t> who;
    } const topics[] = {{longest, {0, 1, 2, 3, 4, 5, 6, 7, 8}},
                        {std::string(254, 'x') + "y", {0, 1, 2, 3, 4, 5, 6, 9}},
                        {std::string(16, 'x'), {0, 1, 2, 3, 10}},
                        {std::string(31, 'x'), {0, 1, 2, 3, 4}},
                        {std::string(15, 'x'), {0, 1, 2}},
                        {std::string(14, 'x') + "yyy", {0, 1}},
                        {"plant/north/hall-7/motor", {0}}};
    std::vector<uint32_t> expected(r.size());
    const Address speaker = rt.spawn<Lecturer>();
    const Address choir = rt.spawn<Chorus>();
    uint32_t all = 0;
    for (uint32_t t = 0; t < std::size(topics); ++t) {
        const auto n = static_cast<uint32_t>(topics[t].who.size());
        EXPECT_EQ(rt.publish(topics[t].topic, LongNote{t}), n) << t;
        EXPECT_EQ(rt.publish(topics[t].topic, LongAlarm{t}), n) << t;
        rt.send(speaker, Utter{topic(topics[t].topic), t + 8});
        rt.send(choir, Utter{topic(topics[t].topic), t + 16});
        all += n;
        for (const uint32_t i : topics[t].who) {
            expected[i] |= 0x10101u << t;
        }
    }
    rt.drain();
    EXPECT_EQ(tally(rt, speaker).count, all);
    EXPECT_EQ(tally(rt, choir).count, all);
    for (size_t i = 0; i < r.size(); ++i) {
        const Tally t = tally(rt, r[i]);
        EXPECT_EQ(t.bits, expected[i]) << patterns[i];
        EXPECT_EQ(t.count, 4 * static_cast<uint32_t>(__builtin_popcount(expected[i] & 0xff)));
    }
    // Whose pattern has gone gets no more, and the lengths of patterns are as they were.
    rt.unsubscribe(r[4], patterns[4]);
    EXPECT_EQ(rt.publish(std::string(31, 'x'), LongNote{30}), 4u);
    for (size_t i = 0; i < r.size(); ++i) {
        rt.unsubscribe(r[i], patterns[i]);
    }
    EXPECT_EQ(rt.publish(longest, LongNote{31}), 0u);
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(long_topics, literals_of_handlers)
{
    Runtime<Academy> rt(device(), options());
    const Address r = rt.spawn<Listener>();
    const Address speaker = rt.spawn<Lecturer>();
    rt.send(r, Enter{});
    rt.drain();
    EXPECT_EQ(rt.publish("plant/north/hall-7/motor", LongNote{4}), 2u);
    rt.send(speaker, Recite{});
    rt.drain();
    const Tally t = tally(rt, r);
    EXPECT_EQ(t.bits, 0b10011u);
    EXPECT_EQ(t.count, 5u);
    EXPECT_EQ(tally(rt, speaker).count, 3u);
}

// Rings that have not room for a topic's text, and several threads: no publication gets the text of
// another, and those to short topics go on between.
TEST_P(long_topics, host_threads_publish_at_once_through_small_rings)
{
    Options o = options();
    o.host_ring_slots = o.urgent_slots = 4;
    Runtime<Academy> rt(device(), o);
    const auto r = rt.spawn<Listener>(4);
    const auto pattern = [](uint32_t t) {
        return t == 3 ? std::string("short") : std::string(100, 'p') + std::to_string(t) + "/";
    };
    for (uint32_t t = 0; t < 4; ++t) {
        rt.subscribe(r[t], pattern(t) + "*");
    }
    const uint32_t n = scaled(100) + 5;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const std::string name = pattern(t) + (t == 3 ? "" : std::string(100, 'q'));
            for (uint32_t i = 0; i < n; ++i) {
                EXPECT_EQ(rt.publish(name, LongNote{t}, 20s), 1u);
                EXPECT_EQ(rt.publish(name, LongAlarm{t + 4}, 20s), 1u);
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    rt.drain();
    for (uint32_t t = 0; t < 4; ++t) {
        const Tally each = tally(rt, r[t]);
        EXPECT_EQ(each.count, 2 * n);
        EXPECT_EQ(each.bits, 0x11u << t);
    }
}

TEST_P(long_topics, a_snapshot_keeps_them)
{
    const std::string path = testing::TempDir() + "denizen_long_topics_" + GetParam().name + ".dzs";
    std::vector<Address> r;
    {
        Runtime<Academy> rt(device(), options());
        r = rt.spawn<Listener>(2);
        rt.subscribe(r[0], "plant/north/hall-7/*");
        rt.subscribe(r[1], "plant/north/hall-7/motor");
        EXPECT_EQ(rt.publish("plant/north/hall-7/motor", LongNote{0}), 2u);
        rt.drain();
        rt.save(path);
    }
    Options o = options();
    o.restore = path;
    Runtime<Academy> rt(device(), o);
    EXPECT_EQ(rt.publish("plant/north/hall-7/motor", LongNote{1}), 2u);
    rt.unsubscribe(r[0], "plant/north/hall-7/*");
    EXPECT_EQ(rt.publish("plant/north/hall-7/motor", LongNote{2}), 1u);
    rt.drain();
    EXPECT_EQ(tally(rt, r[0]).bits, 3u);
    EXPECT_EQ(tally(rt, r[1]).bits, 7u);
    std::filesystem::remove(path);
}

} // namespace
