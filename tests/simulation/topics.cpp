// SPDX-License-Identifier: Apache-2.0
// Two hosts publish while subscribers of one of them come and go: who stays gets all that is
// published once he is known there, once and in its publisher's order.
#include "links.hpp"

#include <array>
#include <thread>
#include <vector>

namespace simulation {
namespace {

constexpr const char* patterns[] = {"a/*", "a/b"}; // all is published to the second
constexpr uint32_t publishers = 3;                 // two actors of host 0 and a thread of it

struct Item {
    uint32_t source;
    uint32_t number;
};
struct Print {
    uint32_t count;
};
struct Tell {};
struct Read {
    uint32_t items[publishers];
    uint32_t faults;
};

struct Reader {
    uint32_t next[publishers] = {};
    Read read = {};

    void on(const Item& m, auto&)
    {
        read.faults += m.number < next[m.source]; // who comes late has missed some
        next[m.source] = m.number + 1;
        ++read.items[m.source];
    }
    void on(const Tell&, auto& ctx) { ctx.reply(read); }
};

struct Printer {
    uint32_t me = 0;
    uint32_t sent = 0;

    void on(const Item& m, auto&) { me = m.source; }
    void on(const Print& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.publish("a/b", Item{me, sent++});
        }
    }
};

using Press = Program<Actors<Reader, Printer>, Messages<Item, Print, Tell, Read>>;

class Topics {
public:
    explicit Topics(Over over)
        : options_(small(On::threads, 1)), rt_{Rt(options_.device, host_options(options_, 0)),
                                               Rt(options_.device, host_options(options_, 1))}
    {
        link_.make(rt_[0].untyped(), rt_[1].untyped(), over);
        for (uint32_t h = 0; h < two; ++h) {
            own_[h] = Link::loop(rt_[h].untyped());
        }
        for (uint32_t i = 0; i + 1 < publishers; ++i) {
            printers_.push_back(rt_[0].spawn<Printer>());
            rt_[0].send(printers_.back(), Item{i, 0}, longest);
        }
        for (uint32_t h = 0; h < two; ++h) {
            stays_.push_back(rt_[h].spawn<Reader>());
            const char* const pattern = patterns[draw(2)];
            rt_[h].subscribe(stays_.back(), pattern, longest);
            if (h == 1) {
                settle(pattern);
            }
        }
    }

    void publish()
    {
        for (uint32_t i = draw(10); i > 0; --i) {
            if (const uint32_t who = draw(publishers); who + 1 < publishers) {
                const uint32_t count = 1 + draw(3);
                rt_[0].send(printers_[who], Print{count}, longest);
                sent_[who] += count;
            } else {
                rt_[0].publish("a/b", Item{who, sent_[who]++}, longest);
            }
        }
    }
    void come_and_go()
    {
        const Address reader = rt_[1].spawn<Reader>();
        const char* const pattern = patterns[draw(2)]; // by two it may get an item twice
        for (uint32_t i = draw(5); i > 0; --i) {
            rt_[1].subscribe(reader, pattern, longest);
            rt_[1].unsubscribe(reader, pattern, longest);
        }
        comes_ = reader;
    }

    void expect()
    {
        for (uint32_t h = 0; h < two; ++h) {
            wait([&] { return read(h, stays_[h]) == sent_; }, longest,
                 "a subscriber has not got all that was published");
        }
        std::this_thread::sleep_for(100us);
        for (uint32_t h = 0; h < two; ++h) {
            require(read(h, stays_[h]) == sent_, "a subscriber got more than was published");
            require(rt_[h].stats().errors == 0, "the runtime has an error");
        }
        read(1, comes_);
        wait([&] { return link_.rests(); }, longest,
             "messages stay on their way between two hosts");
        require(link_.of[0]->counts().refused + link_.of[1]->counts().refused == 0,
                "messages were refused");
    }
    void close()
    {
        link_.close();
        for (uint32_t h = 0; h < two; ++h) {
            own_[h].reset();
            rt_[h].close(longest);
        }
    }

private:
    using Rt = Runtime<Press>;
    using Items = std::array<uint32_t, publishers>;

    // Host 0 knows of it, as Cluster.subscribe() makes sure.
    void settle(const char* pattern)
    {
        FarDoor& here = rt_[1].untyped().far();
        FarDoor& there = rt_[0].untyped().far();
        uint64_t told = 0;
        wait([&] { return own_[1]->idle() && here.told(0, told); }, longest, "a host was not told");
        wait([&] { return there.heard(1) >= told; }, longest,
             "a host has not heard of a subscription");
        there.settle_topics(1, pattern, longest);
    }
    Items read(uint32_t h, Address reader)
    {
        const auto r = rt_[h].ask<Read>(reader, Tell{}, longest);
        require(r.faults == 0, "a subscriber got an item twice or out of order");
        return std::to_array(r.items);
    }
    denizen::Options options_;
    Rt rt_[two];
    LinkOfHosts link_;
    std::unique_ptr<Link> own_[two];
    std::vector<Address> printers_;
    std::vector<Address> stays_;
    Address comes_{0};
    Items sent_ = {};

public:
    nanoseconds longest = link_patience() + 30ms; // that a wait takes
};

void topics(Over over)
{
    checked([over] {
        Topics t(over);
        std::thread other([&] { checked([&] { t.come_and_go(); }); });
        t.publish();
        other.join();
        t.expect();
        t.close();
    });
}

} // namespace

std::vector<Scenario> topic_scenarios()
{
    return {
        of_hosts("hosts_topics", 10, [] { topics(Over::rings); }),
        of_hosts("streams_topics", 10, [] { topics(Over::stream); }),
    };
}

} // namespace simulation
