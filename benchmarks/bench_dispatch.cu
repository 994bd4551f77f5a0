// SPDX-License-Identifier: Apache-2.0
// What it costs to have one small thing done and to know that it is done: a round trip through the
// public API (`ask`: the message reaches an actor, its handler runs, the reply is read) against
// what would be used instead, and against two words in memory, which no protocol can beat.
//
// All ways take turns in blocks, in one process, while the runtime stays resident. It is idle while
// another way has its block; its workers then look at their host rings about once a microsecond
// each, a disturbance that the other ways share and that `ask` has too. Launches and graphs have
// blocks of their own besides, on a GPU without the runtime. Each answer is checked after the clock
// has been read.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#if defined(__CUDACC__)
#include "../src/device/mapped.hpp"
#include "rivals/device_graph.hpp"
#include "rivals/launch.cuh"
#include "rivals/ping_pong.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Ping {
    uint32_t number;
};
struct Pong {
    uint32_t number;
};
struct Note {
    uint32_t number;
};
struct Query {};
struct Total {
    uint64_t count;
    uint64_t sum;
};

struct Echo {
    uint64_t count = 0;
    uint64_t sum = 0;
    DENIZEN_HD void on(const Ping& m, auto& ctx) { ctx.reply(Pong{2 * m.number + 1}); }
    DENIZEN_HD void on(const Note& m, auto&)
    {
        ++count;
        sum += m.number;
    }
    DENIZEN_HD void on(const Query&, auto& ctx) { ctx.reply(Total{count, sum}); }
};

using Echoing = Program<Actors<Echo>, Messages<Ping, Pong, Note, Query, Total>>;

// The subject.
class Ask {
public:
    Ask(Runtime<Echoing>& runtime, Address echo) : runtime_(runtime), echo_(echo) {}
    uint32_t call() { return runtime_.ask<Pong>(echo_, Ping{++number_}).number; }
    uint32_t expected() const { return 2 * number_ + 1; }

private:
    Runtime<Echoing>& runtime_;
    Address echo_;
    uint32_t number_ = 0;
};

// Two words and a thread, the CPU's limit; what PingPong is for the GPU.
class HostPingPong {
public:
    void start()
    {
        // The stop word of the last block would end the new thread before its first request.
        request_.store(last_, std::memory_order_relaxed);
        // Some kernels begin it on this thread's core, and leave both there for the milliseconds
        // that a block takes.
        std::vector<int> others = allowed_cores();
        if (others.size() > 1) std::erase(others, sched_getcpu());
        thread_ = std::thread([this, others, next = last_ + 1]() mutable {
            keep_on(others);
            // Ends by the stop word. Gives the core away now and then: there may be no other.
            for (uint32_t polls = 1;; ++polls) {
                const uint32_t value = request_.load(std::memory_order_relaxed);
                if (value == next) {
                    reply_.store(value, std::memory_order_relaxed);
                    ++next;
                    polls = 0;
                } else if (value == stop_word) {
                    return;
                } else if (polls % 4096 == 0) {
                    sched_yield();
                }
            }
        });
    }
    uint32_t call()
    {
        request_.store(++last_, std::memory_order_relaxed);
        const uint64_t begin = now_ns();
        for (uint32_t polls = 1;; ++polls) { // ends with the reply, or after two seconds
            const uint32_t value = reply_.load(std::memory_order_relaxed);
            if (value == last_) return value;
            if (polls % 4096 == 0) {
                sched_yield();
                if (now_ns() - begin > 2'000'000'000)
                    throw std::runtime_error("ping-pong: no reply for 2 s");
            }
        }
    }
    uint32_t expected() const { return last_; }
    bool stop()
    {
        request_.store(stop_word, std::memory_order_relaxed);
        thread_.join();
        return true;
    }
    ~HostPingPong()
    {
        if (thread_.joinable()) stop();
    }

private:
    static constexpr uint32_t stop_word = std::numeric_limits<uint32_t>::max();
    alignas(line) std::atomic<uint32_t> request_{0};
    alignas(line) std::atomic<uint32_t> reply_{0};
    uint32_t last_ = 0;
    std::thread thread_;
};

// One way's turn: `count` round trips, timed one by one, after some that are not (a kernel that was
// just started is not there yet). Whether every answer was right.
template <class Way>
bool block(Way& way, uint32_t warm, uint32_t count, Samples& samples)
{
    bool right = true;
    if constexpr (requires { way.start(); }) way.start();
    for (uint32_t i = 0; i < warm + count; ++i) {
        const uint64_t begin = now_ns();
        const uint32_t answer = way.call();
        const uint64_t end = now_ns();
        right &= answer == way.expected();
        if (i >= warm) samples.add_ns_as_us(end - begin);
    }
    if constexpr (requires { way.stop(); }) right &= way.stop();
    return right;
}

// The host's half alone: sends that nobody has to acknowledge, in bursts that fit in the host ring.
// One sample is the mean of a burst. In between the actor has to say that all have arrived.
class StoresOnly {
public:
    static constexpr uint32_t burst = 100;

    StoresOnly(Runtime<Echoing>& runtime, Address echo) : runtime_(runtime), echo_(echo) {}
    bool block(uint32_t bursts, Samples& samples)
    {
        bool right = true;
        for (uint32_t b = 0; b < bursts; ++b) {
            const uint64_t begin = now_ns();
            for (uint32_t i = 0; i < burst; ++i) runtime_.send(echo_, Note{++count_});
            const uint64_t end = now_ns();
            samples.add(static_cast<double>(end - begin) * 1e-3 / burst);
            const Total t = runtime_.ask<Total>(echo_, Query{});
            right &= t.count == count_ && t.sum == uint64_t{count_} * (count_ + 1) / 2;
        }
        return right;
    }

private:
    Runtime<Echoing>& runtime_;
    Address echo_;
    uint32_t count_ = 0;
};

struct Arm {
    Case result;
    Samples samples;
    std::function<bool(Samples&)> block;
};

void measure(const Arguments& arguments)
{
    const uint32_t rounds = arguments.quick ? 10 : 20;
    const uint32_t count = arguments.quick ? 200 : 1000; // round trips in a block
    const uint32_t warm = 50;
    const uint32_t bursts = count / 20;

#if defined(__CUDACC__)
    // Rivals come before the runtime and go after it: freeing memory or loading a kernel beside a
    // resident one would wait for it.
    std::optional<gpu::MappedMemory> mailbox;
    std::unique_ptr<PingPong> pinned;
    std::unique_ptr<PingPong> mapped;
    std::unique_ptr<LaunchSync> launch;
    std::unique_ptr<GraphSync> graph;
    std::unique_ptr<DeviceGraph> device_graph;
    if (arguments.gpu()) {
        const gpu::DeviceInfo info = gpu::device_info(arguments.device.ordinal);
        std::string why_not;
        mailbox = gpu::MappedMemory::try_create(info.ordinal, info.uuid, 4096, &why_not);
        pinned = std::make_unique<PingPong>();
        if (mailbox) {
            mapped = std::make_unique<PingPong>(reinterpret_cast<uint32_t*>(mailbox->host()),
                                                reinterpret_cast<uint32_t*>(mailbox->device()));
        } else {
            std::fprintf(stderr, "no mailbox in mapped memory: %s\n", why_not.c_str());
        }
        launch = std::make_unique<LaunchSync>();
        graph = std::make_unique<GraphSync>();
        device_graph = std::make_unique<DeviceGraph>();
        if (!device_graph->problem().empty())
            std::fprintf(stderr, "no device graph: %s\n", device_graph->problem().c_str());
    }
#endif
    HostPingPong threads;
    std::vector<Arm> arms;
#if defined(__CUDACC__)
    // By turns among themselves, half of their rounds before the runtime is there and half when it
    // has gone.
    std::vector<Arm> alone;
    const auto by_itself = [&](const char* name, auto& way) {
        alone.push_back({Case(name), Samples(size_t{rounds} * count),
                         [&way, warm, count](Samples& s) { return block(way, warm, count, s); }});
    };
    std::vector<char> right_alone;
    const auto run_alone = [&] {
        interleaved(rounds / 2, alone.size(), [&](size_t i) {
            if (!alone[i].block(alone[i].samples)) right_alone[i] = 0;
        });
    };
    if (arguments.gpu()) {
        by_itself("launch + sync, alone", *launch);
        by_itself("graph + sync, alone", *graph);
        if (device_graph->problem().empty()) by_itself("device graph launch, alone", *device_graph);
        right_alone.assign(alone.size(), 1);
        run_alone();
    }
#endif
    Runtime<Echoing> runtime(arguments.device, options_of(arguments));
    const Description& description = runtime.description();
    print_environment(environment(arguments, description));
    const std::vector<Address> echo = runtime.spawn<Echo>(2);
    Ask ask(runtime, echo[0]);
    StoresOnly stores(runtime, echo[1]);

    const auto add = [&](const std::string& name, const Json& params, auto& way) -> Case& {
        arms.push_back({Case(name, params), Samples(size_t{rounds} * count),
                        [&way, warm, count](Samples& s) { return block(way, warm, count, s); }});
        return arms.back().result;
    };
    const auto in = [](const char* memory) { return Json().add("memory", memory); };
    const Json rings = Json().add("memory", description.host_ring_memory);
    std::vector<std::string> bases{"raw mailbox"};
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        add("raw mailbox", in("pinned"), *pinned);
        if (mapped) add("raw mailbox", in("mapped"), *mapped);
        add("launch + sync", Json(), *launch);
        add("graph + sync", Json(), *graph);
        bases.insert(bases.end(), {"launch + sync", "graph + sync"});
        if (device_graph->problem().empty()) {
            add("device graph launch", Json(), *device_graph);
            bases.push_back("device graph launch");
        }
        for (const Arm& one : alone) bases.push_back(one.result.name);
    }
#endif
    if (!arguments.gpu()) add("raw mailbox", in("host"), threads);
    add("ask", rings, ask).ratio_base = bases;
    add("ask", rings, ask).arm = "A/A";
    arms.push_back({Case("host stores only", Json().add("latency", false)),
                    Samples(size_t{rounds} * bursts),
                    [&](Samples& s) { return stores.block(bursts, s); }});

    std::vector<char> right(arms.size(), 1);
    interleaved(rounds, arms.size(), [&](size_t i) {
        if (!arms[i].block(arms[i].samples)) right[i] = 0;
    });
    runtime.close();
#if defined(__CUDACC__)
    if (arguments.gpu()) run_alone();
    for (size_t i = 0; i < alone.size(); ++i) {
        alone[i].result.n = alone[i].samples.size();
        alone[i].result.verified = right_alone[i] != 0;
        alone[i].result.print(alone[i].samples);
    }
#endif
    for (size_t i = 0; i < arms.size(); ++i) {
        arms[i].result.n = arms[i].samples.size() * (i + 1 == arms.size() ? StoresOnly::burst : 1);
        arms[i].result.verified = right[i] != 0;
        arms[i].result.print(arms[i].samples);
    }
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
