// SPDX-License-Identifier: Apache-2.0
// Steps of a room of 64 to 512 cells a side in single precision: what denizen chooses, each of its
// methods, a plain sweep without what rooms have in a captured graph (rivals/plain_wave.cuh), and
// the copy of as many bytes as a step moves (12 for each cell: the pressure now and
// before are read, the next is written). On the CPU beside it the threads, and the loop that reads
// two arrays and writes one. Every method's field is compared with a plain loop's or, in large
// rooms, with that of the CPU's threads, which is. And how long a command takes until its effect
// has been seen by the host.
#include "program.hpp"

#include <denizen/group/group.hpp>
#include <denizen/wave/simulation.hpp>

#include "../apps/wave/src/planes.hpp"
#include "../apps/wave/src/sweep.hpp"
#include "../apps/wave/tests/reference.hpp"
#include "../tests/support/threads.hpp"

#include <functional>
#include <memory>

#if defined(__CUDACC__)
#include "rivals/plain_wave.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;
using namespace denizen::wave;

constexpr uint32_t checked_steps = 20;
constexpr uint32_t plain_cells = 64; // the largest room of the plain loop
constexpr double budget = 12;        // seconds of a room's rounds, of which an interval needs nine

Settings room_of(uint32_t cells)
{
    Settings room;
    for (uint32_t& n : room.cells) n = cells;
    return room;
}

// What the field is before the steps that are checked: sound everywhere.
std::vector<double> begin_of(uint32_t cells)
{
    std::vector<double> of_x(cells);
    std::vector<double> of_y(cells);
    std::vector<double> of_xz(size_t{cells} * cells);
    for (uint32_t i = 0; i < cells; ++i) {
        of_x[i] = std::sin(0.3 * i);
        of_y[i] = std::cos(0.2 * i);
        for (uint32_t x = 0; x < cells; ++x) {
            of_xz[size_t{i} * cells + x] = std::sin(0.25 * i + 0.1 * x);
        }
    }
    const uint64_t plane = uint64_t{cells} * cells;
    std::vector<double> field(plane * cells);
    by_planes(cells, plane, [&](uint32_t first, uint32_t end) {
        for (uint64_t i = first * plane; i < end * plane; ++i) {
            const uint64_t x = i % cells;
            field[i] = of_x[x] * of_y[i / cells % cells] + of_xz[i / plane * cells + x];
        }
    });
    return field;
}

struct Arm {
    Case result;
    std::function<double()> rate; // Mcells/s of one repetition
    Samples samples;
};

// Million elements per second of a[i] = b[i] + s a[i] by as many threads: 12 bytes for each.
double update_rate(float* a, const float* b, size_t n, uint32_t threads, uint32_t rounds)
{
    const uint64_t begin = now_ns();
    test::on_threads(threads, [&](uint32_t id) {
        const size_t low = n * id / threads;
        const size_t high = n * (id + 1) / threads;
        for (uint32_t i = 0; i < rounds; ++i) {
            stream(a + low, b + low, 0.5f, high - low);
        }
    });
    return static_cast<double>(n) * rounds / static_cast<double>(now_ns() - begin) * 1e3;
}

void measure_room(const Arguments& arguments, uint32_t cells)
{
    const Settings room = room_of(cells);
    const auto count = static_cast<double>(cells) * cells * cells;
    const std::vector<double> begin = begin_of(cells);
    const uint32_t threads =
        arguments.workers != 0 ? arguments.workers : static_cast<uint32_t>(allowed_cores().size());
    Json params;
    params.add("cells", cells);
    Json on_cpu = params;
    on_cpu.add("threads", threads);

    std::vector<double> expected;
    if (cells <= plain_cells) {
        Reference plain(room);
        plain.now = plain.before = begin;
        for (uint32_t i = 0; i < checked_steps; ++i) plain.step();
        expected = plain.now;
    }
    const auto right = [&](Simulation& simulation, Method method) {
        simulation.set_fields(begin, begin);
        simulation.run(checked_steps, method);
        const std::vector<double> field = simulation.field();
        if (expected.empty()) expected = field; // the CPU's threads, which come first
        return difference(field, expected) < 1e-5;
    };

    std::vector<Arm> arms;
    const auto add = [&](const char* what, const Json& with,
                         std::function<double()> rate) -> Case& {
        arms.push_back({Case(what, with, "Mcells/s"), std::move(rate), Samples(32)});
        arms.back().result.verified = true;
        return arms.back().result;
    };
    const auto simulated = [&](const char* what, const Json& with,
                               const std::shared_ptr<Simulation>& simulation, Method method,
                               uint32_t steps) -> Case& {
        Case& result = add(what, with, [=] {
            const Ran ran = simulation->run(steps, method);
            return count * ran.steps / ran.seconds * 1e-6;
        });
        result.verified = right(*simulation, method);
        return result;
    };
    const auto cpu = std::make_shared<Simulation>(room, denizen::Device::cpu(), Code{}, threads);
    // About half a second, or a tenth, at 500 Mcells/s.
    const auto cpu_steps =
        static_cast<uint32_t>(std::clamp((arguments.quick ? 5e7 : 2.5e8) / count, 2.0, 1000.0));
    simulated("CPU threads", on_cpu, cpu, Method::threads, cpu_steps).ratio_base = {
        "update of two arrays"};
    if (!arguments.gpu())
        simulated("CPU threads", on_cpu, cpu, Method::threads, cpu_steps).arm = "A/A";
    const auto elements = static_cast<size_t>(count);
    const auto a = on_huge_pages(elements * sizeof(float));
    const auto b = on_huge_pages(elements * sizeof(float));
    add("update of two arrays", on_cpu, [=] {
        return update_rate(static_cast<float*>(a.get()), static_cast<const float*>(b.get()),
                           elements, threads, cpu_steps);
    });
#if defined(__CUDACC__)
    std::vector<std::shared_ptr<DeviceBuffer<float>>> arrays;
    std::shared_ptr<OwnStream> stream;
    if (arguments.gpu()) {
        const auto steps = static_cast<uint32_t>(
            std::clamp((arguments.quick ? 2e9 : 2e10) / count, 20.0, 20'000.0));
        const auto one = std::make_shared<Simulation>(room, arguments.device);
        std::fprintf(stderr, "%u: auto is %s\n", cells, to_string(one->chosen()));
        simulated("auto", params, one, Method::automatic, steps).ratio_base = {
            "graph", "launches", "plain graph", "copy", "CPU threads"};
        simulated("auto", params, one, Method::automatic, steps).arm = "A/A";
        for (const Method method : {Method::launches, Method::graph, Method::tiles, Method::deep,
                                    Method::pass2, Method::pass4}) {
            try {
                Case& usual = simulated(to_string(method), params, one, method, steps);
                if (method != Method::tiles && method != Method::deep) continue;
                // What the hand-overs cost.
                Settings in_one = room;
                in_one.breath = std::chrono::microseconds(0);
                const std::string name = std::string(to_string(method)) + ", one kernel for a run";
                usual.ratio_base = {name};
                simulated(name.c_str(), params,
                          std::make_shared<Simulation>(in_one, arguments.device), method, steps);
            } catch (const Error& error) {
                if (error.code() != Errc::bad_argument) throw;
                arms.pop_back(); // the room is too large for tiles
                std::fprintf(stderr, "%u: %s\n", cells, error.what());
            }
        }
        const auto plain = std::make_shared<PlainWave>(cells);
        const bool plain_right = plain->right();
        add("plain graph", params, [=] { return plain->rate(steps); }).verified = plain_right;
        int gpus = 0;
        check_cuda(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
        for (int slabs = 2; cells >= 256 && slabs <= std::min(gpus, 8); slabs *= 2) {
            Json several = params;
            several.add("gpus", slabs);
            for (const Method method : {Method::graph, Method::pass2, Method::pass4}) {
                simulated(to_string(method), several,
                          std::make_shared<Simulation>(room, arguments.device, compiled_code(), 0,
                                                       slabs, group::compiled_code()),
                          method, steps);
            }
        }
        stream = std::make_shared<OwnStream>();
        for (int i = 0; i < 2; ++i) {
            arrays.push_back(std::make_shared<DeviceBuffer<float>>(static_cast<size_t>(count)));
        }
        add("copy", params, [=] { // bytes read and written, 12 of them for a cell
            const auto copy = [&] {
                check_cuda(cudaMemcpyAsync(arrays[0]->get(), arrays[1]->get(),
                                           static_cast<size_t>(count) * sizeof(float),
                                           cudaMemcpyDeviceToDevice, *stream),
                           "cudaMemcpyAsync");
            };
            copy();
            stream->synchronize();
            const uint64_t from = now_ns();
            constexpr int rounds = 20;
            for (int i = 0; i < rounds; ++i) copy();
            stream->synchronize();
            return count * rounds * 8 / 12 / static_cast<double>(now_ns() - from) * 1e3;
        });
    }
#endif
    if (cells <= plain_cells) {
        simulated("CPU tiles", on_cpu,
                  std::make_shared<Simulation>(room, denizen::Device::cpu(), Code{}, threads),
                  Method::tiles, arguments.quick ? 20 : 100);
    }
    for (Arm& arm : arms) arm.rate(); // a warm-up
    interleaved(
        arguments.quick ? 3 : 9, arms.size(),
        [&](size_t i) { arms[i].samples.add(arms[i].rate()); }, budget);
    for (Arm& arm : arms) {
        arm.result.n = arm.samples.size();
        arm.result.print(arm.samples);
    }
}

// From the call to the answer that shows what the command has done: a cell that had a pressure
// becomes an obstacle, and is read in front of the same step.
void measure_steering(const Arguments& arguments)
{
    constexpr uint32_t cells = 64;
    const uint32_t rounds = arguments.quick ? 50 : 400;
    Simulation simulation(room_of(cells), arguments.device, compiled_code(), arguments.workers);
    const std::vector<double> begin = begin_of(cells);
    simulation.set_fields(begin, begin);
    const uint32_t timed = arguments.gpu() ? 20'000 : 50;
    const double step_us = simulation.run(timed).seconds / timed * 1e6;
    simulation.start(1u << 30);
    Case result("steering");
    result.ratio_base = {"two steps and 5 us"};
    result.verified = true;
    Samples samples(rounds);
    for (uint32_t i = 0; i < rounds; ++i) {
        const auto x = static_cast<int32_t>(i % cells);
        const auto y = static_cast<int32_t>(i / cells);
        Request read;
        read.act = Act::read;
        read.edit.box = {{x, y, 32}, {x + 1, y + 1, 33}};
        Request change = read;
        change.act = Act::cells;
        change.edit.cell = static_cast<uint32_t>(Cell::obstacle);
        std::vector<double> before;
        std::vector<double> after;
        simulation.command({read}, &before);
        const uint64_t from = now_ns();
        simulation.command({change, read}, &after);
        samples.add_ns_as_us(now_ns() - from);
        result.verified &= before[0] != 0 && after[0] == 0;
    }
    simulation.command({Request{}});
    simulation.finish();
    result.n = rounds;
    result.print(samples);
    Case limit("two steps and 5 us");
    limit.n = timed;
    limit.verified = true;
    Samples bound(1);
    bound.add(2 * step_us + 5);
    limit.print(bound);
}

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
    for (const uint32_t cells : arguments.gpu()   ? std::vector<uint32_t>{64, 128, 256, 512}
                                : arguments.quick ? std::vector<uint32_t>{64}
                                                  : std::vector<uint32_t>{64, 256}) {
        measure_room(arguments, cells);
    }
    measure_steering(arguments);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
