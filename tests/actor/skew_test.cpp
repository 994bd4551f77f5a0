// SPDX-License-Identifier: Apache-2.0
// Five nodes whose clocks are up to 40 seconds apart, in the most unfavourable order: each hop is
// to a node that is behind. Stamps still grow along the chain. (Of all the tests only this one sets
// the words by hand, so it runs the core itself.)
#include "actor/core.hpp"

#include <denizen/actor/runtime.hpp>

#include <gtest/gtest.h>

struct Baton {
    uint32_t left;
    uint32_t path[5];
};

struct Runner {
    uint32_t unused = 0;
    DENIZEN_HD void on(const Baton& m, auto& ctx)
    {
        if (m.left == 0) {
            ctx.send(denizen::host, m);
            return;
        }
        Baton next = m;
        --next.left;
        ctx.send(denizen::Address{m.path[next.left]}, next);
    }
};

using Relay = denizen::Program<denizen::Actors<Runner>, denizen::Messages<Baton>>;

namespace {

using namespace denizen;

TEST(skew, stamps_grow_over_nodes_whose_clocks_differ)
{
    Options o;
    o.device = Device::cpu();
    o.nodes = 5;
    o.workers = 1;
    o.trace_slots = 64;
    AnyRuntime::Core core(image_of<Relay>(), o);
    Baton m{};
    size_t next = 0;
    for (uint32_t n = 0; n < 5; ++n) {
        m.path[n] = core.spawn(0, 1, {Address::actor(0, 0, n)}, next, 10'000'000'000)[0].value;
    }
    core.trace(true);
    // The path goes from node 4 down to node 0.
    const uint64_t now = hlc::now_us();
    for (uint32_t n = 0; n < 5; ++n) {
        store<Scope::system>(&core.nodes[n].shared.board->clock,
                             hlc::Stamp::of(now + n * 10'000'000, 0).value);
    }
    m.left = 4;
    core.send_checked({m.path[4]}, 0, host.value, &m, sizeof m, 10'000'000'000);
    Message back;
    while (!core.try_receive(back)) { // ends when the chain has come home
        core.check_alive();
        sched_yield();
    }
    ASSERT_TRUE(core.drained(10'000'000'000));
    const Trace t = core.take_trace();
    // In the chain's order: the host, nodes 4 to 0.
    std::vector<uint64_t> stamps(6);
    for (const TraceRecord& r : t.records) {
        if (r.kind == TraceKind::send) {
            stamps[r.worker == trace_host ? 0 : 5 - r.worker] = r.stamp;
        }
    }
    EXPECT_EQ(t.records.size(), 12u);
    for (size_t i = 1; i < stamps.size(); ++i) {
        EXPECT_LT(stamps[i - 1], stamps[i]) << "hop " << i;
    }
    EXPECT_GE(hlc::Stamp{stamps[1]}.micros(), now + 40'000'000);
    // The host has taken the last over, and draws beyond it.
    EXPECT_GT(core.host_trace.draw(), stamps[5]);
    core.close(5'000'000'000);
}

// A node more than a minute ahead does not drag the others along: its messages are handled, its
// stamps are not taken over.
TEST(skew, a_clock_that_is_wrong_stays_alone)
{
    Options o;
    o.device = Device::cpu();
    o.nodes = 2;
    o.workers = 1;
    o.trace_slots = 64;
    AnyRuntime::Core core(image_of<Relay>(), o);
    Baton m{};
    size_t next = 0;
    for (uint32_t n = 0; n < 2; ++n) {
        m.path[n] = core.spawn(0, 1, {Address::actor(0, 0, n)}, next, 10'000'000'000)[0].value;
    }
    core.trace(true);
    const uint64_t far = hlc::now_us() + 3'600'000'000;
    store<Scope::system>(&core.nodes[1].shared.board->clock, hlc::Stamp::of(far, 0).value);
    m.left = 1;
    core.send_checked({m.path[1]}, 0, host.value, &m, sizeof m, 10'000'000'000);
    Message back;
    while (!core.try_receive(back)) { // ends when the chain has come home
        core.check_alive();
        sched_yield();
    }
    ASSERT_TRUE(core.drained(10'000'000'000));
    const Trace t = core.take_trace();
    EXPECT_EQ(t.records.size(), 6u);
    for (const TraceRecord& r : t.records) {
        if (r.kind == TraceKind::send) {
            EXPECT_EQ(hlc::Stamp{r.stamp}.micros() >= far, r.worker == 1) << r.worker;
        }
    }
    core.close(5'000'000'000);
}

} // namespace
