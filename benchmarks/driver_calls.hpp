// SPDX-License-Identifier: Apache-2.0
// The API calls that bench_driver takes apart: copies, graphs, launches, and everyday calls. Each
// can be timed (without the lens) and counted (under it), and proves that its work was done.
#pragma once

#include "common.hpp"

#include <functional>
#include <string>
#include <vector>

namespace denizen::bench {

// One kind of call. `call` only submits; the stream is idle before each.
struct DriverCall {
    std::string name;
    Json params;
    std::function<void()> call;
    std::function<bool()> verify;           // makes the call once more, looks at its result
    std::function<void()> prepare = {};     // before each call, not timed
    std::function<double()> device_us = {}; // one call by events on the stream, if it is a copy
    std::vector<std::string> ratio_base = {};
    uint32_t most_rounds = 1000; // fewer for what takes long
    bool counted_only = false;   // its time is another's; only what it submits is of interest
};

// All of them, on the current device. They share one stream and its buffers, which live until the
// process ends. `sweep`: copies in steps of a page around the sizes where a driver may switch.
std::vector<DriverCall> driver_calls(bool quick, bool sweep);

void wait_until_idle(); // everything that was submitted is done; throws on a CUDA error

} // namespace denizen::bench
