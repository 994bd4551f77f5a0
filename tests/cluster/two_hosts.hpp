// SPDX-License-Identifier: Apache-2.0
// Two programs of this process that are two hosts of a cluster, and the links between them.
#pragma once

#include <denizen/actor/runtime.hpp>
#include <denizen/cluster/link.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

namespace two_hosts {

using namespace denizen;
using namespace std::chrono_literals;

// How the hosts are linked, and how their threads wait: spun for, workers see to their messages,
// too.
enum class Over { rings, stream, spun_rings, spun_stream };

inline bool is_stream(Over over) { return over == Over::stream || over == Over::spun_stream; }
inline const char* name_of(Over over)
{
    constexpr const char* name[] = {"rings", "stream", "spun_rings", "spun_stream"};
    return name[static_cast<int>(over)];
}
inline LinkOptions waiting(Over over, std::chrono::milliseconds deadline)
{
    LinkOptions set;
    set.deadline = deadline;
    set.spin = over == Over::spun_rings || over == Over::spun_stream ? 100ms : set.spin;
    return set;
}
inline const auto all_ways =
    testing::Values(Over::rings, Over::stream, Over::spun_rings, Over::spun_stream);

template <class Program>
struct Two {
    // `change` may alter the options of either.
    template <class Change>
    Two(Over over, Change&& change)
        : a(image_of<Program>(), changed(0, change)), b(image_of<Program>(), changed(1, change))
    {
        link(over);
    }
    ~Two()
    {
        for (std::unique_ptr<Link>* l : {&ab, &ba, &aa, &bb}) {
            l->reset();
        }
        a.close(10s);
        b.close(10s);
    }
    Two(const Two&) = delete;
    Two& operator=(const Two&) = delete;

    void link(Over over)
    {
        const LinkOptions set = waiting(over, 60s); // nobody is lost because the machine is loaded
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
        if (!is_stream(over)) {
            const int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            ASSERT_EQ(ftruncate(memory, static_cast<off_t>(Link::memory_bytes)), 0);
            ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
            const int again = dup(memory);
            ab = Link::rings(a, 1, memory, sockets[0], true, set);
            ba = Link::rings(b, 0, again, sockets[1], false, set);
        } else {
            ab = Link::stream(a, 1, sockets[0], 42, set);
            ba = Link::stream(b, 0, sockets[1], 42, set);
        }
        if (!aa) {
            aa = Link::loop(a);
            bb = Link::loop(b);
        }
    }

    template <class Change>
    static Options changed(uint32_t own, Change&& change)
    {
        Options o;
        o.device = Device::cpu();
        o.workers = 2;
        o.hosts = 2;
        o.host = own;
        o.max_actors = 64;
        o.dead_letter_slots = 1 << 17;
        change(o);
        return o;
    }

    // Its address on any host.
    template <class Actor>
    static Address spawn(AnyRuntime& rt)
    {
        return rt.far().format().to_far(rt.spawn(Program::template actor_id<Actor>, 1, 10s)[0]);
    }

    // Nothing is on its way between them.
    bool still()
    {
        const LinkCounts x = ab->counts();
        const LinkCounts y = ba->counts();
        return ab->idle() && ba->idle() && aa->idle() && bb->idle() && x.taken == y.delivered &&
               y.taken == x.delivered && x.taken == ab->counts().taken &&
               y.taken == ba->counts().taken;
    }

    template <class Done>
    static bool wait(Done&& done, std::chrono::milliseconds most = 60s)
    {
        const auto end = std::chrono::steady_clock::now() + most;
        while (!done()) { // ends by done() or the time
            if (std::chrono::steady_clock::now() > end) {
                return false;
            }
            std::this_thread::sleep_for(1ms);
        }
        return true;
    }

    AnyRuntime a;
    AnyRuntime b;
    std::unique_ptr<Link> ab, ba, aa, bb;
};

} // namespace two_hosts
