// SPDX-License-Identifier: Apache-2.0
// The program that whole runtimes run here, accounted for message by message. Rings are as small as
// they can be.
#pragma once

#include "scenario.hpp"

#include <denizen/actor/runtime.hpp>

namespace simulation {

using namespace denizen;
using namespace std::chrono_literals;

inline constexpr uint32_t most_actors = 4;
inline constexpr uint32_t most_hosts = 2;
inline constexpr uint32_t load_words = 24; // of a message over several slots

// For every wait. An idle worker that nobody wakes sleeps for 100 ms of virtual time.
inline nanoseconds patience() { return calm() ? nanoseconds(80ms) : nanoseconds(10s); }

struct Meet {
    uint32_t me;
    uint32_t place;
    uint32_t address;
    uint32_t count;
};
struct Letter {
    uint32_t from; // an actor, or most_actors and a host thread
    uint32_t number;
    uint32_t id;
    uint32_t hops;
};
struct Cargo {
    Letter letter;
    uint32_t load[load_words];
};
struct Audit {};
struct Account {
    uint32_t received;
    uint32_t ended;
    uint32_t faults;
    uint32_t ids;
};
struct Told { // to the host
    uint32_t from;
    uint32_t number;
};

struct Relay {
    uint32_t me = 0;
    uint32_t count = 0;
    uint32_t told = 0;
    uint32_t peer[most_actors] = {};
    uint32_t sent[most_actors] = {};
    uint32_t next[most_actors + most_hosts] = {};
    Account account = {};

    DENIZEN_HD void on(const Meet& m, auto&)
    {
        me = m.me;
        count = m.count;
        peer[m.place] = m.address;
    }
    DENIZEN_HD void on(const Letter& m, auto& ctx) { pass(m, ctx); }
    DENIZEN_HD void on(const Cargo& m, auto& ctx)
    {
        for (uint32_t i = 0; i < load_words; ++i) {
            account.faults += m.load[i] != m.letter.id * load_words + i;
        }
        pass(m.letter, ctx);
    }
    DENIZEN_HD void on(const Audit&, auto& ctx) { ctx.reply(account); }

    DENIZEN_HD void pass(const Letter& m, auto& ctx)
    {
        account.faults += m.number != next[m.from];
        next[m.from] = m.number + 1;
        ++account.received;
        if (m.hops == 0) {
            ++account.ended;
            account.ids += m.id;
            ctx.send(host, Told{me, told++});
            return;
        }
        const uint32_t to = (me + 1 + m.id % count) % count;
        const Letter onwards{me, sent[to]++, m.id, m.hops - 1};
        if (m.id % 5 == 4) {
            Cargo c{onwards, {}};
            for (uint32_t i = 0; i < load_words; ++i) {
                c.load[i] = onwards.id * load_words + i;
            }
            ctx.send(Address{peer[to]}, c);
        } else {
            ctx.send(Address{peer[to]}, onwards);
        }
    }
};

// Where a program runs: on the CPU backend, or on a GPU that is not there (gpu.cpp).
enum class On : uint8_t { threads, gpu };

using Post = Program<Actors<Relay>, Messages<Meet, Letter, Cargo, Audit, Account, Told>>;
using Rt = Runtime<Post>;
// With a kernel: what a launch runs of each worker.
Image image_of_post();

} // namespace simulation

template <>
inline denizen::Image denizen::image_of<simulation::Post>()
{
    return simulation::image_of_post();
}

namespace simulation {

// The smallest rings that can carry a Cargo, and little memory. What is drawn outlives a death: who
// restores a snapshot needs the same geometry.
inline denizen::Options small(On on, uint32_t nodes, const uint32_t (&drawn)[8])
{
    denizen::Options o;
    o.device = on == On::gpu ? Device::gpu(0) : Device::cpu();
    o.nodes = nodes;
    o.workers = 1 + drawn[0] % (nodes == 1 ? 3 : 2);
    o.host_ring_slots = o.inbox_slots = o.local_slots = o.near_slots = 8u << drawn[1] % 2;
    o.urgent_slots = 2;
    o.egress_slots = 8;
    o.outbox_slots = 64;
    o.stash_slots = 16;
    o.watch_slots = 8;
    o.timer_slots = 8;
    o.subscriptions = 8;
    o.dead_letter_slots = 16;
    o.asks = 1 + drawn[2] % 3;
    o.max_actors = 16;
    o.state_bytes = 1 << 14;
    o.cluster = 1u << drawn[3] % 3;
    o.buffers = 2;
    if (const uint32_t breath = drawn[4] % 4) {
        o.breath = std::chrono::microseconds(10 << (2 * breath));
    } else if (on == On::gpu) {
        o.breath = 0us; // one kernel, until it leaves
    }
    if (on == On::gpu) {
        o.mapped = false;
        if (nodes == 1 && drawn[5] % 3 == 0) {
            o.idle = 1ms; // it leaves by itself, and comes back for a message
        }
    }
    return o;
}

inline denizen::Options small(On on, uint32_t nodes)
{
    for (uint32_t& word : progress().drawn) {
        word = draw(12);
    }
    return small(on, nodes, progress().drawn);
}

struct Sent {
    uint32_t letters = 0;
    uint32_t received = 0;
    uint32_t ids = 0;
};

class Run {
public:
    explicit Run(const denizen::Options& o) : rt(o.device, o)
    {
        actors = rt.spawn<Relay>(1 + draw(most_actors));
        meet();
    }

    void meet()
    {
        const auto n = static_cast<uint32_t>(actors.size());
        for (uint32_t a = 0; a < n; ++a) {
            for (uint32_t b = 0; b < n; ++b) {
                rt.send(actors[a], Meet{a, b, actors[b].value, n}, patience());
            }
        }
        rt.drain(patience());
    }

    // From a host thread; each letter to one actor, on its way over `hops` more.
    void post(uint32_t thread, uint32_t letters, Sent& sent,
              std::vector<uint32_t>* numbers = nullptr)
    {
        std::vector<uint32_t> first(actors.size(), 0);
        std::vector<uint32_t>& number = numbers != nullptr ? *numbers : first;
        for (uint32_t i = 0; i < letters; ++i) {
            const uint32_t to = draw(static_cast<uint32_t>(actors.size()));
            const Letter m{most_actors + thread, number[to]++, thread * 100 + i, draw(4)};
            rt.send(actors[to], m, patience());
            ++sent.letters;
            sent.received += m.hops + 1;
            sent.ids += m.id;
        }
    }

    // The host's own letters arrive in the order they were told in, and none is missing.
    void collect(uint32_t letters)
    {
        std::vector<uint32_t> next(actors.size(), 0);
        for (uint32_t i = 0; i < letters; ++i) {
            const Told m = rt.receive<Told>(patience());
            require(m.from < next.size() && m.number == next[m.from],
                    "the host was told out of order");
            ++next[m.from];
        }
    }

    void expect_and_close(const Sent& all)
    {
        collect(all.letters);
        rt.drain(patience());
        expect(all);
        rt.close();
    }

    void expect(const Sent& all)
    {
        Account sum{};
        for (const Address a : actors) {
            const auto account = rt.ask<Account>(a, Audit{}, patience());
            sum.received += account.received;
            sum.ended += account.ended;
            sum.faults += account.faults;
            sum.ids += account.ids;
        }
        const Stats s = rt.stats();
        if (s.errors != 0) {
            fail("the runtime has an error: " + s.first_error);
        }
        require(s.dead_letters == 0, "there are dead letters");
        require(sum.faults == 0, "an actor saw messages out of order or torn");
        require(sum.ended == all.letters, "letters are missing or came twice");
        require(sum.received == all.received && sum.ids == all.ids,
                "letters are not those that were sent");
    }

    Rt rt;
    std::vector<Address> actors;
};

// Errors of the runtime are failures here: no deadline is ever reached.
template <class Body>
void checked(Body&& body)
{
    try {
        body();
    } catch (const Error& e) {
        fail(e.what());
    }
}

// The bodies of scenarios (actors.cpp), wherever the program runs.
void traffic(On on, uint32_t nodes);
void breathes(On on);
void drains(On on);
void pauses(On on);
void moves(On on, uint32_t nodes);
void saves(On on);
void restore(On on);

} // namespace simulation
