// SPDX-License-Identifier: Apache-2.0
// Topics between two hosts: subscriptions that come and go while others publish.
#include "two_hosts.hpp"

namespace {

using namespace two_hosts;

struct Item {
    uint32_t source;
    uint32_t value;
};
struct Write {
    uint32_t count;
    uint32_t source;
};
struct Look {};
struct Seen {
    uint64_t count;
    uint32_t wrong;
};

struct Reader {
    uint32_t next[4] = {};
    uint64_t count = 0;
    uint32_t wrong = 0;
    void on(const Item& m, auto&)
    {
        wrong += m.value < next[m.source] ? 1 : 0; // one that comes and goes may miss some
        next[m.source] = m.value + 1;
        ++count;
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong}); }
};

struct Writer {
    uint32_t sent = 0;
    void on(const Write& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.publish("news/sport", Item{m.source, sent++});
        }
    }
};

using Press = Program<Actors<Reader, Writer>, Messages<Item, Write, Look, Seen>>;
using Hosts = Two<Press>;

Seen seen(AnyRuntime& from, Address reader)
{
    Seen s{};
    const Look question;
    from.ask(reader, Press::message_id<Look>, &question, sizeof question, &s, sizeof s, 60s);
    return s;
}

class far_topics : public testing::TestWithParam<Over> {};

TEST_P(far_topics, one_that_stays_gets_all_while_others_come_and_go)
{
    constexpr uint32_t rounds = 40;
    constexpr uint32_t each = 200;
    Hosts t(GetParam(), [](Options&) {});
    const Address stays = Hosts::spawn<Reader>(t.b);
    const Address comes = Hosts::spawn<Reader>(t.b);
    const Address here = Hosts::spawn<Reader>(t.a);
    const Address writers[2] = {Hosts::spawn<Writer>(t.a), Hosts::spawn<Writer>(t.a)};
    const FarFormat& f = t.b.far().format();
    t.b.subscribe(f.to_short(stays), "news/*", 60s);
    t.a.subscribe(t.a.far().format().to_short(here), "news/sport", 60s);
    uint64_t told = 0;
    ASSERT_TRUE(Hosts::wait([&] {
        return t.bb->idle() && t.b.far().told(0, told) && told == 1 && t.a.far().heard(1) == told;
    }));
    t.a.far().settle_topics(1, "news/*", 60s);
    std::thread churns([&] {
        for (uint32_t i = 0; i < rounds; ++i) {
            t.b.subscribe(f.to_short(comes), i % 2 == 0 ? "news/sport" : "news/*", 60s);
            t.b.unsubscribe(f.to_short(comes), i % 2 == 0 ? "news/sport" : "news/*", 60s);
        }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
        for (uint32_t source = 0; source < 2; ++source) {
            const Write write{each, source};
            t.a.send(writers[source], Press::message_id<Write>, &write, sizeof write, 60s);
        }
    }
    churns.join();
    for (const Address reader : {stays, here}) {
        EXPECT_TRUE(Hosts::wait([&] { return seen(t.a, reader).count == 2 * rounds * each; }));
    }
    EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
    for (const Address reader : {stays, comes, here}) {
        EXPECT_EQ(seen(t.a, reader).wrong, 0u);
    }
    EXPECT_EQ(t.ba->counts().refused, 0u);
    EXPECT_EQ(t.a.stats().errors + t.b.stats().errors, 0u);

    // When the last has left, nothing goes there any more.
    t.b.unsubscribe(f.to_short(stays), "news/*", 60s);
    EXPECT_TRUE(Hosts::wait(
        [&] { return t.bb->idle() && t.b.far().told(0, told) && t.a.far().heard(1) == told; }));
    t.a.far().settle_topics(1, "news/*", 60s);
    EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
    const uint64_t before = t.ab->counts().taken;
    const Item item{0, 1u << 30};
    EXPECT_EQ(t.a.publish("news/sport", Press::message_id<Item>, &item, sizeof item, 60s), 1u);
    EXPECT_EQ(t.ab->counts().taken, before);
}

TEST_P(far_topics, a_lost_hosts_subscriptions_go_and_come_back_when_it_is_renewed)
{
    Hosts t(GetParam(), [](Options&) {});
    const Address reader = Hosts::spawn<Reader>(t.b);
    const FarFormat& f = t.b.far().format();
    const Item item{0, 0};
    const auto publish = [&] {
        return t.a.publish("news/sport", Press::message_id<Item>, &item, sizeof item, 60s);
    };
    t.b.subscribe(f.to_short(reader), "news/*", 60s);
    EXPECT_TRUE(Hosts::wait([&] { return publish() == 1; }));
    t.ab->lose("a test says so");
    t.ba->lose("a test says so");
    EXPECT_TRUE(Hosts::wait([&] { return t.ab->settled() && t.ba->settled(); }));
    EXPECT_TRUE(Hosts::wait([&] { return publish() == 0; }));
    t.ab.reset();
    t.ba.reset();
    t.a.far().renew(1);
    t.b.far().renew(0);
    t.link(GetParam());
    EXPECT_TRUE(Hosts::wait([&] { return publish() == 1; }));
    EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
    EXPECT_EQ(t.ba->counts().delivered, t.ab->counts().taken);
}

INSTANTIATE_TEST_SUITE_P(over, far_topics, all_ways,
                         [](const auto& of) { return std::string(name_of(of.param)); });

} // namespace
