// SPDX-License-Identifier: Apache-2.0
// Where the time of a message goes, by the cycles of one SM (on the CPU: nanoseconds). An actor
// sends itself a message of 64 bytes over and over; its handler reads the clock when it begins and
// on both sides of the send. "sending" is between those two, "to the handler" from there to the
// next handler's begin: the end of a round, a look at the rings, taking the message, and finding
// its actor; "handler" is the rest, with the state where the times are kept. The clock's own
// readings are in all of them.
#include <denizen/actor/runtime.hpp>

#include "own_message.hpp"

#include "actor_program.hpp"

#include <array>

namespace denizen::bench {
namespace {

struct Begin {
    uint32_t laps;
};
struct Lap {
    uint32_t left;
    uint32_t sum;
    uint32_t word[7];
};
struct Times {
    uint64_t sending;
    uint64_t to_the_handler;
    uint64_t handler;
    uint32_t sum;
};

struct Runner {
    Times times{};
    uint64_t sent = 0; // when the last send ended
    Address asker;

    DENIZEN_HD void on(const Begin& m, auto& ctx)
    {
        times = {};
        asker = ctx.sender();
        ctx.send(ctx.self(), Lap{m.laps, 0, {}});
        sent = ticks();
    }
    DENIZEN_HD void on(const Lap& m, auto& ctx)
    {
        const uint64_t begin = ticks();
        times.to_the_handler += begin - sent;
        if (m.left == 0) {
            times.sum = m.sum;
            ctx.send(asker, times);
            return;
        }
        Lap next = m;
        next.sum += next.left--;
        const uint64_t before = ticks();
        ctx.send(ctx.self(), next);
        const uint64_t after = ticks();
        times.handler += before - begin;
        times.sending += after - before;
        sent = ticks();
        times.handler += sent - after;
    }
};

using Running = Program<Actors<Runner>, Messages<Begin, Lap, Times>>;

} // namespace

void measure_own_message(const Arguments& arguments)
{
    Options options = options_of(arguments);
    options.workers = arguments.gpu() ? options.workers : 1;
    Runtime<Running> runtime(arguments.device, options);
    const Address runner = runtime.spawn<Runner>();
    const uint32_t laps = arguments.quick ? 10'000 : 50'000;
    const uint32_t repetitions = arguments.quick ? 15 : 51;
    constexpr std::array<const char*, 4> parts = {"in all", "sending", "to the handler", "handler"};
    std::array<Case, 4> cases;
    std::array<Samples, 4> samples = {Samples(repetitions), Samples(repetitions),
                                      Samples(repetitions), Samples(repetitions)};
    for (size_t i = 0; i < parts.size(); ++i) {
        cases[i] = Case("message to itself", Json().add("part", parts[i]),
                        arguments.gpu() ? "cycles" : "ns");
        cases[i].n = uint64_t{laps} * repetitions;
        cases[i].verified = true;
    }
    for (uint32_t repetition = 0; repetition <= repetitions; ++repetition) { // the first warms up
        const Times t = runtime.ask<Times>(runner, Begin{laps}, 30s);
        const double lap[] = {static_cast<double>(t.sending + t.to_the_handler + t.handler) / laps,
                              static_cast<double>(t.sending) / laps,
                              static_cast<double>(t.to_the_handler) / laps,
                              static_cast<double>(t.handler) / laps};
        for (size_t i = 0; i < parts.size(); ++i) {
            cases[i].verified &= t.sum == static_cast<uint32_t>(uint64_t{laps} * (laps + 1) / 2);
            if (repetition != 0) samples[i].add(lap[i]);
        }
    }
    for (size_t i = 0; i < parts.size(); ++i) cases[i].print(samples[i]);
    runtime.close();
}

} // namespace denizen::bench
