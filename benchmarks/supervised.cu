// SPDX-License-Identifier: Apache-2.0
// What failures cost: tokens wander among supervised actors, and one in a hundred handlers fails,
// after it has handed its token on. The message that failed is a dead letter, the actor is
// restarted by the supervisor on its worker, and what came for it meanwhile waits. Beside it, in
// turn, the same program with nobody failing.
//
// Which handlers fail, and where tokens go, is a hash of the token and its hop: the host computes
// how many must have failed. Each token counts those on its way; that count, the dead letters and
// the restarts must be the same number, and every token must come to its end.
#include "supervised.hpp"

#include "actor_program.hpp"

#include <denizen/actor/runtime.hpp>

#include <bit>

namespace denizen::bench {
namespace {

struct Go {
    uint32_t tokens; // that each walker sends
    uint32_t hops;
    uint32_t failing; // 1: one in a hundred
};
struct Token {
    uint32_t id;
    uint32_t left;
    uint32_t failing;
    uint32_t failures; // on its way
};
struct Query {};
struct Tally {
    uint64_t finished;
    uint64_t ids; // their sum
    uint64_t failures;
};

constexpr uint32_t walkers = 128; // on each worker, behind one sink
constexpr uint32_t sinks = 1;

DENIZEN_HD inline uint32_t hash(uint32_t id, uint32_t hop) // MurmurHash3's last steps
{
    uint32_t h = id * 0x9e3779b9u ^ hop * 0x85ebca6bu;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

DENIZEN_HD inline bool fails(uint32_t hashed) { return hashed % 100 == 0; }

// Counts the tokens that ended on its worker; is never restarted.
struct Sink {
    Tally seen{};
    DENIZEN_HD void on(const Token& m, auto&)
    {
        ++seen.finished;
        seen.ids += m.id;
        seen.failures += m.failures;
    }
    DENIZEN_HD void on(const Query&, auto& ctx)
    {
        ctx.reply(seen);
        seen = {};
    }
};

// Keeps nothing that a restart could lose.
struct Walker {
    static constexpr bool can_fail = true;

    DENIZEN_HD void on(const Go& m, auto& ctx)
    {
        const uint32_t index = ctx.worker() * walkers + ctx.self().local() - sinks;
        for (uint32_t t = 0; t < m.tokens; ++t)
            hop(Token{index * m.tokens + t, m.hops, m.failing, 0}, ctx);
    }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        const bool failing = m.failing != 0 && fails(hash(m.id, m.left));
        hop(Token{m.id, m.left, m.failing, m.failures + (failing ? 1 : 0)}, ctx);
        if (failing) ctx.fail(1);
    }
    DENIZEN_HD static void hop(Token token, auto& ctx)
    {
        if (token.left == 0) {
            ctx.send(Address::actor(ctx.worker(), 0), token);
            return;
        }
        const uint32_t h = hash(token.left--, token.id);
        const auto worker = static_cast<uint32_t>(uint64_t{h} * ctx.workers() >> 32);
        ctx.send(Address::actor(worker, sinks + h % walkers), token);
    }
};

using Wandering = Program<Actors<Sink, Walker>, Messages<Go, Token, Query, Tally>>;

class Wander {
public:
    explicit Wander(const Options& options) : runtime_(options.device, options)
    {
        workers_ = runtime_.description().workers;
        sinks_ = runtime_.spawn<Sink>(workers_);
        walkers_ = runtime_.spawn<Walker>(workers_ * walkers);
        // Tokens compute their ways: these are all that there are.
        for (const Address a : sinks_)
            if (a.local() != 0) throw std::runtime_error("a sink is not where it is looked for");
        std::vector<std::vector<Address>> children(workers_);
        for (const Address a : walkers_) {
            if (a.local() < sinks || a.local() >= sinks + walkers)
                throw std::runtime_error("a walker is not where it is looked for");
            children[a.worker()].push_back(a);
        }
        for (const std::vector<Address>& of_worker : children)
            runtime_.supervise(of_worker, Strategy::one_for_one,
                               RestartBudget{RestartBudget::unlimited, 1s});
    }

    // Messages per microsecond, from the host's word until all is quiet.
    double run(uint32_t hops, bool failing, bool& right)
    {
        const Go go{1, hops, failing ? 1u : 0u};
        const Stats before = runtime_.stats();
        const uint64_t begin = now_ns();
        runtime_.broadcast<Walker>(go);
        runtime_.drain();
        const uint64_t ns = now_ns() - begin;
        const Stats after = runtime_.stats();

        Tally all{};
        for (const Tally& one : runtime_.ask_many<Tally>(sinks_, Query{}, 30s)) {
            all.finished += one.finished;
            all.ids += one.ids;
            all.failures += one.failures;
        }
        const uint64_t tokens = walkers_.size();
        const uint64_t expected = failing ? failures_of(hops) : 0;
        failures_ += expected;
        right &= all.finished == tokens && all.ids == tokens * (tokens - 1) / 2 &&
                 all.failures == expected && after.stashed == 0 &&
                 after.dead_letters - before.dead_letters == expected;
        return static_cast<double>(messages(hops)) * 1e3 / static_cast<double>(ns);
    }

    uint64_t messages(uint32_t hops) const { return uint64_t{hops} * walkers_.size(); }

    // Whether there were as many restarts as failures, ever.
    bool restarts_are_right()
    {
        uint64_t restarts = 0;
        for (const Address a : walkers_) restarts += runtime_.inspect(a).incarnation - 1;
        return restarts == failures_;
    }

    void close() { runtime_.close(); }
    uint32_t workers() const { return workers_; }

private:
    uint64_t failures_of(uint32_t hops)
    {
        if (hops != counted_hops_) {
            counted_hops_ = hops;
            counted_ = 0;
            for (uint32_t id = 0; id < walkers_.size(); ++id)
                for (uint32_t left = 0; left < hops; ++left)
                    counted_ += fails(hash(id, left)) ? 1 : 0;
        }
        return counted_;
    }

    Runtime<Wandering> runtime_;
    uint32_t workers_ = 0;
    std::vector<Address> sinks_;
    std::vector<Address> walkers_;
    uint32_t counted_hops_ = 0;
    uint64_t counted_ = 0;
    uint64_t failures_ = 0;
};

} // namespace

void measure_supervised(const Arguments& arguments)
{
    Options options = options_of(arguments);
    if (arguments.gpu()) {
        options.sms = static_cast<uint32_t>(gpu::device_info(options.device.ordinal).sm_count);
        options.workers = options.sms;
    } else { // with few workers most tokens wait in the same few rings
        options.local_slots = options.near_slots = 1024;
    }
    Wander wander(options);
    const double target_us = arguments.quick ? 3e4 : 1e5;
    bool right = true;
    uint32_t hops = 64;
    for (int i = 0; i < 2; ++i) { // a warm-up that tells how many hops a sample needs
        const double rate = wander.run(hops, true, right);
        const double wanted = rate * target_us * hops / static_cast<double>(wander.messages(hops));
        hops = static_cast<uint32_t>(std::clamp(wanted, 16.0, 1e5));
    }
    const uint32_t repetitions = arguments.quick ? 5 : 21;
    struct Arm {
        Case result;
        bool failing;
        Samples samples{64};
    };
    const Json params =
        Json().add("workers", wander.workers()).add("actors", walkers * wander.workers());
    std::vector<Arm> arms;
    arms.push_back({Case("supervised, none failing", params, "M/s"), false});
    arms.push_back({Case("supervised, 1 % failing", params, "M/s"), true});
    arms.push_back({Case("supervised, none failing", params, "M/s"), false});
    arms[1].result.ratio_base = {"supervised, none failing"};
    arms[2].result.arm = "A/A";
    interleaved(repetitions, arms.size(),
                [&](size_t i) { arms[i].samples.add(wander.run(hops, arms[i].failing, right)); });
    right &= wander.restarts_are_right();
    wander.close();
    for (Arm& arm : arms) {
        arm.result.n = wander.messages(hops) * repetitions;
        arm.result.verified = right;
        arm.result.print(arm.samples);
    }
}

} // namespace denizen::bench
