// SPDX-License-Identifier: Apache-2.0
// What tasks do on a GPU when the process that has started them stops for a while, or dies.
#include "tasks.hpp"

#include <support/child.hpp>

namespace {

using namespace denizen;
using namespace denizen::test;

// Counts and spawns itself, until its group is cancelled.
struct Beat {
    uint32_t* count;
    DENIZEN_HD void run(auto& ctx) const
    {
        fetch_add<Scope::gpu>(count, 1u);
        ctx.spawn(*this);
    }
};
struct Once {
    uint32_t* count;
    DENIZEN_HD void run(auto&) const { fetch_add<Scope::gpu>(count, 1u); }
};

using Beats = task::Program<Beat, Once>;

TEST(child, beats)
{
    uint32_t* page = Child::page_of_parent();
    if (page == nullptr) {
        GTEST_SKIP() << "runs in a process that another test starts";
    }
    task::Runtime<Beats> rt(Device::gpu());
    auto group = rt.group();
    for (uint32_t i = 0; i < 8; ++i) {
        group.spawn(Beat{&page[beats]});
    }
    store<Scope::system, Order::release>(&page[phase], 1u);
    ASSERT_TRUE(eventually([&] { return peek(page, go_on) != 0; }, 60s));
    store<Scope::system>(&page[launched], static_cast<uint32_t>(rt.stats().incarnations));
    group.cancel();
    EXPECT_EQ(group.wait().dropped, 8u) << "no task was lost while the kernel was away";
    rt.close();
}

TEST(TaskHostLost, TheKernelLeavesByItselfAndIsThereAgain)
{
    Child child("child.beats");
    leaves_while_its_host_is_stopped(child);
}

TEST(TaskHostLost, AKilledProcessTakesItsKernelWithIt)
{
    Child child("child.beats");
    leaves_when_its_host_is_killed(child);
    // The GPU is free for the next.
    Array<uint32_t> count(true, 1);
    task::Runtime<Beats> rt(Device::gpu());
    rt.spawn(Once{count.data()});
    rt.wait();
    EXPECT_EQ(load<Scope::system>(count.data()), 1u);
}

} // namespace
