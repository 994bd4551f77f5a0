// SPDX-License-Identifier: Apache-2.0
// Messages from actor to actor, both resident, by the device's own clock. One way: a ball between
// two actors, thousands of trips between two readings of the clock; a sample is the mean trip.
// Random targets: every actor hands its tokens on to actors drawn at random, until each token has
// made its hops; the time is from the first send to the last arrival.
//
// `bytes` is what a message takes on the wire: whole slots of 64 bytes, of which 36 (first) and 48
// (others) carry payload. The ball carries its words all the way and each trip changes one, so what
// is damaged, lost or doubled on any trip shows at the end. Every token is accounted for.
#include <denizen/runtime.hpp>

#include "program.hpp"

#include <atomic>
#include <thread>

#if defined(__CUDACC__)
#include "rivals/words.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

// --- one way ---

template <uint32_t Slots>
struct Ball {
    static constexpr uint32_t words = (first_payload + (Slots - 1) * next_payload) / 4 - 1;
    uint32_t trip; // made so far
    uint32_t word[words];

    DENIZEN_HD void fill()
    {
        trip = 0;
        for (uint32_t i = 0; i < words; ++i) word[i] = i * 2654435761u;
    }
    DENIZEN_HD void arrive()
    {
        ++trip;
        word[trip % words] += trip;
    }
    // Words that are not what fill() and `trip` times arrive() make of them.
    DENIZEN_HD uint32_t damaged() const
    {
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < words; ++i) {
            const uint64_t first = i == 0 ? words : i; // the trips that changed this word
            const uint64_t n = trip < first ? 0 : (trip - first) / words + 1;
            const uint64_t sum = n == 0 ? 0 : n * first + words * (n * (n - 1) / 2);
            wrong += word[i] != i * 2654435761u + static_cast<uint32_t>(sum) ? 1 : 0;
        }
        return wrong;
    }
};

struct Start {
    Address peer;
    uint32_t trips; // even: the ball ends where it began
};
struct Report {
    uint64_t ns;
    uint32_t trips;
    uint32_t damaged;
};

template <uint32_t Slots>
struct Player {
    Ball<Slots> ball; // in the state, not on the stack: it may be long
    uint64_t begin = 0;
    Address asker;
    uint32_t trips = 0; // 0: plays the ball back, for ever

    DENIZEN_HD void on(const Start& m, auto& ctx)
    {
        asker = ctx.sender();
        trips = m.trips;
        ball.fill();
        begin = ctx.now_ns();
        ctx.send(m.peer, ball);
    }
    DENIZEN_HD void on(const Ball<Slots>& m, auto& ctx)
    {
        ball = m;
        ball.arrive();
        if (ball.trip != trips) {
            ctx.reply(ball);
            return;
        }
        const uint64_t ns = ctx.now_ns() - begin;
        trips = 0;
        ctx.send(asker, Report{ns, ball.trip, ball.damaged()});
    }
};

template <uint32_t Slots>
using Playing = Program<Actors<Player<Slots>>, Messages<Start, Ball<Slots>, Report>>;

constexpr double sample_ns = 1e6; // long against the clock's steps

// Two actors on one route.
struct Pair {
    Address from;
    Address to;
    uint32_t trips = 64; // of a sample
    Case result;
    Samples samples{256};
};

// A program for each length: long messages make room in every ring, and must not slow short ones.
template <uint32_t Slots>
void one_way(const Arguments& arguments, bool tell)
{
    Runtime<Playing<Slots>> runtime(arguments.device, arguments.options());
    const uint32_t workers = runtime.description().workers;
    if (tell) print_environment(environment(arguments, runtime.description()));
    const auto players = runtime.template spawn<Player<Slots>>(workers + 1);

    const auto play = [&](Pair& pair) {
        const Report r = runtime.template ask<Report>(pair.from, Start{pair.to, pair.trips}, 30s);
        pair.result.verified &= r.trips == pair.trips && r.damaged == 0;
        pair.result.n += r.trips;
        return static_cast<double>(r.ns) / r.trips;
    };
    std::vector<Pair> pairs;
    const auto add = [&](const char* route, Address to, const char* arm) {
        Pair& pair = pairs.emplace_back();
        pair.from = players[0];
        pair.to = to;
        Case& result = pair.result =
            Case("one way", Json().add("route", route).add("bytes", Slots * 64));
        result.arm = arm;
        if (Slots == 1 && to.worker() != players[0].worker()) result.ratio_base = {"raw words"};
        result.verified = true;
    };
    add("worker", players[workers], "");
    if (workers > 1)
        for (const char* arm : {"", "A/A"}) add("gpu", players[1], arm);
    for (Pair& pair : pairs) { // a warm-up that tells how many trips a sample needs
        while (play(pair) * pair.trips < sample_ns && pair.trips < 1u << 20) pair.trips *= 2;
        pair.result.n = 0;
    }
    interleaved(arguments.quick ? 15 : 101, pairs.size(),
                [&](size_t i) { pairs[i].samples.add(play(pairs[i]) * 1e-3); });
    for (const Pair& pair : pairs) pair.result.print(pair.samples);
    runtime.close();
}

// --- two words, the limit ---

// Numbers go to and fro between two threads of the host, each polling a word of its own.
double host_words(uint32_t rounds)
{
    struct alignas(line) Word {
        std::atomic<uint32_t> value{0};
    };
    Word word[2];
    // Ends when the other has stored it. Gives the core away now and then: there may be no other.
    const auto await = [](const Word& own, uint32_t value) {
        for (uint32_t polls = 1; own.value.load(std::memory_order_relaxed) != value; ++polls)
            polls % 256 == 0 ? void(sched_yield()) : relax();
    };
    std::thread second([&] {
        for (uint32_t i = 1; i <= rounds; ++i) {
            await(word[1], i);
            word[0].value.store(i, std::memory_order_relaxed);
        }
    });
    const uint64_t begin = now_ns();
    for (uint32_t i = 1; i <= rounds; ++i) {
        word[1].value.store(i, std::memory_order_relaxed);
        await(word[0], i);
    }
    const uint64_t ns = now_ns() - begin;
    second.join();
    return static_cast<double>(ns) * 1e-3 / (2.0 * rounds);
}

// What no message can beat; see rivals/words.cuh.
void raw_words(const Arguments& arguments)
{
    const uint32_t rounds = arguments.quick ? 2'000 : 20'000;
    const uint32_t repetitions = arguments.quick ? 5 : 21;
    const auto take = [&](const Json& params, auto one) {
        Case result("raw words", params);
        result.n = uint64_t{2} * rounds * repetitions;
        result.verified = true;
        Samples samples(repetitions);
        for (uint32_t i = 0; i <= repetitions; ++i) { // the first is a warm-up
            const double us = one(result.verified);
            if (i != 0) samples.add(us);
        }
        result.print(samples);
    };
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        WordExchange words;
        const auto on = [&](const char* route, WordPlace way) {
            take(Json().add("route", route),
                 [&](bool& right) { return words.one_way(way, rounds, right); });
        };
        int clusters = 0;
        check_cuda(
            cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, arguments.device.ordinal),
            "cudaDeviceGetAttribute");
        on("sm", WordPlace::sm);
        if (clusters != 0) on("cluster", WordPlace::cluster);
        on("gpu", WordPlace::gpu);
        return;
    }
#endif
    take(Json(), [&](bool&) { return host_words(rounds); });
}

// --- random targets ---

struct Clear {};
struct Go {
    uint32_t tokens; // that each actor begins with
    uint32_t hops;   // that each token makes
};
struct Token {
    uint32_t id;
    uint32_t left;
};
struct Query {};
struct Tally {
    uint64_t handled;
    uint64_t finished;
    uint64_t ids; // their sum
    uint64_t begin;
    uint64_t end;
};

constexpr uint32_t walkers = 128; // on each worker; a power of two

struct Walker {
    Tally seen{};
    uint32_t random = 0;

    DENIZEN_HD void on(const Clear&, auto& ctx)
    {
        random = index(ctx) * 2654435761u | 1;
        seen = {};
    }
    // Others' tokens may be here already.
    DENIZEN_HD void on(const Go& m, auto& ctx)
    {
        seen.begin = ctx.now_ns();
        for (uint32_t t = 0; t < m.tokens; ++t) hop(Token{index(ctx) * m.tokens + t, m.hops}, ctx);
    }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        ++seen.handled;
        if (m.left != 0) {
            hop(m, ctx);
            return;
        }
        ++seen.finished;
        seen.ids += m.id;
        seen.end = ctx.now_ns();
    }
    DENIZEN_HD void on(const Query&, auto& ctx) { ctx.reply(seen); }

    DENIZEN_HD static uint32_t index(auto& ctx)
    {
        return ctx.worker() * walkers + ctx.self().local();
    }
    DENIZEN_HD void hop(const Token& token, auto& ctx)
    {
        random ^= random << 13; // Marsaglia's xorshift32
        random ^= random >> 17;
        random ^= random << 5;
        const auto worker = static_cast<uint32_t>(uint64_t{random} * ctx.workers() >> 32);
        ctx.send(Address::actor(worker, random % walkers), Token{token.id, token.left - 1});
    }
};

using Walking = Program<Actors<Walker>, Messages<Clear, Go, Token, Query, Tally>>;

// One run: messages per microsecond, by the device's clock and as the host sees it.
struct Rates {
    double device;
    double host;
    uint64_t messages;
    bool right;
};

Rates walk(Runtime<Walking>& runtime, const std::vector<Address>& actors, const Go& go)
{
    runtime.broadcast<Walker>(Clear{});
    runtime.drain();
    const uint64_t begin = now_ns();
    runtime.broadcast<Walker>(go);
    runtime.drain();
    const uint64_t host_ns = now_ns() - begin;

    Tally all{0, 0, 0, ~uint64_t{0}, 0};
    for (const Tally& one : runtime.ask_many<Tally>(actors, Query{}, 60s)) {
        all.handled += one.handled;
        all.finished += one.finished;
        all.ids += one.ids;
        all.begin = std::min(all.begin, one.begin);
        all.end = std::max(all.end, one.end);
    }
    const uint64_t tokens = uint64_t{go.tokens} * actors.size();
    const uint64_t messages = tokens * go.hops;
    const bool right = all.handled == messages && all.finished == tokens &&
                       all.ids == tokens * (tokens - 1) / 2 && all.end > all.begin;
    const auto rate = [&](uint64_t ns) {
        return static_cast<double>(messages) * 1e3 / static_cast<double>(std::max<uint64_t>(ns, 1));
    };
    return {rate(all.end - all.begin), rate(host_ns), messages, right};
}

void random_targets(const Arguments& arguments, uint32_t workers, uint32_t tokens)
{
    Options options = arguments.options();
    options.workers = workers;
    if (arguments.gpu())
        options.sms = static_cast<uint32_t>(gpu::device_info(options.device.ordinal).sm_count);
    options.max_actors = workers * walkers;
    options.state_bytes = uint64_t{options.max_actors} * 128;
    Runtime<Walking> runtime(arguments.device, options);
    const std::vector<Address> actors = runtime.spawn<Walker>(options.max_actors);
    // Walkers compute addresses: these are all that there are.
    for (const Address a : actors)
        if (a.worker() >= workers || a.local() >= walkers)
            throw std::runtime_error("actors are not where their addresses are drawn");

    const double target_us = arguments.quick ? 3e4 : 1e5;
    Go go{tokens / walkers, 64};
    bool right = true;
    for (int i = 0; i < 2; ++i) { // a warm-up that tells how many hops a sample needs
        const Rates r = walk(runtime, actors, go);
        right &= r.right;
        const double hops = r.host * target_us / (static_cast<double>(tokens) * workers);
        go.hops = static_cast<uint32_t>(std::clamp(hops, 16.0, 1e5));
    }
    const uint32_t repetitions = arguments.quick ? 5 : 11;
    Samples device(repetitions);
    Samples host_seen(repetitions);
    const auto named = [&](const char* name) {
        return Case(name, Json().add("workers", workers).add("tokens", tokens * workers), "M/s");
    };
    Case by_device = named("random targets");
    Case by_host = named("random targets, seen by the host");
    for (uint32_t i = 0; i < repetitions; ++i) {
        const Rates r = walk(runtime, actors, go);
        right &= r.right;
        device.add(r.device);
        host_seen.add(r.host);
        by_device.n += r.messages;
    }
    runtime.close();
    by_host.n = by_device.n;
    by_device.verified = by_host.verified = right;
    by_device.print(device);
    by_host.print(host_seen);
}

void measure(const Arguments& arguments)
{
    one_way<1>(arguments, true);
    one_way<4>(arguments, false);
    one_way<16>(arguments, false);
    one_way<64>(arguments, false);
    raw_words(arguments);
    if (!arguments.gpu()) {
        random_targets(arguments, arguments.workers != 0 ? arguments.workers : 2, walkers);
        return;
    }
    const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
    for (const uint32_t on_each : {1u, 4u, 8u})
        for (const uint32_t tokens : {walkers, 2 * walkers})
            if (!arguments.quick || (on_each != 1 && tokens == walkers))
                random_targets(arguments, sms * on_each, tokens);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
