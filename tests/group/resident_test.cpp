// SPDX-License-Identifier: Apache-2.0
// A resident group on CPU threads: results, order, more calls than fit, leaving and coming back,
// breaths, and a rank that does not come.
#include "group/calls.hpp"
#include "support/scaled.hpp"
#include "support/threads.hpp"

#include <denizen/group/resident.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

using namespace denizen;
using namespace denizen::group;
using denizen::test::on_threads;

TEST(Mailbox, ACallGoesThroughPackets)
{
    Call call;
    call.kind = Kind::all_to_all;
    call.type = Type::bf16;
    call.op = Op::avg;
    call.algorithm = Algorithm::pull_twice;
    call.root = 7;
    call.channels = 256;
    call.count = 0x123456789abcdefull;
    call.in = &call;
    call.out = &call + 1;
    call.in_place = 0xfedcba987654321ull;
    call.out_place = 5;
    Packet message[post_packets];
    encode(call, 77, message);
    const Call got = decode(message);
    EXPECT_EQ(message[3].sequence, 77u);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(signature_of(call).word[i], signature_of(got).word[i]);
    }
    EXPECT_EQ(got.count, call.count);
    EXPECT_EQ(got.in, call.in);
    EXPECT_EQ(got.out, call.out);
    EXPECT_EQ(got.in_place, call.in_place);
    EXPECT_EQ(got.out_place, call.out_place);
}

// Teams that are threads, and the host's side of their mailbox: the first passes on what has come,
// or all look where the host writes. With a breath a thread stands for the keeper: it launches
// incarnation after incarnation, one behind the other, and brings the teams back that have left.
class Served {
public:
    static constexpr uint32_t teams = 3;
    using Perform = std::function<bool(uint32_t team, const Call& call)>;

    Served(bool passes_on, uint64_t lease_ns, uint64_t breath_ns, Perform perform)
        : perform_(std::move(perform))
    {
        box_.post = box_.inbox = post_;
        box_.relay = passes_on ? relay_ : post_;
        box_.left = &left;
        box_.failed = &failed;
        box_.done = done;
        box_.stay = &stay;
        box_.teams = teams;
        box_.lease_ns = lease_ns;
        box_.term.ns = breath_ns;
        box_.term.state = &term_;
        box_.term.words = &words_;
        box_.term.blocks = teams;
        stay.number = 1;
        keeper_ = std::thread([this] { keep(); });
    }
    ~Served() { leave(0); }

    void tell(uint32_t number, const Packet (&message)[post_packets])
    {
        for (uint32_t i = post_packets; i-- > 0;) {
            Direct::store(post_ + number % posts * post_packets + i, message[i]);
        }
    }
    void call(uint32_t number, uint32_t channels)
    {
        Call call;
        call.kind = Kind::all_reduce;
        call.channels = channels;
        call.count = number;
        Packet message[post_packets];
        encode(call, number, message);
        tell(number, message);
        store<Scope::system, Order::release>(&posted_, number);
    }
    bool is_done(uint32_t number, uint32_t channels) const
    {
        for (uint32_t team = 0; team < teams && team < channels; ++team) {
            if (load<Scope::system, Order::acquire>(done + team) < number) return false;
        }
        return true;
    }
    // By a message, if it has a number.
    void leave(uint32_t number)
    {
        if (!keeper_.joinable()) return;
        store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::stop));
        Packet message[post_packets] = {};
        for (Packet& p : message) p = {{leave_kind, 0, 0}, number};
        if (number != 0) tell(number, message);
        store<Scope::system, Order::release>(&stop_, 1u);
        keeper_.join();
    }

    Packet left{}, failed{};
    uint32_t done[teams] = {};
    Stay stay{};
    uint32_t launches = 0; // read them after leave()
    uint32_t incarnations = 0;
    uint32_t too_late = 0; // successors that found that the program had left

private:
    void keep()
    {
        uint32_t number = 0;
        const auto run = [&](bool successor) {
            Mailbox box = box_;
            box.term.incarnation = ++number;
            box.term.successor = successor ? 1 : 0;
            std::vector<std::thread> threads;
            for (uint32_t team = 0; team < teams; ++team) {
                threads.emplace_back([&, team] {
                    Packet shared[2 * post_packets];
                    serve(box, team, teams, shared,
                          [&](const Call& call) { return perform_(team, call); });
                });
            }
            for (std::thread& t : threads) t.join();
            EXPECT_EQ(load<Scope::system>(&words_.ended), number);
        };
        const auto mode = [&] {
            return static_cast<Mode>(load<Scope::system, Order::acquire>(&words_.mode));
        };
        while (true) { // ends after stop_, when the teams have left
            term_.over = 0;
            store<Scope::system>(&words_.mode, static_cast<uint32_t>(Mode::starting));
            ++launches;
            run(false);
            while (mode() != Mode::left) run(true); // ends by the lease, or a command
            incarnations = number;
            if (number % 2 == 0) { // one was queued
                run(true);
                EXPECT_EQ(mode(), Mode::left);
                ++too_late;
            }
            // Ends by stop_, or when something is posted.
            while (load<Scope::system, Order::acquire>(&posted_) < left.sequence) {
                if (load<Scope::system, Order::acquire>(&stop_) != 0) return;
                std::this_thread::yield();
            }
            if (load<Scope::system>(&stop_) != 0) return;
        }
    }

    Perform perform_;
    Packet post_[posts * post_packets] = {};
    Packet relay_[posts * post_packets] = {};
    Term term_;
    ResidentWords words_;
    Mailbox box_{};
    uint32_t posted_ = 0;
    uint32_t stop_ = 0;
    std::thread keeper_;
};

// Posts `calls` for all teams, as many at a time as may be under way, with some pauses.
void drive(Served& served, uint32_t calls, uint32_t seed)
{
    Random random(seed);
    const auto until_done = [&](uint32_t number) { // ends: the teams come back for it
        while (!served.is_done(number, Served::teams)) std::this_thread::yield();
    };
    for (uint32_t number = 1; number <= calls; ++number) {
        if (number >= posts) until_done(number + 1 - posts);
        if (random() % 16 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        }
        served.call(number, Served::teams);
    }
    until_done(calls);
}

// What each team was asked for, and what it did.
struct Told {
    Served::Perform performing(uint32_t wrong_from)
    {
        return [this, wrong_from](uint32_t team, const Call& call) {
            seen[team].push_back(call.count);
            return call.count < wrong_from;
        };
    }
    void expect(uint32_t number, uint32_t channels)
    {
        for (uint32_t team = 0; team < Served::teams && team < channels; ++team) {
            expected[team].push_back(number);
        }
    }
    std::vector<std::vector<uint64_t>> seen{Served::teams}, expected{Served::teams};
};

TEST(Mailbox, EveryTeamReportsForItself)
{
    constexpr uint32_t calls = 300;
    for (const bool passes_on : {false, true}) {
        Told told;
        Served served(passes_on, 20'000'000'000, 0, told.performing(calls)); // the last goes wrong
        Random random(1);
        for (uint32_t number = 1; number <= calls; ++number) {
            const auto some = static_cast<uint32_t>(1 + random() % (Served::teams + 2));
            const uint32_t channels = number == calls ? Served::teams : some; // some have no team
            served.call(number, channels);
            told.expect(number, channels);
            // Ends: each of those teams has a part.
            while (!served.is_done(number, channels)) std::this_thread::yield();
        }
        served.leave(calls + 1);
        EXPECT_EQ(told.seen, told.expected);
        EXPECT_EQ(served.failed.sequence, calls);
        EXPECT_EQ(served.left.sequence, calls + 1);
        EXPECT_EQ(served.launches, 1u);
    }
}

// Teams leave while calls come, by the lease, at the end of a breath, or for both reasons, and come
// back: each does every call of its own once.
TEST(Mailbox, TeamsComeBackWhereTheyLeft)
{
    const uint32_t calls = test::scaled(1000);
    struct Ends {
        uint64_t lease_ns, breath_ns;
    };
    for (const auto [lease_ns, breath_ns] :
         {Ends{20'000, 0}, Ends{20'000'000'000, 200'000}, Ends{60'000, 50'000}}) {
        for (const bool passes_on : {false, true}) {
            Told told;
            Served served(passes_on, lease_ns, breath_ns, told.performing(calls + 1));
            Random random(2);
            uint32_t first = 1; // that may not be done
            const auto until_done = [&](uint32_t number, const std::vector<uint32_t>& channels) {
                for (; first <= number; ++first) { // ends: who has left comes back for it
                    while (!served.is_done(first, channels[first])) std::this_thread::yield();
                }
            };
            std::vector<uint32_t> channels(calls + 1);
            for (uint32_t number = 1; number <= calls; ++number) {
                channels[number] = static_cast<uint32_t>(1 + random() % Served::teams);
                if (random() % 4 == 0) {
                    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
                }
                if (number >= posts) until_done(number + 1 - posts, channels);
                served.call(number, channels[number]);
                told.expect(number, channels[number]);
                // One at a time, or as many as may be under way.
                if (random() % 8 != 0) until_done(number, channels);
            }
            until_done(calls, channels);
            served.leave(calls + 1);
            EXPECT_EQ(told.seen, told.expected);
            EXPECT_EQ(served.left.sequence, calls + 1);
            if (lease_ns < 1'000'000) {
                EXPECT_GT(served.launches, 2u);
            } else {
                EXPECT_EQ(served.launches, 1u);
            }
            if (breath_ns != 0) {
                EXPECT_GT(served.incarnations, 2u);
            }
        }
    }
}

// Two ranks whose teams wait for each other in every call, as in a collective: whatever the teams
// of one are in when they leave, the other's come as far as that. If the teams of a rank left where
// each happens to be, the ranks' successors would wait for each other.
TEST(Mailbox, RanksDoNotWaitForEachOthersSuccessors)
{
    const uint32_t calls = test::scaled(3000);
    for (const uint64_t lease_ns : {uint64_t{20'000'000'000}, uint64_t{100'000}}) {
        std::atomic<uint32_t> came[2][Served::teams] = {};
        std::atomic<bool> stuck = false;
        const auto performing = [&](uint32_t rank) {
            return [&, rank](uint32_t team, const Call& call) {
                came[rank][team].store(static_cast<uint32_t>(call.count));
                const uint64_t begin = now_ns();
                // Ends when the peer's team has come, or after so long that it never will.
                while (came[1 - rank][team].load() < call.count && !stuck) {
                    if (now_ns() - begin > 20'000'000'000) stuck = true;
                    std::this_thread::yield();
                }
                return !stuck;
            };
        };
        Served a(false, lease_ns, 70'000, performing(0));
        Served b(true, lease_ns, 110'000, performing(1));
        std::thread second([&] { drive(b, calls, 5); });
        drive(a, calls, 6);
        second.join();
        EXPECT_FALSE(stuck);
        a.leave(calls + 1);
        b.leave(calls + 1);
        EXPECT_GT(a.incarnations, 2u);
        EXPECT_GT(b.incarnations, 2u);
    }
}

TEST(ResidentGroup, DoesWhatIsPosted)
{
    for (const uint32_t n : {1u, 2u, 4u}) {
        auto groups = Group::local(n, Device::cpu());
        on_threads(n, [&](uint32_t r) {
            ResidentGroup resident(groups[r]);
            std::vector<std::vector<int32_t>> x(100);
            for (size_t i = 0; i < x.size(); ++i) { // more than may be under way
                x[i].assign(i * 50, static_cast<int32_t>(r + i));
                resident.all_reduce(x[i].data(), x[i].data(), x[i].size(), Type::i32);
            }
            resident.wait();
            for (size_t i = 0; i < x.size(); ++i) {
                const auto sum = static_cast<int32_t>(n * i + n * (n - 1) / 2);
                EXPECT_EQ(x[i], std::vector<int32_t>(i * 50, sum));
            }
            EXPECT_GE(resident.launches(), 1u);
        });
        on_threads(n, [&](uint32_t r) { groups[r].barrier(); }); // it is an ordinary group again
    }
}

TEST(ResidentGroup, LeavesAndComesBack)
{
    auto groups = Group::local(2, Device::cpu());
    on_threads(2, [&](uint32_t r) {
        ResidentGroup resident(groups[r], 0, std::chrono::milliseconds(5));
        for (int i = 0; i < 5; ++i) {
            float x = static_cast<float>(r + 1);
            resident.wait(resident.all_reduce(&x, &x, 1, Type::f32));
            EXPECT_EQ(x, 3.0f);
            std::this_thread::sleep_for(std::chrono::milliseconds(40));
        }
        EXPECT_GE(resident.launches(), 2u);
    });
}

TEST(ResidentGroup, SaysWhoDidNotCome)
{
    GroupOptions o;
    o.timeout = std::chrono::seconds(1);
    auto groups = Group::local(2, Device::cpu(), o);
    ResidentGroup resident(groups[0]);
    float x = 1;
    const uint32_t number = resident.all_reduce(&x, &x, 1, Type::f32);
    try {
        resident.wait(number);
        FAIL() << "without rank 1";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::peer_dead);
        EXPECT_NE(std::string(error.what()).find("for rank 1"), std::string::npos) << error.what();
    }
    EXPECT_THROW(groups[1].barrier(), Error);
}
