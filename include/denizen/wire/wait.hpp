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

// Offers this thread's core, and how that went: nobody took it; others did; or it was not offered.
//
// A thread that has offered it to one that uses up what time it is given waits for milliseconds,
// and nothing that comes wakes it, as it does not sleep. So it is not offered the next `after_hog`
// times, unless `anyway`: who may sleep instead does. `withheld` is the caller's, and begins at 0.
enum class Offered { kept, taken, withheld };
inline constexpr uint32_t after_hog = 64;

inline Offered offer_core(uint32_t& withheld, bool anyway = false)
{
    if (withheld != 0 && !anyway) {
        --withheld;
        return Offered::withheld;
    }
    const uint64_t begin = now_ns();
    sched_yield();
    const uint64_t took = now_ns() - begin;
    withheld = took > 500'000 ? after_hog : 0;
    return took > 5'000 ? Offered::taken : Offered::kept;
}

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

// A word to sleep on, and a count of those that do with a bit that says that nobody has rung since
// the last of them lay down. The count and the bit are why a producer whose consumers are awake, or
// have been woken and are on their way, pays one load and no system call: on a busy machine a
// sleeper takes long to come, and much may be sent meanwhile.
//
//   producer                                  consumer
//   publish; light_fence                      seen = bell; ++sleeping, | unrung; heavy_fence
//   unrung? -> clear it, then ++bell, wake    anything published? -> do not sleep
//
// One of the two sees the other (fence.hpp), so a wake-up is never lost. Nor is it to those who
// find the bit cleared: whoever has cleared it rings, and a consumer whose bit that was has looked
// at the bell before, and so does not go on sleeping. Hence the bell after the bit
// (tests/model/bell.pml).
inline constexpr uint32_t unrung = 1u << 31; // of `sleeping`

inline void ring_bell(uint32_t* bell, uint32_t* sleeping)
{
    light_fence();
    if ((load<Scope::system>(sleeping) & unrung) != 0 &&
        (fetch_and<Scope::system>(sleeping, ~unrung) & unrung) != 0) {
        // Release: partner of the acquire in sleep_on_bell(). Who sees the bell as it is now lies
        // down after the bit was cleared.
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
    fetch_or<Scope::system>(sleeping, unrung);
    heavy_fence();
    if (!published()) {
        futex_wait(bell, seen, ns);
    }
    uint32_t word = load<Scope::system>(sleeping);
    while (!compare_exchange<Scope::system>( // ends: a failure means that another has written
        sleeping, word, word - 1 == unrung ? 0u : word - 1)) {
    }
}

#endif

} // namespace denizen
