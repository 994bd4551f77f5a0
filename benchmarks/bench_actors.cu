// SPDX-License-Identifier: Apache-2.0
// What it costs to have an actor, as the host sees it: one spawned, many at once, one restarted.
// Spawn and restart return when they are done, so each is a round trip to a worker, and stands
// beside one: an ask. Every actor is asked for its address and its first state. Beside these: what
// a stamp of the clock costs that traced messages carry (clocks.cu), what failures cost
// (supervised.cu), and what a program costs to keep in a file (snapshots.cu).
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"
#include "clocks.hpp"
#include "snapshots.hpp"
#include "supervised.hpp"

#include <bit>

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Change {
    uint32_t state;
};
struct Query {};
struct Answer {
    uint32_t self;
    uint32_t state;
};

constexpr uint32_t born = 0x600dbabe;

struct Cell {
    uint32_t state = born;
    DENIZEN_HD void on(const Change& m, auto&) { state = m.state; }
    DENIZEN_HD void on(const Query&, auto& ctx) { ctx.reply(Answer{ctx.self().value, state}); }
};

using Living = Program<Actors<Cell>, Messages<Change, Query, Answer>>;

bool is_born(const Answer& answer, Address cell)
{
    return answer.self == cell.value && answer.state == born;
}

bool all_are_born(Runtime<Living>& runtime, const std::vector<Address>& cells)
{
    const std::vector<Answer> answers = runtime.ask_many<Answer>(cells, Query{}, 60s);
    for (size_t i = 0; i < cells.size(); ++i)
        if (!is_born(answers[i], cells[i])) return false;
    return true;
}

void spawn_one(const Arguments& arguments)
{
    const uint32_t rounds = arguments.quick ? 2'000 : 20'000;
    Runtime<Living> runtime(arguments.device, options_of(arguments));
    print_environment(environment(arguments, runtime.description()));
    std::vector<Address> cells;
    cells.reserve(2 * size_t{rounds});
    Samples spawns[2] = {Samples(rounds), Samples(rounds)};
    Samples asks(2 * size_t{rounds});
    bool answered = true;
    for (uint32_t i = 0; i < 2 * rounds; ++i) {
        const uint64_t begin = now_ns();
        const Address cell = runtime.spawn<Cell>();
        const uint64_t spawned = now_ns();
        const Answer answer = runtime.ask<Answer>(cell, Query{}, 10s);
        const uint64_t end = now_ns();
        // The two arms take turns by a sequence of no period (Thue and Morse's): workers have one.
        spawns[std::popcount(i) % 2].add_ns_as_us(spawned - begin);
        asks.add_ns_as_us(end - spawned);
        answered &= is_born(answer, cell);
        cells.push_back(cell);
    }
    const bool right = all_are_born(runtime, cells);
    runtime.close();
    for (const char* arm : {"", "A/A"}) {
        Case spawn("spawn");
        const Samples& samples = spawns[*arm == 0 ? 0 : 1];
        spawn.n = samples.size();
        spawn.verified = right;
        spawn.arm = arm;
        if (*arm == 0) spawn.ratio_base = {"ask"};
        spawn.print(samples);
    }
    Case ask("ask");
    ask.n = asks.size();
    ask.verified = answered;
    ask.print(asks);
}

// In a program of its own each time: an actor's place is not used again.
void spawn_at_once(const Arguments& arguments, uint32_t actors)
{
    const uint32_t repetitions = arguments.quick ? 3 : 11;
    Samples samples(repetitions);
    Case result("spawn at once", Json().add("actors", actors), "ms");
    result.n = uint64_t{actors} * repetitions;
    result.verified = true;
    for (uint32_t i = 0; i < repetitions; ++i) {
        Runtime<Living> runtime(arguments.device, options_of(arguments));
        runtime.spawn<Cell>();
        const uint64_t begin = now_ns();
        const std::vector<Address> cells = runtime.spawn<Cell>(actors);
        samples.add(static_cast<double>(now_ns() - begin) * 1e-6);
        result.verified &= cells.size() == actors && all_are_born(runtime, cells);
        runtime.close();
    }
    result.print(samples);
}

void restart(const Arguments& arguments)
{
    const uint32_t rounds = arguments.quick ? 2'000 : 20'000;
    Runtime<Living> runtime(arguments.device, options_of(arguments));
    const std::vector<Address> cells = runtime.spawn<Cell>(64);
    Samples restarts[2] = {Samples(rounds), Samples(rounds)};
    bool right = true;
    for (uint32_t i = 0; i < 2 * rounds; ++i) {
        const Address cell = cells[i % cells.size()];
        runtime.send(cell, Change{i});
        right &= runtime.ask<Answer>(cell, Query{}, 10s).state == i;
        const uint64_t begin = now_ns();
        runtime.restart(cell, 10s);
        restarts[std::popcount(i) % 2].add_ns_as_us(now_ns() - begin);
        right &= is_born(runtime.ask<Answer>(cell, Query{}, 10s), cell);
    }
    for (uint32_t i = 0; i < cells.size(); ++i) // each once in a round, and born once
        right &= runtime.inspect(cells[i]).incarnation ==
                 1 + 2 * rounds / cells.size() + (i < 2 * rounds % cells.size() ? 1 : 0);
    runtime.close();
    for (const char* arm : {"", "A/A"}) {
        Case result("restart");
        const Samples& samples = restarts[*arm == 0 ? 0 : 1];
        result.n = samples.size();
        result.verified = right;
        result.arm = arm;
        if (*arm == 0) result.ratio_base = {"ask"};
        result.print(samples);
    }
}

void measure(const Arguments& arguments)
{
    spawn_one(arguments);
    spawn_at_once(arguments, 10'000);
    spawn_at_once(arguments, 100'000);
    restart(arguments);
    measure_clocks(arguments);
    measure_supervised(arguments);
    measure_snapshots(arguments);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
