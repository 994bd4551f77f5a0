// SPDX-License-Identifier: Apache-2.0
// A monotonic clock in nanoseconds. Host and device count from different origins: only differences
// taken on one side mean anything.
#pragma once

#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#include <ctime>
#endif

namespace denizen {

DENIZEN_HD inline uint64_t now_ns()
{
#if DENIZEN_ON_DEVICE
    uint64_t ns = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#elif DENIZEN_HOSTED
    timespec t; // as std::chrono::steady_clock, whose header takes longest of all to compile
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
#else
    return 0;
#endif
}

} // namespace denizen
