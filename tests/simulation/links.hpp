// SPDX-License-Identifier: Apache-2.0
// What bodies of two hosts have in common: their options, and the link between them over rings or a
// stream.
#pragma once

#include "actors.hpp"
#include "scenario.hpp"

#include <denizen/cluster/link.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace simulation {

inline constexpr uint32_t two = 2; // hosts
enum class Over { rings, stream };

// For every wait. A link's receiver that nobody wakes sleeps for 20 ms, its sender and workers for
// 100 ms: CMakeLists.txt.
nanoseconds link_patience();

// The smallest rings, by what small() has drawn; of the lanes at least so many slots.
denizen::Options host_options(const denizen::Options& drawn, uint32_t own, uint32_t lane_slots = 0);

// Where a host's snapshot is.
std::string file_of(uint32_t host);

template <class Done>
void wait(Done&& done, nanoseconds longest, const char* otherwise)
{
    const uint64_t begin = now_ns();
    for (auto nap = 250ns; !done(); nap = nap < 16us ? 2 * nap : nap) { // ends so, or by the time
        require(now_ns() - begin < static_cast<uint64_t>(longest.count()), otherwise);
        std::this_thread::sleep_for(nap);
    }
}

// With what may go wrong beside any of them.
Scenario of_hosts(const char* name, uint32_t cost, void (*body)());

class LinkOfHosts {
public:
    void make(AnyRuntime& first, AnyRuntime& second, Over over);
    void close();
    // A stream breaks, and is taken up again.
    void cut();
    // Nothing is on its way.
    bool rests();
    // Both programs stand still, with nothing between them, as when a cluster is saved.
    void hold(AnyRuntime& first, AnyRuntime& second, nanoseconds longest);
    // The same, and two looks with `drain` of both before them tell no difference.
    template <class Drain>
    void quiet(Drain&& drain)
    {
        const uint64_t begin = now_ns();
        uint64_t before[2] = {};
        for (bool twice = false;;) { // ends so, or by the time
            drain();
            const LinkCounts c[two] = {of[0]->counts(), of[1]->counts()};
            require(c[0].refused + c[1].refused == 0, "messages were refused");
            const bool still = rests();
            if (still && twice && c[0].taken == before[0] && c[1].taken == before[1]) {
                return;
            }
            twice = still;
            before[0] = c[0].taken;
            before[1] = c[1].taken;
            if (now_ns() - begin >= static_cast<uint64_t>(link_patience().count())) {
                fail("messages stay on their way between two hosts: " + state(0) + ", " + state(1));
            }
            std::this_thread::sleep_for(100us);
        }
    }

    std::unique_ptr<Link> of[two];

private:
    std::string state(uint32_t h);

    uint64_t nonce_ = 1; // of the stream
};

} // namespace simulation
