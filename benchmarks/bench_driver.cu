// SPDX-License-Identifier: Apache-2.0
// What calls of the CUDA API cost on the host: copies, graphs, launches and everyday calls, each
// timed alone on an idle device. What they submit is counted in a second run under the lens, which
// denizen.lab.driver starts with `--counts`: then each call is made three times, and the moments
// around it are printed instead of times. In a third run, with `--raw` and under the lens too, the
// engines copy without the driver (engine_copies.hpp): those times are the device's own. With
// `--doorbells` it runs with and without the lens, which alone is what that measures
// (doorbell_loops.hpp); with `--observed` it launches when it is told to, and who watches it says
// how (observed.hpp). No other time is taken with the lens on.
//
// Without a GPU there is no driver to look at: a store is trapped as the lens traps a doorbell.
#include "program.hpp"

#include "trapped_store.hpp"
#if defined(__CUDACC__)
#include "doorbell_loops.hpp"
#include "driver_calls.hpp"
#include "engine_copies.hpp"
#include "observed_loops.hpp"
#endif

#include <denizen/base/atomic.hpp>

#include <cstring>

namespace {

using namespace denizen;
using namespace denizen::bench;

enum class Part { times, counts, raw, doorbells, observed };
Part part = Part::times;

void on_cpu(bool quick)
{
    const uint32_t rounds = quick ? 20 : 100;
    constexpr uint32_t stores = 1'000;
    // Each twice, by turns.
    const auto measure = [&](Case result, auto store, auto right) {
        Samples samples[2] = {Samples(rounds), Samples(rounds)};
        uint32_t value = 0;
        const auto once = [&] {
            const uint64_t begin = now_ns();
            for (uint32_t i = 0; i < stores; ++i) store(value++);
            return static_cast<double>(now_ns() - begin) * 1e-3 / stores;
        };
        once(); // a warm-up
        interleaved(rounds, 2, [&](size_t again) { samples[again].add(once()); });
        result.n = uint64_t{rounds} * stores;
        result.verified = right(value - 1, uint64_t{value});
        result.print(samples[0]);
        result.ratio_base.clear();
        result.arm = "A/A";
        result.print(samples[1]);
    };
    uint32_t word = 0;
    measure(
        Case("store"), [&](uint32_t value) { store<Scope::system>(&word, value); },
        [&](uint32_t last, uint64_t) { return word == last; });
#if defined(__x86_64__) && defined(__linux__)
    TrappedPage page;
    Case trapped("trapped store");
    trapped.ratio_base = {"store"};
    measure(
        trapped, [&](uint32_t value) { TrappedPage::store(page.shadow(), value); },
        [&](uint32_t last, uint64_t count) {
            return *page.real() == last && TrappedPage::traps() == count;
        });
#endif
}

#if defined(__CUDACC__)

void count(std::vector<DriverCall>& calls)
{
    constexpr uint32_t times = 3;
    for (DriverCall& one : calls) {
        std::vector<uint64_t> moments;          // begin, end of each call
        for (uint32_t i = 0; i <= times; ++i) { // the first is a warm-up
            if (one.prepare) one.prepare();
            if (!one.prepare) wait_until_idle();
            const uint64_t begin = now_ns();
            one.call();
            const uint64_t end = now_ns();
            wait_until_idle();
            if (i > 0) moments.insert(moments.end(), {begin, end});
        }
        Json line;
        line.add("counted", one.name).add("params", one.params).add("windows", moments);
        line.add("verified", one.verify());
        std::printf("%s\n", line.str().c_str());
        std::fflush(stdout);
    }
}

void time(std::vector<DriverCall>& calls, uint32_t rounds)
{
    std::erase_if(calls, [](const DriverCall& one) { return one.counted_only; });
    // A/A: every eighth call once more, at the end of the round.
    const size_t first = calls.size();
    for (size_t i = 0; i < first; i += 8) calls.push_back(calls[i]);
    const std::vector<Samples> none(calls.size(), Samples(rounds));
    std::vector<Samples> host = none, done = none, device = none;
    std::vector<char> right(calls.size(), 1);
    for (size_t i = 0; i < calls.size(); ++i) right[i] &= calls[i].verify();
    interleaved(rounds, calls.size(), [&](size_t i) {
        if (host[i].size() >= calls[i].most_rounds) return;
        if (calls[i].prepare) calls[i].prepare();
        if (!calls[i].prepare) wait_until_idle();
        const uint64_t begin = now_ns();
        calls[i].call();
        const uint64_t end = now_ns();
        wait_until_idle();
        host[i].add_ns_as_us(end - begin);
        if (!calls[i].device_us) return;
        done[i].add_ns_as_us(now_ns() - begin);
        device[i].add(calls[i].device_us());
    });
    for (size_t i = 0; i < calls.size(); ++i) {
        right[i] &= calls[i].verify();
        Case result{calls[i].name, calls[i].params};
        result.n = host[i].size();
        result.verified = right[i] != 0;
        if (i < first) result.ratio_base = calls[i].ratio_base;
        if (i >= first) result.arm = "A/A";
        result.print(host[i]);
        if (device[i].size() == 0) continue;
        result.ratio_base.clear();
        result.name = calls[i].name + ", until done";
        result.print(done[i]);
        result.name = calls[i].name + ", by events";
        result.print(device[i]);
    }
}

void on_gpu(bool quick)
{
    if (part == Part::raw) return engine_copies(quick);
    if (part == Part::doorbells) return doorbell_loops(quick);
    std::vector<DriverCall> calls = driver_calls(quick, part == Part::counts && !quick);
    if (part == Part::counts) {
        count(calls);
    } else {
        time(calls, quick ? 5 : 51);
    }
}

#endif

void measure(const Arguments& arguments)
{
#if defined(__CUDACC__)
    if (part == Part::observed) return observed_loops(); // whose answers are all that it prints
#endif
    print_environment(environment(arguments));
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        on_gpu(arguments.quick);
        return;
    }
#endif
    on_cpu(arguments.quick);
}

} // namespace

int main(int argc, char** argv)
{
    constexpr std::pair<const char*, Part> parts[] = {{"--counts", Part::counts},
                                                      {"--raw", Part::raw},
                                                      {"--doorbells", Part::doorbells},
                                                      {"--observed", Part::observed}};
    for (const auto& [word, chosen] : parts)
        if (argc > 1 && std::strcmp(argv[argc - 1], word) == 0) part = chosen;
    argc -= part != Part::times ? 1 : 0;
    return run_program(argc, argv, measure);
}
