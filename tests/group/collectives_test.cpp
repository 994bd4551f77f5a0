// SPDX-License-Identifier: Apache-2.0
// All collectives by all algorithms among threads, bit by bit: types, operations, any count and
// alignment, in place, in symmetric memory, several channels, and turns that begin anew.
#include "group/calls.hpp"
#include "support/scaled.hpp"
#include "support/threads.hpp"

#include <denizen/group/group.hpp>

#include <gtest/gtest.h>

using namespace denizen;
using namespace denizen::group;
using denizen::test::few_under_tsan;
using denizen::test::on_threads;

namespace {

enum class Where { elsewhere, in_place, symmetric, symmetric_in_place };

struct Ranks {
    std::vector<Group> groups;
    std::vector<unsigned char*> a, b; // symmetric memory of each
    uint32_t seed = 0;
    static constexpr uint64_t room = 1 << 17;

    explicit Ranks(uint32_t n, GroupOptions o = small()) : groups(Group::local(n, Device::cpu(), o))
    {
        for (Group& g : groups) {
            a.push_back(static_cast<unsigned char*>(g.allocate(room)));
            b.push_back(static_cast<unsigned char*>(g.allocate(room)));
        }
    }

    // Small enough for several rounds, and to begin anew often.
    static GroupOptions small()
    {
        GroupOptions o;
        o.channels = 3;
        o.slots = 16;
        o.stage_bytes = 1024;
        o.heap_bytes = 2 * room;
        o.renew = 40;
        o.timeout = std::chrono::seconds(60);
        return o;
    }

    uint32_t size() const { return static_cast<uint32_t>(groups.size()); }

    void run(const Call& call, Where where, uint32_t shift = 0)
    {
        const uint32_t n = size();
        const uint64_t element_bytes = size_of(call.type);
        const uint64_t in_bytes = in_elements(call.kind, call.count, n) * element_bytes;
        const uint64_t out_bytes = out_elements(call.kind, call.count, n) * element_bytes;
        const bool symmetric = where == Where::symmetric || where == Where::symmetric_in_place;
        const bool in_place = where == Where::in_place || where == Where::symmetric_in_place;
        ASSERT_LE(std::max(in_bytes, out_bytes) + 16, room);
        std::vector<Bytes> in;
        for (uint32_t r = 0; r < n; ++r)
            in.push_back(input(call.type, r, in_bytes / element_bytes, ++seed));
        std::vector<Bytes> out(n);
        on_threads(n, [&](uint32_t r) {
            Bytes own_in(in_bytes + 64), own_out(std::max(in_bytes, out_bytes) + 64);
            unsigned char* from = (symmetric ? a[r] : own_in.data()) + shift * element_bytes;
            unsigned char* to = (symmetric ? b[r] : own_out.data()) + shift * element_bytes;
            if (in_place) {
                const uint64_t mine = r * call.count * element_bytes;
                from = call.kind == Kind::all_gather ? to + mine : to;
                if (call.kind == Kind::reduce_scatter) to = from + mine;
            }
            std::copy(in[r].begin(), in[r].end(), from);
            if (symmetric) groups[r].barrier(); // whoever reads there has what it wants
            Call mine = call;
            mine.in = from;
            mine.out = to;
            groups[r].run(mine);
            out[r].assign(to, to + out_bytes);
        });
        for (uint32_t r = 0; r < n; ++r) {
            ASSERT_EQ(out[r], expected(call, in, r))
                << describe(call, n) << " rank " << r << " where " << static_cast<int>(where);
        }
    }
};

class Collectives : public testing::TestWithParam<uint32_t> {};

TEST_P(Collectives, AnyCountAndPlace)
{
    Ranks ranks(GetParam());
    const uint64_t counts[] = {1, 2, 7, 64, 257, 1000, 2049};
    for (Call call : all_calls()) {
        for (uint32_t which = 0; which < 7; which += few_under_tsan(3, 1)) {
            uint32_t turn = 4 * which;
            for (const Where where :
                 {Where::elsewhere, Where::in_place, Where::symmetric, Where::symmetric_in_place}) {
                call.count = counts[which];
                call.type = static_cast<Type>(turn % types);
                call.op = static_cast<Op>(turn / types % ops);
                call.channels = 1 + turn % 3;
                call.root = turn % GetParam();
                ranks.run(call, where, turn % 5 == 0 ? 1 : 0);
                ++turn;
                if (HasFatalFailure()) return;
            }
        }
    }
}

TEST_P(Collectives, EveryTypeAndOperation)
{
    Ranks ranks(GetParam());
    for (Call call : all_calls()) {
        if (!reduces(call.kind)) continue;
        for (uint32_t which = 0; which < types * ops; which += few_under_tsan(types * ops, 1)) {
            call.type = static_cast<Type>(which % types);
            call.op = static_cast<Op>(which / types);
            call.count = 301;
            call.channels = 2;
            ranks.run(call, Where::elsewhere);
            if (HasFatalFailure()) return;
        }
    }
}

// The same small call goes without headers from the second on. When the turns begin anew, the
// headers that say so must not be taken for those of the time before.
TEST_P(Collectives, TheSameCallThroughManyRenewals)
{
    GroupOptions o = Ranks::small();
    o.channels = 1;
    o.renew = 8;
    o.timeout = std::chrono::seconds(5);
    Ranks ranks(GetParam(), o);
    const uint32_t calls = few_under_tsan(200, 1500);
    std::vector<uint32_t> wrong(ranks.size());
    on_threads(ranks.size(), [&](uint32_t r) {
        for (uint32_t i = 0; i < calls; ++i) {
            const auto mine = static_cast<int32_t>(i * (r + 1));
            int32_t all = 0;
            ranks.groups[r].all_reduce(&mine, &all, 1, Type::i32);
            wrong[r] += static_cast<uint32_t>(all) != i * (ranks.size() * (ranks.size() + 1) / 2);
        }
    });
    EXPECT_EQ(wrong, std::vector<uint32_t>(ranks.size(), 0));
}

TEST_P(Collectives, Nothing)
{
    Ranks ranks(GetParam());
    for (Call call : all_calls()) {
        call.count = 0;
        ranks.run(call, Where::elsewhere);
    }
}

INSTANTIATE_TEST_SUITE_P(, Collectives, testing::Values(1, 2, 3, 4, 8));

} // namespace

TEST(Group, AutomaticFollowsTheTable)
{
    GroupOptions o;
    o.table = {{4096, Algorithm::two_shot, 2}, {0, Algorithm::pull, 1}};
    auto groups = Group::local(2, Device::cpu(), o);
    EXPECT_EQ(groups[1].ref().choice(4096).algorithm, Algorithm::two_shot);
    EXPECT_EQ(groups[1].ref().choice(4097).algorithm, Algorithm::pull);
    EXPECT_EQ(groups[0].links().at(0).peer, 1u);
    std::vector<std::vector<float>> x{std::vector<float>(5000, 1.0f),
                                      std::vector<float>(5000, 2.0f)};
    on_threads(2, [&](uint32_t r) {
        groups[r].all_reduce(x[r].data(), x[r].data(), 5000, Type::f32, Op::avg);
        groups[r].broadcast(x[r].data(), x[r].data(), 10, Type::f32, 1);
    });
    EXPECT_EQ(x[0], std::vector<float>(5000, 1.5f));
    EXPECT_EQ(x[0], x[1]);
}

// What has been called is in the error of ranks that call with different counts.
TEST(Group, EachCollectiveFollowsItsOwnTable)
{
    GroupOptions o;
    o.table = {{0, Algorithm::two_shot, 2},
               {4000, Algorithm::push, 3, Kind::all_gather},
               {0, Algorithm::pull, 1, Kind::all_gather}};
    const struct {
        Kind kind;
        uint64_t count;
        const char* says;
    } expected[] = {{Kind::all_gather, 900, "all_gather of 900 f32 (push, 3 channels"},
                    {Kind::all_gather, 1100, "all_gather of 1100 f32 (pull, 1 channels"},
                    {Kind::broadcast, 900, "broadcast of 900 f32, root 0 (one_shot, 2 channels"},
                    {Kind::all_reduce, 900, "all_reduce of 900 f32, sum (two_shot, 2 channels"}};
    for (const auto& one : expected) {
        auto groups = Group::local(2, Device::cpu(), o);
        on_threads(2, [&](uint32_t r) {
            std::vector<float> in(one.count + 1), out(2 * one.count + 2);
            Call call;
            call.kind = one.kind;
            call.algorithm = Algorithm::automatic;
            call.channels = 0;
            call.count = one.count + r;
            call.in = in.data();
            call.out = out.data();
            try {
                groups[r].run(call);
                groups[r].wait();
                ADD_FAILURE() << "no error of " << one.says;
            } catch (const Error& error) {
                EXPECT_NE(std::string(error.what()).find(one.says), std::string::npos)
                    << error.what();
            }
        });
    }
}

TEST(Group, RefusesWhatItCannotDo)
{
    auto groups = Group::local(1, Device::cpu());
    std::vector<float> x(100);
    const auto code_of = [](auto call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return Errc::ok;
    };
    EXPECT_EQ(code_of([&] { groups[0].all_reduce(x.data(), x.data() + 1, 50, Type::f32); }),
              Errc::bad_argument);
    EXPECT_EQ(code_of([&] {
                  groups[0].all_reduce(reinterpret_cast<char*>(x.data()) + 1, x.data() + 90, 1,
                                       Type::f32);
              }),
              Errc::bad_argument);
    EXPECT_EQ(code_of([&] { groups[0].all_reduce(nullptr, x.data(), 1, Type::f32); }),
              Errc::bad_argument);
    EXPECT_EQ(code_of([&] { groups[0].broadcast(x.data(), x.data(), 1, Type::f32, 1); }),
              Errc::bad_argument);
    EXPECT_EQ(code_of([&] { groups[0].allocate(1); }), Errc::exhausted);
    EXPECT_EQ(code_of([&] { Group::local(9, Device::cpu()); }), Errc::bad_argument);
    EXPECT_EQ(code_of([&] { Group::local(0, Device::cpu()); }), Errc::bad_argument);
    GroupOptions o;
    o.table.resize(max_choices + 1);
    EXPECT_EQ(code_of([&] { Group::local(2, Device::cpu(), o); }), Errc::bad_argument);
}
