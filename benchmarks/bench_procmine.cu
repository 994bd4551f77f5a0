// SPDX-License-Identifier: Apache-2.0
// Mining a made log in the memory of where it is mined: the directly-follows graph with its
// frequencies and durations (exact median and 95th percentile), and that with the variants; by one
// thread, by all, and on a GPU, where the clock is the device's. What comes back is not timed. Each
// arm's first and last answer is compared with one thread's, and that, on a small log, with the
// plainest way of mining.
#include "program.hpp"

#include <denizen/procmine/generate.hpp>

#include "../apps/procmine/tests/plain.hpp"

#include "../apps/procmine/src/gpu.hpp"

#include <functional>
#include <memory>

namespace {

using namespace denizen;
using namespace denizen::bench;
using namespace denizen::procmine;

struct Arm {
    Case result;
    MineOptions options;
    std::function<Mined(const MineOptions&)> run;
    Samples samples;
};

bool plain_agrees()
{
    const Columns log = generate(50'000, 24, 2);
    return difference(mine(log.events(), {1, true, true}), plain_mine(log.events())).empty();
}

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
    const uint64_t events = arguments.quick ? 200'000 : arguments.gpu() ? 100'000'000 : 10'000'000;
    const Columns log = generate(events, 24, 1);
    const bool plain = plain_agrees();
    Json params;
    params.add("events", events).add("cases", log.case_count);

    std::vector<Arm> arms;
    const auto add = [&](const char* name, MineOptions options,
                         std::function<Mined(const MineOptions&)> run) -> Case& {
        arms.push_back({Case(name, params, "M/s"), options, std::move(run), Samples(64)});
        return arms.back().result;
    };
    const auto on_cpu = [&](const MineOptions& options) { return mine(log.events(), options); };
    const uint32_t threads = arguments.workers;
    std::vector<std::string> rivals{"graph, one thread"};
    if (arguments.gpu()) {
        const auto there = std::make_shared<GpuLog>(log.events(), arguments.device.ordinal);
        const auto on_gpu = [there](const MineOptions& options) { return there->mine(options); };
        rivals.push_back("graph, threads");
        add("graph", {0, true, false}, on_gpu).ratio_base = rivals;
        add("graph", {0, true, false}, on_gpu).arm = "A/A";
        add("graph and variants", {0, true, true}, on_gpu);
    }
    Case& all = add("graph, threads", {threads, true, false}, on_cpu);
    if (!arguments.gpu()) all.ratio_base = rivals;
    add("graph, one thread", {1, true, false}, on_cpu);
    if (!arguments.gpu()) {
        add("graph, one thread", {1, true, false}, on_cpu).arm = "A/A";
        add("graph and variants, threads", {threads, true, true}, on_cpu);
    }

    const Mined with_variants = mine(log.events(), {threads, true, true});
    Mined without = with_variants;
    without.variants.clear();
    without.paths.clear();
    without.case_variants.clear();
    const auto check = [&](Arm& arm, const Mined& found) {
        const Mined& expected = arm.options.variants ? with_variants : without;
        const std::string wrong = difference(found, expected);
        if (!wrong.empty())
            std::fprintf(stderr, "%s: %s\n", arm.result.name.c_str(), wrong.c_str());
        arm.result.verified = arm.result.verified && wrong.empty();
    };
    for (Arm& arm : arms) { // a warm-up
        arm.result.verified = plain;
        check(arm, arm.run(arm.options));
    }
    const uint32_t repetitions = arguments.quick ? 3 : 11;
    interleaved(repetitions, arms.size(), [&](size_t i) {
        const Mined found = arms[i].run(arms[i].options);
        arms[i].samples.add(static_cast<double>(events) / found.seconds * 1e-6);
        if (arms[i].samples.size() == repetitions) check(arms[i], found);
    });
    for (Arm& arm : arms) {
        arm.result.n = events * repetitions;
        arm.result.print(arm.samples);
    }
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
