// SPDX-License-Identifier: Apache-2.0
// Threads and the cores they are pinned to; -1: to none.
#pragma once

#include <denizen/base/error.hpp>

#include <cstdint>
#include <sched.h>
#include <string>

namespace denizen::flow {

// Those of this process when it began: the calling thread may be pinned by now.
inline const cpu_set_t cores_at_begin = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    return allowed;
}();

// Throws bad_argument for a core that this process may not use.
inline void refuse_core(int core)
{
    const cpu_set_t& allowed = cores_at_begin;
    if (core >= CPU_SETSIZE || core < -1 || (core >= 0 && !CPU_ISSET(core, &allowed))) {
        throw Error(Errc::bad_argument,
                    "core " + std::to_string(core) + " is not one of this process");
    }
}

// So long a thread that is pinned looks for work, and lets others of its core go first, before it
// sleeps, if the last work came as soon. To wake a thread takes some 45 us on a virtual core. Where
// quanta go round many cores, one that falls asleep makes all others fall asleep behind it, and
// they would stay that way: every hop is a wake-up then, and by the time the quanta come round
// again their receiver sleeps.
constexpr uint64_t own_core_ns = 1'000'000;

inline void pin_to(int core)
{
    if (core < 0) {
        return;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

} // namespace denizen::flow
