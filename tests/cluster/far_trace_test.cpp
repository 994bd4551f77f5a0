// SPDX-License-Identifier: Apache-2.0
// Traced messages between two hosts: each has its stamp where it is handled, and stamps grow along
// a chain of messages, whichever host's clock is ahead.
#include "two_hosts.hpp"

#include <denizen/base/hlc.hpp>

#include <algorithm>
#include <set>

namespace {

using namespace two_hosts;

struct Ball {
    uint32_t to;
    uint32_t left;
};
struct Look {};
struct Seen {
    uint32_t balls;
};
struct Last {};

struct Player {
    uint32_t balls = 0;
    void on(const Ball& m, auto& ctx)
    {
        ++balls;
        if (m.left != 0) {
            ctx.send(Address{m.to}, Ball{ctx.self().value, m.left - 1});
        } else {
            ctx.send(ctx.sender(), Last{});
        }
    }
    void on(const Last&, auto&) {}
    void on(const Look&, auto& ctx) { ctx.reply(Seen{balls}); }
};

using Game = Program<Actors<Player>, Messages<Ball, Look, Seen, Last>>;
using Hosts = Two<Game>;

class far_trace : public testing::TestWithParam<Over> {};

TEST_P(far_trace, stamps_grow_along_a_chain_and_answers_have_one)
{
    constexpr uint32_t count = 200;
    Hosts t(GetParam(), [](Options& o) { o.trace_slots = 4096; });
    const Address here = Hosts::spawn<Player>(t.a);
    const Address there = Hosts::spawn<Player>(t.b);
    t.a.trace(true);
    t.b.trace(true);
    const Ball first{here.value, count};
    t.a.send(there, Game::message_id<Ball>, &first, sizeof first, 60s);
    EXPECT_TRUE(Hosts::wait([&] { return t.ab->counts().delivered > count / 2 && t.still(); }));
    Seen s{};
    const Look question;
    t.a.ask(there, Game::message_id<Look>, &question, sizeof question, &s, sizeof s, 60s);
    EXPECT_EQ(s.balls, count / 2 + 1);
    t.a.trace(false);
    t.b.trace(false);
    EXPECT_TRUE(Hosts::wait([&] { return t.still(); }));
    const Trace of_a = t.a.take_trace();
    const Trace of_b = t.b.take_trace();
    EXPECT_EQ(of_a.overwritten + of_b.overwritten, 0u);

    // The balls, and what their chain ends with, by when they were sent.
    std::vector<TraceRecord> sent;
    std::vector<TraceRecord> handled;
    std::multiset<std::pair<uint64_t, uint32_t>> messages;
    for (const Trace* trace : {&of_a, &of_b}) {
        const FarFormat& f = (trace == &of_a ? t.a : t.b).far().format();
        for (TraceRecord r : trace->records) {
            EXPECT_NE(r.stamp, 0u);
            const bool sends = r.kind == TraceKind::send;
            messages.insert({r.stamp, f.to_far({sends ? r.actor : r.other}).value});
            if (r.message == Game::message_id<Ball>) {
                (sends ? sent : handled).push_back(r);
            }
        }
    }
    for (const auto& m : messages) { // its sending, and its handling, wherever that was
        EXPECT_EQ(messages.count(m), 2u);
    }
    EXPECT_EQ(messages.size(), 2u * (count + 2 + 2)); // balls, the last word, question and answer
    const auto by_time = [](const TraceRecord& x, const TraceRecord& y) {
        return x.start_ns < y.start_ns;
    };
    std::sort(sent.begin(), sent.end(), by_time); // one clock: one process
    ASSERT_EQ(sent.size(), count + 1u);
    ASSERT_EQ(handled.size(), count + 1u);
    for (uint32_t i = 1; i < sent.size(); ++i) {
        EXPECT_LT(sent[i - 1].stamp, sent[i].stamp);
    }
}

TEST_P(far_trace, a_clock_that_is_behind_takes_the_others_over)
{
    Hosts t(GetParam(), [](Options& o) { o.trace_slots = 4096; });
    const Address there = Hosts::spawn<Player>(t.b);
    t.b.trace(true);
    // As a host would send it whose clock is 30 s ahead; and one that is so far ahead that its
    // stamps are not taken over.
    const FarFormat& f = t.b.far().format();
    for (const uint64_t ahead_us : {30'000'000ull, 3'600'000'000ull}) {
        const Ball ball{t.a.far().format().to_far(host).value, 0};
        const uint64_t stamp = hlc::Stamp::of(hlc::now_us() + ahead_us, 0).value;
        unsigned char bytes[sizeof ball + stamp_bytes];
        std::memcpy(bytes, &ball, sizeof ball);
        std::memcpy(bytes + sizeof ball, &stamp, stamp_bytes);
        const Header h{there.value, f.far(0, f.own_threads()).value, Game::message_id<Ball>,
                       flag_traced, sizeof bytes};
        ASSERT_EQ(t.b.far().deliver(0, h, bytes, false), Delivered::yes);
        const bool taken = ahead_us < hlc::max_drift_us;
        std::vector<TraceRecord> records;
        EXPECT_TRUE(Hosts::wait([&] {
            const Trace part = t.b.take_trace();
            records.insert(records.end(), part.records.begin(), part.records.end());
            return records.size() >= 2;
        }));
        for (const TraceRecord& r : records) {
            if (r.kind == TraceKind::handler) {
                EXPECT_EQ(r.stamp, stamp);
            } else { // what it sent then
                EXPECT_EQ(r.stamp > stamp, taken);
            }
        }
    }
}

TEST_P(far_trace, a_message_with_half_a_stamp_is_none)
{
    Hosts t(GetParam(), [](Options&) {});
    const Address there = Hosts::spawn<Player>(t.b);
    const FarFormat& f = t.b.far().format();
    const unsigned char bytes[64] = {};
    for (const uint32_t length :
         {0u, 7u, static_cast<uint32_t>(sizeof(Ball)), static_cast<uint32_t>(sizeof(Ball)) + 7u}) {
        const Header h{there.value, f.far(0, f.own_threads()).value, Game::message_id<Ball>,
                       flag_traced, length};
        EXPECT_EQ(t.b.far().deliver(0, h, bytes, false), Delivered::refused);
    }
}

INSTANTIATE_TEST_SUITE_P(over, far_trace, all_ways,
                         [](const auto& of) { return std::string(name_of(of.param)); });

} // namespace
