// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/atomic.hpp>
#include <denizen/base/fence.hpp>

#include <gtest/gtest.h>

#include <thread>

namespace denizen {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint32_t rounds = 3'000;
#else
constexpr uint32_t rounds = 30'000;
#endif

struct alignas(128) Line {
    uint32_t word = 0;
};

// Waits until both threads have come to gate n.
void meet(Line& gate, uint32_t n)
{
    fetch_add<Scope::system, Order::acq_rel>(&gate.word, 1u);
    for (uint32_t tries = 0; load<Scope::system, Order::acquire>(&gate.word) < 2 * n; ++tries) {
        if (tries > 1000) { // ends when the other thread has come, which may need this core
            std::this_thread::yield();
        }
    }
}

// Lets the two sides come at each other at every distance within some hundred cycles.
void jitter(uint32_t& random)
{
    random = random * 1664525u + 1013904223u;
    for (uint32_t i = random >> 25; i != 0; --i) {
        asm volatile("" ::: "memory");
    }
}

// Each of two threads stores its word, fences, and reads the other's. That both read 0 is what the
// fences forbid: it is the lost wake-up.
TEST(Fence, LightAgainstHeavyNeverMissBoth)
{
    Line published;
    Line sleeping;
    Line gate;
    uint32_t saw_sleeping = 0;
    uint32_t saw_published = 0;
    uint32_t missed = 0;
    uint32_t gates = 0;
    uint32_t own_random = 2;
    std::thread sender([&] {
        for (uint32_t i = 0, n = 0, random = 1; i < rounds; ++i) {
            meet(gate, ++n);
            jitter(random);
            store<Scope::system>(&published.word, 1u);
            light_fence();
            saw_sleeping = load<Scope::system>(&sleeping.word);
            meet(gate, ++n);
            meet(gate, ++n);
        }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
        published.word = 0;
        sleeping.word = 0;
        meet(gate, ++gates);
        jitter(own_random);
        store<Scope::system>(&sleeping.word, 1u);
        heavy_fence();
        saw_published = load<Scope::system>(&published.word);
        meet(gate, ++gates);
        missed += saw_sleeping == 0 && saw_published == 0 ? 1 : 0;
        meet(gate, ++gates);
    }
    sender.join();
    EXPECT_EQ(missed, 0u);
}

} // namespace
} // namespace denizen
