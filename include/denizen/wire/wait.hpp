// SPDX-License-Identifier: Apache-2.0
// How an end waits when it cannot go on. A policy's `pause()` is called after each failed try and
// `reset()` after a success; the caller owns the deadline.
//   Spin     lowest latency, burns the core
//   Backoff  spins, then yields, then sleeps up to 100 us (host) or 1 us (device)
//   Park     spins, then sleeps on the ring's bell until the producer rings it (host consumers
//   only)
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/wire/ring.hpp>

#if DENIZEN_HOSTED
#include <ctime>
#include <denizen/base/fence.hpp>
#include <linux/futex.h>
#include <sched.h>
#endif

namespace denizen {

DENIZEN_HD inline void relax()
{
#if DENIZEN_ON_DEVICE
    __nanosleep(20);
#elif defined(__SSE2__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Spin {
public:
    DENIZEN_HD void pause() { relax(); }
    DENIZEN_HD void reset() {}
};

class Backoff {
public:
    DENIZEN_HD void pause()
    {
        ++tries_;
#if DENIZEN_ON_DEVICE
        if (tries_ > spins) {
            __nanosleep(tries_ - spins < 32 ? 32 * (tries_ - spins) : 1024);
        }
#elif DENIZEN_HOSTED
        if (tries_ <= spins) {
            relax();
        } else if (tries_ <= 2 * spins) {
            sched_yield();
        } else {
            const timespec nap{0, tries_ < 3 * spins ? 5'000 : 100'000};
            nanosleep(&nap, nullptr);
        }
#endif
    }
    DENIZEN_HD void reset() { tries_ = 0; }

private:
    static constexpr uint32_t spins = 256;
    uint32_t tries_ = 0;
};

#if DENIZEN_HOSTED

// Sleeps while `*word == expected`, at most `ns` nanoseconds; may wake early.
inline void futex_wait(uint32_t* word, uint32_t expected, uint64_t ns)
{
    const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}

inline void futex_wake_all(uint32_t* word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

// A word to sleep on and a count of those that do. The count is why a producer whose consumers are
// awake pays one load and no system call.
//
//   producer                         consumer
//   publish; light_fence             ++sleeping; heavy_fence
//   sleeping? -> ++bell, wake        anything published? -> do not sleep
//
// One of the two sees the other (fence.hpp), so a wake-up is never lost.
inline void ring_bell(uint32_t* bell, uint32_t* sleeping)
{
    light_fence();
    if (load<Scope::system>(sleeping) != 0) {
        fetch_add<Scope::system, Order::release>(bell, 1u);
        futex_wake_all(bell);
    }
}

// Sleeps until the bell rings or `ns` have passed, unless `published()` says that there is work.
template <class Published>
inline void sleep_on_bell(uint32_t* bell, uint32_t* sleeping, uint64_t ns, Published&& published)
{
    const uint32_t seen = load<Scope::system, Order::acquire>(bell);
    fetch_add<Scope::system>(sleeping, 1u);
    heavy_fence();
    if (!published()) {
        futex_wait(bell, seen, ns);
    }
    fetch_add<Scope::system>(sleeping, ~0u);
}

#endif

} // namespace denizen
