// SPDX-License-Identifier: Apache-2.0
// The simulator itself: what two to four threads may read, by the memory model of C++. What is
// allowed must come about in some seed, what is forbidden in none.
#include "scenario.hpp"

#include <denizen/base/atomic.hpp>
#include <denizen/base/fence.hpp>

#include <thread>

namespace simulation {
namespace {

using namespace denizen;

uint32_t x, y; // 0 when a run begins

void set(uint32_t& word) { store<Scope::system>(&word, 1u); }
void publish(uint32_t& word) { store<Scope::system, Order::release>(&word, 1u); }
uint32_t get(const uint32_t& word) { return load<Scope::system>(&word); }
uint32_t acquire(const uint32_t& word) { return load<Scope::system, Order::acquire>(&word); }

// Each on a thread of its own; what they return makes up the outcome, two bits each, the first
// highest.
template <class... Thread>
void outcome_of(Thread... thread)
{
    uint32_t bits[sizeof...(thread)] = {};
    uint32_t i = 0;
    std::vector<std::thread> threads;
    (threads.emplace_back([thread, bit = &bits[i++]] { *bit = thread(); }), ...);
    uint32_t all = 0;
    for (uint32_t t = 0; t < threads.size(); ++t) {
        threads[t].join();
        all = all << 2 | bits[t];
    }
    progress().outcomes |= uint64_t{1} << all;
}

} // namespace

void clear_litmus() { x = y = 0; }

std::vector<Litmus> litmus_tests()
{
    return {
        {"store buffering",
         [] { outcome_of([] { return set(x), get(y); }, [] { return set(y), get(x); }); }, 0b0000,
         true},
        {"store buffering, full fences",
         [] {
             outcome_of([] { return set(x), detail::full_fence(), get(y); },
                        [] { return set(y), detail::full_fence(), get(x); });
         },
         0b0000, false},
        {"store buffering, membarrier on one side",
         [] {
             outcome_of([] { return set(x), light_fence(), get(y); },
                        [] { return set(y), heavy_fence(), get(x); });
         },
         0b0000, false},
        {"message passing, relaxed",
         [] {
             outcome_of([] { return set(x), set(y), 0u; },
                        [] {
                            const uint32_t flag = get(y);
                            return flag << 1 | get(x);
                        });
         },
         0b0010, true},
        {"message passing, a release and a relaxed load",
         [] {
             outcome_of([] { return set(x), publish(y), 0u; },
                        [] {
                            const uint32_t flag = get(y);
                            return flag << 1 | get(x);
                        });
         },
         0b0010, true},
        {"message passing, release and acquire",
         [] {
             outcome_of([] { return set(x), publish(y), 0u; },
                        [] {
                            const uint32_t flag = acquire(y);
                            return flag << 1 | get(x);
                        });
         },
         0b0010, false},
        {"one word, read twice",
         [] {
             outcome_of([] { return set(x), 0u; },
                        [] {
                            const uint32_t first = get(x);
                            return first << 1 | get(x);
                        });
         },
         0b0010, false},
        {"one word, read by another before, who reads it again afterwards",
         [] {
             outcome_of([] { return set(x), 0u; },
                        [] {
                            const uint32_t first = get(x);
                            publish(y);
                            return acquire(x) != 0 ? first : 0;
                        },
                        [] {
                            const uint32_t flag = acquire(y);
                            return flag << 1 | get(x);
                        });
         },
         0b000110, false},
        {"independent writers, acquiring readers",
         [] {
             std::thread other([] { set(y); });
             outcome_of(
                 [] {
                     const uint32_t first = acquire(x);
                     return first << 1 | acquire(y);
                 },
                 [] {
                     const uint32_t first = acquire(y);
                     return first << 1 | acquire(x);
                 },
                 [] { return set(x), 0u; });
             other.join();
         },
         0b101000, true},
        {"a read-modify-write in between carries on",
         [] {
             outcome_of([] { return set(x), publish(y), 0u; },
                        [] { return fetch_add<Scope::system>(&y, 1u), 0u; },
                        [] { return acquire(y) == 2 && get(x) == 0 ? 1u : 0u; });
         },
         0b000001, false},
    };
}

} // namespace simulation
