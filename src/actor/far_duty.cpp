// SPDX-License-Identifier: Apache-2.0
// What workers on CPU threads do for the links: which of them, and when.
#include "core.hpp"

#include <denizen/actor/far.hpp>

#include <algorithm>
#include <sched.h>

namespace denizen {
namespace {

// Of a worker that finds another one in its place: how often it looks at whether that one looks,
// and how often that one has not until it takes over.
constexpr uint32_t looks_between = 16;
constexpr uint32_t patience = 3;
constexpr size_t links_per_look = 8; // more of them in turn: messages of this host wait meanwhile
constexpr uint64_t room_patience_ns = 50'000;

// Not while the link is taken back.
template <class Use>
bool with_link(FarLane& lane, Use&& use)
{
    // Sequentially consistent, as in lend(): one of the two sees the other.
    if (lane.help.load(std::memory_order_relaxed) == nullptr) {
        return false;
    }
    lane.helpers.fetch_add(1);
    LinkHelp* const help = lane.help.load();
    const bool result = help != nullptr && use(*help);
    lane.helpers.fetch_sub(1, std::memory_order_release); // partner: lend()
    return result;
}

} // namespace

void FarDoor::lend(uint32_t peer, LinkHelp* help)
{
    FarLane& lane = *core_.far.lane[peer];
    lane.help.store(help);
    while (help == nullptr && lane.helpers.load() != 0) { // ends: a look is short
        sched_yield();
    }
}

bool FarDuty::see(LinkDuty& duty, uint32_t node, uint32_t worker, Duty what)
{
    auto& self = static_cast<FarDuty&>(duty);
    const uint32_t me = node * self.lanes.format.workers + worker;
    switch (what) {
    case Duty::look: return self.look(me);
    case Duty::no_room: return self.make_room(room_patience_ns);
    case Duty::parked: return self.make_room(0);
    case Duty::rest: return self.rest(me);
    }
    return true;
}

bool FarDuty::look(uint32_t me)
{
    uint32_t who = holder.load(std::memory_order_relaxed);
    if (who != me + 1) {
        Waiting& w = waiting[me];
        if (who != 0) {
            if (++w.passed % looks_between != 0) {
                return false;
            }
            w.same = w.seen == looks.load(std::memory_order_relaxed) ? w.same + 1 : 0;
            w.seen = looks.load(std::memory_order_relaxed);
            if (w.same < patience) {
                return false;
            }
        }
        w.same = 0;
        if (!holder.compare_exchange_strong(who, me + 1)) {
            return false;
        }
    }
    const uint32_t count = looks.load(std::memory_order_relaxed);
    looks.store(count + 1, std::memory_order_relaxed);
    bool on = false;
    const size_t hosts = lanes.lane.size();
    for (size_t i = 0; i < std::min(hosts, links_per_look); ++i) {
        FarLane& lane = *lanes.lane[(count * links_per_look + i) % hosts];
        on |= with_link(lane, [](LinkHelp& help) { return help.look(); });
    }
    return on;
}

bool FarDuty::make_room(uint64_t patience_ns)
{
    // What is parked instead costs as much as to send it, and so does all that comes behind it: so
    // a wire that is full is waited for, for as long as another host takes for a few messages.
    const uint64_t begin = patience_ns != 0 ? now_ns() : 0;
    for (;;) { // ends: with the patience
        bool made = false;
        bool waits = false;
        for (const std::unique_ptr<FarLane>& lane : lanes.lane) {
            with_link(*lane, [&](LinkHelp& help) {
                const LinkHelp::Sent sent = help.send_some();
                made |= sent == LinkHelp::Sent::some;
                waits |= sent == LinkHelp::Sent::no_room;
                return true;
            });
        }
        if (made || !waits || patience_ns == 0 || now_ns() - begin > patience_ns) {
            return made;
        }
        relax();
    }
}

// By a thread that has put something into a lane's queue.
bool FarDuty::send(FarLane& lane)
{
    LinkHelp::Sent sent = LinkHelp::Sent::no_room;
    with_link(lane, [&](LinkHelp& help) {
        do { // ends: the lane is bounded
            sent = help.send_some();
        } while (sent == LinkHelp::Sent::some);
        return true;
    });
    return sent == LinkHelp::Sent::none;
}

bool FarDuty::rest(uint32_t me)
{
    if (holder.load(std::memory_order_relaxed) != me + 1) {
        return true;
    }
    bool still = true;
    for (const std::unique_ptr<FarLane>& lane : lanes.lane) {
        still &= !with_link(*lane, [](LinkHelp& help) { return !help.rest(); });
    }
    if (still) {
        uint32_t who = me + 1;
        holder.compare_exchange_strong(who, 0);
    }
    return still;
}

} // namespace denizen
