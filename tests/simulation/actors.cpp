// SPDX-License-Identifier: Apache-2.0
// Whole runtimes: host threads, workers, the breather, and what goes on between them.
#include "actors.hpp"

#include <filesystem>
#include <thread>

namespace simulation {

void traffic(On on, uint32_t nodes)
{
    checked([&] {
        Run run(small(on, nodes));
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
void breathes(On on)
{
    checked([&] {
        denizen::Options o = small(on, 1);
        o.breath = std::chrono::microseconds(20 << draw(3));
        Rt rt(o.device, o);
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
void drains(On on)
{
    checked([&] {
        denizen::Options o = small(on, 1 + draw(2));
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
void pauses(On on)
{
    checked([&] {
        Run run(small(on, 1));
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
        run.expect_and_close(sent);
    });
}

// Actors that move to other workers and nodes while messages are on their way to them.
void moves(On on, uint32_t nodes)
{
    checked([&] {
        denizen::Options o = small(on, nodes);
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
        run.expect_and_close(sent);
    });
}

// ---- snapshots

namespace {

std::string snapshot() { return folder() + "/snapshot"; }

denizen::Options saved_options(On on)
{
    denizen::Options o = small(on, 1, progress().drawn);
    o.egress_slots = 64; // the host reads nothing meanwhile
    return o;
}

} // namespace

// A snapshot is of the last save that was complete, or of the next.
void restore(On on)
{
    checked([&] {
        const Progress& p = progress();
        if (!std::filesystem::exists(snapshot())) {
            require(p.saves == 0, "a snapshot is gone");
            return;
        }
        denizen::Options o = saved_options(on);
        o.restore = snapshot();
        Rt rt(o.device, o);
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

void saves(On on)
{
    checked([&] {
        Progress& p = progress();
        small(on, 1); // draws
        Run run(saved_options(on));
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
        run.expect_and_close(sent);
    });
    restore(on);
}

namespace {

// Threads and memory that are refused: a named error, and the next try is as good as the first.
void refused()
{
    for (uint32_t tries = 0; tries < 40; ++tries) {
        try {
            Run run(small(On::threads, 1));
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
        {"traffic", [] { traffic(On::threads, 1); }, all},
        {"nodes", [] { traffic(On::threads, 2); }, all},
        {"breathes", [] { breathes(On::threads); }, {}},
        {"drains", [] { drains(On::threads); }, all},
        {"pauses", [] { pauses(On::threads); }, all},
        {"moves", [] { moves(On::threads, 1); }, all},
        {"moves_of_nodes", [] { moves(On::threads, 2); }, all},
        {"saves", [] { saves(On::threads); }, all, nullptr, 400'000, 2},
        {"killed",
         [] { saves(On::threads); },
         {.dies = true},
         [] { restore(On::threads); },
         400'000,
         10},
        {"refused", refused, {.threads = true, .memory = true}},
    };
}

} // namespace simulation
