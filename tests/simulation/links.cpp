// SPDX-License-Identifier: Apache-2.0
#include "links.hpp"

#include "fibers.hpp"
#include "pipes.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

namespace denizen::cluster {
extern uint32_t ring_slots; // rings.cpp
extern uint64_t row_bytes;  // row.hpp
} // namespace denizen::cluster

namespace simulation {

nanoseconds link_patience() { return calm() ? nanoseconds(15ms) : nanoseconds(10s); }

denizen::Options host_options(const denizen::Options& drawn, uint32_t own, uint32_t lane_slots)
{
    denizen::Options o = drawn;
    o.hosts = two;
    o.host = own;
    o.nodes = 1 + progress().drawn[7] / 8; // one in three has two
    o.workers = o.nodes == 1 ? 1 + o.workers % two : 1;
    o.inbox_slots = std::max(o.inbox_slots, lane_slots);
    o.urgent_slots = std::max(o.urgent_slots, lane_slots);
    o.asks += 1;         // two threads ask
    o.egress_slots = 64; // these read nothing meanwhile
    o.dead_letter_slots = 512;
    // To end a link takes time, for which a program breathes.
    if (o.breath && progress().drawn[6] % 4 == 0) {
        *o.breath *= 4;
    } else {
        o.breath.reset();
    }
    return o;
}

std::string file_of(uint32_t host) { return folder() + "/host" + std::to_string(host); }

Scenario of_hosts(const char* name, uint32_t cost, void (*body)())
{
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    return {name, body, all, nullptr, 4'000'000, cost};
}

void LinkOfHosts::make(AnyRuntime& first, AnyRuntime& second, Over over)
{
    visible_ns = 1'000'000; // for what is looked at now and then, and nobody rings for
    LinkOptions set;
    set.deadline = 10s;
    static constexpr std::chrono::microseconds spins[] = {0us, 10us, 20us, 60us};
    set.spin = spins[draw(4)]; // workers receive, too, from 20 us on: CMakeLists.txt
    int sockets[2];
    if (over == Over::stream) {
        cluster::row_bytes = 512u << draw(3);
        connect(sockets);
        of[0] = Link::stream(first, 1, sockets[0], ++nonce_, set);
        of[1] = Link::stream(second, 0, sockets[1], nonce_, set);
        return;
    }
    cluster::ring_slots = 8u << draw(3);
    const int memory = memfd_create("hosts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
        ftruncate(memory, static_cast<off_t>(Link::memory_bytes)) != 0 ||
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        fail("no memory or sockets for a link");
    }
    const int again = dup(memory);
    of[0] = Link::rings(first, 1, memory, sockets[0], true, set);
    of[1] = Link::rings(second, 0, again, sockets[1], false, set);
}

void LinkOfHosts::close()
{
    std::thread other([&] { of[1].reset(); });
    of[0].reset();
    other.join();
}

void LinkOfHosts::cut()
{
    const uint32_t first = draw(two);
    uint64_t arrived[two];
    arrived[first] = of[first]->halt();
    arrived[1 - first] = of[1 - first]->halt();
    std::this_thread::sleep_for(std::chrono::microseconds(draw(2) * 30));
    int sockets[2];
    connect(sockets);
    ++nonce_;
    for (uint32_t h = 0; h < two; ++h) {
        of[h]->resume(sockets[h], nonce_, arrived[1 - h]);
    }
}

bool LinkOfHosts::rests()
{
    const LinkCounts x = of[0]->counts();
    const LinkCounts y = of[1]->counts();
    return of[0]->idle() && of[1]->idle() && x.taken == y.delivered && y.taken == x.delivered &&
           x.taken == of[0]->counts().taken && y.taken == of[1]->counts().taken;
}

void LinkOfHosts::hold(AnyRuntime& first, AnyRuntime& second, nanoseconds longest)
{
    for (bool still = false; !still;) { // ends: what is between them arrives
        first.hold(longest);
        second.hold(longest);
        const uint64_t begin = now_ns();
        while (!still && now_ns() - begin < 300'000) {
            still = rests() && rests();
            std::this_thread::sleep_for(1us);
        }
        if (!still) { // it may need a worker
            first.let_go();
            second.let_go();
        }
    }
}

std::string LinkOfHosts::state(uint32_t h)
{
    const LinkCounts c = of[h]->counts();
    return "host " + std::to_string(h) + (of[h]->idle() ? " is idle, " : " is not idle, ") +
           std::to_string(c.taken) + " taken, " + std::to_string(c.acknowledged) +
           " acknowledged, " + std::to_string(c.delivered) + " delivered";
}

} // namespace simulation
