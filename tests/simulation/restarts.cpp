// SPDX-License-Identifier: Apache-2.0
// A host is lost again and again, and started again from the last snapshot. What durable actors of
// it were sent, and it had acknowledged, is in their state once; all else is dead letters. Or its
// process gives way to another: then nothing is lost.
#include "links.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

namespace simulation {
namespace {

constexpr uint32_t rows = 4; // of numbers: from a thread or an actor, urgent or not

struct Number {
    uint32_t row;
    uint32_t number;
};
struct Hasty {
    static constexpr Priority priority = Priority::urgent;
    uint32_t row;
    uint32_t number;
};
struct Push { // one of each
    uint32_t to;
};
struct Tell {};
struct Seen {
    uint32_t numbers[rows]; // a bit each
    uint32_t faults;
};

struct Keeper {
    Seen seen = {};

    void on(const Number& m, auto&) { take(m.row, m.number); }
    void on(const Hasty& m, auto&) { take(m.row, m.number); }
    void on(const Tell&, auto& ctx) { ctx.reply(seen); }
    void take(uint32_t row, uint32_t number)
    {
        seen.faults += seen.numbers[row] >> number != 0; // it, or a later one
        seen.numbers[row] |= 1u << number;
    }
};

struct Pusher {
    uint32_t next = 0;

    void on(const Push& m, auto& ctx)
    {
        ctx.send(Address{m.to}, Number{2, next});
        ctx.send(Address{m.to}, Hasty{3, next});
        ++next;
    }
};

using Kept = Program<Actors<Keeper, Pusher>, Messages<Number, Hasty, Push, Tell, Seen>>;

class Restarts {
public:
    explicit Restarts(Over over) : over_(over), options_(small(On::threads, 1))
    {
        log_bytes_ = draw(4) == 1 ? 200 : 1 << 16;
        start(0, false);
        start(1, false);
        keeper_ = far(1, rt_[1]->spawn<Keeper>());
        pusher_ = far(0, rt_[0]->spawn<Pusher>());
        link_.make(rt_[0]->untyped(), rt_[1]->untyped(), over_);
        save();
    }

    // While a log is full or a host away this waits for the other thread.
    void send(uint32_t count)
    {
        for (uint32_t i = 0; i < count && sent_ < 30; ++i) {
            rt_[0]->send(pusher_, Push{keeper_.value}, 10s);
            ++pushed_;
            if (draw(8) == 1) { // restarts are as long
                std::this_thread::sleep_for(std::chrono::microseconds(draw(16) * draw(16)));
            }
            const uint32_t number = sent_++;
            try {
                rt_[0]->send(keeper_, Number{0, number}, 10s);
                given_[0] |= 1u << number;
                rt_[0]->send(keeper_, Hasty{1, number}, 10s);
                given_[1] |= 1u << number;
            } catch (const Error& e) {
                require(e.code() == Errc::host_lost, e.what());
            }
        }
    }

    void save()
    {
        stand_still();
        write();
        go_on(0);
        go_on(1);
        cut_logs();
    }

    // Host 1 ends, and is started again, as Cluster.restart_lost() does it.
    void restart()
    {
        lost_ = true;
        if (draw(2) == 1) { // it is known before it has ended
            link_.of[0]->lose("it is to end");
        }
        link_.of[1].reset();
        rt_[1]->close(longest);
        link_.of[0]->lose("its process has ended");
        wait([&] { return link_.of[0]->settled(); }, longest, "the loss of a host is not settled");
        start(1, true);
        rt_[1]->untyped().far().renew(0);
        link_.of[0].reset();
        rt_[0]->untyped().far().renew(1);
        link_.make(rt_[0]->untyped(), rt_[1]->untyped(), over_);
    }

    // Another process takes host 1's place, as Cluster.rolling_restart() does it.
    void roll()
    {
        stand_still();
        link_.of[0]->pause(true);
        wait([&] { return link_.of[0]->paused(); }, longest, "a link is not paused");
        write();
        go_on(0);
        link_.of[0].reset();
        rt_[0]->untyped().far().recount(1);
        cut_logs();
        link_.of[1].reset();
        go_on(1); // until it is killed
        rt_[1]->close(longest);
        start(1, true);
        link_.make(rt_[0]->untyped(), rt_[1]->untyped(), over_);
    }

    void quiet()
    {
        rt_[0]->untyped().far().open_logs(true); // nobody saves any more
        link_.quiet([&] {
            for (auto& r : rt_) {
                r->drain(longest);
            }
        });
    }

    void expect()
    {
        uint32_t dead[rows] = {};
        for (const DeadLetter& d : rt_[0]->dead_letters().letters) {
            Number n;
            std::memcpy(&n, d.payload.data(), sizeof n);
            require(d.reason == Reason::lost && (dead[n.row] >> n.number & 1) == 0,
                    "a dead letter is another one, or died twice");
            dead[n.row] |= 1u << n.number;
        }
        given_[2] = given_[3] = (1u << pushed_) - 1;
        const FarFormat& format = rt_[1]->untyped().far().format();
        const auto seen = rt_[1]->ask<Seen>(format.to_short(keeper_), Tell{}, longest);
        require(seen.faults == 0, "an actor saw a message twice or out of order");
        for (uint32_t row = 0; row < rows; ++row) {
            require((dead[row] & ~given_[row]) == 0, "a dead letter was not sent");
            require((seen.numbers[row] & dead[row]) == 0, "a message that was handled is dead");
            require((seen.numbers[row] | dead[row]) == given_[row],
                    "a message was neither handled nor is it dead");
            require(lost_ || dead[row] == 0, "no host was lost, and a message is dead");
        }
        for (auto& r : rt_) {
            require(r->stats().errors == 0, "the runtime has an error");
        }
    }

    void close()
    {
        link_.close();
        for (auto& r : rt_) {
            r->close(longest);
        }
    }

private:
    using Rt = Runtime<Kept>;

    // Both hosts, with what was between them; no log holds that up.
    void stand_still()
    {
        for (auto& r : rt_) {
            r->untyped().far().open_logs(true);
        }
        link_.hold(rt_[0]->untyped(), rt_[1]->untyped(), longest);
    }
    void write()
    {
        for (uint32_t h = 0; h < two; ++h) {
            rt_[h]->untyped().save(file_of(h), longest);
            rt_[h]->untyped().far().mark_log(1 - h);
        }
    }
    void go_on(uint32_t h)
    {
        rt_[h]->untyped().let_go();
        rt_[h]->untyped().far().open_logs(false);
    }
    void cut_logs()
    {
        for (uint32_t h = 0; h < two; ++h) {
            rt_[h]->untyped().far().cut_log(1 - h);
        }
    }

    void start(uint32_t host, bool again)
    {
        denizen::Options o = host_options(options_, host);
        o.restore = again ? file_of(host) : "";
        rt_[host].reset();
        rt_[host] = std::make_unique<Rt>(options_.device, o);
        rt_[host]->untyped().far().durable({image_of<Kept>().actors[0]}, log_bytes_);
    }
    Address far(uint32_t host, Address actor) const
    {
        return rt_[host]->untyped().far().format().to_far(actor);
    }

    Over over_;
    denizen::Options options_;
    uint64_t log_bytes_ = 0;
    std::unique_ptr<Rt> rt_[two];
    LinkOfHosts link_;
    Address keeper_{0};
    Address pusher_{0};
    uint32_t sent_ = 0;
    uint32_t pushed_ = 0;
    uint32_t given_[rows] = {};
    bool lost_ = false;

public:
    nanoseconds longest = link_patience() + 30ms; // that a wait takes
};

void restarts(Over over)
{
    checked([over] {
        Restarts t(over);
        std::atomic<bool> sent{false};
        std::thread other([&] {
            checked([&] { t.send(draw(30)); });
            sent = true;
        });
        for (uint32_t i = draw(4); i > 0; --i) {
            std::this_thread::sleep_for(std::chrono::microseconds(draw(16) * draw(16)));
            switch (draw(3)) {
            case 0: t.save(); break;
            case 1: t.restart(); break;
            default: t.roll();
            }
        }
        while (!sent) { // ends: a log that is full is emptied
            t.save();
            std::this_thread::sleep_for(100us);
        }
        other.join();
        t.quiet();
        t.expect();
        t.close();
    });
}

} // namespace

std::vector<Scenario> restart_scenarios()
{
    return {
        of_hosts("hosts_restart", 20, [] { restarts(Over::rings); }),
        of_hosts("streams_restart", 20, [] { restarts(Over::stream); }),
    };
}

} // namespace simulation
