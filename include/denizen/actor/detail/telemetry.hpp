// SPDX-License-Identifier: Apache-2.0
// What a worker counts of its own work: handlers run by actor type, how long they took, and the
// slowest of them. The worker adds to Counters::handled after every handler, calls Observer::look()
// in its rare look, and, only while the program is observed, observe() after every handler. The
// host reads the counters while they change (src/actor/telemetry.cpp). No lane waits for another in
// here, and nothing is read that another worker writes.
//
// The histograms are log-linear, as HdrHistogram's (Gil Tene, http://hdrhistogram.org): each power
// of two is cut into four equal buckets, so a bucket's middle is off by at most 12.5 %.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

// 0, 1, 2 and 3 ns have buckets of their own; the last one also takes 2^40 ns (18 minutes) and
// more.
inline constexpr uint32_t histogram_buckets = 156;
inline constexpr double histogram_error = 0.125;

// Durations in ns. Device memory; its worker is the only writer.
struct alignas(line) Histogram {
    uint64_t sum = 0;
    uint64_t reserved = 0;
    uint64_t count[histogram_buckets] = {};
};

// Beside the worker's Status. Device memory; the worker is the only writer.
struct alignas(line) Counters {
    uint64_t handled[max_actor_types] = {}; // handlers run, by actor type
    uint64_t batches = 0;                   // rounds that handled something, while observed
    uint64_t idle_rounds = 0;               // rounds that found nothing, while observed
    uint64_t slowest = 0;                   // see slow_word(); since observing began
    uint64_t looked_ns = 0;                 // now_ns() of the last look, while observed
    uint64_t looked_ticks = 0;              // ticks() at the same time
    uint64_t since_ns = 0;                  // when observing began
    uint64_t near = 0;  // slots of near rings handled, as of the last look | `seen` << 32
    uint32_t looks = 0; // while observed
    alignas(8) uint32_t tick_ns = 0; // length of a tick in ns / 65536
    uint32_t seen = 0;               // Board::observe that is in force here
    uint64_t spawned = 0;            // actors, by handlers
    uint64_t not_spawned = 0;        // for want of a place
    uint64_t fired = 0;              // timers
    uint64_t not_armed = 0;          // for want of room
    uint64_t tasks = 0;              // run
    uint64_t tasks_refused = 0;      // for want of room
    uint64_t tasks_failed = 0;
};

// Board::observe: these bits, and above them a number that changes with every request to observe.
inline constexpr uint32_t observe_durations = 1;
inline constexpr uint32_t observe_messages = 2; // sends are traced: traced.hpp
inline constexpr uint32_t observe_bits = 2;

// A clock for the length of a handler. The GPU's clock of nanoseconds moves in steps of 32 ns up to
// 1 us; the cycles of the worker's SM are exact, and Observer::look() finds out how long one is.
DENIZEN_HD inline uint64_t ticks()
{
#if DENIZEN_ON_DEVICE
    uint64_t t = 0;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
    return t;
#else
    return now_ns();
#endif
}

DENIZEN_HD inline uint32_t bucket_of(uint64_t ns)
{
    if (ns < 4) {
        return static_cast<uint32_t>(ns);
    }
#if DENIZEN_ON_DEVICE
    const auto power = 63 - static_cast<uint32_t>(__clzll(static_cast<long long>(ns)));
#else
    const auto power = 63 - static_cast<uint32_t>(__builtin_clzll(ns));
#endif
    const uint32_t bucket = (power - 1) * 4 + (static_cast<uint32_t>(ns >> (power - 2)) & 3);
    return bucket < histogram_buckets ? bucket : histogram_buckets - 1;
}

// The shortest duration of a bucket; that of bucket + 1 is the first beyond it.
DENIZEN_HD constexpr uint64_t bucket_begin(uint32_t bucket)
{
    return bucket < 4 ? bucket : static_cast<uint64_t>(4 + bucket % 4) << (bucket / 4 - 1);
}

namespace detail {

// Adds to a word that only this worker writes, and that the host reads at any time.
DENIZEN_HD inline void bump(uint64_t* word, uint64_t n)
{
#if DENIZEN_ON_DEVICE
    add_global(word, n); // the lanes meet here
#else
    store<Scope::gpu>(word, load<Scope::gpu>(word) + n);
#endif
}

} // namespace detail

// Adds n handlers that took `ns` each. Several lanes may do so at once.
DENIZEN_HD inline void record(Histogram& h, uint64_t ns, uint64_t n = 1)
{
    detail::bump(&h.count[bucket_of(ns)], n);
    detail::bump(&h.sum, ns * n);
}

// Which handler took how long, in one word that orders by the time (so that it can be raised by one
// compare-exchange and is never read torn): the upper bits of the time as a float, hence off by at
// most 2^-17; address; message type.
DENIZEN_HD inline uint64_t slow_word(uint64_t ns, uint32_t address, uint32_t message)
{
    const auto length = static_cast<float>(ns);
    uint32_t bits = 0;
    copy_bytes(&bits, &length, sizeof bits);
    return static_cast<uint64_t>(bits >> 6) << 39 | static_cast<uint64_t>(address) << 7 | message;
}

// The inverse of slow_word().
struct SlowHandler {
    uint64_t ns;
    uint32_t address;
    uint32_t message;

    DENIZEN_HD explicit SlowHandler(uint64_t word)
        : ns(0), address(static_cast<uint32_t>(word >> 7)),
          message(static_cast<uint32_t>(word) & (max_message_types - 1))
    {
        const uint32_t bits = static_cast<uint32_t>(word >> 39) << 6;
        float length = 0;
        copy_bytes(&length, &bits, sizeof length);
        ns = static_cast<uint64_t>(length);
    }
};

// Records one handler of worker `id`, `elapsed` ticks() long; by the lane that ran it. On a warp
// that time includes the lanes which ran other handlers between.
DENIZEN_COLD inline void observe(const Shared& s, uint32_t id, uint32_t actor_type,
                                 uint32_t address, uint32_t message, uint64_t elapsed)
{
    Counters& c = s.counters[id];
#if DENIZEN_ON_DEVICE
    const uint64_t ns = elapsed * load<Scope::gpu>(&c.tick_ns) >> 16;
#else
    const uint64_t ns = elapsed;
#endif
    record(s.histograms[static_cast<uint64_t>(id) * s.actor_types + actor_type], ns);
    const uint64_t word = slow_word(ns, address, message);
    uint64_t slowest = load<Scope::gpu>(&c.slowest);
    // Ends: the word only grows, by the other lanes of this worker.
    while (word > slowest && !compare_exchange<Scope::gpu>(&c.slowest, slowest, word)) {
    }
}

// A worker's side of AnyRuntime::observe() and trace(): whether to measure, in a register.
class Observer {
public:
    // Asked before ticks() are taken.
    DENIZEN_HD bool on() const { return on_; }
    DENIZEN_HD bool tracing() const { return (seen_ & observe_messages) != 0; }

    // All lanes, when a worker begins: it measures what it measured when it left. Ticks are of the
    // SM that it was on.
    DENIZEN_HD void go_on(const Shared& s, uint32_t id)
    {
        Counters& c = s.counters[id];
        seen_ = lanes::shuffle(load<Scope::gpu>(&c.seen), 0);
        on_ = (seen_ & observe_durations) != 0;
        if (on_ && lanes::id() == 0) {
            store<Scope::gpu>(&c.looked_ns, now_ns());
            store<Scope::gpu>(&c.looked_ticks, ticks());
        }
    }

    // All lanes, in the worker's rare look: the rounds since the last one, and how many of them
    // handled something.
    DENIZEN_HD void look(const Shared& s, uint32_t id, uint32_t rounds, uint32_t batches)
    {
        const uint32_t wanted = lanes::shuffle(load<Scope::gpu>(&s.board->observe), 0);
        const bool measure = (wanted & observe_durations) != 0;
        if (wanted == seen_ && !measure) {
            return;
        }
        Counters& c = s.counters[id];
        const bool leader = lanes::id() == 0;
        const bool again = ((wanted ^ seen_) & ~observe_messages) != 0;
        seen_ = wanted;
        if (again) {
            on_ = false;
            if (leader && measure) {
                const uint64_t now = now_ns();
                store<Scope::gpu>(&c.slowest, uint64_t{0});
                store<Scope::gpu>(&c.since_ns, now);
                store<Scope::gpu>(&c.looked_ns, now);
                store<Scope::gpu>(&c.looked_ticks, ticks());
            }
        }
        if (leader && on_) {
            detail::bump(&c.batches, batches);
            detail::bump(&c.idle_rounds, rounds - batches);
        }
        const bool calibrated = measure && leader && calibrate(c);
        on_ = on_ || lanes::ballot(calibrated) != 0;
        if (leader && on_ == measure) {
            store<Scope::gpu>(&c.seen, wanted); // the host waits for it
        }
        lanes::sync(); // no lane records before `slowest` and `tick_ns` are set
    }

    // All lanes: how many slots of its near rings the worker has handled. What is in force is told
    // with it: a word of an earlier time would make a queue seem long.
    DENIZEN_HD void tell_near(const Shared& s, uint32_t id, uint32_t handled) const
    {
        if (lanes::id() == 0) {
            store<Scope::gpu>(&s.counters[id].near, handled | static_cast<uint64_t>(seen_) << 32);
        }
    }

    // All lanes: whether the worker is to sample its next send. Seldom: that one goes the general
    // way, and is handled alone.
    DENIZEN_HD bool sample_due(const Shared& s, uint32_t id) const
    {
        uint32_t* looks = &s.counters[id].looks;
        uint32_t n = 0;
        if (lanes::id() == 0) {
            n = load<Scope::gpu>(looks) + 1;
            store<Scope::gpu>(looks, n);
        }
        return lanes::shuffle(n, 0) % looks_per_sample == 0;
    }

private:
    static constexpr uint32_t looks_per_sample = 64;

    // 100 us tell the length of a tick to 1 %, even by a clock in steps of 1 us.
    static constexpr uint64_t calibration_ns = DENIZEN_ON_DEVICE ? 100'000 : 1;

    // Settles the length of a tick, which follows the GPU's clock; false if it is too early.
    DENIZEN_HD static bool calibrate(Counters& c)
    {
        const uint64_t now = now_ns();
        const uint64_t past = now - load<Scope::gpu>(&c.looked_ns);
        if (past < calibration_ns) {
            return false;
        }
        const uint64_t tick = ticks();
        const uint64_t ticked = tick - load<Scope::gpu>(&c.looked_ticks);
        if (ticked != 0) {
            store<Scope::gpu>(&c.tick_ns, static_cast<uint32_t>((past << 16) / ticked));
        }
        store<Scope::gpu>(&c.looked_ns, now);
        store<Scope::gpu>(&c.looked_ticks, tick);
        return true;
    }

    uint32_t seen_ = 0; // Board::observe
    bool on_ = false;
};

} // namespace denizen
