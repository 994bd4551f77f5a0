// SPDX-License-Identifier: Apache-2.0
// What a program gets that says nothing of workers and rings, against programs that do: 8,192
// actors hand tokens on, and the rate is that of the messages by the device's own clock. Three
// patterns. `random`: to an actor drawn at random, with so many tokens in flight for each worker.
// `chains`: to the same place on the next worker, with one token for 64 actors. `hot spot`: at
// random, but each eighth time to one and the same actor. Every message is accounted for.
//
// `of the best` is the chosen shape's rate, divided round by round by that of the shape whose
// median is the best of those that were told; `of its peak`, by that of its own best number in
// flight.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"

#include <algorithm>
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

    // One more sample of `result`. `hops`: what a sample takes; 0, and it is found.
    void measure(const Load& load, uint32_t& hops, Case& result, Samples& samples)
    {
        const uint32_t tokens =
            load.pattern == Pattern::chains ? load.tokens : load.tokens * workers_;
        Go go{load.pattern, tokens, 4};
        const double target_us = quick_ ? 1e4 : 2e4;
        const uint64_t counted = result.n;
        for (int i = hops == 0 ? 0 : 2; i < 2; ++i) { // a short walk, and one by its rate
            const double rate = walk(go, result);
            go.hops = hops = static_cast<uint32_t>(std::clamp(rate * target_us / tokens, 4.0, 1e5));
        }
        go.hops = hops;
        walk(go, result); // a warm-up
        result.n = counted;
        samples.add(walk(go, result));
    }

    const Description& description() const { return runtime_.description(); }
    void close() { runtime_.close(); }

private:
    static Options options(const Arguments& arguments, const Shape& shape)
    {
        Options o = options_of(arguments);
        if (shape.per_sm != 0) {
            o.sms = shape.sms;
            o.workers = shape.sms * shape.per_sm - (shape.per_sm >= 8 ? 1 : 0); // the monitor's
        }
        if (shape.inbox != 0) {
            o.inbox_slots = shape.inbox;
            o.outbox_slots = shape.inbox / 2;
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

// The loads of one shape, and what they made.
struct Arm {
    Shape shape;
    bool again = false;          // A/A
    size_t fitting = ~size_t{0}; // so many of the loads, as far as is known
    size_t at = 0;               // the load that it is under
    struct Row {
        Load load;
        Case result;
        Samples samples;
        uint32_t hops = 0;
    };
    std::vector<Row> rows = {};
};

double median(std::vector<double> values)
{
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

using Rows = std::vector<const Arm::Row*>;

// The row with the best median, of those as long as `row`; null without any.
const Arm::Row* best_of(const Rows& rows, const Arm::Row& row)
{
    const Arm::Row* best = nullptr;
    for (const Arm::Row* one : rows) {
        if (one->samples.size() != row.samples.size()) continue;
        if (best == nullptr || median(one->samples.values()) > median(best->samples.values()))
            best = one;
    }
    return best;
}

void print_share(const char* what, const Arm::Row& row, const Rows& others)
{
    const Arm::Row* const best = best_of(others, row);
    if (best == nullptr) return;
    Json params =
        row.load.pattern == Pattern::random ? Json().add("in flight", row.load.tokens) : Json();
    Case share(row.load.name + std::string(what), params, "x");
    share.n = row.result.n;
    share.verified = row.result.verified && best->result.verified;
    Samples samples(row.samples.size());
    for (size_t i = 0; i < row.samples.size(); ++i)
        samples.add(row.samples.values()[i] / best->samples.values()[i]);
    share.print(samples);
}

// What the first arm, whose shape was chosen, has of others and of itself.
void print_shares(const std::vector<Arm>& arms)
{
    for (size_t i = 0; i < arms[0].rows.size(); ++i) {
        const Arm::Row& row = arms[0].rows[i];
        Rows told;
        for (const Arm& arm : arms)
            if (arm.shape.per_sm != 0 && i < arm.rows.size()) told.push_back(&arm.rows[i]);
        print_share(", of the best", row, told);
        if (row.load.pattern != Pattern::random) continue;
        Rows own;
        for (const Arm::Row& one : arms[0].rows)
            if (one.load.pattern == Pattern::random) own.push_back(&one);
        print_share(", of its peak", row, own);
    }
}

// A program of this shape, under all loads.
void take_turn(const Arguments& arguments, Arm& arm, uint32_t actors, uint32_t rounds, bool& told)
{
    std::vector<Load> loads{{Pattern::chains, "chains", actors / 64},
                            {Pattern::hot_spot, "hot spot", 16}};
    for (const uint32_t tokens : {1u, 8u, 64u, 256u, 1024u, 4096u, 8192u})
        loads.push_back({Pattern::random, "random", tokens});
    std::fprintf(stderr, "%s\n", title(arm.shape).c_str());
    Walk walk(arguments, arm.shape, actors);
    const Description& d = walk.description();
    std::fprintf(stderr, "  %u workers, %u on an SM, clusters of %u, %.0f MB\n", d.workers,
                 d.per_sm, d.cluster, static_cast<double>(d.device_bytes) * 1e-6);
    if (!told) print_environment(environment(arguments, d));
    told = true;
    for (arm.at = 0; arm.at < std::min(loads.size(), arm.fitting); ++arm.at) {
        const size_t i = arm.at;
        if (i == arm.rows.size()) {
            Json params = Json().add("geometry", title(arm.shape));
            if (loads[i].pattern == Pattern::random) params.add("in flight", loads[i].tokens);
            Case result(loads[i].name, params, "M/s");
            result.verified = true;
            if (arm.again) result.arm = "A/A";
            arm.rows.push_back({loads[i], std::move(result), Samples(rounds)});
        }
        Arm::Row& row = arm.rows[i];
        walk.measure(loads[i], row.hops, row.result, row.samples);
    }
    walk.close();
}

void measure(const Arguments& arguments)
{
    std::vector<Arm> arms{{Shape{}}, {Shape{}, true}};
    if (arguments.gpu()) {
        const auto sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
        for (const uint32_t share : {2u, 1u}) {
            for (const uint32_t per_sm : {1u, 4u, 8u}) arms.push_back({{sms / share, per_sm, 0}});
        }
        arms.push_back({{sms / 4, 1, 1024}}); // small, and what was chosen once
        for (const uint32_t inbox : {1024u, 16384u}) arms.push_back({{0, 0, inbox}});
    }
    const uint32_t actors = arguments.gpu() ? 8192 : 512;
    const uint32_t rounds = arguments.quick ? 3 : 9;
    std::erase_if(arms, [&](const Arm& arm) {
        const Case named("geometry", Json().add("geometry", title(arm.shape)));
        return !named.title().ends_with(arguments.only) && !arguments.wants(named);
    });
    bool told = false;
    interleaved(rounds, arms.size(), [&](size_t i) {
        if (arms[i].fitting == 0) return;
        arms[i].at = 0;
        try {
            take_turn(arguments, arms[i], actors, rounds, told);
        } catch (const Error& error) {
            // So many warps may need more registers than an SM has, and so many messages more room
            // than all rings and outboxes have: the loads before go on.
            const bool known = error.code() == Errc::no_fit || error.code() == Errc::exhausted;
            if (!known || !told) throw;
            std::fprintf(stderr, "  %s\n", error.what());
            arms[i].fitting = arms[i].at;
            while (arms[i].rows.size() > arms[i].at) arms[i].rows.pop_back(); // ends: one less each
        }
    });
    for (const Arm& arm : arms)
        for (const Arm::Row& row : arm.rows) row.result.print(row.samples);
    print_shares(arms);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure, {.only = true}); }
