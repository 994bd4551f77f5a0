// SPDX-License-Identifier: Apache-2.0
// Actors of two hosts watch actors of both, while some of these are stopped, and perhaps the hosts
// lose each other: each watcher hears once of each that is gone, by its stop or by the loss.
#include "links.hpp"

#include <algorithm>
#include <thread>

namespace simulation {
namespace {

constexpr uint32_t targets = 4;  // target i is on host i % 2,
constexpr uint32_t watchers = 4; // and so is watcher i

struct Mark {
    uint32_t index;
    uint32_t address;
};
struct Tell {};
struct Heard {
    uint32_t stopped[targets]; // times
    uint32_t faults;
};

struct Target {
    uint32_t unused = 0;
    void on(const Mark&, auto&) {}
};

struct Watcher {
    uint32_t known[targets] = {};
    Heard heard = {};

    void on(const Mark& m, auto& ctx)
    {
        known[m.index] = m.address;
        ctx.watch(Address{m.address});
    }
    void on(const Down& news, auto&)
    {
        const auto at = std::find(known, known + targets, news.actor) - known;
        if (at == targets || news.life != static_cast<uint32_t>(Life::stopped)) {
            ++heard.faults;
        } else {
            ++heard.stopped[at];
        }
    }
    void on(const Tell&, auto& ctx) { ctx.reply(heard); }
};

using Gone = Program<Actors<Target, Watcher>, Messages<Mark, Down, Tell, Heard>>;

class Watches {
public:
    explicit Watches(Over over)
        : options_(small(On::threads, 1)), rt_{Rt(options_.device, host_options(options_, 0)),
                                               Rt(options_.device, host_options(options_, 1))}
    {
        link_.make(rt_[0].untyped(), rt_[1].untyped(), over);
        for (uint32_t i = 0; i < watchers; ++i) {
            watcher_[i] = rt_[i % two].spawn<Watcher>();
        }
        for (uint32_t i = 0; i < targets; ++i) {
            target_[i] = rt_[i % two].spawn<Target>();
        }
    }

    // From a thread of each host.
    void mark(uint32_t h)
    {
        for (uint32_t i = 0; i < targets; ++i) {
            const Address far = rt_[i % two].untyped().far().format().to_far(target_[i]);
            for (uint32_t w = h; w < watchers; w += two) {
                rt_[h].send(watcher_[w], Mark{i, far.value}, longest);
            }
        }
    }
    void stop_some()
    {
        for (uint32_t i = 0; i < targets; ++i) {
            if (draw(2) == 1) {
                rt_[i % two].untyped().stop(target_[i], longest);
                stopped_[i] = true;
            }
        }
    }
    void lose()
    {
        std::this_thread::sleep_for(std::chrono::microseconds(draw(16) * draw(8)));
        link_.of[0]->lose("it was told so");
        link_.of[1]->lose("it was told so, too");
        lost_ = true;
    }

    void expect()
    {
        for (uint32_t w = 0; w < watchers; ++w) {
            wait([&] { return right(w); }, longest, "a watcher has not heard of who is gone");
        }
        std::this_thread::sleep_for(100us);
        for (uint32_t w = 0; w < watchers; ++w) {
            require(right(w), "a watcher has heard again of who is gone");
            require(rt_[w % two].stats().errors == 0, "the runtime has an error");
        }
    }
    void close()
    {
        link_.close();
        for (Rt& r : rt_) {
            r.close(longest);
        }
    }

private:
    using Rt = Runtime<Gone>;

    denizen::Options of(uint32_t own) const
    {
        denizen::Options o = host_options(options_, own);
        o.watch_slots = targets * watchers;
        return o;
    }
    // So far, of watcher w.
    bool right(uint32_t w)
    {
        const auto heard = rt_[w % two].ask<Heard>(watcher_[w], Tell{}, longest);
        require(heard.faults == 0, "a watcher was told of another actor, or of what was not");
        bool all = true;
        for (uint32_t i = 0; i < targets; ++i) {
            const bool gone = stopped_[i] || (lost_ && i % two != w % two);
            require(heard.stopped[i] <= (gone ? 1u : 0u),
                    "a watcher was told twice, or of who is not gone");
            all = all && heard.stopped[i] == (gone ? 1u : 0u);
        }
        return all;
    }

    denizen::Options options_;
    Rt rt_[two];
    LinkOfHosts link_;
    Address watcher_[watchers] = {};
    Address target_[targets] = {};
    bool stopped_[targets] = {};
    bool lost_ = false;

public:
    nanoseconds longest = link_patience() + 30ms; // that a wait takes
};

void watches(Over over)
{
    checked([over] {
        Watches t(over);
        std::thread other([&] { checked([&] { t.mark(1); }); });
        std::thread enemy([&] { checked([&] { t.stop_some(); }); });
        if (draw(2) == 1) {
            std::thread loses([&] { t.lose(); });
            t.mark(0);
            loses.join();
        } else {
            t.mark(0);
        }
        other.join();
        enemy.join();
        t.expect();
        t.close();
    });
}

} // namespace

std::vector<Scenario> watch_scenarios()
{
    return {
        of_hosts("hosts_watch", 10, [] { watches(Over::rings); }),
        of_hosts("streams_watch", 10, [] { watches(Over::stream); }),
    };
}

} // namespace simulation
