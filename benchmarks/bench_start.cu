// SPDX-License-Identifier: Apache-2.0
// What it costs to have a runtime: the time from nothing to the first answer, the way off the GPU
// and back, and the memory it takes. The CUDA context exists before (one per process, made by
// whoever comes first); the programs compiled by NVRTC are measured from Python.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"

#include <optional>

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Ping {
    uint32_t number;
};
struct Pong {
    uint32_t number;
};
struct Echo {
    DENIZEN_HD void on(const Ping& m, auto& ctx) { ctx.reply(Pong{2 * m.number + 1}); }
};

using Echoing = Program<Actors<Echo>, Messages<Ping, Pong>>;

bool answers(Runtime<Echoing>& runtime, Address echo, uint32_t number)
{
    return runtime.ask<Pong>(echo, Ping{number}, 10s).number == 2 * number + 1;
}

// Construction, one actor, its first answer. Ends with the runtime closed again.
void start(const char* how, const Options& options, uint32_t repetitions)
{
    Samples samples[2] = {Samples(repetitions), Samples(repetitions)}; // and A/A
    Case result("start", Json().add("how", how), "ms");
    result.n = repetitions;
    result.verified = true;
    const auto once = [&](uint32_t i) {
        const uint64_t begin = now_ns();
        Runtime<Echoing> runtime(options.device, options);
        const bool right = answers(runtime, runtime.spawn<Echo>(), i);
        const uint64_t end = now_ns();
        result.verified &= right;
        runtime.close();
        return static_cast<double>(end - begin) * 1e-6;
    };
    once(0); // a warm-up
    uint32_t number = 0;
    interleaved(repetitions, 2, [&](size_t again) { samples[again].add(once(++number)); });
    result.print(samples[0]);
    result.arm = "A/A";
    result.print(samples[1]);
}

// Off the GPU and back by the next message, as many times.
void park_and_wake(const Options& options, uint32_t repetitions)
{
    Runtime<Echoing> runtime(options.device, options);
    const Address echo = runtime.spawn<Echo>();
    Samples park(repetitions);
    Samples wake(repetitions);
    bool left = true;
    bool right = true;
    for (uint32_t i = 0; i < repetitions; ++i) {
        right &= answers(runtime, echo, i);
        const uint64_t begin = now_ns();
        runtime.park();
        const uint64_t parked = now_ns();
        left &= runtime.parked();
        const uint64_t asked = now_ns();
        right &= answers(runtime, echo, i);
        const uint64_t end = now_ns();
        park.add_ns_as_us(parked - begin);
        wake.add_ns_as_us(end - asked);
    }
    // One launch at the start and one for each return.
    left &= runtime.stats().launches == repetitions + 1;
    Case parks("park");
    Case wakes("wake");
    parks.n = wakes.n = repetitions;
    parks.verified = wakes.verified = left && right;
    parks.print(park);
    wakes.print(wake);
    runtime.close();
}

void memory(const Options& options)
{
    Runtime<Echoing> runtime(options.device, options);
    const bool right = answers(runtime, runtime.spawn<Echo>(), 1);
    const Description& d = runtime.description();
    const auto print = [&](const char* name, uint64_t bytes) {
        Samples samples(1);
        samples.add(static_cast<double>(bytes) * 1e-6);
        Case result(name, Json(), "MB");
        result.n = 1;
        result.verified = right;
        result.print(samples);
    };
    if (d.on_gpu) print("device memory", d.device_bytes);
    print("host memory", d.host_bytes);
    runtime.close();
}

void measure(const Arguments& arguments)
{
    const uint32_t repetitions = arguments.quick ? 5 : 15;
    Options options = options_of(arguments);
    {
        const Runtime<Echoing> runtime(options.device, options);
        print_environment(environment(arguments, runtime.description()));
    }
    if (arguments.gpu()) {
        start("ahead of time", options, repetitions);
        park_and_wake(options, arguments.quick ? 20 : 200);
    }
    memory(options);
    options.device = Device::cpu();
    start("CPU", options, repetitions);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
