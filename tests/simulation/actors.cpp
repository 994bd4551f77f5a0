// SPDX-License-Identifier: Apache-2.0
// Whole runtimes on the CPU backend: host threads, workers, the breather, and what goes on between
// them, accounted for message by message. Rings are as small as they can be.
#include "scenario.hpp"

#include <denizen/actor/runtime.hpp>

#include <filesystem>
#include <optional>
#include <thread>

namespace simulation {
namespace {

using namespace denizen;
using namespace std::chrono_literals;

constexpr uint32_t most_actors = 4;
constexpr uint32_t most_hosts = 2;
constexpr uint32_t load_words = 24; // of a message over several slots

// For every wait. An idle worker that nobody wakes sleeps for 100 ms of virtual time.
nanoseconds patience() { return calm() ? nanoseconds(80ms) : nanoseconds(10s); }

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

using Post = Program<Actors<Relay>, Messages<Meet, Letter, Cargo, Audit, Account, Told>>;
using Rt = Runtime<Post>;

// The smallest rings that can carry a Cargo, and little memory. What is drawn outlives a death: who
// restores a snapshot needs the same geometry.
denizen::Options small(uint32_t nodes, const uint32_t (&drawn)[8])
{
    denizen::Options o;
    o.device = Device::cpu();
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
    }
    return o;
}

denizen::Options small(uint32_t nodes)
{
    for (uint32_t& word : progress().drawn) {
        word = draw(12);
    }
    return small(nodes, progress().drawn);
}

struct Sent {
    uint32_t letters = 0;
    uint32_t received = 0;
    uint32_t ids = 0;
};

class Run {
public:
    explicit Run(const denizen::Options& o) : rt(Device::cpu(), o)
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

void traffic(uint32_t nodes)
{
    checked([&] {
        Run run(small(nodes));
        Sent sent[most_hosts];
        std::thread other([&] { checked([&] { run.post(1, draw(8), sent[1]); }); });
        run.post(0, draw(8), sent[0]);
        other.join();
        run.collect(sent[0].letters + sent[1].letters);
        run.rt.drain(patience());
        run.expect({sent[0].letters + sent[1].letters, sent[0].received + sent[1].received,
                    sent[0].ids + sent[1].ids});
        run.rt.close();
    });
}

// A program that breathes hands over again and again, also while it has nothing to do.
void breathes()
{
    checked([&] {
        denizen::Options o = small(1);
        o.breath = std::chrono::microseconds(20 << draw(3));
        Rt rt(Device::cpu(), o);
        for (uint64_t breaths = 2; breaths <= 6; ++breaths) {
            for (uint32_t i = 0; i < 200 && rt.stats().incarnations < breaths; ++i) {
                std::this_thread::sleep_for(100us);
            }
            require(rt.stats().incarnations >= breaths, "the program does not breathe");
        }
        rt.close();
    });
}

// When drain() returns, nothing is on its way, and nothing will be.
void drains()
{
    checked([&] {
        denizen::Options o = small(1 + draw(2));
        o.egress_slots = 64; // the host reads nothing meanwhile
        Run run(o);
        Sent sent;
        std::vector<uint32_t> number(run.actors.size(), 0);
        for (uint32_t i = 1 + draw(3); i > 0; --i) {
            run.post(0, 1 + draw(4), sent, &number);
            run.rt.drain(patience());
            run.expect(sent);
        }
        run.rt.close();
    });
}

// Actors that are paused, and the whole program, while messages are on their way to them.
void pauses()
{
    checked([&] {
        Run run(small(1));
        Sent sent;
        std::thread other([&] {
            checked([&] {
                for (uint32_t i = draw(5); i > 0; --i) {
                    const Address a = run.actors[draw(static_cast<uint32_t>(run.actors.size()))];
                    switch (draw(3)) {
                    case 0:
                        run.rt.pause(a, patience());
                        run.rt.resume(a, patience());
                        break;
                    case 1:
                        run.rt.pause(patience());
                        run.rt.resume();
                        break;
                    default:
                        require(run.rt.state(a, patience()) == Life::running,
                                "an actor is not running");
                    }
                }
            });
        });
        run.post(0, draw(8), sent);
        other.join();
        run.collect(sent.letters);
        run.rt.drain(patience());
        run.expect(sent);
        run.rt.close();
    });
}

// Actors that move to other workers and nodes while messages are on their way to them.
void moves(uint32_t nodes)
{
    checked([&] {
        denizen::Options o = small(nodes);
        o.asks += 2; // what a move holds besides the one that every order has
        Run run(o);
        Sent sent;
        std::thread other([&] {
            checked([&] {
                for (uint32_t i = draw(4); i > 0; --i) {
                    run.rt.migrate(run.actors[draw(static_cast<uint32_t>(run.actors.size()))],
                                   draw(o.workers), draw(nodes), patience());
                }
            });
        });
        run.post(0, draw(8), sent);
        other.join();
        run.collect(sent.letters);
        run.rt.drain(patience());
        run.expect(sent);
        run.rt.close();
    });
}

// ---- snapshots

std::string snapshot() { return folder() + "/snapshot"; }

denizen::Options saved_options()
{
    denizen::Options o = small(1, progress().drawn);
    o.egress_slots = 64; // the host reads nothing meanwhile
    return o;
}

// A snapshot is of the last save that was complete, or of the next.
void restore()
{
    checked([&] {
        const Progress& p = progress();
        if (!std::filesystem::exists(snapshot())) {
            require(p.saves == 0, "a snapshot is gone");
            return;
        }
        denizen::Options o = saved_options();
        o.restore = snapshot();
        Rt rt(Device::cpu(), o);
        rt.drain(patience());
        Account sum{};
        for (uint32_t a = 0; a < p.actors; ++a) {
            const auto account = rt.ask<Account>(Address{p.actor[a]}, Audit{}, patience());
            sum.received += account.received;
            sum.ended += account.ended;
            sum.faults += account.faults;
            sum.ids += account.ids;
        }
        require(sum.faults == 0, "a restored actor saw messages out of order or torn");
        bool good = false;
        for (uint32_t i = p.saves == 0 ? 0 : p.saves - 1; i <= p.saves; ++i) {
            const Progress::Sum& s = p.sums[i];
            good =
                good || (sum.ended == s.letters && sum.received == s.received && sum.ids == s.ids);
        }
        require(good, "letters are missing from the snapshot, or twice in it");
        require(rt.stats().errors == 0, "the restored runtime has an error");
        rt.close();
    });
}

void saves()
{
    checked([&] {
        Progress& p = progress();
        small(1); // draws
        Run run(saved_options());
        p.actors = 0;
        p.saves = 0;
        for (const Address a : run.actors) {
            p.actor[p.actors++] = a.value;
        }
        Sent sent;
        std::vector<uint32_t> number(run.actors.size(), 0);
        for (uint32_t i = 1 + draw(2); i > 0; --i) {
            run.post(0, draw(6), sent, &number);
            p.sums[p.saves] = p.sums[p.saves + 1] = {sent.letters, sent.received, sent.ids};
            run.rt.save(snapshot(), patience());
            ++p.saves;
        }
        run.collect(sent.letters);
        run.rt.drain(patience());
        run.expect(sent);
        run.rt.close();
    });
    restore();
}

// Threads and memory that are refused: a named error, and the next try is as good as the first.
void refused()
{
    for (uint32_t tries = 0; tries < 40; ++tries) {
        try {
            Run run(small(1));
            Sent sent;
            run.post(0, 2, sent);
            run.collect(2);
            run.expect(sent);
            run.rt.close();
            return;
        } catch (const Error& e) {
            require(e.code() == Errc::exhausted, e.what());
        }
    }
}

} // namespace

std::vector<Scenario> actor_scenarios()
{
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    return {
        {"traffic", [] { traffic(1); }, all},
        {"nodes", [] { traffic(2); }, all},
        {"breathes", breathes, {}},
        {"drains", drains, all},
        {"pauses", pauses, all},
        {"moves", [] { moves(1); }, all},
        {"moves_of_nodes", [] { moves(2); }, all},
        {"saves", saves, all, nullptr, 400'000, 2},
        {"killed", saves, {.dies = true}, restore, 400'000, 10},
        {"refused", refused, {.threads = true, .memory = true}},
    };
}

} // namespace simulation
