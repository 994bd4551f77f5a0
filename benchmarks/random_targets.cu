// SPDX-License-Identifier: Apache-2.0
// All workers busy: every actor hands its tokens on to actors drawn at random, until each token has
// made its hops. The time is from the first send to the last arrival, by the device's own clock;
// beside it, from the host's word until the host knows that all is quiet. Every token and every
// message is accounted for.
#include "random_targets.hpp"

#include "route_counts.hpp"

#include <numeric>

namespace denizen::bench {
namespace {

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
    uint64_t host_ns = 0;
    const auto sent = sent_during(runtime, [&] {
        const uint64_t begin = now_ns();
        runtime.broadcast<Walker>(go);
        runtime.drain();
        host_ns = now_ns() - begin;
    });

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
    const uint64_t on_all_routes = std::accumulate(sent.begin(), sent.end(), uint64_t{0});
    const bool right = on_all_routes == messages && all.handled == messages &&
                       all.finished == tokens && all.ids == tokens * (tokens - 1) / 2 &&
                       all.end > all.begin;
    const auto rate = [&](uint64_t ns) {
        return static_cast<double>(messages) * 1e3 / static_cast<double>(std::max<uint64_t>(ns, 1));
    };
    return {rate(all.end - all.begin), rate(host_ns), messages, right};
}

constexpr const char* kernel_for_ever = ", one kernel for ever";

void random_targets(const Arguments& arguments, uint32_t workers, uint32_t tokens)
{
    Options options = arguments.options();
    options.workers = workers;
    if (arguments.gpu())
        options.sms = static_cast<uint32_t>(gpu::device_info(options.device.ordinal).sm_count);
    // With few workers most tokens wait in the same few rings.
    if (!arguments.gpu()) options.local_slots = options.near_slots = 1024;
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
        Json params = Json().add("workers", workers).add("tokens", tokens * workers);
        if (arguments.breath_us > 0) params.add("breath_us", arguments.breath_us);
        if (arguments.breath_us == 0)
            return Case(std::string(name) + kernel_for_ever, params, "M/s");
        Case one(name, params, "M/s");
        if (arguments.breath_us > 0) one.ratio_base = {std::string(name) + kernel_for_ever};
        return one;
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
    const Stats stats = runtime.stats();
    runtime.close();
    by_host.n = by_device.n;
    by_device.verified = by_host.verified = right;
    by_device.print(device);
    by_host.print(host_seen);
    Json params = Json().add("workers", workers).add("tokens", tokens * workers);
    if (arguments.breath_us > 0) params.add("breath_us", arguments.breath_us);
    print_handovers(stats, params, right);
}

} // namespace

void measure_random_targets(const Arguments& arguments, uint32_t only_on_each)
{
    if (!arguments.gpu()) {
        random_targets(arguments, arguments.workers != 0 ? arguments.workers : 2, walkers);
        return;
    }
    const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
    for (const uint32_t on_each : {1u, 4u, 8u}) {
        for (const uint32_t tokens : {walkers, 2 * walkers}) {
            if (only_on_each != 0 && (on_each != only_on_each || tokens != walkers)) continue;
            if (arguments.quick && (on_each == 1 || tokens != walkers)) continue;
            try {
                random_targets(arguments, sms * on_each, tokens);
            } catch (const Error& e) { // so many warps may need more registers than an SM has
                if (e.code() != Errc::no_fit || on_each == 1) throw;
            }
        }
    }
}

} // namespace denizen::bench
