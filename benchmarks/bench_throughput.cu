// SPDX-License-Identifier: Apache-2.0
// Many small pieces of work, after the two experiments of GROSR. Pairs: step one produces
// i, step two, which depends on it, writes 2 * i + 1 to data[i]. Tasks: results[i] = 2 * i. The
// resident program gets every pair and every task as a message from one host thread; the rivals are
// launches, graphs, and the fused kernel that is the right thing where the work is uniform and
// known beforehand. Every element is checked after every repetition, with the clock stopped.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"

#include <functional>
#include <memory>

#if defined(__CUDACC__)
#include "rivals/tasks.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

constexpr uint32_t most_tasks = 1'000'000;
constexpr uint32_t most_pairs = 50'000;
constexpr uint32_t tasks_in_eight = 8;

struct Setup {
    uint32_t* data;
    Address peer;
};
struct Task {
    uint32_t i;
};
struct EightTasks { // any eight, each named
    uint32_t i[tasks_in_eight];
};
struct Pair {
    uint32_t i;
};
struct Step {
    uint32_t i;
    uint32_t value;
    Address asker;
};
struct Done {
    uint32_t value;
};

struct Tasker {
    uint32_t* data = nullptr;
    DENIZEN_HD void on(const Setup& m, auto& ctx)
    {
        data = m.data;
        ctx.reply(Done{0});
    }
    DENIZEN_HD void on(const Task& m, auto&) { data[m.i] = 2 * m.i; }
    DENIZEN_HD void on(const EightTasks& m, auto&)
    {
        for (uint32_t k = 0; k < tasks_in_eight; ++k) data[m.i[k]] = 2 * m.i[k];
    }
};

// Step one keeps i in its own state and hands it on in the message, which is how one actor's work
// depends on another's. (Handed on through memory it would need a fence on either side, each longer
// than the message's way.)
struct First {
    uint32_t value = 0;
    Address peer;
    DENIZEN_HD void on(const Setup& m, auto& ctx)
    {
        peer = m.peer;
        ctx.reply(Done{0});
    }
    DENIZEN_HD void on(const Pair& m, auto& ctx)
    {
        value = m.i;
        ctx.send(peer, Step{m.i, value, ctx.sender()});
    }
};

// On another worker than its First. If the host asked, it answers with the value it computed.
struct Second {
    uint32_t* data = nullptr;
    DENIZEN_HD void on(const Setup& m, auto& ctx)
    {
        data = m.data;
        ctx.reply(Done{0});
    }
    DENIZEN_HD void on(const Step& m, auto& ctx)
    {
        const uint32_t value = 2 * m.value + 1;
        data[m.i] = value;
        if (m.asker.is_reply_cell()) ctx.send(m.asker, Done{value});
    }
};

using Working =
    Program<Actors<Tasker, First, Second>, Messages<Setup, Task, EightTasks, Pair, Step, Done>>;

// The array that the actors fill. On the GPU it is Work's plain device memory; after drain() the
// workers' stores are in the L2 cache, from which the copy of verify() is made beside the resident
// kernel.
#if defined(__CUDACC__)
struct DeviceArray : Work {
    using Work::Work;
};
#endif
class HostArray {
public:
    HostArray(uint32_t n, uint32_t add) : add_(add), values_(n) {}
    uint32_t* data() { return values_.data(); }
    void reset() { std::fill(values_.begin(), values_.end(), ~0u); }
    bool verify(uint32_t count) const
    {
        for (uint32_t i = 0; i < values_.size(); ++i)
            if (values_[i] != (i < count ? 2 * i + add_ : ~0u)) return false;
        return true;
    }

private:
    uint32_t add_;
    std::vector<uint32_t> values_;
};

// What the threads of this process have spent on cores, those that spin included.
double processor_us_so_far()
{
    timespec spent{};
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0) {
        throw std::runtime_error("the system does not tell the process's time");
    }
    return static_cast<double>(spent.tv_sec) * 1e6 + static_cast<double>(spent.tv_nsec) * 1e-3;
}

// One way of doing the first `count` pieces.
struct Arm {
    Case result;
    Samples samples;
    uint32_t count;
    std::function<void()> reset;
    std::function<bool(uint32_t)> work; // whether what the host saw was right
    std::function<bool(uint32_t)> verify;
    bool right = true;
    Samples processor_us{64}; // of all of the process's threads, a pair

    bool is_rate() const { return result.unit == "M/s"; }
    void turn(bool counts)
    {
        reset();
        const double busy = processor_us_so_far();
        const uint64_t begin = now_ns();
        right &= work(count);
        const double us = static_cast<double>(now_ns() - begin) * 1e-3;
        const double spent = processor_us_so_far() - busy;
        right &= verify(count);
        if (!counts) return;
        samples.add(is_rate() ? count / us : us / count);
        processor_us.add(spent / count);
    }
};

class Bench {
public:
    explicit Bench(const Arguments& arguments)
        : repetitions_(arguments.quick ? 5 : 11), quick_(arguments.quick)
    {
    }

    template <class Array, class Way>
    Arm& add(const std::string& name, uint32_t n, uint32_t count, Array& array, Way way,
             Json params)
    {
        const bool pair = name.starts_with("pair");
        params.add("n", n);
        if (count < n) params.add("timed", count);
        arms_.push_back({Case(name, params, pair ? "us" : "M/s"), Samples(repetitions_), count,
                         [&array] { array.reset(); }, way,
                         [&array](uint32_t c) { return array.verify(c); }});
        return arms_.back();
    }

    // A rival's way, for every n; at most `most` pieces of it are timed where it is slow.
    template <class Rival, class Way>
    void rival(const std::string& name, const std::vector<uint32_t>& ns, uint32_t most,
               Rival& rival, Way way)
    {
        for (const uint32_t n : ns)
            add(
                name, n, std::min(n, quick_ ? most / 10 : most), rival,
                [&rival, way](uint32_t count) {
                    way(rival, count);
                    return true;
                },
                Json());
    }

    void run()
    {
        for (Arm& arm : arms_) arm.turn(false);
        interleaved(repetitions_, arms_.size(), [&](size_t i) { arms_[i].turn(true); });
        for (Arm& arm : arms_) {
            arm.result.n = uint64_t{arm.count} * repetitions_;
            arm.result.verified = arm.right;
            arm.result.print(arm.samples);
            if (arm.is_rate() || !arm.result.arm.empty()) continue;
            Case host(arm.result.name + ", host's processor time", arm.result.params);
            host.n = arm.result.n;
            host.verified = arm.right;
            host.print(arm.processor_us);
        }
    }

private:
    uint32_t repetitions_;
    bool quick_;
    std::vector<Arm> arms_;
};

// What it takes to know that nothing is under way, where nothing is.
void drain(Runtime<Working>& runtime, uint32_t repetitions)
{
    Samples samples(repetitions);
    for (uint32_t i = 0; i < repetitions; ++i) {
        const uint64_t begin = now_ns();
        runtime.drain();
        samples.add_ns_as_us(now_ns() - begin);
    }
    Case result("drain, nothing under way", Json(), "us");
    result.n = repetitions;
    result.verified = runtime.stats().errors == 0;
    result.print(samples);
}

template <class Array>
void resident(const Arguments& arguments, Bench& bench, const std::vector<uint32_t>& pairs,
              const std::vector<uint32_t>& tasks, Array& pair_array, Array& task_array)
{
    Runtime<Working> runtime(arguments.device, options_of(arguments));
    print_environment(environment(arguments, runtime.description()));
    // Enough actors that each lane of a warp has one of its own.
    const uint32_t actors = runtime.description().workers * 32;
    const std::vector<Address> taskers = runtime.spawn<Tasker>(actors);
    const std::vector<Address> firsts = runtime.spawn<First>(actors);
    const std::vector<Address> seconds = runtime.spawn<Second>(actors);
    for (uint32_t a = 0; a < actors; ++a) {
        runtime.ask<Done>(taskers[a], Setup{task_array.data(), host});
        runtime.ask<Done>(firsts[a], Setup{pair_array.data(), seconds[(a + 1) % actors]});
        runtime.ask<Done>(seconds[a], Setup{pair_array.data(), host});
    }
    // The work lies ready, in turn for all actors.
    std::vector<Address> to_tasker(most_tasks);
    std::vector<Address> to_first(most_pairs);
    std::vector<Task> single(most_tasks);
    std::vector<EightTasks> eight(most_tasks / tasks_in_eight);
    std::vector<Pair> pair(most_pairs);
    for (uint32_t i = 0; i < most_tasks; ++i) {
        to_tasker[i] = taskers[i % actors];
        single[i] = {i};
        eight[i / tasks_in_eight].i[i % tasks_in_eight] = i;
    }
    for (uint32_t i = 0; i < most_pairs; ++i) {
        to_first[i] = firsts[i % actors];
        pair[i] = {i};
    }
    const auto bases = [&](std::vector<std::string> names) {
        return arguments.gpu() ? names : std::vector<std::string>{};
    };
    for (const uint32_t n : pairs) {
        const auto one_at_a_time = [&](uint32_t count) {
            bool right = true;
            for (uint32_t i = 0; i < count; ++i)
                right &= runtime.ask<Done>(firsts[0], pair[i]).value == 2 * i + 1;
            return right;
        };
        const auto pipelined = [&](uint32_t count) {
            runtime.send_many(to_first.data(), pair.data(), count);
            runtime.drain();
            return true;
        };
        for (const char* again : {"", "A/A"}) {
            Arm& arm = bench.add("pair, one at a time", n, arguments.quick ? std::min(n, 5000u) : n,
                                 pair_array, one_at_a_time, Json());
            arm.result.arm = again;
            if (*again == 0)
                arm.result.ratio_base = bases({"pair, two launches + syncs", "pair, graph"});
        }
        bench.add("pair, pipelined", n, n, pair_array, pipelined, Json()).result.ratio_base =
            bases({"pair, batched", "pair, bulk"});
    }
    for (const uint32_t n : tasks) {
        const auto one_per_message = [&](uint32_t count) {
            runtime.send_many(to_tasker.data(), single.data(), count);
            runtime.drain();
            return true;
        };
        const auto eight_per_message = [&](uint32_t count) {
            runtime.send_many(to_tasker.data(), eight.data(), count / tasks_in_eight);
            runtime.drain();
            return true;
        };
        const auto rivals = bases({"tasks, sync", "tasks, batched", "tasks, graph", "tasks, bulk"});
        bench
            .add("tasks, resident", n, n, task_array, one_per_message,
                 Json().add("tasks_per_message", 1))
            .result.ratio_base = rivals;
        bench
            .add("tasks, resident", n, n, task_array, eight_per_message,
                 Json().add("tasks_per_message", tasks_in_eight))
            .result.ratio_base = rivals;
    }
    bench.run();
    drain(runtime, arguments.quick ? 100 : 1'000);
    runtime.close();
}

void measure(const Arguments& arguments)
{
    const std::vector<uint32_t> pairs{100, 1'000, 10'000, most_pairs};
    const std::vector<uint32_t> tasks{1'000, 10'000, 100'000, most_tasks};
    Bench bench(arguments);
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        // Before the runtime, and destroyed after it: see rivals/cuda.cuh.
        PairWork p(most_pairs);
        TaskWork t(most_tasks);
        DeviceArray pair_array(most_pairs, 1);
        DeviceArray task_array(most_tasks, 0);
        bench.rival("pair, two launches + syncs", pairs, most_pairs, p,
                    [](PairWork& w, uint32_t count) {
                        for (uint32_t i = 0; i < count; ++i) w.two_syncs(i);
                    });
        bench.rival("pair, graph", pairs, most_pairs, p, [](PairWork& w, uint32_t count) {
            for (uint32_t i = 0; i < count; ++i) w.graph_sync();
        });
        bench.rival("pair, batched", pairs, most_pairs, p,
                    [](PairWork& w, uint32_t count) { w.batched(count); });
        bench.rival("pair, bulk", pairs, 10 * most_pairs, p,
                    [](PairWork& w, uint32_t count) { w.bulk(count); });
        bench.rival("tasks, sync", tasks, 20'000, t,
                    [](TaskWork& w, uint32_t count) { w.synchronous(count); });
        bench.rival("tasks, batched", tasks, 100'000, t,
                    [](TaskWork& w, uint32_t count) { w.batched(count); });
        bench.rival("tasks, graph", tasks, 10 * most_tasks, t,
                    [](TaskWork& w, uint32_t count) { w.graph(count); });
        bench.rival("tasks, bulk", tasks, 10 * most_tasks, t,
                    [](TaskWork& w, uint32_t count) { w.bulk(count); });
        resident(arguments, bench, pairs, tasks, pair_array, task_array);
        return;
    }
#endif
    HostArray pair_array(most_pairs, 1);
    HostArray task_array(most_tasks, 0);
    resident(arguments, bench, pairs, tasks, pair_array, task_array);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
