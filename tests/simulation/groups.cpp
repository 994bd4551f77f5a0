// SPDX-License-Identifier: Apache-2.0
// The channels of a group of CPU threads: collectives by each algorithm, one behind another, on
// memory that turns use again, and on data that are not packets.
#include "scenario.hpp"

#include <denizen/group/group.hpp>

#include <algorithm>
#include <thread>

namespace simulation {
namespace {

using namespace denizen;
using namespace std::chrono_literals;

constexpr uint32_t most_ranks = 3;
constexpr uint32_t most_elements = 40; // more than the packets of one turn hold

// What rank r gives for element i of call c.
uint32_t given(uint32_t r, uint32_t i, uint32_t c) { return (r + 1) * 1000 + i * 7 + c; }

struct Planned {
    group::Kind kind;
    group::Algorithm algorithm;
    uint32_t count;
    uint32_t root;
    uint32_t times; // from the second on a call may go without headers
};

void call_once(Group& g, const Planned& plan, uint32_t c)
{
    const uint32_t n = g.ranks();
    const uint32_t me = g.rank();
    uint32_t in[most_elements];
    uint32_t out[most_elements * most_ranks] = {};
    for (uint32_t i = 0; i < plan.count; ++i) {
        in[i] = given(me, i, c);
    }
    group::Call call;
    call.kind = plan.kind;
    call.type = group::Type::i32;
    call.algorithm = plan.algorithm;
    call.count = plan.count;
    call.root = plan.root;
    call.in = in;
    call.out = out;
    g.run(call);
    for (uint32_t i = 0; i < plan.count; ++i) {
        uint32_t sum = 0;
        for (uint32_t r = 0; r < n; ++r) {
            sum += given(r, i, c);
            if (plan.kind == group::Kind::all_gather) {
                require(out[r * plan.count + i] == given(r, i, c), "gathered another's");
            }
        }
        if (plan.kind == group::Kind::all_reduce) {
            require(out[i] == sum, "another sum");
        } else if (plan.kind == group::Kind::broadcast) {
            require(out[i] == given(plan.root, i, c), "not what the root has");
        }
    }
}

void take_part(Group& g, const std::vector<Planned>& plans)
{
    for (uint32_t i = 0; i < plans.size(); ++i) {
        for (uint32_t time = 0; time < plans[i].times; ++time) {
            call_once(g, plans[i], i + 16 * time);
        }
    }
}

void groups()
{
    try {
        GroupOptions o;
        o.channels = 1;
        o.slots = 32;
        o.stage_bytes = 64 * most_ranks;
        o.renew = 6;     // a channel begins anew within a run
        o.timeout = 10s; // of virtual time
        std::vector<Group> ranks = Group::local(2 + draw(2), Device::cpu(), o);
        std::vector<Planned> plans(1 + draw(5));
        for (Planned& plan : plans) {
            constexpr group::Kind kinds[] = {group::Kind::all_reduce, group::Kind::all_gather,
                                             group::Kind::broadcast, group::Kind::barrier};
            plan.kind = kinds[draw(4)];
            plan.algorithm = static_cast<group::Algorithm>(1 + draw(group::algorithms - 1));
            plan.count = plan.kind == group::Kind::barrier ? 0 : 1 + draw(most_elements);
            plan.root = draw(static_cast<uint32_t>(ranks.size()));
            plan.times = 1;
        }
        if (draw(3) == 0) { // the channel begins anew twice, and the call stays the same
            plans[0].count = std::min(plans[0].count, 3u);
            plans[0].times = 12 + draw(6);
        }
        std::vector<std::thread> threads;
        for (uint32_t r = 1; r < ranks.size(); ++r) {
            threads.emplace_back([&, r] {
                try {
                    take_part(ranks[r], plans);
                } catch (const Error& e) {
                    fail(e.what());
                }
            });
        }
        take_part(ranks[0], plans);
        for (std::thread& t : threads) {
            t.join();
        }
    } catch (const Error& e) {
        fail(e.what());
    }
}

} // namespace

std::vector<Scenario> group_scenarios()
{
    return {{"groups",
             groups,
             {.spurious = true, .stopped = false, .jumps = false},
             nullptr,
             400'000,
             2}};
}

} // namespace simulation
