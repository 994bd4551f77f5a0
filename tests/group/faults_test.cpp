// SPDX-License-Identifier: Apache-2.0
// Ranks that do not come, come late, or call something else: everyone gets the same error, and
// nobody waits for ever. Among threads.
#include "group/seen.hpp"
#include "support/threads.hpp"

#include <denizen/group/group.hpp>

#include <gtest/gtest.h>

#include <set>

using namespace denizen;
using namespace denizen::group;
using denizen::test::on_threads;

namespace {

GroupOptions with_heap()
{
    GroupOptions o;
    o.timeout = std::chrono::seconds(30); // nobody is late
    o.heap_bytes = 1 << 16;
    return o;
}

// Each rank calls until it gets an error; all errors are the same.
template <class Use>
Seen common_error(uint32_t n, Use use, GroupOptions o = with_heap())
{
    auto groups = Group::local(n, Device::cpu(), o);
    std::vector<Seen> all(n);
    on_threads(n, [&](uint32_t r) {
        for (int i = 0; i < 100 && all[r].code == Errc::ok; ++i) {
            all[r] = seen([&] { use(groups[r]); });
        }
    });
    for (uint32_t r = 1; r < n; ++r) {
        EXPECT_EQ(all[r].code, all[0].code);
        EXPECT_EQ(all[r].text, all[0].text);
    }
    for (Group& g : groups) { // for good
        EXPECT_EQ(seen([&] { g.check(); }).code, all[0].code);
        float x = 0;
        EXPECT_EQ(seen([&] { g.all_reduce(&x, &x, 1, Type::f32); }).code, all[0].code);
    }
    return all[0];
}

} // namespace

TEST(Faults, AnotherSize)
{
    for (const uint32_t n : {2u, 3u, 4u, 8u}) {
        const Seen error = common_error(n, [](Group& g) {
            std::vector<float> x(1000);
            g.all_reduce(x.data(), x.data(), g.rank() == 1 ? 1000 : 10, Type::f32);
        });
        EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
        EXPECT_NE(error.text.find("of 1000 f32"), std::string::npos) << error.text;
        EXPECT_NE(error.text.find("of 10 f32"), std::string::npos) << error.text;
    }
}

TEST(Faults, AnotherType)
{
    const Seen error = common_error(3, [](Group& g) {
        std::vector<float> x(10);
        g.all_reduce(x.data(), x.data(), 10, g.rank() == 2 ? Type::i32 : Type::f32);
    });
    EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
    EXPECT_NE(error.text.find("10 i32"), std::string::npos) << error.text;
}

TEST(Faults, AnotherOperation)
{
    const Seen error = common_error(4, [](Group& g) {
        std::vector<float> x(10);
        g.all_reduce(x.data(), x.data(), 10, Type::f32, g.rank() == 0 ? Op::max : Op::sum);
    });
    EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
}

TEST(Faults, AnotherCall)
{
    const Seen error = common_error(2, [](Group& g) {
        std::vector<float> x(100);
        if (g.rank() == 0) {
            g.barrier();
        } else {
            g.all_reduce(x.data(), x.data(), 100, Type::f32);
        }
    });
    EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
    EXPECT_NE(error.text.find("barrier"), std::string::npos) << error.text;
}

// Both wait for data that do not come; the headers tell why.
// Equal calls go without headers: the first that differs is found all the same, and at once.
TEST(Faults, AnotherCallAfterEqualOnes)
{
    for (const uint32_t n : {2u, 3u, 4u, 8u}) {
        for (const int change : {0, 1, 2}) {
            std::vector<int> calls(n, 0);
            const Seen error = common_error(n, [&](Group& g) {
                std::vector<float> x(1000, 1.0f);
                const bool other = g.rank() == 1 && ++calls[1] == 20;
                g.all_reduce(x.data(), x.data(), other && change == 0 ? 900 : 1000,
                             other && change == 1 ? Type::i32 : Type::f32,
                             other && change == 2 ? Op::max : Op::sum);
                if (!other) {
                    EXPECT_EQ(x[999], static_cast<float>(g.ranks()));
                }
            });
            EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
            EXPECT_EQ(calls[1], 20);
        }
    }
}

TEST(Faults, AnotherRoot)
{
    const Seen error = common_error(2, [](Group& g) {
        std::vector<float> x(100);
        g.broadcast(x.data(), x.data(), 100, Type::f32, 1 - g.rank());
    });
    EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
    EXPECT_NE(error.text.find("root 0"), std::string::npos) << error.text;
}

TEST(Faults, AnotherPlaceInSymmetricMemory)
{
    GroupOptions o = with_heap();
    o.table = {{0, Algorithm::pull, 1}};
    const Seen error = common_error(
        2,
        [](Group& g) {
            auto* const x = g.ref().heap(g.rank());
            g.all_reduce(x + 256 * g.rank(), x + 8192, 64, Type::f32);
        },
        o);
    EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
}

TEST(Faults, WhoDoesNotCome)
{
    for (const Algorithm algorithm : every_algorithm) {
        GroupOptions o;
        o.timeout = std::chrono::seconds(1);
        o.table = {{0, algorithm, 2}};
        auto groups = Group::local(3, Device::cpu(), o);
        std::vector<Seen> all(3);
        on_threads(3, [&](uint32_t r) {
            std::vector<float> x(5000);
            for (int i = 0; i < 100 && all[r].code == Errc::ok; ++i) {
                if (r == 1 && i == 3) return; // gone
                all[r] = seen([&] { groups[r].all_reduce(x.data(), x.data(), 5000, Type::f32); });
            }
        });
        EXPECT_EQ(all[0].code, Errc::peer_dead);
        EXPECT_NE(all[0].text.find("for rank 1"), std::string::npos) << all[0].text;
        EXPECT_EQ(all[0].text, all[2].text);
        EXPECT_EQ(seen([&] { groups[1].barrier(); }).text, all[0].text); // who comes late
    }
}
