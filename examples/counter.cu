// SPDX-License-Identifier: Apache-2.0
// The C++ API: a thousand counters, on the GPU if there is one and this file was compiled by nvcc,
// else on CPU threads. It is plain C++ too: `g++ -x c++ counter.cu` makes the CPU program.
#include <denizen/actor/runtime.hpp>

#include <cstdio>
#include <cstring>

namespace {

struct Tick {
    uint32_t n;
};
struct Ask {};
struct Total {
    uint64_t sum;
    uint32_t ticks;
};

struct Counter {
    uint64_t sum = 0;
    uint32_t ticks = 0;

    DENIZEN_HD void on(const Tick& m, auto&)
    {
        sum += m.n;
        ++ticks;
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Total{sum, ticks}); }
};

using Counting = denizen::Program<denizen::Actors<Counter>, denizen::Messages<Tick, Ask, Total>>;

int run(denizen::Device device)
{
    denizen::Runtime<Counting> rt(device);
    const std::vector<denizen::Address> counters = rt.spawn<Counter>(1000);

    rt.send(counters[7], Tick{5}); // one message
    const Total seventh = rt.ask<Total>(counters[7], Ask{});
    std::printf("counter 7: %llu\n", static_cast<unsigned long long>(seventh.sum));

    constexpr uint32_t count = 1'000'000; // a million, from one array
    std::vector<Tick> ticks(count);
    std::vector<denizen::Address> to(count);
    uint64_t expected = 5;
    for (uint32_t i = 0; i < count; ++i) {
        ticks[i].n = i % 10;
        to[i] = counters[i % counters.size()];
        expected += ticks[i].n;
    }
    rt.send_many(to.data(), ticks.data(), count);

    uint64_t sum = 0;
    for (const Total& t : rt.ask_many<Total>(counters, Ask{})) {
        sum += t.sum;
    }
    std::printf("%u ticks on %s, sum %llu, expected %llu\n", count, rt.description().device.c_str(),
                static_cast<unsigned long long>(sum), static_cast<unsigned long long>(expected));
    rt.close();
    return sum == expected ? 0 : 1;
}

} // namespace

int main(int argc, char** argv)
{
    const bool cpu = argc > 1 && std::strcmp(argv[1], "cpu") == 0;
    try {
        return run(cpu ? denizen::Device::cpu() : denizen::Device::automatic());
    } catch (const denizen::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
