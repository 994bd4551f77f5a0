// SPDX-License-Identifier: Apache-2.0
// What a program tells of itself: the histogram against exact quantiles, counts that are exact
// under load, queues, and what a worker is busy with, all read beside the running program.
#include <actor/places.hpp>

#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/telemetry.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

struct Add {
    uint32_t n;
};
struct Read {};
struct Hop {
    uint32_t to;
    uint32_t left;
};
struct Throw { // so many Add to one actor
    uint32_t to;
    uint32_t count;
};
struct Sum {
    uint64_t value;
};
struct Whirl { // stays in the handler for so long
    uint64_t ns;
};
struct Loop { // stays in the handler until the host sets the word
    uint64_t word;
};

struct Counter {
    uint64_t sum = 0;
    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{sum}); }
    DENIZEN_HD void on(const Throw& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Add{1});
        }
    }
    DENIZEN_HD void on(const Hop& m, auto& ctx)
    {
        if (m.left != 0) {
            ctx.send(denizen::Address{m.to}, Hop{ctx.self().value, m.left - 1});
        }
    }
};

struct Spinner {
    uint64_t done = 0;
    DENIZEN_HD void on(const Whirl& m, auto& ctx)
    {
        const uint64_t begin = ctx.now_ns();
        while (ctx.now_ns() - begin < m.ns) { // ends with the time
            denizen::relax();
        }
        ++done;
    }
    DENIZEN_HD void on(const Loop& m, auto&)
    {
        // Ends when the host says so.
        while (denizen::load<denizen::Scope::system>(reinterpret_cast<const uint32_t*>(m.word)) ==
               0) {
            denizen::relax();
        }
        ++done;
    }
    DENIZEN_HD void on(const Add&, auto&) { ++done; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{done}); }
};

struct Idler {
    uint32_t unused = 0;
    DENIZEN_HD void on(const Add&, auto&) {}
};

// A handler on all lanes of a warp is one handler.
struct Whole {
    static constexpr auto grain = denizen::Grain::warp;
    uint32_t sum = 0;
    DENIZEN_HD void on(const Add& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            sum += m.n;
        }
    }
};

using Watched = denizen::Program<denizen::Actors<Counter, Spinner, Idler, Whole>,
                                 denizen::Messages<Add, Read, Sum, Whirl, Loop, Hop, Throw>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Watched>;

constexpr uint32_t counter = 0;
constexpr uint32_t spinner = 1;
constexpr uint32_t idler = 2;
constexpr uint32_t whole = 3;

// ---- the histogram

TEST(histogram, buckets_follow_each_other_without_a_gap)
{
    EXPECT_EQ(bucket_begin(0), 0u);
    for (uint32_t b = 0; b < histogram_buckets; ++b) {
        const uint64_t begin = bucket_begin(b);
        const uint64_t end = bucket_begin(b + 1);
        ASSERT_LT(begin, end) << b;
        EXPECT_EQ(bucket_of(begin), b);
        EXPECT_EQ(bucket_of(end - 1), b);
        // What "off by at most 12.5 %" rests on.
        EXPECT_LE(static_cast<double>(end - 1 - begin) / 2,
                  histogram_error * static_cast<double>(begin));
    }
    EXPECT_EQ(bucket_begin(histogram_buckets), uint64_t{1} << 40);
    EXPECT_EQ(bucket_of(uint64_t{1} << 40), histogram_buckets - 1);
    EXPECT_EQ(bucket_of(~uint64_t{0}), histogram_buckets - 1);
}

Durations durations_of(const std::vector<uint64_t>& values)
{
    Histogram h;
    for (const uint64_t v : values) {
        record(h, v);
    }
    Durations d;
    d.sum_ns = h.sum;
    d.buckets.assign(h.count, h.count + histogram_buckets);
    for (const uint64_t n : d.buckets) {
        d.count += n;
    }
    return d;
}

TEST(histogram, quantiles_are_within_an_eighth_of_the_exact_ones)
{
    std::mt19937_64 random(2013);
    std::lognormal_distribution<double> lengths(std::log(900.0), 2.0);
    std::vector<uint64_t> values(50'000);
    uint64_t sum = 0;
    for (uint64_t& v : values) {
        v = static_cast<uint64_t>(lengths(random));
        sum += v;
    }
    const Durations d = durations_of(values);
    EXPECT_EQ(d.count, values.size());
    EXPECT_EQ(d.sum_ns, sum);
    std::sort(values.begin(), values.end());
    for (const double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
        const auto n = static_cast<double>(values.size());
        const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * n)));
        const auto exact = static_cast<double>(values[rank - 1]);
        EXPECT_NEAR(d.quantile(q), exact, histogram_error * exact) << "q = " << q;
    }
}

TEST(histogram, small_and_empty)
{
    EXPECT_EQ(durations_of({}).quantile(0.5), 0);
    EXPECT_EQ(durations_of({0}).quantile(0.5), 0);
    const Durations d = durations_of({1, 2, 3, 3});
    EXPECT_EQ(d.quantile(0.0), 1);
    EXPECT_EQ(d.quantile(0.5), 2);
    EXPECT_EQ(d.quantile(0.51), 3);
    EXPECT_EQ(d.quantile(1.0), 3);
    Histogram many;
    record(many, 100, 7);
    EXPECT_EQ(many.count[bucket_of(100)], 7u);
    EXPECT_EQ(many.sum, 700u);
}

TEST(histogram, slow_word_orders_by_time_and_keeps_names)
{
    const SlowHandler none(0);
    EXPECT_EQ(none.ns, 0u);
    uint64_t before = 0;
    for (uint64_t ns = 1; ns < uint64_t{1} << 50; ns = ns * 3 + 1) {
        const uint64_t word = slow_word(ns, 0xfedcba98u, 127);
        EXPECT_GT(word, before);
        before = word;
        const SlowHandler back(word);
        EXPECT_NEAR(static_cast<double>(back.ns), static_cast<double>(ns),
                    std::ldexp(static_cast<double>(ns), -17) + 1);
        EXPECT_EQ(back.address, 0xfedcba98u);
        EXPECT_EQ(back.message, 127u);
    }
}

// ---- a running program

class telemetry : public AtEveryPlace {};
class telemetry_of_nodes : public telemetry {};
DENIZEN_AT_EVERY_PLACE(telemetry);
DENIZEN_ON_SEVERAL_NODES(telemetry_of_nodes);

uint64_t total(const Telemetry& t, uint64_t WorkerTelemetry::* what)
{
    uint64_t sum = 0;
    for (const WorkerTelemetry& w : t.workers) {
        sum += w.*what;
    }
    return sum;
}

TEST_P(telemetry, counts_are_exact_and_never_go_back_under_load)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(40);
    const auto idlers = rt.spawn<Idler>(3);
    const auto wholes = rt.spawn<Whole>(5);
    rt.stop(idlers[1]);

    std::atomic<bool> sending{true};
    uint32_t readings = 0;
    std::thread reader([&] { // beside the traffic
        uint64_t handled = 0;
        uint64_t of_counters = 0;
        do { // ends with the traffic
            const Telemetry t = rt.telemetry();
            EXPECT_GE(t.handled, handled);
            EXPECT_GE(t.actor_types[counter].handled, of_counters);
            handled = t.handled;
            of_counters = t.actor_types[counter].handled;
            ++readings;
        } while (sending);
    });
    const uint32_t rounds = scaled(200);
    const std::vector<Add> messages(100, Add{1});
    for (uint32_t r = 0; r < rounds; ++r) {
        rt.send_many(counters[r % counters.size()], messages.data(), messages.size());
        rt.send(idlers[0], Add{1});
        rt.send(wholes[r % wholes.size()], Add{1});
        rt.broadcast<Counter>(Add{1});
    }
    rt.drain();
    sending = false;
    reader.join();
    EXPECT_GE(readings, 1u);

    const Telemetry t = rt.telemetry();
    ASSERT_EQ(t.actor_types.size(), 4u);
    EXPECT_EQ(t.actor_types[counter].name, "Counter");
    EXPECT_EQ(t.actor_types[counter].handled, rounds * (messages.size() + counters.size()));
    EXPECT_EQ(t.actor_types[counter].live, counters.size());
    EXPECT_EQ(t.actor_types[spinner].handled, 0u);
    EXPECT_EQ(t.actor_types[idler].handled, rounds);
    EXPECT_EQ(t.actor_types[idler].live, 2u);
    EXPECT_EQ(t.actor_types[whole].handled, rounds);
    EXPECT_EQ(t.handled, rt.stats().handled);
    EXPECT_EQ(t.handled, total(t, &WorkerTelemetry::handled));
    EXPECT_EQ(t.workers.size(), rt.description().workers);
    for (const WorkerTelemetry& w : t.workers) {
        EXPECT_EQ(w.host_ring, 0u);
        EXPECT_EQ(w.inbox, 0u);
        EXPECT_EQ(w.outbox, 0u);
        EXPECT_EQ(w.busy_ns, 0u);
        EXPECT_EQ(w.mode, Mode::running);
    }
    // Nobody asked for durations.
    EXPECT_FALSE(t.observed);
    EXPECT_EQ(t.actor_types[counter].durations.count, 0u);
    EXPECT_TRUE(t.slowest.empty());
    EXPECT_EQ(total(t, &WorkerTelemetry::batches), 0u);
}

TEST_P(telemetry, durations_are_measured_while_observed)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(16);
    const auto spinners = rt.spawn<Spinner>(4);
    const Address slow = spinners[2];
    const uint32_t n = scaled(4000);
    const std::vector<Add> messages(n, Add{1});
    rt.send_many(counters[0], messages.data(), n); // not seen
    rt.drain();

    rt.observe(true);
    for (const Address a : counters) {
        rt.send_many(a, messages.data(), n);
    }
    for (const Address a : spinners) {
        rt.send(a, Whirl{20'000});
    }
    rt.send(slow, Whirl{300'000'000}); // longer than a busy machine keeps a thread waiting
    rt.drain();
    rt.observe(false);
    const Telemetry t = rt.telemetry();
    EXPECT_FALSE(t.observed);
    EXPECT_EQ(t.actor_types[counter].handled, n * (counters.size() + 1));
    const Durations& of_counters = t.actor_types[counter].durations;
    EXPECT_EQ(of_counters.count, n * counters.size());
    EXPECT_LT(of_counters.quantile(0.5), 1'000'000);
    const Durations& of_spinners = t.actor_types[spinner].durations;
    EXPECT_EQ(of_spinners.count, spinners.size() + 1);
    EXPECT_GE(of_spinners.sum_ns, 295'000'000u);
    EXPECT_GE(of_spinners.quantile(0.2), 20'000 * (1 - histogram_error));
    EXPECT_GE(of_spinners.quantile(1), 300'000'000 * (1 - histogram_error));
    ASSERT_FALSE(t.slowest.empty());
    EXPECT_EQ(t.slowest[0].actor, slow);
    EXPECT_EQ(t.slowest[0].type, "Spinner");
    EXPECT_EQ(t.slowest[0].message, "Whirl");
    EXPECT_GE(t.slowest[0].ns, 295'000'000u); // a GPU's tick is known to 1 %
    EXPECT_TRUE(std::is_sorted(t.slowest.begin(), t.slowest.end(),
                               [](const auto& a, const auto& b) { return a.ns > b.ns; }));
    EXPECT_GT(total(t, &WorkerTelemetry::batches), 0u);
    EXPECT_GT(t.device_ns, 0u);

    // Switched off it counts on, and measures nothing.
    rt.send_many(counters[1], messages.data(), n);
    rt.drain();
    const Telemetry off = rt.telemetry();
    EXPECT_EQ(off.actor_types[counter].handled, n * (counters.size() + 2));
    EXPECT_EQ(off.actor_types[counter].durations.count, n * counters.size());
    // Switched on again the counts go on, and the search for the slowest begins anew.
    rt.observe(true);
    rt.send(counters[2], Add{1});
    rt.drain();
    const Telemetry again = rt.telemetry();
    EXPECT_TRUE(again.observed);
    EXPECT_EQ(again.actor_types[counter].durations.count, n * counters.size() + 1);
    ASSERT_EQ(again.slowest.size(), 1u);
    EXPECT_EQ(again.slowest[0].actor, counters[2]);
    EXPECT_EQ(again.slowest[0].message, "Add");
}

TEST_P(telemetry, sent_by_route)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(2 * rt.description().workers);
    const Address a = counters[0];
    Address same = a; // another actor of the same worker
    for (const Address other : counters) {
        same = other.worker() == a.worker() && !(other == a) ? other : same;
    }
    constexpr uint32_t hops = 100;
    rt.send(a, Hop{same.value, hops});
    rt.send(a, Hop{counters[1].value, hops}); // of another worker, if there is one
    EXPECT_EQ((rt.ask<Sum>(a, Read{}).value), 0u);
    rt.drain();
    const Telemetry t = rt.telemetry();
    const auto by = [&](Route r) { return t.sent[static_cast<uint32_t>(r)]; };
    const bool alone = t.workers.size() == 1;
    EXPECT_EQ(by(Route::worker), alone ? 2 * hops : hops);
    EXPECT_EQ(by(Route::sm) + by(Route::cluster) + by(Route::gpu), alone ? 0 : hops);
    EXPECT_EQ(by(Route::peer), 0u);
    EXPECT_EQ(t.workers[a.worker()].sent[0], alone ? 2 * hops : hops);
}

TEST_P(telemetry_of_nodes, workers_of_all_nodes_in_order)
{
    Rt rt(device(), options());
    const uint32_t workers = GetParam().workers;
    const uint32_t nodes = GetParam().nodes;
    rt.observe(true);
    const auto counters = rt.spawn<Counter>(4 * nodes);
    const auto on = [&](uint32_t node) {
        return *std::find_if(counters.begin(), counters.end(),
                             [&](Address a) { return a.node() == node; });
    };
    constexpr uint32_t hops = 50;
    rt.send(on(0), Hop{on(1).value, hops});
    rt.drain();
    const Telemetry t = rt.telemetry();
    ASSERT_EQ(t.workers.size(), size_t{nodes} * workers);
    for (uint32_t i = 0; i < nodes * workers; ++i) {
        EXPECT_EQ(t.workers[i].place, Address::actor(i % workers, 0, i / workers));
    }
    EXPECT_EQ(t.sent[static_cast<uint32_t>(Route::peer)], hops);
    EXPECT_EQ(t.actor_types[counter].handled, hops + 1);
    EXPECT_EQ(t.actor_types[counter].durations.count, hops + 1);
    EXPECT_EQ(t.actor_types[counter].live, 4u * nodes);
    EXPECT_EQ(t.handled, rt.stats().handled);
    ASSERT_EQ(t.slowest.size(), 2u);
    EXPECT_NE(t.slowest[0].actor.node(), t.slowest[1].actor.node());
    EXPECT_EQ(t.slowest[1].type, "Counter");
}

TEST_P(telemetry, busy_worker_and_its_queue)
{
    Options o = options();
    o.host_ring_slots = 64;
    Rt rt(device(), o);
    const auto spinners = rt.spawn<Spinner>(8);
    const Address a = spinners[3];
    SharedWord word(on_gpu());
    rt.send(a, Loop{word.address()});
    constexpr uint32_t waiting = 20;
    for (uint32_t i = 0; i < waiting; ++i) {
        rt.send(a, Add{1});
    }
    Telemetry t;
    EXPECT_TRUE(eventually([&] {
        t = rt.telemetry();
        return t.workers[a.worker()].busy_ns > 0;
    }));
    const WorkerTelemetry& w = t.workers[a.worker()];
    EXPECT_EQ(w.busy_actor, a);
    EXPECT_EQ(w.busy_message, Rt::id<Loop>());
    EXPECT_GE(w.host_ring, waiting);
    EXPECT_LE(w.host_ring, waiting + 1 + o.host_ring_slots / 4);
    // It does not wait for the worker that is busy, and names the others as they are.
    for (uint32_t i = 0; i < t.workers.size(); ++i) {
        if (i != a.worker()) {
            EXPECT_EQ(t.workers[i].busy_ns, 0u);
            EXPECT_EQ(t.workers[i].host_ring, 0u);
        }
    }
    word.set(1);
    rt.drain();
    EXPECT_EQ(rt.telemetry().workers[a.worker()].host_ring, 0u);
    EXPECT_EQ(rt.telemetry().actor_types[spinner].handled, waiting + 1);
}

bool has_near(const Rt& rt)
{
    return std::min(rt.description().cluster, rt.description().workers) > 1;
}

TEST_P(telemetry, the_queue_from_near_workers)
{
    Rt rt(device(), options());
    if (!has_near(rt)) {
        GTEST_SKIP() << "a worker alone has nobody near";
    }
    const Address thrower = rt.spawn<Counter>();
    const Address catcher = rt.spawn<Spinner>(1, near(thrower, Near::cluster))[0];
    SharedWord word(on_gpu());
    const auto queue = [&] { return rt.telemetry().workers[catcher.worker()].near; };
    constexpr uint32_t thrown = 10;
    for (const bool observed : {true, false}) {
        rt.observe(observed);
        word.set(0);
        rt.send(catcher, Loop{word.address()});
        EXPECT_TRUE(
            eventually([&] { return rt.telemetry().workers[catcher.worker()].busy_ns > 0; }));
        rt.send(thrower, Throw{catcher.value, thrown});
        if (observed) {
            EXPECT_TRUE(eventually([&] { return queue() == thrown; })) << queue();
            EXPECT_EQ(rt.telemetry().workers[thrower.worker()].near, 0u);
        }
        word.set(1);
        rt.drain();
        EXPECT_TRUE(eventually([&] { return queue() == 0; })) << queue();
    }
}

TEST_P(telemetry, latencies_of_samples)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    const Address b = rt.spawn<Counter>();
    const auto of = [&](uint32_t type) { return rt.telemetry().actor_types[type].latencies; };
    uint64_t hops = 0;
    const auto play = [&] {
        rt.send(a, Hop{b.value, 999});
        rt.drain();
        hops += 1000;
    };
    play();
    EXPECT_EQ(of(counter).count, 0u) << "nobody observes";
    rt.observe(true);
    EXPECT_TRUE(eventually([&] {
        play();
        return of(counter).count >= 3;
    }));
    EXPECT_GT(of(counter).sum_ns, 0u);
    EXPECT_LT(of(counter).count, hops);
    rt.observe(false);
    const uint64_t count = of(counter).count;
    play();
    EXPECT_EQ(of(counter).count, count);
    EXPECT_EQ(rt.telemetry().actor_types[counter].handled, hops);
}

TEST_P(telemetry, a_message_is_late_by_what_its_worker_is_busy)
{
    Rt rt(device(), options());
    if (!has_near(rt)) {
        GTEST_SKIP() << "a worker alone takes what it sends itself before what the host sends";
    }
    const Address thrower = rt.spawn<Counter>();
    const Address catcher = rt.spawn<Spinner>(1, near(thrower, Near::cluster))[0];
    rt.observe(true);
    constexpr uint64_t busy = 20'000'000;
    EXPECT_TRUE(eventually([&] {
        rt.send(catcher, Whirl{busy});
        rt.send(thrower, Throw{catcher.value, 1});
        rt.drain();
        return rt.telemetry().actor_types[spinner].latencies.quantile(1) > busy / 2;
    }));
}

TEST_P(telemetry, paused_and_closed)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    rt.pause();
    rt.send(a, Add{1});
    const Telemetry t = rt.telemetry();
    EXPECT_EQ(t.workers[a.worker()].mode, Mode::paused);
    EXPECT_EQ(t.workers[a.worker()].host_ring, 1u);
    rt.observe(true); // a paused worker agrees too
    rt.resume();
    rt.drain();
    EXPECT_EQ(rt.telemetry().actor_types[counter].durations.count, 1u);
    rt.close();
    expect_error(Errc::closed, "the runtime is closed", [&] { rt.telemetry(); });
    expect_error(Errc::closed, "the runtime is closed", [&] { rt.observe(true); });
}

TEST_P(telemetry, switched_on_and_off_under_load)
{
    Rt rt(device(), options());
    const auto counters = rt.spawn<Counter>(8);
    std::atomic<bool> sending{true};
    std::thread switcher([&] {
        for (uint32_t i = 0; sending; ++i) { // ends with the traffic
            rt.observe(i % 2 == 0);
            rt.telemetry();
        }
    });
    const std::vector<Add> messages(scaled(2000), Add{1});
    constexpr uint32_t rounds = 10;
    for (uint32_t r = 0; r < rounds; ++r) {
        for (const Address a : counters) {
            rt.send_many(a, messages.data(), messages.size());
        }
    }
    rt.drain();
    sending = false;
    switcher.join();
    const Telemetry t = rt.telemetry();
    EXPECT_EQ(t.actor_types[counter].handled, rounds * counters.size() * messages.size());
    EXPECT_LE(t.actor_types[counter].durations.count, t.actor_types[counter].handled);
}

} // namespace
