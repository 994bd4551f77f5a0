// SPDX-License-Identifier: Apache-2.0
// Two hosts that are saved under load, at one moment, and restored: no message is lost or doubled,
// wherever it was: in a ring of either host, parked in an outbox, or stashed.
#include "two_hosts.hpp"

#include <filesystem>
#include <random>
#include <support/scaled.hpp>

namespace {

using namespace two_hosts;

struct Number {
    uint32_t value;
    uint32_t word[9]; // of two slots
};
struct Go {
    uint32_t to;
    uint32_t left;
};
struct Look {};
struct Seen {
    uint32_t count;
    uint32_t wrong;
};

struct Sink {
    uint32_t count = 0;
    uint32_t wrong = 0;
    void on(const Number& m, auto&)
    {
        wrong += m.value == count && m.word[8] == m.value ? 0 : 1;
        ++count;
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, wrong}); }
};

// Sends some, and tells itself to go on.
struct Source {
    uint32_t sent = 0;
    void on(const Go& m, auto& ctx)
    {
        const uint32_t n = m.left < 64 ? m.left : 64;
        for (uint32_t i = 0; i < n; ++i) {
            Number number{sent++, {}};
            number.word[8] = number.value;
            ctx.send(Address{m.to}, number);
        }
        if (m.left != n) {
            ctx.send(ctx.self(), Go{m.to, m.left - n});
        }
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, 0}); }
};

using Load = Program<Actors<Sink, Source>, Messages<Number, Go, Look, Seen>>;
using Hosts = Two<Load>;

Seen look(AnyRuntime& from, Address actor)
{
    Seen s{};
    const Look question;
    from.ask(actor, Load::message_id<Look>, &question, sizeof question, &s, sizeof s, 60s);
    return s;
}

class Folder {
public:
    Folder()
        : path_(std::filesystem::temp_directory_path() /
                ("denizen-far-" + std::to_string(std::random_device{}())))
    {
        std::filesystem::create_directory(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const char* name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

// Both at one moment.
void save(Hosts& t, const std::string& a, const std::string& b)
{
    for (uint32_t tries = 0; tries < 100; ++tries) {
        t.a.hold(60s);
        t.b.hold(60s);
        const bool still = Hosts::wait([&] { return t.still() && t.still(); }, 500ms);
        if (still) {
            t.a.save(a, 60s);
            t.b.save(b, 60s);
        }
        t.a.let_go();
        t.b.let_go();
        if (still) {
            return;
        }
        std::this_thread::sleep_for(20ms);
    }
    FAIL() << "what was between the hosts has not arrived";
}

class far_snapshot : public testing::TestWithParam<Over> {};

TEST_P(far_snapshot, under_load_nothing_is_lost_or_doubled)
{
    const uint32_t count = test::few_under_tsan(5'000, 20'000);
    const Folder folder;
    const auto small = [](Options& o) {
        o.inbox_slots = 256; // so that messages are parked
        o.host_ring_slots = 512;
        o.outbox_slots = 1 << 16; // for all of them
    };
    Address sinks[2];
    Address sources[2];
    {
        Hosts t(GetParam(), small);
        sinks[0] = Hosts::spawn<Sink>(t.a);
        sinks[1] = Hosts::spawn<Sink>(t.b);
        sources[0] = Hosts::spawn<Source>(t.a);
        sources[1] = Hosts::spawn<Source>(t.b);
        // One sink stands still: its stash, its worker's rings and those to it fill.
        t.b.pause(t.b.far().format().to_short(sinks[1]), 60s);
        // The other host's source first: what fills the rings to it would keep its start back.
        for (const uint32_t i : {1u, 0u}) {
            const Go start{sinks[1 - i].value, count};
            t.a.send(sources[i], Load::message_id<Go>, &start, sizeof start, 60s);
            EXPECT_TRUE(Hosts::wait([&] { return look(t.a, sinks[0]).count > 500 * (1 - i); }));
        }
        save(t, folder.file("a"), folder.file("b"));
        t.b.resume(t.b.far().format().to_short(sinks[1]), 60s);
        for (uint32_t i = 0; i < 2; ++i) { // it goes on
            EXPECT_TRUE(Hosts::wait([&] { return look(t.a, sinks[i]).count == count; }));
            EXPECT_EQ(look(t.a, sinks[i]).wrong, 0u);
        }
    }
    Hosts t(GetParam(), [&](Options& o) {
        small(o);
        o.restore = folder.file(o.host == 0 ? "a" : "b");
    });
    EXPECT_GT(t.b.inspect(t.b.far().format().to_short(sinks[1]), 60s).stashed, 0u);
    t.b.resume(t.b.far().format().to_short(sinks[1]), 60s);
    for (uint32_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(Hosts::wait([&] { return look(t.a, sinks[i]).count == count; }));
        EXPECT_EQ(look(t.a, sinks[i]).wrong, 0u);
    }
    EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
    EXPECT_EQ(t.ab->counts().refused + t.ba->counts().refused, 0u);
}

TEST_P(far_snapshot, the_file_of_another_host_is_refused)
{
    const Folder folder;
    {
        Hosts t(GetParam(), [](Options&) {});
        EXPECT_THROW(t.a.save(folder.file("x"), 1s), Error); // not held
        save(t, folder.file("a"), folder.file("b"));
    }
    const auto why = [&](const char* name, uint32_t hosts, uint32_t own) {
        Options o = Hosts::changed(own, [](Options&) {});
        o.hosts = hosts;
        o.restore = folder.file(name);
        try {
            const AnyRuntime rt(image_of<Load>(), o);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Errc::bad_snapshot);
            return std::string(e.what());
        }
        return std::string();
    };
    EXPECT_NE(why("a", 2, 1).find("is of host 0 of 2, this is host 1 of 2"), std::string::npos);
    EXPECT_NE(why("a", 0, 0).find("is of a host of a cluster"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(over, far_snapshot, all_ways,
                         [](const auto& of) { return std::string(name_of(of.param)); });

} // namespace
