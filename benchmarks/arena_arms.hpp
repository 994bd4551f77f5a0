// SPDX-License-Identifier: Apache-2.0
// What bench_arena compares: arms that take turns, each checked outside of what is timed.
#pragma once

#include "program.hpp"

#include <functional>

namespace denizen::bench {

constexpr uint64_t mib = uint64_t{1} << 20;

struct Arm {
    Case result;
    uint64_t per_sample;           // blocks, or pairs
    std::function<double()> once;  // M/s of one run
    std::function<bool()> correct; // a run that is checked
    uint32_t at_most = ~0u;        // runs, where one takes long
    Samples samples{64};
};

inline void take_turns(std::vector<Arm>& arms, uint32_t repetitions)
{
    for (Arm& arm : arms) { // a warm-up
        arm.result.verified = arm.correct();
        if (arm.at_most > 1) arm.once();
    }
    interleaved(repetitions, arms.size(), [&](size_t i) {
        if (arms[i].samples.size() < arms[i].at_most) arms[i].samples.add(arms[i].once());
    });
    for (Arm& arm : arms) {
        arm.result.verified &= arm.correct();
        arm.result.n = arm.per_sample * arm.samples.size();
        arm.result.print(arm.samples);
    }
    arms.clear();
}

inline double rate(uint64_t count, double microseconds)
{
    return static_cast<double>(count) / microseconds;
}

// Allocators on threads of the host.
void arena_on_cpu(bool quick);

} // namespace denizen::bench
