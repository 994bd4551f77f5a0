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
