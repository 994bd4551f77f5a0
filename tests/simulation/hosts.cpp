// SPDX-License-Identifier: Apache-2.0
// Two hosts of a cluster in one process, and the link between them over rings or a stream: its
// threads, the workers that see to it beside them, and what comes of letters when it breaks or is
// lost.
#include "actors.hpp"
#include "fibers.hpp"
#include "pipes.hpp"

#include <denizen/cluster/link.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

namespace denizen::cluster {
extern uint32_t ring_slots; // rings.cpp
extern uint64_t row_bytes;  // row.hpp
} // namespace denizen::cluster

namespace simulation {
namespace {

constexpr uint32_t two = 2; // hosts
enum class Over { rings, stream };

// For every wait. A link's receiver that nobody wakes sleeps for 20 ms, its sender and workers for
// 100 ms: CMakeLists.txt.
nanoseconds patience() { return calm() ? nanoseconds(15ms) : nanoseconds(10s); }
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
        std::copy_n(saved.begun_, two, begun_);
        std::memcpy(number_, saved.number_, sizeof number_);
        join(over);
    }

    // Before its workers begin.
    static bool again(const Hosts& saved)
    {
        ledger = saved.saved_;
        return true;
    }

    void join(Over over)
    {
        visible_ns = 1'000'000; // for what is looked at now and then, and nobody rings for
        LinkOptions set;
        set.deadline = 10s;
        static constexpr std::chrono::microseconds spins[] = {0us, 10us, 20us, 60us};
        set.spin = spins[draw(4)]; // workers receive, too, from 20 us on: CMakeLists.txt
        over == Over::rings ? link_by_rings(set) : link_by_stream(set);
    }
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
                rt[draw(two)].send(actors[a], Meet{a, b, actors[b].value, count}, patience());
            }
        }
    }

    void link_by_rings(const LinkOptions& set)
    {
        cluster::ring_slots = 8u << draw(3);
        int sockets[2];
        const int memory = memfd_create("hosts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
            ftruncate(memory, static_cast<off_t>(Link::memory_bytes)) != 0 ||
            fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
            fail("no memory or sockets for a link");
        }
        const int again = dup(memory);
        link[0] = Link::rings(rt[0].untyped(), 1, memory, sockets[0], true, set);
        link[1] = Link::rings(rt[1].untyped(), 0, again, sockets[1], false, set);
    }
    void link_by_stream(const LinkOptions& set)
    {
        cluster::row_bytes = 512u << draw(3);
        int sockets[2];
        connect(sockets);
        for (uint32_t h = 0; h < two; ++h) {
            link[h] = Link::stream(rt[h].untyped(), 1 - h, sockets[h], nonce_, set);
        }
    }
    // The stream breaks, and is taken up again.
    void cut()
    {
        const uint32_t first = draw(two);
        uint64_t arrived[two];
        arrived[first] = link[first]->halt();
        arrived[1 - first] = link[1 - first]->halt();
        std::this_thread::sleep_for(std::chrono::microseconds(draw(2) * 30));
        int sockets[2];
        connect(sockets);
        ++nonce_;
        for (uint32_t h = 0; h < two; ++h) {
            link[h]->resume(sockets[h], nonce_, arrived[1 - h]);
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
        Rt& own = rt[thread];
        auto& number = number_[thread];
        for (uint32_t i = 0; i < letters; ++i) {
            const uint32_t to = draw(static_cast<uint32_t>(actors.size()));
            const uint32_t hurried = ledger.mix == Mix::urgent || draw(3) == 1;
            const Note m{most_actors + thread, number[hurried][to]++,
                         thread * 100 + begun_[thread]++, draw(4)};
            uint32_t whom = to;
            ledger.urgent[m.id] |= static_cast<uint8_t>(hurried << m.hops);
            try {
                if (hurried != 0) {
                    own.send(actors[to], Hurry{m}, longest);
                } else {
                    own.send(actors[to], m, longest);
                }
                ledger.sent[thread][to % two][m.id] |= static_cast<uint8_t>(1u << m.hops);
                if (draw(4) == 1) {
                    whom = draw(static_cast<uint32_t>(actors.size()));
                    ask(thread, whom);
                }
            } catch (const Error& e) {
                require(e.code() == Errc::host_lost && whom % two != thread, e.what());
                return; // that host is lost
            }
        }
    }
    void ask(uint32_t thread, uint32_t whom)
    {
        const Address to = actors[whom];
        const FarFormat& format = rt[thread].untyped().far().format();
        const auto sum = rt[thread].ask<Sum>(format.to_short(to), Audit{}, longest);
        require(sum.faults == 0, "an actor saw messages out of order or torn");
    }

    std::string state_of(const LinkCounts& c, uint32_t h)
    {
        return "host " + std::to_string(h) + (link[h]->idle() ? " is idle, " : " is not idle, ") +
               std::to_string(c.taken) + " taken, " + std::to_string(c.acknowledged) +
               " acknowledged, " + std::to_string(c.delivered) + " delivered";
    }
    // As Cluster.drain() does it: nothing is under way on any host nor between them, and two rounds
    // tell the same.
    void quiet()
    {
        const uint64_t begin = now_ns();
        std::array<uint64_t, 4> before{};
        for (bool twice = false;;) { // ends so, or by the time
            std::array<LinkCounts, two> c;
            bool idle = true;
            for (uint32_t h = 0; h < two; ++h) {
                rt[h].drain(patience());
                c[h] = link[h]->counts();
                idle = link[h]->idle() && idle;
            }
            require(c[0].refused + c[1].refused == 0, "messages were refused");
            const std::array<uint64_t, 4> now{c[0].taken, c[0].delivered, c[1].taken,
                                              c[1].delivered};
            const bool arrived = idle && now[0] == now[3] && now[2] == now[1];
            if (arrived && twice && now == before) {
                return;
            }
            twice = arrived;
            before = now;
            if (now_ns() - begin >= static_cast<uint64_t>(patience().count())) {
                fail("messages stay on their way between two hosts: " + state_of(c[0], 0) + ", " +
                     state_of(c[1], 1));
            }
            std::this_thread::sleep_for(100us);
        }
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
            require(link[h]->state() == Link::State::up, "a host was lost");
            require(link[h]->counts().taken == link[h]->counts().acknowledged,
                    "an idle link has messages that are not acknowledged");
        }
        for (uint32_t i = 0; i < actors.size(); ++i) {
            ask(i / two % two, i);
        }
    }

    template <class Done>
    void wait(Done&& done, const char* otherwise)
    {
        const uint64_t begin = now_ns();
        for (auto nap = 250ns; !done();
             nap = nap < 16us ? 2 * nap : nap) { // ends so, or by the time
            require(now_ns() - begin < static_cast<uint64_t>(longest.count()), otherwise);
            std::this_thread::sleep_for(nap);
        }
    }

    // Nothing leaves a host while its link is paused, and what had has arrived.
    void hold(uint32_t h)
    {
        link[h]->pause(true);
        wait([&] { return link[h]->paused(); }, "a link is not paused");
        const uint64_t taken = link[h]->counts().taken;
        wait([&] { return link[1 - h]->counts().delivered == taken; },
             "what was sent has not arrived");
        std::this_thread::sleep_for(30us);
        require(link[h]->counts().taken == taken, "a paused link sends");
        link[h]->pause(false);
    }
    // As Cluster.save() does it: both hosts with what was under way between them, when nothing is.
    void save()
    {
        for (bool still = false; !still;) { // ends: what is between them arrives
            for (Rt& r : rt) {
                r.untyped().hold(longest);
            }
            const uint64_t begin = now_ns();
            while (!still && now_ns() - begin < 300'000) {
                still = rests() && rests();
                std::this_thread::sleep_for(1us);
            }
            if (still) {
                saved_ = ledger;
                for (uint32_t h = 0; h < two; ++h) {
                    rt[h].untyped().save(file(h), longest);
                }
            }
            for (Rt& r : rt) {
                r.untyped().let_go();
            }
        }
    }
    bool rests()
    {
        const LinkCounts x = link[0]->counts();
        const LinkCounts y = link[1]->counts();
        return link[0]->idle() && link[1]->idle() && x.taken == y.delivered &&
               y.taken == x.delivered && x.taken == link[0]->counts().taken &&
               y.taken == link[1]->counts().taken;
    }
    static std::string file(uint32_t host) { return folder() + "/host" + std::to_string(host); }
    void pause(uint32_t whom)
    {
        const uint32_t h = whom % two;
        const Address actor = rt[h].untyped().far().format().to_short(actors[whom]);
        rt[h].pause(actor, patience());
        rt[h].resume(actor, patience());
    }

    // The other host is lost to this one: all that was bound for it is buried.
    void settle(uint32_t h)
    {
        wait([&] { return link[h]->settled(); }, "the loss of a host is not settled");
        require(link[h]->state() == Link::State::lost && !link[h]->why().empty(),
                "a host is lost and the link is not");
        bury_all(h);
    }
    // Its own actors send to those of the lost host, and it asks one.
    void post_to_lost(uint32_t h, uint32_t letters)
    {
        const uint64_t lost = link[h]->counts().lost;
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
            if (link[h]->idle() && whole) {
                require(link[h]->counts().lost >= lost + known,
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
            const Note m{most_actors + most_hosts + h, number[own]++, h * 100 + begun_[h]++,
                         1 + draw(3)};
            rt[h].send(actors[own], m, patience());
            ledger.sent[h][h][m.id] |= static_cast<uint8_t>(1u << m.hops);
        }
        rt[h].drain(longest);
        if (draw(2) == 1) {
            try {
                rt[h].ask<Sum>(actors[1 - h], Audit{}, patience());
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
        wait([&] { return link[h]->idle(); }, "the link to a lost host is not idle");
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
        std::thread other([&] { link[1].reset(); });
        link[0].reset();
        other.join();
        for (Rt& r : rt) {
            r.close(patience());
        }
    }

    using Rt = Runtime<Route>;

private:
    denizen::Options of(uint32_t own) const
    {
        denizen::Options o = options_;
        o.hosts = two;
        o.host = own;
        o.restore = restores_ ? file(own) : "";
        o.nodes = 1 + progress().drawn[7] / 8; // one in three has two
        o.workers = o.nodes == 1 ? 1 + o.workers % two : 1;
        o.inbox_slots = std::max(o.inbox_slots, lane_slots_);
        o.urgent_slots = std::max(o.urgent_slots, lane_slots_);
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

    uint32_t lane_slots_ = 0; // or as drawn
    bool restores_ = false;
    denizen::Options options_;
    Ledger saved_ = {};
    uint64_t nonce_ = 1; // of the stream
    uint32_t begun_[two] = {};
    uint32_t number_[two][2][most_actors] = {};

public:
    nanoseconds longest = patience(); // that a wait takes
    Rt rt[two];
    std::unique_ptr<Link> link[two];
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
                        t.rt[h].pause(patience());
                        t.rt[h].resume();
                        break;
                    case 2: t.pause(whom); break;
                    default: t.cut();
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
        t.longest = patience() + 30ms;            // until a host knows
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
                t.link[1].reset(); // its end of the socket closes
            } else {
                std::copy_n(ledger.handled, most_ids, ledger.before);
            }
            if (how != 3 || stream) {
                t.link[0]->lose("it was told so");
            }
            if (how == 2) {
                t.link[1]->lose("it was told so, too");
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
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    const auto of = [all](const char* name, void (*body)(), uint32_t cost = 5) {
        return Scenario{name, body, all, nullptr, 2'000'000, cost};
    };
    return {
        of("hosts", [] { sends(Over::rings); }),
        of("hosts_drain", [] { drains(Over::rings); }),
        of("hosts_pause", [] { disturbs(Over::rings); }),
        of("hosts_lost", [] { losses(Over::rings); }),
        of(
            "hosts_saved", [] { saves(Over::rings); }, 10),
        of("streams", [] { sends(Over::stream); }),
        of("streams_drain", [] { drains(Over::stream); }),
        of("streams_break", [] { disturbs(Over::stream); }),
        of("streams_lost", [] { losses(Over::stream); }),
        of(
            "streams_saved", [] { saves(Over::stream); }, 10),
    };
}

} // namespace simulation
