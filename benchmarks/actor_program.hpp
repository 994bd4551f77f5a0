// SPDX-License-Identifier: Apache-2.0
// What the benchmark programs of actors have besides program.hpp: options, environment, hand-overs.
#pragma once

#include <denizen/actor/any_runtime.hpp>

#include "program.hpp"

namespace denizen::bench {

// For Runtime: the device and, where N was given, the number of workers.
inline denizen::Options options_of(const Arguments& arguments)
{
    denizen::Options o;
    o.device = arguments.device;
    o.workers = arguments.workers;
    if (arguments.breath_us >= 0) o.breath = std::chrono::microseconds(arguments.breath_us);
    return o;
}

// What it cost a program with a breath to hand over.
inline void print_handovers(const Stats& stats, Json params, bool verified)
{
    const Handovers& h = stats.handovers;
    if (h.count == 0) return;
    const auto print = [&](const char* which, double ns) {
        Json all = params;
        Case result("hand-over", all.add("of all", which));
        result.n = h.count;
        result.verified = verified && stats.errors == 0;
        Samples one(1);
        one.add(ns * 1e-3);
        result.print(one);
    };
    const auto count = static_cast<double>(h.count);
    print("mean", static_cast<double>(h.sum_ns) / count);
    print("max", static_cast<double>(h.max_ns));
    print("until all have acknowledged, mean",
          static_cast<double>(h.asking_ns) / static_cast<double>(h.attempts));
    print("until all have come to the gate, mean", static_cast<double>(h.leaving_ns) / count);
    print("putting down and taking up, mean", static_cast<double>(h.carrying_ns) / count);
}

// Where the program's memory lies, for the record.
inline Json environment(const Arguments& arguments, const denizen::Description& description)
{
    Json json = environment(arguments);
    json.add("memory", description.host_ring_memory).add("workers", description.workers);
    if (!description.why_not_mapped.empty()) json.add("why_not_mapped", description.why_not_mapped);
    return json;
}

} // namespace denizen::bench
