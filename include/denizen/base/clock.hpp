// SPDX-License-Identifier: Apache-2.0
// A monotonic clock in nanoseconds. Host and device count from different origins: only differences
// taken on one side mean anything.
#pragma once

#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#include <chrono>
#endif

namespace denizen {

DENIZEN_HD inline uint64_t now_ns()
{
#if DENIZEN_ON_DEVICE
    uint64_t ns = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#elif DENIZEN_HOSTED
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::steady_clock::now().time_since_epoch())
                                     .count());
#else
    return 0;
#endif
}

} // namespace denizen
