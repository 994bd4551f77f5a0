// SPDX-License-Identifier: Apache-2.0
// Two hosts of a cluster in one process, and the link between them: its threads, the workers that
// see to it beside them, and what comes of letters when it breaks or is lost.
#include "fibers.hpp"
#include "links.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>

namespace simulation {
namespace {

constexpr uint32_t most_ids = 200;

// Of letters: some urgent and some long, or nearly all.
enum class Mix : uint32_t { all, urgent, long_ones };

// What became of each letter on each of its ways: a bit for each number of ways that are left.
struct Ledger {
    uint8_t sent[two][two][most_ids]; // from the one to the other
    uint8_t urgent[most_ids];
    uint8_t handled[most_ids];
    uint8_t dead[two][most_ids]; // of those that left that host
    uint8_t before[most_ids];    // handled before a host lost the other
    // Letters that its actors put into the lane to the other host, and have put there.
    uint32_t posts[two];
    uint32_t posted[two];
    uint32_t faults;
    Mix mix;
};
Ledger ledger;

struct Note {
    uint32_t from; // an actor, or most_actors and a thread
    uint32_t number;
    uint32_t id;
    uint32_t hops;
};
struct Parcel {
    Note note;
    uint32_t load[load_words];
};
struct Hurry { // overtakes
    static constexpr Priority priority = Priority::urgent;
    Note note;
};
struct Sum {
    uint32_t received;
    uint32_t faults;
};

// This thread, too, knows all that was stored before.
void know_all()
{
    const Inside inside;
    fence_all();
}

// Actor i is on host i % 2, and has far addresses alone.
struct Courier {
    uint32_t me = 0;
    uint32_t count = 0;
    uint32_t told = 0;
    uint32_t peer[most_actors] = {};
    uint32_t sent[2][most_actors] = {};
    uint32_t next[2][most_actors + 2 * most_hosts] = {};
    Sum sum = {};

    void on(const Meet& m, auto&)
    {
        me = m.me;
        count = m.count;
        peer[m.place] = m.address;
    }
    void on(const Note& m, auto& ctx) { pass(m, 0, ctx); }
    void on(const Hurry& m, auto& ctx) { pass(m.note, 1, ctx); }
    void on(const Parcel& m, auto& ctx)
    {
        for (uint32_t i = 0; i < load_words; ++i) {
            sum.faults += m.load[i] != m.note.id * load_words + i;
        }
        pass(m.note, 0, ctx);
    }
    void on(const Audit&, auto& ctx) { ctx.reply(sum); }

    void pass(const Note& m, uint32_t hurried, auto& ctx)
    {
        sum.faults += m.number != next[hurried][m.from] || m.id >= most_ids;
        next[hurried][m.from] = m.number + 1;
        ++sum.received;
        const auto bit = static_cast<uint8_t>(1u << m.hops);
        ledger.faults += (ledger.handled[m.id] & bit) != 0;
        ledger.handled[m.id] |= bit;
        if (m.hops == 0) {
            ctx.send(host, Told{me, told++});
            return;
        }
        const uint32_t to = (me + 1 + m.id % count) % count;
        const uint32_t rest = m.id % 9 / 8;
        const uint32_t kind = ledger.mix == Mix::urgent      ? 3 + rest
                              : ledger.mix == Mix::long_ones ? 4 - rest
                                                             : m.id % 5;
        const Note onwards{me, sent[kind == 3][to]++, m.id, m.hops - 1};
        ledger.sent[me % two][to % two][m.id] |= static_cast<uint8_t>(1u << onwards.hops);
        ledger.urgent[m.id] |= static_cast<uint8_t>((kind == 3) << onwards.hops);
        ledger.posts[me % two] += me % two != to % two;
        if (kind == 3) {
            ctx.send(Address{peer[to]}, Hurry{onwards});
        } else if (kind == 4) {
            Parcel p{onwards, {}};
            for (uint32_t i = 0; i < load_words; ++i) {
                p.load[i] = onwards.id * load_words + i;
            }
            ctx.send(Address{peer[to]}, p);
        } else {
            ctx.send(Address{peer[to]}, onwards);
        }
        ledger.posted[me % two] += me % two != to % two;
    }
};

using Route = Program<Actors<Courier>, Messages<Note, Parcel, Hurry, Meet, Audit, Sum, Told>>;

class Hosts {
public:
    explicit Hosts(Over over, uint32_t lane_slots = 0)
        : lane_slots_(lane_slots), options_(small(On::threads, 1)),
          rt{Rt(options_.device, of(0)), Rt(options_.device, of(1))}
    {
        ledger = {};
        join(over);
        meet();
        quiet();
    }
    // As they were when they were saved.
    Hosts(Over over, const Hosts& saved)
        : restores_(again(saved)), options_(small(On::threads, 1, progress().drawn)),
          rt{Rt(options_.device, of(0)), Rt(options_.device, of(1))}, actors(saved.actors)
    {
        drawn_ = saved.saved_drawn_;
        join(over);
    }

    // Before its workers begin.
    static bool again(const Hosts& saved)
    {
        ledger = saved.saved_;
        return true;
    }

    void join(Over over) { link.make(rt[0].untyped(), rt[1].untyped(), over); }
    // Actors know each other.
    void meet()
    {
        const uint32_t count = 2 + draw(most_actors - 1);
        for (uint32_t i = 0; i < count; ++i) {
            Rt& at = rt[i % two];
            actors.push_back(at.untyped().far().format().to_far(at.spawn<Courier>()));
        }
        for (uint32_t a = 0; a < count; ++a) {
            for (uint32_t b = 0; b < count; ++b) {
                rt[draw(two)].send(actors[a], Meet{a, b, actors[b].value, count}, link_patience());
            }
        }
    }

    // In one run of `n` each nearly all letters are urgent, or long.
    static bool mixes(uint32_t n)
    {
        const uint32_t which = draw(n);
        ledger.mix = which < 3 ? static_cast<Mix>(which) : Mix::all;
        return ledger.mix != Mix::all;
    }

    // From a thread of host `thread`: letters, and now and then an ask.
    void post(uint32_t thread, uint32_t letters)
    {
        for (uint32_t i = 0; i < letters; ++i) {
            const uint32_t to = draw(static_cast<uint32_t>(actors.size()));
            if (!post_one(thread, to, draw(4) == 1)) {
                return;
            }
        }
    }
    // False: the host of `to`, or of whom it asks, is lost.
    bool post_one(uint32_t thread, uint32_t to, bool asks)
    {
        const uint32_t hurried = ledger.mix == Mix::urgent || draw(3) == 1;
        const Note m{most_actors + thread, drawn_.number[thread][hurried][to]++,
                     thread * 100 + drawn_.begun[thread]++, draw(4)};
        uint32_t whom = to;
        ledger.urgent[m.id] |= static_cast<uint8_t>(hurried << m.hops);
        try {
            if (hurried != 0) {
                rt[thread].send(actors[to], Hurry{m}, longest);
            } else {
                rt[thread].send(actors[to], m, longest);
            }
            ledger.sent[thread][to % two][m.id] |= static_cast<uint8_t>(1u << m.hops);
            if (asks) {
                whom = draw(static_cast<uint32_t>(actors.size()));
                ask(thread, whom);
            }
        } catch (const Error& e) {
            require(e.code() == Errc::host_lost && whom % two != thread, e.what());
            return false;
        }
        return true;
    }
    void ask(uint32_t thread, uint32_t whom)
    {
        const Address to = actors[whom];
        const FarFormat& format = rt[thread].untyped().far().format();
        const auto sum = rt[thread].ask<Sum>(format.to_short(to), Audit{}, longest);
        require(sum.faults == 0, "an actor saw messages out of order or torn");
    }

    // As Cluster.drain() does it: nothing is under way on any host nor between them.
    void quiet()
    {
        link.quiet([&] {
            for (Rt& r : rt) {
                r.drain(link_patience());
            }
        });
    }

    // All that was sent has been handled.
    void expect()
    {
        require(ledger.faults == 0, "a letter came twice");
        for (uint32_t id = 0; id < most_ids; ++id) {
            uint8_t all = 0;
            for (const auto& from : ledger.sent) {
                all |= from[0][id] | from[1][id];
            }
            require(all == ledger.handled[id], "a letter is on its way");
        }
        for (uint32_t h = 0; h < two; ++h) {
            const Stats s = rt[h].stats();
            if (s.errors != 0) {
                fail("the runtime has an error: " + s.first_error);
            }
            require(s.dead_letters == 0, "there are dead letters");
            require(link.of[h]->state() == Link::State::up, "a host was lost");
            require(link.of[h]->counts().taken == link.of[h]->counts().acknowledged,
                    "an idle link has messages that are not acknowledged");
        }
        for (uint32_t i = 0; i < actors.size(); ++i) {
            ask(i / two % two, i);
        }
    }

    template <class Done>
    void wait(Done&& done, const char* otherwise)
    {
        simulation::wait(done, longest, otherwise);
    }

    // Nothing leaves a host while its link is paused, and what had has arrived.
    void hold(uint32_t h)
    {
        link.of[h]->pause(true);
        wait([&] { return link.of[h]->paused(); }, "a link is not paused");
        const uint64_t taken = link.of[h]->counts().taken;
        wait([&] { return link.of[1 - h]->counts().delivered == taken; },
             "what was sent has not arrived");
        std::this_thread::sleep_for(30us);
        require(link.of[h]->counts().taken == taken, "a paused link sends");
        link.of[h]->pause(false);
    }
    // As Cluster.save() does it. What a thread sends to the other host meanwhile is not in it.
    void save()
    {
        link.hold(rt[0].untyped(), rt[1].untyped(), longest);
        saved_ = ledger;
        saved_drawn_ = drawn_;
        std::thread late([this] { checked([this] { post_far(draw(two), draw(4)); }); });
        for (uint32_t h = 0; h < two; ++h) {
            rt[h].untyped().save(file_of(h), longest);
        }
        for (Rt& r : rt) {
            r.untyped().let_go();
        }
        late.join();
    }
    // To one actor of the other host, without asks.
    void post_far(uint32_t thread, uint32_t letters)
    {
        for (uint32_t i = 0; i < letters; ++i) {
            post_one(thread, 1 - thread, false);
        }
    }
    void pause(uint32_t whom)
    {
        const uint32_t h = whom % two;
        const Address actor = rt[h].untyped().far().format().to_short(actors[whom]);
        rt[h].pause(actor, link_patience());
        rt[h].resume(actor, link_patience());
    }

    // The other host is lost to this one: all that was bound for it is buried.
    void settle(uint32_t h)
    {
        wait([&] { return link.of[h]->settled(); }, "the loss of a host is not settled");
        require(link.of[h]->state() == Link::State::lost && !link.of[h]->why().empty(),
                "a host is lost and the link is not");
        bury_all(h);
    }
    // Its own actors send to those of the lost host, and it asks one.
    void post_to_lost(uint32_t h, uint32_t letters)
    {
        const uint64_t lost = link.of[h]->counts().lost;
        const uint32_t posted = ledger.posted[h];
        std::atomic<bool> sent{false};
        std::thread other([&] {
            checked([&] { send_home(h, letters); });
            sent = true;
        });
        // Who knows of a letter in the lane and finds the link idle knows that it is dead. All of
        // them find room there; one that is being written hides those behind it.
        while (!sent) { // ends with the thread
            const uint32_t known = ledger.posted[h] - posted;
            const bool whole = ledger.posts[h] == ledger.posted[h];
            know_all();
            if (link.of[h]->idle() && whole) {
                require(link.of[h]->counts().lost >= lost + known,
                        "a link is idle that holds a letter to a lost host");
            }
            std::this_thread::sleep_for(250ns);
        }
        other.join();
        bury_all(h);
    }
    void send_home(uint32_t h, uint32_t letters)
    {
        std::array<uint32_t, most_actors> number{};
        for (uint32_t i = 0; i < letters; ++i) {
            const uint32_t own = draw(static_cast<uint32_t>(actors.size()) / two) * two + h;
            const Note m{most_actors + most_hosts + h, number[own]++, h * 100 + drawn_.begun[h]++,
                         1 + draw(3)};
            rt[h].send(actors[own], m, link_patience());
            ledger.sent[h][h][m.id] |= static_cast<uint8_t>(1u << m.hops);
        }
        rt[h].drain(longest);
        if (draw(2) == 1) {
            try {
                rt[h].ask<Sum>(actors[1 - h], Audit{}, link_patience());
                fail("an actor of a lost host has answered");
            } catch (const Error& e) {
                require(e.code() == Errc::host_lost, e.what());
            }
        }
    }
    // By then all dead letters have been made: the next are of what is sent later.
    void bury_all(uint32_t h)
    {
        rt[h].drain(longest);
        wait([&] { return link.of[h]->idle(); }, "the link to a lost host is not idle");
        for (const DeadLetter& d : rt[h].dead_letters().letters) {
            if (d.reason != Reason::lost) {
                fail("a dead letter is another one: " + d.text);
            }
            if (d.type == Rt::id<Audit>() || d.type == Rt::id<Sum>()) {
                continue;
            }
            Note m;
            std::memcpy(&m, d.payload.data(), sizeof m);
            const auto bit = static_cast<uint8_t>(1u << m.hops);
            require(m.id < most_ids && (ledger.dead[h][m.id] & bit) == 0, "a letter died twice");
            require((ledger.sent[h][1 - h][m.id] & bit) != 0, "a dead letter was not sent there");
            ledger.dead[h][m.id] |= bit;
        }
    }
    // How many letters from one host to another nobody has got, and are not dead.
    static uint32_t missing(uint32_t from, uint32_t to)
    {
        uint32_t n = 0;
        for (uint32_t id = 0; id < most_ids; ++id) {
            const uint8_t found = ledger.handled[id] | (from == to ? 0 : ledger.dead[from][id]);
            n += static_cast<uint32_t>(
                std::popcount(static_cast<uint8_t>(ledger.sent[from][to][id] & ~found)));
        }
        return n;
    }
    // After bury_all(): every letter was handled or is dead. `left`: one host has closed its link,
    // and with it the two messages that were in its hands; what it had for the other stays with it.
    void account(bool left)
    {
        wait([&] { return missing(0, 1) <= (left ? 2 : 0); }, "letters to host 1 are gone");
        require(missing(0, 0) == 0, "letters of host 0 to itself are gone");
        if (!left) {
            wait([&] { return missing(1, 0) == 0; }, "letters to host 0 are gone");
            require(missing(1, 1) == 0, "letters of host 1 to itself are gone");
        }
        require(ledger.faults == 0, "a letter came twice");
        for (uint32_t h = 0; h < two; ++h) {
            require(rt[h].dead_letters().letters.empty(), "a letter died when the link was idle");
            require(rt[h].stats().errors == 0, "the runtime has an error");
            for (uint32_t i = h; i < actors.size(); i += two) {
                ask(h, i);
            }
        }
    }

    // Who loses a host tells it so, and what has come from it in its turn: that is dead for
    // neither.
    static void expect_acknowledged()
    {
        for (uint32_t id = 0; id < most_ids; ++id) {
            require((ledger.dead[1][id] & ledger.before[id] & ~ledger.urgent[id]) == 0,
                    "a letter that came is dead");
        }
    }

    void close()
    {
        link.close();
        for (Rt& r : rt) {
            r.close(link_patience());
        }
    }

    using Rt = Runtime<Route>;

private:
    denizen::Options of(uint32_t own) const
    {
        denizen::Options o = host_options(options_, own, lane_slots_);
        o.restore = restores_ ? file_of(own) : "";
        return o;
    }

    uint32_t lane_slots_ = 0; // or as drawn
    bool restores_ = false;
    denizen::Options options_;
    Ledger saved_ = {};
    struct Drawn { // by the threads of a host
        uint32_t begun[two] = {};
        uint32_t number[two][2][most_actors] = {};
    };
    Drawn drawn_, saved_drawn_;

public:
    nanoseconds longest = link_patience(); // that a wait takes
    Rt rt[two];
    LinkOfHosts link;
    std::vector<Address> actors;
};

// Two hosts' threads send to actors of both.
void sends(Over over)
{
    checked([over] {
        Hosts t(over);
        const uint32_t most = Hosts::mixes(4) ? 32 : 8;
        std::thread other([&] { checked([&] { t.post(1, draw(most)); }); });
        t.post(0, draw(most));
        other.join();
        t.quiet();
        t.expect();
        t.close();
    });
}

// When all is drained nothing is on its way, and nothing will be.
void drains(Over over)
{
    checked([over] {
        Hosts t(over);
        for (uint32_t i = 1 + draw(3); i > 0; --i) {
            t.post(draw(two), 1 + draw(5));
            t.quiet();
            t.expect();
        }
        t.close();
    });
}

// Links, programs and actors that are paused, and streams that break, while letters are on their
// way.
void disturbs(Over over)
{
    checked([over] {
        Hosts t(over);
        Hosts::mixes(4);
        std::thread other([&] {
            checked([&] {
                for (uint32_t i = draw(4); i > 0; --i) {
                    const uint32_t h = draw(two);
                    const uint32_t whom = draw(static_cast<uint32_t>(t.actors.size()));
                    switch (draw(over == Over::rings ? 3 : 6)) {
                    case 0:
                        t.hold(h);
                        t.hold(h);
                        break;
                    case 1:
                        t.rt[h].pause(link_patience());
                        t.rt[h].resume();
                        break;
                    case 2: t.pause(whom); break;
                    default: t.link.cut();
                    }
                }
            });
        });
        t.post(0, draw(8));
        t.post(1, draw(4));
        other.join();
        t.quiet();
        t.expect();
        t.close();
    });
}

// Both are saved with letters under way, and go on; and so do those that are restored.
void saves(Over over)
{
    checked([over] {
        Hosts t(over);
        const uint32_t most = Hosts::mixes(3) ? 24 : 8;
        std::thread other([&] { checked([&] { t.post(1, draw(most)); }); });
        t.post(0, draw(most));
        other.join();
        t.save();
        const bool goes_on = draw(4) != 1;
        if (goes_on) {
            t.quiet();
            t.expect();
        }
        t.close();
        Hosts again(over, t);
        again.post(draw(two), draw(4));
        again.quiet();
        again.expect();
        again.close();
    });
}

// A host loses the other, both do, or one closes its link, at any moment. Every letter is handled,
// or a dead letter of who sent it.
void losses(Over over)
{
    checked([over] {
        Hosts t(over, 64);
        t.longest = link_patience() + 30ms;       // until a host knows
        const bool stream = over == Over::stream; // then who is lost does not hear of it
        const uint32_t how = stream ? 2 + draw(2) : draw(4);
        const uint32_t most = Hosts::mixes(6) ? 24 : 8;
        std::thread other([&] { checked([&] { t.post(1, how == 3 ? 0 : draw(most)); }); });
        std::thread enemy([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(draw(16) * draw(16)));
            const bool saves = draw(4) == 1; // and then learns of it
            if (saves) {
                t.rt[0].untyped().hold(t.longest);
                std::this_thread::sleep_for(std::chrono::microseconds(draw(8) * draw(8)));
            }
            if (how == 3) {
                t.link.of[1].reset(); // its end of the socket closes
            } else {
                std::copy_n(ledger.handled, most_ids, ledger.before);
            }
            if (how != 3 || stream) {
                t.link.of[0]->lose("it was told so");
            }
            if (how == 2) {
                t.link.of[1]->lose("it was told so, too");
            }
            if (saves) {
                std::this_thread::sleep_for(std::chrono::microseconds(draw(8) * draw(8)));
                t.rt[0].untyped().let_go();
            }
        });
        t.post(0, draw(most));
        other.join();
        enemy.join();
        for (uint32_t h = 0; h < (how == 3 ? 1 : two); ++h) {
            t.settle(h);
            t.post_to_lost(h, 1 + draw(4));
        }
        t.account(how == 3);
        if (how < 2) {
            t.expect_acknowledged();
        }
        t.close();
    });
}

} // namespace

std::vector<Scenario> host_scenarios()
{
    return {
        of_hosts("hosts", 5, [] { sends(Over::rings); }),
        of_hosts("hosts_drain", 5, [] { drains(Over::rings); }),
        of_hosts("hosts_pause", 5, [] { disturbs(Over::rings); }),
        of_hosts("hosts_lost", 5, [] { losses(Over::rings); }),
        of_hosts("hosts_saved", 10, [] { saves(Over::rings); }),
        of_hosts("streams", 5, [] { sends(Over::stream); }),
        of_hosts("streams_drain", 5, [] { drains(Over::stream); }),
        of_hosts("streams_break", 5, [] { disturbs(Over::stream); }),
        of_hosts("streams_lost", 5, [] { losses(Over::stream); }),
        of_hosts("streams_saved", 10, [] { saves(Over::stream); }),
    };
}

} // namespace simulation
