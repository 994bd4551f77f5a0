// SPDX-License-Identifier: Apache-2.0
// All workers busy: every actor hands its tokens on to actors drawn at random, until each token has
// made its hops. The time is from the first send to the last arrival, by the device's own clock;
// beside it, from the host's word until the host knows that all is quiet. Every token and every
// message is accounted for.
#include "random_targets.hpp"

#include "actor_program.hpp"
#include "route_counts.hpp"

#include <algorithm>
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

// A program whose actors are where walkers draw their addresses.
class Walk {
public:
    Walk(const Arguments& arguments, uint32_t workers, uint32_t tokens)
        : tokens_(tokens * workers), runtime_(arguments.device, options(arguments, workers)),
          actors_(runtime_.spawn<Walker>(workers * walkers)), go_{tokens / walkers, 64}
    {
        for (const Address a : actors_)
            if (a.worker() >= workers || a.local() >= walkers)
                throw std::runtime_error("actors are not where their addresses are drawn");
    }

    // A warm-up. How many hops a sample of so many microseconds needs.
    uint32_t hops_for(double target_us)
    {
        for (int i = 0; i < 2; ++i) {
            const Rates r = run();
            const double hops = r.host * target_us / static_cast<double>(tokens_);
            go_.hops = static_cast<uint32_t>(std::clamp(hops, 16.0, 1e5));
        }
        return go_.hops;
    }
    void set_hops(uint32_t hops) { go_.hops = hops; }

    Rates run()
    {
        const Rates r = walk(runtime_, actors_, go_);
        right_ &= r.right;
        return r;
    }
    Stats close()
    {
        const Stats stats = runtime_.stats();
        runtime_.close();
        return stats;
    }
    bool right() const { return right_; }

private:
    static Options options(const Arguments& arguments, uint32_t workers)
    {
        Options options = options_of(arguments);
        options.workers = workers;
        if (arguments.gpu())
            options.sms = static_cast<uint32_t>(gpu::device_info(options.device.ordinal).sm_count);
        // With few workers most tokens wait in the same few rings.
        if (!arguments.gpu()) options.local_slots = options.near_slots = 1024;
        options.max_actors = workers * walkers;
        options.state_bytes = uint64_t{options.max_actors} * 128;
        return options;
    }

    uint32_t tokens_;
    Runtime<Walking> runtime_;
    std::vector<Address> actors_;
    Go go_;
    bool right_ = true;
};

// What was measured of programs with the same breath.
struct Measurement {
    explicit Measurement(size_t samples) : device(samples), host(samples) {}

    void add(const Rates& r)
    {
        device.add(r.device);
        host.add(r.host);
        messages += r.messages;
    }
    // breath_us: -1 where the program said nothing of it.
    void print(uint32_t workers, uint32_t tokens, int64_t breath_us, const char* arm = "") const
    {
        Json params = Json().add("workers", workers).add("tokens", tokens * workers);
        if (breath_us > 0) params.add("breath_us", breath_us);
        for (const bool by_device : {true, false}) {
            const std::string name =
                by_device ? "random targets" : "random targets, seen by the host";
            Case one(breath_us == 0 ? name + kernel_for_ever : name, params, "M/s");
            one.n = messages;
            one.verified = right;
            one.arm = arm;
            if (breath_us > 0 && *arm == 0) one.ratio_base = {name + kernel_for_ever};
            one.print(by_device ? device : host);
        }
        if (*arm == 0) print_handovers(last, params.add("load", "random targets"), right);
    }

    Samples device; // messages per microsecond, by its clock
    Samples host;
    uint64_t messages = 0;
    bool right = true;
    Stats last; // of the last program
};

double sample_us(const Arguments& arguments) { return arguments.quick ? 3e4 : 1e5; }

void random_targets(const Arguments& arguments, uint32_t workers, uint32_t tokens)
{
    Walk walk(arguments, workers, tokens);
    walk.hops_for(sample_us(arguments));
    const uint32_t repetitions = arguments.quick ? 5 : 11;
    Measurement all(repetitions);
    for (uint32_t i = 0; i < repetitions; ++i) all.add(walk.run());
    all.last = walk.close();
    all.right = walk.right();
    all.print(workers, tokens, arguments.breath_us);
}

} // namespace

void measure_random_targets(const Arguments& arguments)
{
    if (!arguments.gpu()) {
        random_targets(arguments, arguments.workers != 0 ? arguments.workers : 2, walkers);
        return;
    }
    const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
    for (const uint32_t on_each : {1u, 4u, 8u}) {
        for (const uint32_t tokens : {walkers, 2 * walkers}) {
            if (arguments.quick && (on_each == 1 || tokens != walkers)) continue;
            try {
                random_targets(arguments, sms * on_each, tokens);
            } catch (const Error& e) { // so many warps may need more registers than an SM has
                if (e.code() != Errc::no_fit || on_each == 1) throw;
            }
        }
    }
}

void measure_random_targets_by_breath(const Arguments& arguments, uint32_t on_each,
                                      const std::vector<int64_t>& breaths_us)
{
    const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
    const uint32_t workers = sms * on_each;
    const uint32_t rounds = arguments.quick ? 3 : 21;
    constexpr uint32_t in_a_round = 2;
    std::vector<Measurement> all(breaths_us.size(), Measurement(size_t{rounds} * in_a_round));
    uint32_t hops = 0;
    interleaved(rounds, all.size(), [&](size_t i) {
        Arguments with = arguments;
        with.breath_us = breaths_us[i];
        Walk walk(with, workers, walkers);
        if (hops == 0) hops = walk.hops_for(sample_us(arguments));
        walk.set_hops(hops);
        walk.run(); // a warm-up
        for (uint32_t k = 0; k < in_a_round; ++k) all[i].add(walk.run());
        all[i].last = walk.close();
        all[i].right &= walk.right();
    });
    for (size_t i = 0; i < all.size(); ++i) {
        const bool again = std::find(breaths_us.begin(), breaths_us.begin() + i, breaths_us[i]) !=
                           breaths_us.begin() + i;
        all[i].print(workers, walkers, breaths_us[i], again ? "A/A" : "");
    }
}

} // namespace denizen::bench
