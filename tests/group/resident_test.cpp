// SPDX-License-Identifier: Apache-2.0
// A resident group on CPU threads: results, order, more calls than fit, leaving and coming back,
// and a rank that does not come.
#include "group/calls.hpp"
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

// Teams that are threads: the first passes on, each does what it has a part in and reports that.
TEST(Mailbox, EveryTeamReportsForItself)
{
    constexpr uint32_t teams = 3;
    constexpr uint32_t calls = 300;
    Packet post[posts * post_packets] = {};
    Packet relay[posts * post_packets] = {};
    Packet left{}, failed{};
    uint32_t done[teams] = {};
    uint32_t stay = 1;
    const Mailbox box{post, &left, &failed, done, relay, &stay, teams, 20'000'000'000};
    std::vector<std::vector<uint64_t>> seen(teams), expected(teams);
    std::vector<std::thread> threads;
    for (uint32_t team = 0; team < teams; ++team) {
        threads.emplace_back([&, team] {
            Packet shared[2 * post_packets];
            serve(box, team, teams, shared, [&](const Call& call) {
                seen[team].push_back(call.count);
                return call.count != calls; // the last one goes wrong
            });
        });
    }
    const auto tell = [&](uint32_t number, Packet(&message)[post_packets]) {
        for (uint32_t i = post_packets; i-- > 0;) {
            Direct::store(post + number % posts * post_packets + i, message[i]);
        }
    };
    Random random(1);
    Packet message[post_packets];
    for (uint32_t number = 1; number <= calls; ++number) {
        Call call;
        call.kind = Kind::all_reduce;
        call.channels = number == calls ? teams : 1 + random() % (teams + 2); // some have no team
        call.count = number;
        encode(call, number, message);
        tell(number, message);
        for (uint32_t team = 0; team < teams && team < call.channels; ++team) {
            expected[team].push_back(number);
            while (load<Scope::system, Order::acquire>(done + team) != number) {
                std::this_thread::yield(); // ends: the team has a part
            }
        }
    }
    for (Packet& p : message) p = {{leave_kind, 0, 0}, calls + 1};
    tell(calls + 1, message);
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(failed.sequence, calls);
    EXPECT_EQ(left.sequence, calls + 1);
    EXPECT_EQ(stay, calls + 1);
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
