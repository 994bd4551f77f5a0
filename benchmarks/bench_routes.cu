// SPDX-License-Identifier: Apache-2.0
// Messages from actor to actor, both resident, by the device's own clock. One way: a ball between
// two actors, thousands of trips between two readings of the clock; a sample is the mean trip. Many
// ways at once: random_targets.cu. Where the time goes: own_message.cu.
//
// `bytes` is what a message takes on the wire: whole slots of 64 bytes, of which 36 (first) and 48
// (others) carry payload. The ball carries its words all the way and each trip changes one, so what
// is damaged, lost or doubled on any trip shows at the end. Every trip must have taken its route,
// by the program's own counts.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"
#include "node_pairs.hpp"
#include "own_message.hpp"
#include "random_targets.hpp"
#include "route_counts.hpp"

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
    // A short one's words move on by one each trip, in registers: an index into them would put the
    // ball into memory, and its way there and back into every trip.
    static constexpr bool turns = Slots == 1;
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
        if constexpr (turns) {
            const uint32_t changed = word[0] + trip;
            for (uint32_t i = 0; i + 1 < words; ++i) word[i] = word[i + 1];
            word[words - 1] = changed;
        } else {
            word[(trip - 1) % words] += trip;
        }
    }
    // Words that are not what fill() and `trip` times arrive() make of them.
    DENIZEN_HD uint32_t damaged() const
    {
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < words; ++i) { // changed by the trips i + 1, i + 1 + words, ...
            const uint64_t first = i + 1;
            const uint64_t n = trip < first ? 0 : (trip - first) / words + 1;
            const uint64_t sum = n == 0 ? 0 : n * first + words * (n * (n - 1) / 2);
            const uint32_t at = turns ? (i + words - trip % words) % words : i;
            wrong += word[at] != i * 2654435761u + static_cast<uint32_t>(sum) ? 1 : 0;
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
    // A long ball takes all lanes of a warp, and lies in the state: it has no room on a stack.
    static constexpr auto grain = Slots == 1 ? Grain::thread : Grain::warp;
    Ball<Slots> ball;
    uint64_t begin = 0;
    Address asker;
    uint32_t trips = 0; // 0: plays the ball back, for ever

    DENIZEN_HD void on(const Start& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            asker = ctx.sender();
            trips = m.trips;
            ball.fill();
            begin = ctx.now_ns();
        }
        ctx.sync();
        ctx.send(m.peer, ball);
    }
    DENIZEN_HD void on(const Ball<Slots>& m, auto& ctx)
    {
        if constexpr (Slots == 1) {
            Ball<Slots> mine = m;
            mine.arrive();
            pass_on(mine, ctx);
        } else {
            for (uint32_t i = ctx.lane(); i < Ball<Slots>::words; i += ctx.lanes())
                ball.word[i] = m.word[i];
            ctx.sync();
            if (ctx.lane() == 0) {
                ball.trip = m.trip;
                ball.arrive();
            }
            ctx.sync();
            pass_on(ball, ctx);
        }
    }
    DENIZEN_HD void pass_on(const Ball<Slots>& mine, auto& ctx)
    {
        if (mine.trip != trips) {
            ctx.reply(mine);
            return;
        }
        const uint64_t ns = ctx.now_ns() - begin;
        ctx.sync();
        trips = 0;
        ctx.send(asker, Report{ns, mine.trip, mine.damaged()});
    }
};

template <uint32_t Slots>
using Playing = Program<Actors<Player<Slots>>, Messages<Start, Ball<Slots>, Report>>;

constexpr double sample_ns = 1e6; // long against the clock's steps

constexpr const char* route_names[routes] = {"worker", "sm", "cluster", "gpu", "peer", "host"};

// A program's options and the routes that are measured in it.
struct Setup {
    Options options;
    std::vector<Route> routes;
    bool every_pair = false; // of nodes, in both directions, instead of `routes`
    bool alone = false;      // each worker has an SM to itself
};

// GPUs from the given one on, as many as a program can have nodes; CPU: two.
uint32_t nodes_of(const Arguments& arguments)
{
    if (!arguments.gpu()) return 2;
    const int there = gpu::device_count() - arguments.device.ordinal;
    return static_cast<uint32_t>(std::min(there, 5));
}

// One after the other: who waits for a core, or for the issue slots of a busy SM, is not to be
// measured. By default a GPU's workers share SMs, and those that are idle look around: beside these
// are the same routes between workers that share theirs with nobody.
std::vector<Setup> setups(const Arguments& arguments)
{
    const Options plain = options_of(arguments);
    Setup common{plain, {Route::worker, Route::cluster, Route::gpu}};
    Setup crowded{plain, {Route::sm}}; // two workers on an SM
    Setup pair{plain, {Route::peer}};
    pair.options.nodes = 2;
    if (arguments.gpu()) {
        crowded.options.sms = 8;
        crowded.options.workers = 16;
        crowded.options.cluster = 1; // else long messages leave no room for near rings
        Setup alone{plain, {Route::cluster, Route::gpu}};
        alone.alone = true;
        alone.options.sms = alone.options.workers =
            static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
        std::vector<Setup> all{common, crowded, alone};
        const uint32_t nodes = nodes_of(arguments);
        if (nodes > 1) all.push_back(pair);
        pair.options.nodes = nodes;
        pair.every_pair = true;
        if (nodes > 2) all.push_back(pair);
        return all;
    }
    // Threads of the host, one for each end: in a cluster, in none, on two nodes.
    Setup apart{plain, {Route::gpu}};
    common.options.workers = apart.options.workers = 2;
    common.routes = {Route::worker, Route::cluster};
    apart.options.cluster = 1;
    pair.options.workers = 1;
    Setup pairs = pair;
    pairs.every_pair = true;
    return {common, apart, pair, pairs};
}

// Where the second player goes for messages to take a route from the first.
Placement placement(Address first, Route route)
{
    switch (route) {
    case Route::worker: return near(first, Near::worker);
    case Route::sm: return near(first, Near::sm);
    case Route::cluster: return near(first, Near::cluster);
    case Route::peer: return on_node(first.node() + 1);
    default: return near(first, Near::node);
    }
}

// Two actors on one route.
struct Pair {
    Address from;
    Address to;
    Route route = Route::worker;
    uint32_t trips = 64; // of a sample
    Case result;
    Samples samples{256};
};

template <uint32_t Slots>
class OneWay {
public:
    explicit OneWay(const Setup& setup)
        : runtime_(setup.options.device, setup.options),
          what_(setup.alone ? "one way, alone on an SM" : "one way")
    {
        if (setup.every_pair) {
            for (uint32_t from = 0; from < setup.options.nodes; ++from) {
                for (uint32_t to = 0; to < setup.options.nodes; ++to) {
                    if (from == to) continue;
                    const Address first = spawn(on_node(from));
                    add(first, spawn(on_node(to)), Route::peer,
                        Json().add("from node", from).add("to node", to).add("bytes", Slots * 64));
                }
            }
            return;
        }
        const Address first = runtime_.template spawn<Player<Slots>>();
        for (const Route route : setup.routes) {
            if (route == Route::cluster && description().cluster == 1) continue; // an older GPU
            const Address second = spawn(placement(first, route));
            const Json params =
                Json().add("route", route_names[uint32_t(route)]).add("bytes", Slots * 64);
            Pair& pair = add(first, second, route, params);
            if (Slots == 1 && route != Route::worker) pair.result.ratio_base = {"raw words"};
            add(first, second, route, params).result.arm = "A/A";
        }
    }

    void run(uint32_t repetitions)
    {
        for (Pair& pair : pairs_) { // a warm-up that tells how many trips a sample needs
            while (play(pair) * pair.trips < sample_ns && pair.trips < 1u << 20) pair.trips *= 2;
            pair.result.n = 0;
        }
        interleaved(repetitions, pairs_.size(),
                    [&](size_t i) { pairs_[i].samples.add(play(pairs_[i]) * 1e-3); });
        for (const Pair& pair : pairs_) pair.result.print(pair.samples);
        runtime_.close();
    }

    const Description& description() const { return runtime_.description(); }

private:
    Address spawn(Placement where) { return runtime_.template spawn<Player<Slots>>(1, where)[0]; }

    Pair& add(Address from, Address to, Route route, const Json& params)
    {
        Pair& pair = pairs_.emplace_back();
        pair.from = from;
        pair.to = to;
        pair.route = route;
        pair.result = Case(what_, params);
        pair.result.verified = true;
        return pair;
    }

    // Nanoseconds of a trip. Every trip must have taken the pair's route.
    double play(Pair& pair)
    {
        Report r{};
        const auto sent = sent_during(runtime_, [&] {
            r = runtime_.template ask<Report>(pair.from, Start{pair.to, pair.trips}, 30s);
        });
        pair.result.verified &= r.trips == pair.trips && r.damaged == 0 &&
                                sent[static_cast<uint32_t>(pair.route)] == pair.trips;
        pair.result.n += r.trips;
        return static_cast<double>(r.ns) / r.trips;
    }

    // A program for each length: long messages make room in every ring, and must not slow short
    // ones.
    Runtime<Playing<Slots>> runtime_;
    const char* what_;
    std::vector<Pair> pairs_;
};

template <uint32_t Slots>
void one_way(const Arguments& arguments)
{
    bool told = Slots != 1;
    for (const Setup& setup : setups(arguments)) {
        OneWay<Slots> pairs(setup);
        if (!told) print_environment(environment(arguments, pairs.description()));
        told = true;
        pairs.run(arguments.quick ? 15 : 101);
    }
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
        const int first = arguments.device.ordinal;
        if (gpu::device_count() > first + 1 && PeerExchange::possible(first, first + 1)) {
            PeerExchange peers(first, first + 1);
            take(Json().add("route", "peer"),
                 [&](bool& right) { return peers.one_way(rounds, right); });
        }
        return;
    }
#endif
    take(Json(), [&](bool&) { return host_words(rounds); });
}

void measure(const Arguments& arguments)
{
    one_way<1>(arguments);
    one_way<4>(arguments);
    one_way<16>(arguments);
    one_way<64>(arguments);
    raw_words(arguments);
    measure_own_message(arguments);
    if (nodes_of(arguments) > 1) measure_node_pairs(arguments, nodes_of(arguments));
    measure_random_targets(arguments);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
