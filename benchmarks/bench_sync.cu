// SPDX-License-Identifier: Apache-2.0
// What one barrier costs inside a kernel that stays: among the blocks of a thread-block cluster,
// among all blocks of the grid, and the same by a word that counts. The kernel passes thousands of
// barriers between two readings of the device's clock, with nothing else between them; a sample is
// their mean. Beside it stand iterations timed by the host over launch and synchronisation, two
// barriers and an atomic of every thread in each: the method behind RingKernel's 0.628 µs (cluster)
// and 1.875 µs (grid), to tell what of them is the barrier.
//
// Without a GPU: std::barrier and the counting word among threads of the host.
//
// After every timed run the same barriers are passed again, with blocks that come late on purpose,
// each looking whether the others have come; before all, a kernel without a barrier must fail this.
#include "program.hpp"

#include "counting_barrier.hpp"

#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <thread>

#if defined(__CUDACC__)
#include "barriers.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

// One barrier among one crowd.
struct Arm {
    Case result;
    uint64_t per_sample;             // barriers behind a sample
    std::function<double()> time;    // microseconds of one
    std::function<uint64_t()> wrong; // how often one did not hold, in a checked run
    Samples samples;
};

void take_turns(std::vector<Arm>& arms, uint32_t repetitions)
{
    for (Arm& arm : arms) { // a warm-up
        arm.result.verified = arm.wrong() == 0;
        arm.time();
    }
    interleaved(repetitions, arms.size(), [&](size_t i) {
        arms[i].samples.add(arms[i].time());
        arms[i].result.verified &= arms[i].wrong() == 0;
    });
    for (Arm& arm : arms) {
        arm.result.n = arm.per_sample * repetitions;
        arm.result.print(arm.samples);
    }
}

// --- threads of the host ---

// The same as the barriers of barriers.cuh: `none` is for the check of the check.
enum class Meeting { none, standard, counting };

// Runs `members` threads through `count` barriers, pass() given round and member. Nanoseconds by
// the first one's clock.
class Threads {
public:
    Threads(Meeting meeting, uint32_t members)
        : meeting_(meeting), members_(members), barrier_(static_cast<std::ptrdiff_t>(members)),
          places_(members)
    {
    }

    double time(uint32_t count)
    {
        uint64_t ns = 0;
        run([&](uint32_t member) {
            constexpr uint32_t warm = 16;
            for (uint32_t i = 1; i <= warm; ++i) pass(i);
            const uint64_t begin = now_ns();
            for (uint32_t i = warm + 1; i <= warm + count; ++i) pass(i);
            if (member == 0) ns = now_ns() - begin;
        });
        return static_cast<double>(ns) * 1e-3 / count;
    }

    uint64_t out_of_step(uint32_t count)
    {
        std::atomic<uint64_t> wrong{0};
        for (Place& place : places_) place.round = 0;
        run([&](uint32_t member) {
            for (uint32_t i = 1; i <= count; ++i) {
                if ((i * 5 + member) % members_ == 0) sched_yield();
                store<Scope::gpu>(&places_[member].round, i);
                pass(i);
                for (const Place& place : places_) wrong += in_step(&place.round, i) ? 0 : 1;
            }
        });
        return wrong;
    }

private:
    struct alignas(line) Place {
        uint32_t round = 0;
    };

    template <class Body>
    void run(Body body)
    {
        arrived_ = 0;
        std::vector<std::thread> threads;
        for (uint32_t member = 0; member < members_; ++member)
            threads.emplace_back([&body, member] { body(member); });
        for (std::thread& thread : threads) thread.join();
    }

    void pass(uint32_t round)
    {
        if (meeting_ == Meeting::standard) {
            barrier_.arrive_and_wait();
        } else if (meeting_ == Meeting::counting) {
            arrive_and_wait(&arrived_, members_, round);
        }
    }

    Meeting meeting_;
    uint32_t members_;
    std::barrier<> barrier_;
    alignas(line) uint32_t arrived_ = 0;
    std::vector<Place> places_;
};

void on_cpu(bool quick)
{
    const uint32_t count = quick ? 2'000 : 20'000;
    if (Threads(Meeting::none, 2).out_of_step(count) == 0)
        throw std::runtime_error("the check does not find out that there is no barrier");
    std::vector<Arm> arms;
    for (const uint32_t members : {2u, 4u}) {
        const auto add = [&](const char* name, Meeting meeting) -> Case& {
            const auto threads = std::make_shared<Threads>(meeting, members);
            arms.push_back({Case(name, Json().add("threads", members)), count,
                            [=] { return threads->time(count); },
                            [=] { return threads->out_of_step(count / 4); }, Samples(64)});
            return arms.back().result;
        };
        add("std::barrier", Meeting::standard).ratio_base = {"counting barrier"};
        add("counting barrier", Meeting::counting);
        add("std::barrier", Meeting::standard).arm = "A/A";
    }
    take_turns(arms, quick ? 5 : 21);
}

#if defined(__CUDACC__)

constexpr uint32_t by_host = 1'000; // iterations of RingKernel's test

void on_gpu(const Arguments& arguments)
{
    const uint32_t count = arguments.quick ? 2'000 : 20'000;
    const uint32_t checks = arguments.quick ? 500 : 2'000;
    Barriers barriers(arguments.device.ordinal);
    if (barriers.out_of_step({Barrier::none, 4, 4}, checks) == 0)
        throw std::runtime_error("the check does not find out that there is no barrier");

    std::vector<Arm> arms;
    const auto add = [&](const char* name, const char* grid, const Crowd& crowd) -> Case& {
        Json params;
        params.add("grid", grid).add("threads", block_threads);
        if (crowd.clusters()) {
            params.add("clusters", crowd.blocks / crowd.group).add("blocks_each", crowd.group);
        } else {
            params.add("blocks", crowd.blocks);
        }
        arms.push_back({Case(name, params), count,
                        [&barriers, crowd, count] { return barriers.time(crowd, count); },
                        [&barriers, crowd, checks] { return barriers.out_of_step(crowd, checks); },
                        Samples(64)});
        return arms.back().result;
    };
    const auto timed_by_host = [&](const char* name, const Crowd& crowd) -> Case& {
        const auto right = std::make_shared<bool>(true);
        arms.push_back(
            {Case(name, Json()
                            .add("grid", "4 blocks")
                            .add("threads", block_threads)
                            .add("barriers", 2)
                            .add("method", "launch + sync / 1000")),
             by_host,
             [&barriers, crowd, right] { return barriers.host_time(crowd, by_host, *right); },
             [right] { return *right ? uint64_t{0} : uint64_t{1}; }, Samples(64)});
        return arms.back().result;
    };
    const std::vector<std::string> rivals{"grid barrier", "counting barrier"};

    for (const char* again : {"", "A/A"}) {
        const bool first = *again == 0;
        if (barriers.clusters(4) != 0) {
            Case& cluster = add("cluster barrier", "4 blocks", {Barrier::cluster, 4, 4});
            cluster.arm = again;
            if (first) cluster.ratio_base = rivals;
        }
        add("grid barrier", "4 blocks", {Barrier::grid, 4, 4}).arm = again;
    }
    add("counting barrier", "4 blocks", {Barrier::counting, 4, 4});
    for (const uint32_t size : {4u, 8u})
        if (const uint32_t n = barriers.clusters(size); n != 0)
            add("cluster barrier", "full", {Barrier::cluster, n * size, size}).ratio_base = rivals;
    const uint32_t sms = barriers.sms();
    add("grid barrier", "full", {Barrier::grid, sms, sms});
    add("counting barrier", "full", {Barrier::counting, sms, sms});
    if (barriers.clusters(4) != 0)
        timed_by_host("cluster iteration, timed by the host", {Barrier::cluster, 4, 4})
            .ratio_base = {"grid iteration, timed by the host"};
    timed_by_host("grid iteration, timed by the host", {Barrier::grid, 4, 4});
    take_turns(arms, arguments.quick ? 5 : 21);
}

#endif

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        on_gpu(arguments);
        return;
    }
#endif
    on_cpu(arguments.quick);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
