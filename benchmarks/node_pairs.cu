// SPDX-License-Identifier: Apache-2.0
// Two nodes busy with each other: actors on one and on the other pass tokens to and fro, many at a
// time. The rate is that of all messages of both ways, from the host's first word until it knows
// that all is quiet. Every token and every message is accounted for, and took the route between
// nodes.
#include "node_pairs.hpp"

#include "actor_program.hpp"
#include "route_counts.hpp"

namespace denizen::bench {
namespace {

struct Go {
    Address partner;
    uint32_t tokens;
    uint32_t hops; // that each token makes
};
struct Token {
    uint32_t left; // hops to go
};
struct Query {};
struct Tally {
    uint64_t handled;
    uint64_t finished;
};

struct Partner {
    Tally seen{};

    DENIZEN_HD void on(const Go& m, auto& ctx)
    {
        for (uint32_t t = 0; t < m.tokens; ++t) ctx.send(m.partner, Token{m.hops - 1});
    }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        ++seen.handled;
        if (m.left != 0) {
            ctx.reply(Token{m.left - 1});
        } else {
            ++seen.finished;
        }
    }
    DENIZEN_HD void on(const Query&, auto& ctx)
    {
        const Tally all = seen;
        seen = {};
        ctx.reply(all);
    }
};

using Passing = Program<Actors<Partner>, Messages<Go, Token, Query, Tally>>;

} // namespace

void measure_node_pairs(const Arguments& arguments, uint32_t nodes)
{
    Options options = options_of(arguments);
    options.nodes = nodes;
    if (!arguments.gpu()) options.workers = 1;
    Runtime<Passing> runtime(arguments.device, options);
    // A partner for each worker of a node, but not more than the host can start at once.
    const uint32_t pairs =
        std::min(std::max(runtime.description().workers / nodes, 1u), arguments.gpu() ? 64u : 1u);
    std::vector<std::vector<Address>> on(nodes);
    for (uint32_t n = 0; n < nodes; ++n) on[n] = runtime.spawn<Partner>(pairs, on_node(n));
    const uint32_t tokens = 8; // of each pair
    const uint32_t repetitions = arguments.quick ? 3 : 11;
    for (uint32_t from = 0; from < nodes; ++from) {
        for (uint32_t to = 0; to < nodes; ++to) {
            if (from == to) continue;
            Case result("to and fro",
                        Json().add("from node", from).add("to node", to).add("pairs", pairs),
                        "M/s");
            result.verified = true;
            Samples samples(repetitions);
            uint32_t hops = 100;
            const auto run = [&] {
                std::vector<Go> go;
                for (uint32_t p = 0; p < pairs; ++p) go.push_back({on[to][p], tokens, hops});
                uint64_t ns = 0;
                const auto sent = sent_during(runtime, [&] {
                    const uint64_t begin = now_ns();
                    runtime.send_many(on[from].data(), go.data(), pairs);
                    runtime.drain();
                    ns = now_ns() - begin;
                });
                const uint64_t messages = uint64_t{pairs} * tokens * hops;
                Tally all{};
                for (const uint32_t node : {from, to}) {
                    for (const Tally& one : runtime.ask_many<Tally>(on[node], Query{}, 60s)) {
                        all.handled += one.handled;
                        all.finished += one.finished;
                    }
                }
                result.verified &= all.handled == messages &&
                                   all.finished == uint64_t{pairs} * tokens &&
                                   sent[static_cast<uint32_t>(Route::peer)] == messages;
                return static_cast<double>(messages) * 1e3 / static_cast<double>(ns);
            };
            // A warm-up that tells how many hops take 10 ms.
            hops = static_cast<uint32_t>(
                std::clamp(run() * 1e4 / (double{tokens} * pairs), 100.0, 1e5));
            for (uint32_t i = 0; i < repetitions; ++i) samples.add(run());
            result.n = uint64_t{pairs} * tokens * hops * repetitions;
            result.print(samples);
        }
    }
    runtime.close();
}

} // namespace denizen::bench
