// SPDX-License-Identifier: Apache-2.0
// Dynamic tasks: independent ones of a thread and of a warp that tasks have spawned into the
// queues, a fork-join tree, and a chain from SM to SM. All are seen by the host: from spawn() to
// the return of wait() or of the future. A sample is one run of thousands to millions of tasks; the
// results of every one are checked outside of it.
//
// Beside them on a GPU: the same work by launching, in one process and in turns, each while nothing
// of the other is on the GPU. Bulk and level by level are what to use where the work is uniform and
// known beforehand.
#include "program.hpp"

#include "task_types.hpp"

#include <denizen/task/runtime.hpp>

#include <cstring>
#include <functional>

#if defined(__CUDACC__)
#include "rivals/device_tasks.hpp"
#include "rivals/tasks.cuh"
#include "rivals/trees.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;
using namespace std::chrono_literals;

constexpr uint32_t untouched = 0xffffffff;

double seconds_of(const std::function<void()>& body)
{
    const uint64_t begin = now_ns();
    body();
    return static_cast<double>(now_ns() - begin) * 1e-9;
}

// One way of doing one kind of work. run() returns the sample and says whether the work was right.
struct Arm {
    Case result;
    uint64_t events;
    std::function<double(bool& right)> run;
    Samples samples;
};

void take_turns(std::vector<Arm>& arms, uint32_t repetitions)
{
    for (Arm& arm : arms) { // a warm-up
        arm.result.verified = true;
        arm.run(arm.result.verified);
    }
    interleaved(repetitions, arms.size(), [&](size_t i) {
        bool right = true;
        arms[i].samples.add(arms[i].run(right));
        arms[i].result.verified &= right;
    });
    for (Arm& arm : arms) {
        arm.result.n = arm.events * repetitions;
        arm.result.print(arm.samples);
    }
}

// An array that tasks fill with 2 i, in the memory of where they run.
class Results {
public:
    virtual ~Results() = default;
    virtual uint32_t* data() = 0;
    virtual void reset() = 0;
    virtual bool verify() = 0;
};

class HostResults final : public Results {
public:
    explicit HostResults(uint32_t n) : words_(n, untouched) {}
    uint32_t* data() override { return words_.data(); }
    void reset() override { std::fill(words_.begin(), words_.end(), untouched); }
    bool verify() override
    {
        for (uint32_t i = 0; i < words_.size(); ++i)
            if (words_[i] != 2 * i) return false;
        return true;
    }

private:
    std::vector<uint32_t> words_;
};

task::Options task_options(const Arguments& arguments)
{
    task::Options options;
    options.workers = arguments.workers;
    options.counters = arguments.gpu() ? 1u << 23 : 1u << 18;
    if (arguments.breath_us >= 0) options.breath = std::chrono::microseconds(arguments.breath_us);
    return options;
}

// 2^level tasks, by way of ranges that are tasks themselves and are not counted.
template <class P, class Item>
std::function<double(bool&)> items(const Arguments& arguments,
                                   const std::shared_ptr<Results>& results, uint32_t level)
{
    return [=](bool& right) {
        results->reset();
        double seconds = 0;
        {
            task::Runtime<P> rt(arguments.device, task_options(arguments));
            rt.spawn(Range<Item>{Far(results->data()), 8}); // the first tasks find it awake
            rt.wait();
            seconds = seconds_of([&] {
                rt.spawn(Range<Item>{Far(results->data()), level});
                rt.wait();
            });
            rt.close();
        }
        right &= results->verify();
        return static_cast<double>(1u << level) / seconds * 1e-6;
    };
}

uint64_t tree_sum(uint32_t depth)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 1u << depth; ++i) sum += i % 7 + 1;
    return sum;
}

std::function<double(bool&)> tree(const Arguments& arguments, uint32_t depth, uint64_t tasks)
{
    const uint64_t expected = tree_sum(depth);
    return [=](bool& right) {
        task::Runtime<Trees> rt(arguments.device, task_options(arguments));
        double seconds = 0;
        for (const uint32_t d : {4u, depth}) { // the first wakes it
            auto [promise, future] = rt.promise<uint64_t>();
            uint64_t sum = 0;
            seconds = seconds_of([&] {
                rt.spawn(BeginTree{d, promise});
                sum = future.get(30s);
            });
            right &= sum == (d == depth ? expected : tree_sum(d));
            rt.wait();
        }
        rt.close();
        return static_cast<double>(tasks) / seconds * 1e-6;
    };
}

std::function<double(bool&)> chain(const Arguments& arguments, uint32_t hops)
{
    return [=](bool& right) {
        task::Options options = task_options(arguments);
        if (arguments.gpu()) options.workers = 1; // a warp on each SM: a chain has no use for more
        task::Runtime<Chains> rt(arguments.device, options);
        auto [promise, future] = rt.promise<uint64_t>();
        uint64_t arrivals = 0;
        const double seconds = seconds_of([&] {
            rt.spawn(BeginChain{hops, promise});
            arrivals = future.get(30s);
        });
        rt.wait();
        rt.close();
        const task::Stats stats = rt.stats();
        // The beginning, the hops and their first task, and the end; by mail as a rule.
        right &= arrivals == 1 && stats.run == uint64_t{hops} + 3;
        right &= rt.workers() == 1 || stats.letters > hops / 2;
        return seconds / hops * 1e6;
    };
}

using MakeResults = std::function<std::shared_ptr<Results>(uint32_t)>;

// Of one kind of work each, and how much of it.
class Subjects {
public:
    Subjects(const Arguments& arguments, bool big, const MakeResults& make)
        : threads_(big               ? 26
                   : arguments.gpu() ? 22
                                     : 15),
          warps_(big               ? 23
                 : arguments.gpu() ? 20
                                   : 14),
          depth_(big               ? 23
                 : arguments.gpu() ? 20
                                   : 13),
          hops_(arguments.gpu() ? 100'000 : 2'000), all_(make(1u << threads_)),
          fewer_(make(1u << warps_))
    {
    }

    Arm thread_tasks(const Arguments& with) const
    {
        return {Case("thread tasks", Json().add("n", 1u << threads_), "M/s"),
                uint64_t{1} << threads_, items<ThreadItems, ThreadItem>(with, all_, threads_),
                Samples(64)};
    }
    Arm warp_tasks(const Arguments& with) const
    {
        return {Case("warp tasks", Json().add("n", 1u << warps_), "M/s"), uint64_t{1} << warps_,
                items<WarpItems, WarpItem>(with, fewer_, warps_), Samples(64)};
    }
    Arm fork_join(const Arguments& with) const
    {
        const uint64_t nodes = (uint64_t{2} << depth_) - 1;
        return {Case("fork-join tree", Json().add("tasks", nodes), "M/s"), nodes,
                tree(with, depth_, nodes), Samples(64)};
    }
    Arm one_hop(const Arguments& with) const
    {
        return {Case("chain, one hop", Json().add("hops", hops_), "us"), hops_, chain(with, hops_),
                Samples(64)};
    }

private:
    uint32_t threads_; // 2^ this many tasks, as the next two
    uint32_t warps_;
    uint32_t depth_;
    uint32_t hops_;
    std::shared_ptr<Results> all_;
    std::shared_ptr<Results> fewer_;
};

void with_rivals(std::vector<Arm>& arms, const Arguments& arguments, const Subjects& subjects)
{
    for (const char* again : {"", "A/A"}) {
        Arm thread = subjects.thread_tasks(arguments);
        Arm warp = subjects.warp_tasks(arguments);
        Arm nodes = subjects.fork_join(arguments);
        Arm hop = subjects.one_hop(arguments);
        if (*again == 0 && arguments.gpu()) {
            const std::vector<std::string> rivals{"tasks, one launch each", "tasks, graph",
                                                  "tasks, device graph launch",
                                                  "tasks, dynamic parallelism", "tasks, bulk"};
            thread.result.ratio_base = warp.result.ratio_base = rivals;
            nodes.result.ratio_base = {"tree, one launch per level"};
            hop.result.ratio_base = {"chain, graph", "chain, launches"};
        }
        for (Arm* arm : {&thread, &warp, &nodes, &hop}) {
            arm->result.arm = again;
            arms.push_back(std::move(*arm));
        }
    }
}

void breaths(const Arguments& arguments, const MakeResults& make)
{
    const Subjects subjects(arguments, arguments.gpu() && !arguments.quick, make);
    std::vector<Arm> arms;
    by_breaths(arguments, [&](const Arguments& with, const auto& named) {
        for (Arm arm :
             {subjects.thread_tasks(with), subjects.fork_join(with), subjects.one_hop(with)}) {
            named(arm.result);
            arms.push_back(std::move(arm));
        }
    });
    take_turns(arms, arguments.quick ? 3 : 21);
}

void on_cpu(const Arguments& arguments)
{
    const auto make = [](uint32_t n) { return std::make_shared<HostResults>(n); };
    if (arguments.breaths) {
        breaths(arguments, make);
        return;
    }
    std::vector<Arm> arms;
    with_rivals(arms, arguments, Subjects(arguments, false, make));
    take_turns(arms, arguments.quick ? 3 : 11);
}

#if defined(__CUDACC__)

class DeviceResults final : public Results {
public:
    explicit DeviceResults(uint32_t n) : words_(n), copy_(n) {}
    uint32_t* data() override { return words_.get(); }
    void reset() override
    {
        check_cuda(cudaMemsetAsync(words_.get(), 0xff, words_.size() * sizeof(uint32_t), stream_),
                   "memset");
        stream_.synchronize();
    }
    bool verify() override
    {
        check_cuda(cudaMemcpyAsync(copy_.get(), words_.get(), words_.size() * sizeof(uint32_t),
                                   cudaMemcpyDeviceToHost, stream_),
                   "copy of the results");
        stream_.synchronize();
        for (uint32_t i = 0; i < words_.size(); ++i)
            if (copy_[i] != 2 * i) return false;
        return true;
    }

private:
    OwnStream stream_;
    DeviceBuffer<uint32_t> words_;
    PinnedBuffer<uint32_t> copy_;
};

// Fewer: their way to the GPU and back is a larger part.
void sizes(std::vector<Arm>& arms, const Arguments& arguments, const MakeResults& make)
{
    for (const uint32_t log_n : {20u, 22u, 24u}) {
        const uint32_t n = 1u << log_n;
        arms.push_back({Case("thread tasks", Json().add("n", n), "M/s"), n,
                        items<ThreadItems, ThreadItem>(arguments, make(n), log_n), Samples(64)});
    }
    for (const uint32_t depth : {19u, 21u}) {
        const uint64_t nodes = (uint64_t{2} << depth) - 1;
        arms.push_back({Case("fork-join tree", Json().add("tasks", nodes), "M/s"), nodes,
                        tree(arguments, depth, nodes), Samples(64)});
    }
}

void on_gpu(const Arguments& arguments)
{
    const auto make = [](uint32_t n) { return std::make_shared<DeviceResults>(n); };
    if (arguments.breaths) {
        breaths(arguments, make);
        return;
    }
    std::vector<Arm> arms;
    with_rivals(arms, arguments, Subjects(arguments, !arguments.quick, make));
    if (!arguments.quick) sizes(arms, arguments, make);

    const auto rate = [&](const char* name, uint32_t n, const std::shared_ptr<TaskWork>& work,
                          const std::function<void()>& body) {
        arms.push_back({Case(name, Json().add("n", n), "M/s"), n,
                        [=](bool& right) {
                            work->reset();
                            const double seconds = seconds_of(body);
                            right &= work->verify();
                            return n / seconds * 1e-6;
                        },
                        Samples(64)});
    };
    const uint32_t few = arguments.quick ? 10'000 : 100'000;
    const auto launched = std::make_shared<TaskWork>(few);
    rate("tasks, one launch each", few, launched, [=] { launched->batched(); });
    rate("tasks, graph", few, launched, [=] { launched->graph(); });
    const auto device = std::make_shared<DeviceTasks>(launched->data(), few);
    if (device->problem().empty()) {
        rate("tasks, device graph launch", few, launched, [=] { device->by_graphs(); });
        rate("tasks, dynamic parallelism", few, launched, [=] { device->by_children(); });
    } else {
        std::fprintf(stderr, "no launches from the device: %s\n", device->problem().c_str());
    }
    const uint32_t many = arguments.quick ? 1u << 22 : 1u << 26;
    const auto bulk = std::make_shared<TaskWork>(many, 1);
    rate("tasks, bulk", many, bulk, [=] { bulk->bulk(); });

    const uint32_t depth = arguments.quick ? 20 : 23;
    const uint64_t nodes = (uint64_t{2} << depth) - 1;
    const uint64_t expected = tree_sum(depth);
    const auto levels = std::make_shared<LevelTree>(depth);
    arms.push_back({Case("tree, one launch per level", Json().add("tasks", nodes), "M/s"), nodes,
                    [=](bool& right) {
                        uint64_t sum = 0;
                        const double seconds = seconds_of([&] { sum = levels->sum(); });
                        right &= sum == expected;
                        return static_cast<double>(nodes) / seconds * 1e-6;
                    },
                    Samples(64)});
    const auto links = std::make_shared<LinkChain>(1000);
    const auto done = std::make_shared<uint32_t>(0);
    const auto linked = [&](const char* name, auto call) {
        constexpr uint32_t hops = 10'000;
        arms.push_back({Case(name, Json().add("hops", hops), "us"), hops,
                        [=](bool& right) {
                            uint32_t count = 0;
                            const double seconds = seconds_of([&] { count = call(hops); });
                            *done += hops;
                            right &= count == *done;
                            return seconds / hops * 1e6;
                        },
                        Samples(64)});
    };
    linked("chain, graph", [=](uint32_t hops) { return links->by_graph(hops); });
    linked("chain, launches", [=](uint32_t hops) { return links->by_launches(hops); });
    take_turns(arms, arguments.quick ? 3 : 11);
}

#endif

} // namespace

int main(int argc, char** argv)
{
    const auto measure = [](const Arguments& arguments) {
        print_environment(environment(arguments));
#if defined(__CUDACC__)
        if (arguments.gpu()) {
            on_gpu(arguments);
            return;
        }
#endif
        on_cpu(arguments);
    };
    return run_program(argc, argv, measure, {.breaths = true});
}
