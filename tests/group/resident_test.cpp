// SPDX-License-Identifier: Apache-2.0
// A resident group on CPU threads: results, order, more calls than fit, leaving and coming back,
// and a rank that does not come.
#include "group/calls.hpp"
#include "support/scaled.hpp"
#include "support/threads.hpp"

#include <denizen/group/resident.hpp>

#include <gtest/gtest.h>

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
// or all look where the host writes.
class Served {
public:
    static constexpr uint32_t teams = 3;

    Served(bool passes_on, uint64_t lease_ns)
    {
        box_ = {post_, post_,   passes_on ? relay_ : post_, &left, &failed, done, stay, &over_,
                teams, lease_ns};
    }

    void launch(uint32_t wrong_from)
    {
        for (std::thread& t : threads_) t.join();
        threads_.clear();
        over_ = 0;
        for (uint32_t team = 0; team < teams; ++team) {
            threads_.emplace_back([this, team, wrong_from] {
                Packet shared[2 * post_packets];
                serve(box_, team, teams, shared, [&](const Call& call) {
                    seen[team].push_back(call.count);
                    return call.count < wrong_from;
                });
            });
        }
    }

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
        for (uint32_t team = 0; team < teams && team < channels; ++team) {
            expected[team].push_back(number);
        }
    }
    bool is_done(uint32_t number, uint32_t channels) const
    {
        for (uint32_t team = 0; team < teams && team < channels; ++team) {
            if (load<Scope::system, Order::acquire>(done + team) != number) return false;
        }
        return true;
    }
    void leave(uint32_t number)
    {
        Packet message[post_packets] = {};
        for (Packet& p : message) p = {{leave_kind, 0, 0}, number};
        tell(number, message);
        for (std::thread& t : threads_) t.join();
        threads_.clear();
    }

    Packet left{}, failed{};
    uint32_t done[teams] = {};
    uint32_t stay[teams] = {1, 1, 1};
    std::vector<std::vector<uint64_t>> seen{teams}, expected{teams};

private:
    Packet post_[posts * post_packets] = {};
    Packet relay_[posts * post_packets] = {};
    uint32_t over_ = 0;
    Mailbox box_{};
    std::vector<std::thread> threads_;
};

TEST(Mailbox, EveryTeamReportsForItself)
{
    constexpr uint32_t calls = 300;
    for (const bool passes_on : {false, true}) {
        Served served(passes_on, 20'000'000'000);
        served.launch(calls); // the last one goes wrong
        Random random(1);
        for (uint32_t number = 1; number <= calls; ++number) {
            const auto some = static_cast<uint32_t>(1 + random() % (Served::teams + 2));
            const uint32_t channels = number == calls ? Served::teams : some; // some have no team
            served.call(number, channels);
            // Ends: each of those teams has a part.
            while (!served.is_done(number, channels)) std::this_thread::yield();
        }
        served.leave(calls + 1);
        EXPECT_EQ(served.seen, served.expected);
        EXPECT_EQ(served.failed.sequence, calls);
        EXPECT_EQ(served.left.sequence, calls + 1);
        for (const uint32_t stay : served.stay) EXPECT_EQ(stay, calls + 1);
    }
}

// Teams leave while calls come, and are launched again: each does every call of its own once.
TEST(Mailbox, TeamsComeBackWhereEachLeft)
{
    const uint32_t calls = test::scaled(3000);
    for (const bool passes_on : {false, true}) {
        Served served(passes_on, 20'000);
        served.launch(calls + 1);
        uint32_t launches = 1;
        Random random(2);
        for (uint32_t number = 1; number <= calls; ++number) {
            const auto channels = static_cast<uint32_t>(1 + random() % Served::teams);
            if (random() % 4 == 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
            }
            served.call(number, channels);
            while (!served.is_done(number, channels)) { // ends: who has left comes back for it
                const Packet left = Direct::load(&served.left);
                if (left.sequence != 0 && left.sequence <= number) {
                    Direct::store(&served.left, Packet{});
                    served.launch(calls + 1);
                    ++launches;
                }
                std::this_thread::yield();
            }
        }
        served.leave(calls + 1);
        EXPECT_EQ(served.seen, served.expected);
        EXPECT_GT(launches, 2u);
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
