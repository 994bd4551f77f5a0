// SPDX-License-Identifier: Apache-2.0
// What the arms of bench_group share: ranks on threads that start together, integer-valued data
// whose sum is exact in any order, and a list of arms that are measured in turn.
#pragma once

#include "program.hpp"

#include <denizen/group/resident.hpp>

#include <barrier>
#include <exception>
#include <functional>
#include <thread>

namespace denizen::bench {

inline float value_at(uint64_t i, uint32_t rank)
{
    return static_cast<float>(i % 1000) * static_cast<float>(rank + 1);
}
inline float sum_at(uint64_t i, uint32_t ranks)
{
    return static_cast<float>(i % 1000) * static_cast<float>(ranks * (ranks + 1) / 2);
}

// body(rank) on a thread of each rank's own, begun together; the first exception is thrown again.
template <class Body>
void on_ranks(uint32_t ranks, Body body)
{
    std::barrier start(static_cast<std::ptrdiff_t>(ranks));
    std::vector<std::exception_ptr> thrown(ranks);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) {
        threads.emplace_back([&, r] {
            start.arrive_and_wait();
            try {
                body(r);
            } catch (...) {
                thrown[r] = std::current_exception();
            }
        });
    }
    for (std::thread& t : threads) t.join();
    for (const auto& error : thrown) {
        if (error) std::rethrow_exception(error);
    }
}

// One way to sum. `batch` does `calls` of them on one rank and returns the seconds.
struct Arm {
    Case result;
    uint32_t calls = 1;
    std::function<double(uint32_t rank, uint32_t calls)> batch;
    Samples samples{64};
};

// Each batch is one sample: microseconds of a call on the slowest rank. `check`: clears the results
// before, and says after it whether all of them are right.
template <class Clear, class Right>
void measure_arms(std::vector<Arm>& arms, uint32_t ranks, uint32_t repetitions, Clear clear,
                  Right right)
{
    const auto run = [&](Arm& arm, uint32_t calls) {
        std::vector<double> seconds(ranks);
        clear();
        on_ranks(ranks, [&](uint32_t r) { seconds[r] = arm.batch(r, calls); });
        arm.result.verified &= right();
        return *std::max_element(seconds.begin(), seconds.end()) * 1e6 / calls;
    };
    for (Arm& arm : arms) {
        arm.result.verified = true;
        run(arm, 2); // a warm-up
    }
    interleaved(repetitions, arms.size(),
                [&](size_t i) { arms[i].samples.add(run(arms[i], arms[i].calls)); });
    for (Arm& arm : arms) {
        arm.result.n = uint64_t{arm.calls} * repetitions;
        arm.result.print(arm.samples);
    }
}

inline group::Call sum_call(group::Algorithm algorithm, uint64_t count)
{
    group::Call call;
    call.kind = group::Kind::all_reduce;
    call.algorithm = algorithm;
    call.channels = 0;
    call.count = count;
    return call;
}

} // namespace denizen::bench
