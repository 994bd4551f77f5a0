// SPDX-License-Identifier: Apache-2.0
// Collectives that handlers and tasks of resident programs call, bit by bit: all kinds by all
// algorithms and operations. Here handlers of a warp, f32; and what does not agree.
#include "group/inside.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;

using Types = Elements<float>;
class inside : public InsideHandlers<Grain::warp, Types> {};
DENIZEN_AT_PLACES(inside, places_of_ranks());

TEST_P(inside, handlers_of_every_rank_call) { handlers_call(); }

class inside_errors : public inside {};
std::vector<Place> several_ranks()
{
    std::vector<Place> all = places_of_ranks();
    std::erase_if(all, [](const Place& p) { return p.nodes == 1; });
    return all;
}
DENIZEN_AT_PLACES(inside_errors, several_ranks());

// The host is told why, by the group; a channel that is not there is none of a handler's.
TEST_P(inside_errors, calls_that_do_not_agree_and_channels_that_are_not_there)
{
    start(Algorithm::one_shot);
    Runtime<Handlers<Grain::warp, Types>> rt(device(), options());
    std::vector<Address> all;
    for (uint32_t r = 0; r < ranks(); ++r) all.push_back(on_workers(rt, r, 1)[0]);
    const auto send_all = [&] {
        for (uint32_t r = 0; r < ranks(); ++r) {
            rt.send(all[r], Do{reinterpret_cast<uint64_t>(&job(r, 0))});
        }
    };
    group::Call call;
    call.kind = Kind::all_reduce;
    call.count = 10;
    for (const auto& [channel, of] : {std::pair{channels, channels + 1}, std::pair{1u, 1u}}) {
        order(call, 1, 1);
        for (uint32_t r = 0; r < ranks(); ++r) {
            job(r, 0).channel = channel;
            job(r, 0).channels = of;
        }
        send_all();
        for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(outcome(r, 0), refused);
        groups[0].wait(); // nothing is wrong with the group
    }
    order(call, 1, 1);
    job(1, 0).count = 11;
    send_all();
    for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(outcome(r, 0), refused);
    for (Group& g : groups) {
        expect_error_like(Errc::bad_argument,
                          "rank [0-9] called all_reduce of 1[01] f32, .*, but rank [0-9] called "
                          "all_reduce of 1[01] f32, .*",
                          [&] { g.wait(); });
    }
}

TEST_P(inside_errors, a_launch_of_what_was_left_out)
{
    if (!on_gpu()) GTEST_SKIP() << "CPU threads launch nothing";
    start(Algorithm::one_shot);
    expect_error_like(Errc::bad_argument, "the group is called by handlers and tasks only: .*",
                      [&] { groups[0].run(group::Call{}); });
}

TEST_P(inside_errors, a_rank_that_does_not_come_is_named)
{
    start(Algorithm::one_shot, 300ms);
    Runtime<Handlers<Grain::warp, Types>> rt(device(), options());
    group::Call call;
    call.kind = Kind::all_gather;
    call.count = 10;
    order(call, 1, 1);
    rt.send(on_workers(rt, 0, 1)[0], Do{reinterpret_cast<uint64_t>(&job(0, 0))});
    EXPECT_EQ(outcome(0, 0), refused);
    expect_error_like(Errc::peer_dead, "rank 0 waited 0.3 s for rank 1 in all_gather of 10 f32 .*",
                      [&] { groups[ranks() - 1].wait(); });
}

} // namespace
