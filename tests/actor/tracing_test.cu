// SPDX-License-Identifier: Apache-2.0
// Tracing in the running program: stamps grow along every chain of messages, through all rings and
// nodes; each traced message leaves one record of its sending and one of its handling; and
// switching it on and off under load loses nothing and changes no order.
#include <actor/places.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

// A message that is sent on along a path of actors, then to the host. Bytes: of filling, so that
// its stamp fits into its only slot, needs another, or comes after many.
template <uint32_t Bytes>
struct Step {
    uint32_t at;
    uint32_t count;
    uint32_t path[5];
    unsigned char filling[Bytes];
};
using Short = Step<0 + 1>; // 32 bytes with its padding: two slots with its stamp
using Long = Step<401>;
struct Slim { // one slot with its stamp
    uint32_t at;
    uint32_t count;
    uint32_t path[5];
};
struct Numbered {
    uint32_t source;
    uint32_t number;
    uint32_t to; // then to this one; nobody: it is for you
};
struct Ask {};
struct AskLong {};
struct Sum {
    uint64_t sum;
};
struct Tally {
    uint32_t count[16]; // by source
    uint32_t disorder;
};
struct Add {
    uint32_t n;
};

struct Link {
    uint64_t sum = 0;
    template <class M>
    DENIZEN_HD void go_on(const M& m, auto& ctx)
    {
        M next = m;
        next.at = m.at + 1;
        ctx.send(m.at < m.count ? denizen::Address{m.path[m.at]} : denizen::host, next);
    }
    DENIZEN_HD void on(const Slim& m, auto& ctx) { go_on(m, ctx); }
    DENIZEN_HD void on(const Short& m, auto& ctx) { go_on(m, ctx); }
    DENIZEN_HD void on(const Long& m, auto& ctx) { go_on(m, ctx); }
    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Sum{sum}); }
};

// Checks that what comes from a source comes in its order.
struct Sink {
    Tally seen = {};
    DENIZEN_HD void on(const Numbered& m, auto& ctx)
    {
        if (m.to != denizen::nobody) {
            ctx.send(denizen::Address{m.to}, Numbered{m.source, m.number, denizen::nobody});
            return;
        }
        if (m.number != seen.count[m.source]++) {
            ++seen.disorder;
        }
    }
    DENIZEN_HD void on(const AskLong&, auto& ctx) { ctx.reply(seen); }
};

// Handled by all lanes of a warp.
struct Whole {
    static constexpr auto grain = denizen::Grain::warp;
    DENIZEN_HD void on(const Long& m, auto& ctx) { ctx.send(denizen::host, m); }
    DENIZEN_HD void on(const Add& m, auto& ctx) { ctx.send(denizen::host, m); }
};

using Traced =
    denizen::Program<denizen::Actors<Link, Sink, Whole>,
                     denizen::Messages<Slim, Short, Long, Numbered, Ask, AskLong, Sum, Tally, Add>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Traced>;

// Same workers, near ones, those that are not, and other nodes'.
std::vector<Place> everywhere()
{
    std::vector<Place> all = places();
    const std::vector<Place> nodes = places_of_nodes();
    all.insert(all.end(), nodes.begin(), nodes.end());
    return all;
}

class tracing : public AtEveryPlace {
protected:
    static Options traced_options()
    {
        Options o = options();
        o.trace_slots = 1u << 14;
        return o;
    }

    static void expect_sane(const Rt& rt, const Trace& t)
    {
        const Description& d = rt.description();
        for (const TraceRecord& r : t.records) {
            EXPECT_NE(r.stamp, 0u);
            EXPECT_TRUE(r.worker == trace_host || r.worker < d.nodes * d.workers);
            EXPECT_TRUE(r.kind == TraceKind::handler || r.duration_ns == 0);
        }
    }
};

using Key = std::pair<uint64_t, uint32_t>; // stamp and sender name a message

// What must be true of every complete trace.
void expect_consistent(const Trace& t, uint32_t workers)
{
    EXPECT_EQ(t.overwritten, 0u);
    std::map<Key, uint32_t> sends;
    std::map<Key, uint32_t> handlers;
    std::map<uint32_t, std::set<uint64_t>> stamps; // by node
    std::map<uint32_t, std::vector<const TraceRecord*>> by_worker;
    size_t sent = 0;
    for (const TraceRecord& r : t.records) {
        by_worker[r.worker].push_back(&r);
        if (r.kind == TraceKind::send) {
            ++sent;
            ++sends[{r.stamp, r.actor}];
            const uint32_t node = r.worker == trace_host ? trace_host : r.worker / workers;
            EXPECT_TRUE(stamps[node].insert(r.stamp).second) << "a stamp was drawn twice";
        } else {
            ++handlers[{r.stamp, r.other}];
        }
    }
    EXPECT_EQ(sends.size(), sent);
    EXPECT_EQ(sends, handlers) << "each message has one record of either kind";
    // A worker handles traced messages one at a time, and what a handler sends it records first.
    for (const auto& [worker, records] : by_worker) {
        if (worker == trace_host) {
            continue;
        }
        std::vector<const TraceRecord*> since;
        for (const TraceRecord* r : records) {
            if (r->kind == TraceKind::send) {
                since.push_back(r);
                continue;
            }
            for (const TraceRecord* s : since) {
                if (s->actor == r->actor && s->start_ns > r->start_ns) {
                    EXPECT_GT(s->stamp, r->stamp) << "sent before what caused it";
                    EXPECT_LE(s->start_ns, r->start_ns + r->duration_ns);
                }
            }
            since.clear();
        }
    }
}

// The stamps of the one chain that a trace holds, host to host.
std::vector<uint64_t> chain(const Trace& t)
{
    std::vector<uint64_t> stamps;
    uint32_t at = host.value;
    for (bool more = true; more;) { // ends: a chain's sends are finite, and each is taken once
        more = false;
        for (const TraceRecord& r : t.records) {
            const bool next = std::find(stamps.begin(), stamps.end(), r.stamp) == stamps.end();
            if (r.kind == TraceKind::send && r.actor == at && next) {
                stamps.push_back(r.stamp);
                at = r.other;
                more = at != host.value;
                break;
            }
        }
    }
    return stamps;
}

template <class M>
void through(Rt& rt, const std::vector<Address>& path)
{
    (void)rt.take_trace();
    M m{};
    m.at = 1;
    m.count = static_cast<uint32_t>(path.size());
    for (size_t i = 0; i < path.size(); ++i) {
        m.path[i] = path[i].value;
    }
    rt.send(path[0], m);
    const Message back = rt.receive(20s);
    EXPECT_EQ(back.header.type, Rt::id<M>());
    EXPECT_EQ(back.header.flags, 0u);
    ASSERT_EQ(back.payload.size(), sizeof(M)) << "its stamp was taken off";
    rt.drain();
    const Trace t = rt.take_trace();
    expect_consistent(t, rt.description().workers);
    const std::vector<uint64_t> stamps = chain(t);
    ASSERT_EQ(stamps.size(), path.size() + 1);
    for (size_t i = 1; i < stamps.size(); ++i) {
        EXPECT_LT(stamps[i - 1], stamps[i]) << "hop " << i;
    }
    EXPECT_EQ(t.records.size(), 2 * stamps.size());
    // Everything is on one time scale, of the host.
    uint64_t before = 0;
    for (const uint64_t stamp : stamps) {
        for (const TraceRecord& r : t.records) {
            if (r.stamp == stamp && r.kind == TraceKind::send) {
                EXPECT_GE(r.start_ns + 20'000, before); // clocks agree within some microseconds
                before = r.start_ns;
            }
        }
    }
    EXPECT_LE(before, now_ns() + 20'000);
}

TEST(tracing_chain, stamps_grow_from_the_host_over_five_nodes_and_back)
{
    Options o;
    o.nodes = 5;
    o.workers = 2;
    o.trace_slots = 256;
    Rt rt(Device::cpu(), o);
    std::vector<Address> path;
    for (uint32_t n = 0; n < 5; ++n) {
        path.push_back(rt.spawn<Link>(1, on_node(n))[0]);
    }
    rt.trace(true);
    for (int i = 0; i < 5; ++i) {
        through<Slim>(rt, path);
        through<Short>(rt, path);
        through<Long>(rt, path);
        std::rotate(path.begin(), path.begin() + 2, path.end());
    }
    rt.close();
}

TEST_P(tracing, messages_of_every_size_by_every_way)
{
    Rt rt(device(), traced_options());
    const std::vector<Address> links = rt.spawn<Link>(5);
    rt.trace(true);
    through<Slim>(rt, links);
    through<Short>(rt, links);
    through<Long>(rt, links);
    through<Long>(rt, {links[0], links[0], links[1], links[1], links[2]});
    rt.trace(false);
    rt.send(links[0], Slim{1, 1, {links[0].value, 0, 0, 0, 0}});
    EXPECT_EQ(rt.receive(20s).header.length, sizeof(Slim));
    rt.drain();
    EXPECT_TRUE(rt.take_trace().records.empty()) << "tracing is off";
}

TEST_P(tracing, answers_reach_those_who_ask)
{
    Rt rt(device(), traced_options());
    const Address link = rt.spawn<Link>();
    const Address sink = rt.spawn<Sink>();
    rt.trace(true);
    rt.send(link, Add{41});
    rt.send(sink, Numbered{3, 0, nobody});
    EXPECT_EQ(rt.ask<Sum>(link, Ask{}, 20s).sum, 41u);
    const Tally r = rt.ask<Tally>(sink, AskLong{}, 20s);
    EXPECT_EQ(r.count[3], 1u);
    EXPECT_EQ(r.disorder, 0u);
    const std::vector<Sum> many = rt.ask_many<Sum>(std::vector<Address>(100, link), Ask{}, 20s);
    EXPECT_TRUE(std::all_of(many.begin(), many.end(), [](const Sum& s) { return s.sum == 41; }));
    rt.drain();
    const Trace t = rt.take_trace();
    expect_sane(rt, t);
    expect_consistent(t, rt.description().workers);
    EXPECT_EQ(t.records.size(), 2u * (2 + 2 * 102));
    // The host may not draw a stamp that is not beyond the answer it has read.
    uint64_t answered = 0;
    for (const TraceRecord& rec : t.records) {
        if (rec.worker == trace_host && rec.kind == TraceKind::handler) {
            EXPECT_TRUE(Address{rec.actor}.is_reply_cell());
            answered = std::max(answered, rec.stamp);
        }
    }
    rt.send(link, Add{1});
    rt.drain();
    for (const TraceRecord& rec : rt.take_trace().records) {
        EXPECT_GT(rec.stamp, answered);
    }
}

TEST_P(tracing, records_tell_who_did_what)
{
    Rt rt(device(), traced_options());
    const std::vector<Address> links = rt.spawn<Link>(4);
    rt.trace(true);
    rt.broadcast<Link>(Add{1});
    rt.drain();
    const Trace t = rt.take_trace();
    const Description& d = rt.description();
    std::set<uint32_t> handled;
    size_t sends = 0;
    for (const TraceRecord& r : t.records) {
        EXPECT_EQ(r.message, Rt::id<Add>());
        if (r.kind == TraceKind::send) {
            ++sends;
            EXPECT_EQ(r.worker, trace_host);
            EXPECT_EQ(r.actor, host.value);
            continue;
        }
        EXPECT_TRUE(handled.insert(r.actor).second);
        EXPECT_EQ(r.actor_type, Traced::actor_id<Link>);
        EXPECT_EQ(r.other, host.value);
        const Address a{r.actor};
        EXPECT_EQ(r.worker, a.node() * d.workers + a.worker());
        EXPECT_LE(r.start_ns + r.duration_ns, now_ns() + 20'000);
    }
    EXPECT_EQ(handled.size(), links.size());
    EXPECT_EQ(sends, size_t{d.nodes} * d.workers);
}

TEST_P(tracing, whole_warp_handlers_send_once)
{
    Rt rt(device(), traced_options());
    const std::vector<Address> whole = rt.spawn<Whole>(3);
    rt.trace(true);
    Long m{};
    m.filling[400] = 7;
    for (const Address a : whole) {
        rt.send(a, m);
        rt.send(a, Add{5});
    }
    for (int i = 0; i < 6; ++i) {
        const Message back = rt.receive(20s);
        if (back.header.type == Rt::id<Long>()) {
            ASSERT_EQ(back.payload.size(), sizeof(Long));
            EXPECT_EQ(back.payload[offsetof(Long, filling) + 400], 7);
        } else {
            ASSERT_EQ(back.payload.size(), sizeof(Add));
        }
    }
    rt.drain();
    const Trace t = rt.take_trace();
    expect_consistent(t, rt.description().workers);
    EXPECT_EQ(t.records.size(), 24u);
}

TEST_P(tracing, a_message_keeps_its_stamp_while_it_waits_or_goes_on)
{
    Rt rt(device(), traced_options());
    const Address link = rt.spawn<Link>();
    const Description& d = rt.description();
    rt.pause(link);
    rt.trace(true);
    rt.send(link, Add{1});
    rt.send(link, Long{2, 1, {}, {}});
    rt.drain();
    const std::vector<TraceRecord> sends = rt.take_trace().records;
    ASSERT_EQ(sends.size(), 2u) << "none has been handled";
    rt.resume(link);
    Message back = rt.receive(20s);
    EXPECT_EQ(back.payload.size(), sizeof(Long));
    rt.drain();
    Trace t = rt.take_trace();
    t.records.insert(t.records.end(), sends.begin(), sends.end());
    expect_consistent(t, d.workers);
    EXPECT_EQ(t.records.size(), 6u);
    if (d.workers * d.nodes > 1) { // to another worker: what is sent to it goes by way of its home
        const uint32_t other = d.workers > 1 ? (link.worker() + 1) % d.workers : link.worker();
        rt.migrate(link, other, link.node(), 20s);
        rt.send(link, Long{2, 1, {}, {}});
        rt.send(link, Add{1});
        back = rt.receive(20s);
        EXPECT_EQ(back.payload.size(), sizeof(Long));
        EXPECT_EQ(back.header.sender, link.value);
        rt.drain();
        t = rt.take_trace();
        expect_consistent(t, d.workers);
        EXPECT_EQ(t.records.size(), 6u);
        for (const TraceRecord& r : t.records) {
            if (r.worker != trace_host) {
                EXPECT_EQ(r.worker, link.node() * d.workers + other);
                EXPECT_EQ(r.actor, link.value);
                EXPECT_EQ(r.actor_type, Traced::actor_id<Link>);
            }
        }
    }
}

TEST_P(tracing, a_dead_letter_is_as_long_as_its_message)
{
    Rt rt(device(), traced_options());
    const std::vector<Address> links = rt.spawn<Link>(2);
    rt.stop(links[1]);
    rt.trace(true);
    rt.send(links[0], Short{1, 2, {links[0].value, links[1].value, 0, 0, 0}, {}});
    rt.drain();
    const DeadLetters dead = rt.dead_letters();
    ASSERT_EQ(dead.letters.size(), 1u);
    EXPECT_EQ(dead.letters[0].length, sizeof(Short));
    EXPECT_EQ(dead.letters[0].destination, links[1]);
}

// Sources send numbered messages, straight and by way of others, while tracing goes on and off.
TEST_P(tracing, switching_under_load_loses_nothing_and_keeps_the_order)
{
    for (const uint32_t cluster : {0u, 1u}) {
        Options o = traced_options();
        o.cluster = cluster;
        Rt rt(device(), o);
        const std::vector<Address> sinks = rt.spawn<Sink>(8);
        const uint32_t each = scaled(20'000) / 8;
        std::atomic<bool> ended{false};
        Trace all;
        std::thread switcher([&] {
            const auto take = [&] {
                const Trace t = rt.take_trace();
                all.records.insert(all.records.end(), t.records.begin(), t.records.end());
                all.overwritten += t.overwritten;
            };
            for (bool on = true; !ended.load(); on = !on) {
                rt.trace(on);
                take();
            }
            rt.drain();
            take();
        });
        std::vector<std::thread> senders;
        for (uint32_t source = 0; source < 4; ++source) {
            senders.emplace_back([&, source] {
                const Address first = sinks[source];
                const Address last = sinks[4 + source];
                for (uint32_t i = 0; i < each; ++i) {
                    rt.send(first, Numbered{source, i, last.value}, 60s);
                    rt.send(last, Numbered{source + 4, i, nobody}, 60s);
                }
            });
        }
        for (std::thread& t : senders) {
            t.join();
        }
        ended = true;
        switcher.join();
        rt.drain();
        for (uint32_t source = 0; source < 4; ++source) {
            const Tally r = rt.ask<Tally>(sinks[4 + source], AskLong{}, 20s);
            EXPECT_EQ(r.disorder, 0u);
            EXPECT_EQ(r.count[source], each);
            EXPECT_EQ(r.count[source + 4], each);
        }
        EXPECT_EQ(rt.stats().dead_letters, 0u);
        if (all.overwritten == 0) {
            expect_consistent(all, rt.description().workers);
        }
        rt.close();
    }
}

TEST_P(tracing, all_of_it_is_traced_under_load)
{
    Options o = traced_options();
    o.trace_slots = 1u << 16;
    Rt rt(device(), o);
    rt.observe(true); // the two do not disturb each other
    const std::vector<Address> sinks = rt.spawn<Sink>(12);
    const uint32_t count = scaled(8'000);
    rt.trace(true);
    std::vector<Numbered> messages;
    std::vector<Address> to;
    for (uint32_t i = 0; i < count; ++i) {
        messages.push_back({0, i, sinks[i * 7 % 12].value});
        to.push_back(sinks[i % 12]);
    }
    rt.send_many(to.data(), messages.data(), count);
    rt.drain();
    rt.trace(false);
    const Trace t = rt.take_trace();
    expect_sane(rt, t);
    expect_consistent(t, rt.description().workers);
    EXPECT_EQ(t.records.size(), 4 * size_t{count}) << "two messages each, two records each";
    const Telemetry seen = rt.telemetry();
    EXPECT_TRUE(seen.observed);
    EXPECT_EQ(seen.actor_types[Traced::actor_id<Sink>].durations.count, 2 * uint64_t{count});
}

TEST_P(tracing, what_is_not_taken_in_time_is_counted)
{
    Options o = traced_options();
    o.trace_slots = 2;
    Rt rt(device(), o);
    const Address link = rt.spawn<Link>();
    rt.trace(true);
    const size_t workers = size_t{rt.description().nodes} * rt.description().workers;
    const size_t sent = 2 * workers + 10;
    for (size_t i = 0; i < sent; ++i) {
        rt.send(link, Add{1});
    }
    rt.drain();
    const Trace t = rt.take_trace();
    EXPECT_EQ(t.records.size() + t.overwritten, 2 * sent);
    EXPECT_EQ(t.records.size(), 2 + 2 * workers) << "one worker's, and the host's";
    EXPECT_EQ(rt.ask<Sum>(link, Ask{}, 20s).sum, sent);
}

TEST_P(tracing, a_program_without_rings_for_it_says_so)
{
    Rt rt(device(), options());
    expect_error(
        Errc::bad_argument,
        "this program cannot be traced: it was started with trace_slots = 0; start it with "
        "trace_slots = 4096 (Python: Runtime(..., trace=True))",
        [&] { rt.trace(true); });
    EXPECT_TRUE(rt.take_trace().records.empty());
    rt.close();
    expect_error(Errc::closed, "the runtime is closed", [&] { rt.trace(true); });
    expect_error(Errc::closed, "the runtime is closed", [&] { (void)rt.take_trace(); });
}

DENIZEN_AT_PLACES(tracing, everywhere());

} // namespace
