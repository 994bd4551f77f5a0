// SPDX-License-Identifier: Apache-2.0
// What a program gets that says nothing of workers and rings, against programs that do: 8,192
// actors hand tokens on, and the rate is that of the messages by the device's own clock. Three
// patterns. `random`: to an actor drawn at random, with so many tokens in flight for each worker.
// `chains`: to the same place on the next worker, with one token for 64 actors. `hot spot`: at
// random, but each eighth time to one and the same actor. Every message is accounted for.
#include <denizen/actor/runtime.hpp>

#include "program.hpp"

#include <numeric>

namespace {

using namespace denizen;
using namespace denizen::bench;

enum class Pattern : uint32_t { random, chains, hot_spot };

struct Clear {
    uint32_t each; // actors of a worker
    uint32_t workers;
};
struct Go {
    Pattern pattern;
    uint32_t tokens; // of all actors together
    uint32_t hops;   // that each token makes
};
struct Token {
    Pattern pattern;
    uint32_t left;
};
struct Query {};
struct Tally {
    uint64_t handled;
    uint64_t finished;
    uint64_t begin;
    uint64_t end;
};

struct Walker {
    Tally seen{};
    uint32_t random = 0;
    uint32_t each = 0;
    uint32_t workers = 0;

    DENIZEN_HD void on(const Clear& m, auto& ctx)
    {
        each = m.each;
        workers = m.workers;
        random = index(ctx) * 2654435761u | 1;
        seen = {};
    }
    DENIZEN_HD void on(const Go& m, auto& ctx)
    {
        seen.begin = ctx.now_ns();
        const uint64_t first = uint64_t{m.tokens} * index(ctx) / (each * workers);
        const uint64_t last = uint64_t{m.tokens} * (index(ctx) + 1) / (each * workers);
        for (uint64_t t = first; t < last; ++t) hop(Token{m.pattern, m.hops}, ctx);
    }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        ++seen.handled;
        if (m.left != 0) {
            hop(m, ctx);
            return;
        }
        ++seen.finished;
        seen.end = ctx.now_ns();
    }
    DENIZEN_HD void on(const Query&, auto& ctx) { ctx.reply(seen); }

    DENIZEN_HD uint32_t index(auto& ctx) const { return ctx.worker() * each + ctx.self().local(); }
    DENIZEN_HD void hop(const Token& token, auto& ctx)
    {
        uint32_t worker = ctx.worker() + 1 == workers ? 0 : ctx.worker() + 1;
        uint32_t local = ctx.self().local();
        if (token.pattern != Pattern::chains) {
            random ^= random << 13; // Marsaglia's xorshift32
            random ^= random >> 17;
            random ^= random << 5;
            const bool hot = token.pattern == Pattern::hot_spot && random % 8 == 0;
            worker = hot ? 0 : static_cast<uint32_t>(uint64_t{random} * workers >> 32);
            local = hot ? 0 : random / 8 % each;
        }
        ctx.send(Address::actor(worker, local), Token{token.pattern, token.left - 1});
    }
};

using Walking = Program<Actors<Walker>, Messages<Clear, Go, Token, Query, Tally>>;

struct Load {
    Pattern pattern;
    const char* name;
    uint32_t tokens; // in flight for each worker; chains: of all
};

// Zero, and the runtime chooses.
struct Shape {
    uint32_t sms = 0;
    uint32_t per_sm = 0;
    uint32_t inbox = 0;
};

class Walk {
public:
    Walk(const Arguments& arguments, const Shape& shape, uint32_t actors)
        : quick_(arguments.quick), runtime_(arguments.device, options(arguments, shape))
    {
        workers_ = runtime_.description().workers;
        clear_ = {std::max(1u, actors / workers_), workers_};
        actors_ = runtime_.spawn<Walker>(clear_.each * workers_);
        for (const Address a : actors_)
            if (a.worker() >= workers_ || a.local() >= clear_.each)
                throw std::runtime_error("actors are not where their addresses are drawn");
    }

    void measure(const Load& load, const Json& params)
    {
        const uint32_t tokens =
            load.pattern == Pattern::chains ? load.tokens : load.tokens * workers_;
        Go go{load.pattern, tokens, 4};
        Case result(load.name, params, "M/s");
        result.verified = true;
        const double target_us = quick_ ? 1e4 : 5e4;
        for (int i = 0; i < 2; ++i) { // a warm-up that tells how many hops a sample needs
            const double rate = walk(go, result);
            go.hops = static_cast<uint32_t>(std::clamp(rate * target_us / tokens, 4.0, 1e5));
        }
        result.n = 0;
        const uint32_t repetitions = quick_ ? 3 : 7;
        Samples samples(repetitions);
        for (uint32_t i = 0; i < repetitions; ++i) samples.add(walk(go, result));
        result.print(samples);
    }

    const Description& description() const { return runtime_.description(); }
    void close() { runtime_.close(); }

private:
    static Options options(const Arguments& arguments, const Shape& shape)
    {
        Options o = arguments.options();
        if (shape.per_sm != 0) {
            o.sms = shape.sms;
            o.workers = shape.sms * shape.per_sm - (shape.per_sm >= 8 ? 1 : 0); // the monitor's
        }
        if (shape.inbox != 0) {
            o.inbox_slots = shape.inbox;
            o.outbox_slots = std::max(2048u, shape.inbox / 2);
        }
        return o;
    }

    // Messages per microsecond.
    double walk(const Go& go, Case& result)
    {
        runtime_.broadcast<Walker>(clear_);
        runtime_.drain();
        runtime_.broadcast<Walker>(go);
        runtime_.drain();
        Tally all{0, 0, ~uint64_t{0}, 0};
        for (const Tally& one : runtime_.ask_many<Tally>(actors_, Query{}, 60s)) {
            all.handled += one.handled;
            all.finished += one.finished;
            all.begin = std::min(all.begin, one.begin);
            all.end = std::max(all.end, one.end);
        }
        const uint64_t messages = uint64_t{go.tokens} * go.hops;
        result.verified &=
            all.handled == messages && all.finished == go.tokens && all.end > all.begin;
        result.n += messages;
        return static_cast<double>(messages) * 1e3 /
               static_cast<double>(std::max<uint64_t>(all.end - all.begin, 1));
    }

    bool quick_;
    Runtime<Walking> runtime_;
    uint32_t workers_ = 0;
    Clear clear_{};
    std::vector<Address> actors_;
};

std::string title(const Shape& shape)
{
    if (shape.per_sm == 0 && shape.inbox == 0) return "chosen";
    std::string text = shape.per_sm == 0
                           ? "chosen"
                           : std::to_string(shape.sms) + " SMs x " + std::to_string(shape.per_sm);
    if (shape.inbox != 0) text += ", inbox " + std::to_string(shape.inbox);
    return text;
}

void measure(const Arguments& arguments)
{
    std::vector<Shape> shapes{{}};
    if (arguments.gpu()) {
        const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
        for (const uint32_t share : {2u, 1u}) {
            for (const uint32_t per_sm : {1u, 4u, 8u}) shapes.push_back({sms / share, per_sm, 0});
        }
        shapes.push_back({sms / 4, 1, 1024}); // small, and what was chosen once
        shapes.push_back({sms, 4, 1024});
        if (!arguments.quick) shapes.push_back({sms, 4, 65536});
    }
    const uint32_t actors = arguments.gpu() ? 8192 : 512;
    bool told = false;
    for (const Shape& shape : shapes) {
        const Json params = Json().add("geometry", title(shape));
        Case arm("geometry", params);
        if (!arm.title().ends_with(arguments.only) && !arguments.wants(arm)) continue;
        std::fprintf(stderr, "%s\n", arm.title().c_str());
        try {
            Walk walk(arguments, shape, actors);
            const Description& d = walk.description();
            std::fprintf(stderr, "  %u workers, %u on an SM, clusters of %u, %.0f MB\n", d.workers,
                         d.per_sm, d.cluster, static_cast<double>(d.device_bytes) * 1e-6);
            if (!told) print_environment(environment(arguments, d));
            told = true;
            walk.measure({Pattern::chains, "chains", actors / 64}, params);
            walk.measure({Pattern::hot_spot, "hot spot", 16}, params);
            for (const uint32_t tokens : {1u, 8u, 64u, 256u, 1024u, 4096u, 8192u}) {
                Json with = params;
                walk.measure({Pattern::random, "random", tokens}, with.add("in flight", tokens));
            }
            walk.close();
        } catch (const Error& error) {
            // So many warps may need more registers than an SM has, and so many messages more room
            // than all rings and outboxes have.
            const bool known =
                error.code() == Errc::bad_argument || error.code() == Errc::exhausted;
            if (!known || !told) throw;
            std::fprintf(stderr, "  %s\n", error.what());
        }
    }
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure, true); }
