// SPDX-License-Identifier: Apache-2.0
// Topics across the hosts of a cluster.
//
// 1. The lead, which makes all changes of a host's subscriptions (detail/topics.hpp), tells the
//    host's own lane of each. So the host's side knows who subscribes here to what: a multicast for
//    each pattern, with an address of its own.
// 2. The other hosts are told of each multicast when it gets its first member and when it has lost
//    its last. Each enters its address into its own tables, as the subscriber of the pattern.
// 3. There a publisher sends one message to that address, by the same ring as all that it sends to
//    the host, and deliver() gives it to the members.
// 4. When a host is lost, its multicasts are taken out of the tables.
//
// An address is not used for another multicast until all have been used: a message that was on its
// way when the last member left finds nobody. What a host has not been told yet is bounded by the
// multicasts that it knows and those that there are: one that comes and goes meanwhile is no news.
#include "core.hpp"

#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/far.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

const Address lead = Address::actor(0, 0);

} // namespace

bool is_topic_change(const Header& h)
{
    const auto op = static_cast<SystemOp>(h.type);
    return h.flags == flag_system && h.length == sizeof(TopicRequest) &&
           (op == SystemOp::subscribe || op == SystemOp::unsubscribe || op == SystemOp::forget);
}

// By the one thread that takes from the own lane.
void FarDoor::note_topic(SystemOp op, const TopicKey& pattern, uint32_t subscriber)
{
    FarTopics& topics = core_.far.topics;
    const std::lock_guard guard(topics.lock);
    if (op == SystemOp::subscribe) {
        FarMulticast& multicast = topics.multicast[pattern];
        std::vector<uint32_t> members;
        if (multicast.members) {
            members = *multicast.members;
        }
        if (std::find(members.begin(), members.end(), subscriber) != members.end()) {
            return;
        }
        members.push_back(subscriber);
        multicast.members = std::make_shared<const std::vector<uint32_t>>(std::move(members));
        if (multicast.members->size() == 1) {
            const FarFormat& f = core_.far.format;
            do { // ends: there are fewer multicasts than addresses
                multicast.address = f.multicast(f.host, topics.next++ % f.multicasts());
            } while (topics.pattern.count(multicast.address.value) != 0);
            topics.pattern[multicast.address.value] = pattern;
            tell_hosts(multicast.address, {true, pattern});
        }
        return;
    }
    for (auto g = topics.multicast.begin(); g != topics.multicast.end();) {
        const bool asked = op == SystemOp::forget || g->first == pattern;
        const std::vector<uint32_t>& before = *g->second.members;
        if (!asked || std::find(before.begin(), before.end(), subscriber) == before.end()) {
            ++g;
            continue;
        }
        std::vector<uint32_t> members = before;
        std::erase(members, subscriber);
        if (!members.empty()) {
            g->second.members = std::make_shared<const std::vector<uint32_t>>(std::move(members));
            ++g;
            continue;
        }
        tell_hosts(g->second.address, {false, g->first});
        topics.pattern.erase(g->second.address.value);
        g = topics.multicast.erase(g);
    }
}

void FarDoor::tell_hosts(Address multicast, const FarTelling& news)
{
    for (uint32_t h = 0; h < hosts(); ++h) {
        FarLane& lane = *core_.far.lane[h];
        {
            const std::lock_guard guard(lane.lock);
            const auto found = lane.telling.find(multicast.value);
            if (h == own() || lane.lost) {
                continue;
            }
            if (found != lane.telling.end()) { // that it is there: nobody has heard of it
                lane.telling.erase(found);
                lane.count_telling = lane.telling.size();
                continue;
            }
            lane.telling[multicast.value] = news;
            lane.count_telling = lane.telling.size();
        }
        wake(h);
    }
}

// With the lane's lock. What the other host is to be told next.
bool FarDoor::take_telling(uint32_t peer, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    if (lane.telling.empty()) {
        return false;
    }
    const auto next = lane.telling.begin();
    const TopicRequest request{next->second.pattern, next->first};
    const SystemOp op = next->second.there ? SystemOp::subscribe : SystemOp::unsubscribe;
    h = {core_.far.format.multicast(peer, 0).value, next->first, static_cast<uint32_t>(op),
         flag_system, sizeof request};
    std::memcpy(payload, &request, sizeof request);
    lane.telling.erase(next);
    lane.count_telling = lane.telling.size();
    lane.told.fetch_add(1, std::memory_order_relaxed);
    return true;
}

// Behind all that the lead has been told of other hosts' multicasts. False: its ring has no room.
bool FarDoor::tell_lead(SystemOp op, const TopicKey& pattern, Address multicast, Address answer_to)
{
    const TopicRequest request{pattern, multicast.value};
    Port& port = core_.far.port;
    {
        const std::lock_guard guard(port.lock);
        const size_t w = core_.worker_index(lead);
        if (!port.rings.room(w, slots_for(sizeof request))) {
            core_.wake(lead);
            return false;
        }
        port.rings.write(
            w,
            {lead.value, answer_to.value, static_cast<uint32_t>(op), flag_system, sizeof request},
            &request);
    }
    core_.flush_stores();
    core_.wake(lead);
    return true;
}

Delivered FarDoor::deliver_telling(uint32_t from, const Header& h, const void* payload)
{
    FarLane& lane = *core_.far.lane[from];
    TopicRequest r;
    std::memcpy(&r, payload, sizeof r);
    const Address multicast{r.subscriber};
    if (!core_.far.format.is_multicast(multicast) || core_.far.format.host_of(multicast) != from ||
        !r.key.valid()) {
        lane.refused.fetch_add(1, std::memory_order_relaxed);
        return Delivered::refused;
    }
    const auto op = static_cast<SystemOp>(h.type);
    {
        const std::lock_guard guard(lane.lock);
        if (op == SystemOp::unsubscribe) {
            lane.theirs.erase(multicast.value);
        } else if (!lane.lost && lane.theirs.size() < core_.options.subscriptions) {
            lane.theirs[multicast.value] = r.key;
        }
    }
    const Header to_lead{lead.value, multicast.value, h.type, flag_system, sizeof r};
    if (!(lane.lost && op == SystemOp::subscribe) &&
        give_in_turn(from, to_lead, payload, false) == Given::no_room) {
        return Delivered::no_room;
    }
    lane.heard.fetch_add(1, std::memory_order_relaxed);
    lane.delivered.fetch_add(1, std::memory_order_relaxed);
    return Delivered::yes;
}

FarDoor::Given FarDoor::give_telling(const Header& h, const void* payload)
{
    TopicRequest r;
    std::memcpy(&r, payload, sizeof r);
    const Address multicast{r.subscriber};
    return tell_lead(static_cast<SystemOp>(h.type), r.key, multicast, multicast) ? Given::yes
                                                                                 : Given::no_room;
}

// False: the lead's ring has no room.
bool FarDoor::forget_multicasts(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    const std::lock_guard guard(lane.lock);
    while (!lane.orphaned.empty()) { // ends: one less each time, or there is no room
        const auto& [multicast, pattern] = *lane.orphaned.begin();
        if (!tell_lead(SystemOp::unsubscribe, pattern, {multicast}, {multicast})) {
            return false;
        }
        lane.orphaned.erase(lane.orphaned.begin());
    }
    return true;
}

bool FarDoor::told(uint32_t peer, uint64_t& count)
{
    FarLane& lane = *core_.far.lane[peer];
    const std::lock_guard guard(lane.lock);
    count = lane.lost ? 0 : lane.told.load();
    return lane.lost || lane.telling.empty();
}

uint64_t FarDoor::heard(uint32_t peer) const { return core_.far.lane[peer]->heard; }

void FarDoor::settle_topics(uint32_t peer, std::string_view pattern, nanoseconds deadline)
{
    AnyRuntime::Core& c = core_;
    const TopicKey key =
        detail::key_of(pattern.data(), static_cast<uint32_t>(pattern.size()), true);
    const auto limit = static_cast<uint64_t>(deadline.count());
    const uint64_t begin = now_ns();
    const Address ticket = c.take_cell(limit);
    FarLane& lane = *c.far.lane[peer];
    Backoff wait;
    for (;;) { // ends by room or the deadline
        {
            // Under the lane's lock: the multicast may not go while the lead is asked for it once
            // more.
            const std::lock_guard guard(lane.lock);
            const auto found = std::find_if(lane.theirs.begin(), lane.theirs.end(),
                                            [&](const auto& g) { return g.second == key; });
            const bool known = found != lane.theirs.end();
            if (tell_lead(known ? SystemOp::subscribe : SystemOp::unsubscribe, key,
                          known ? Address{found->first} : nowhere, ticket)) {
                break;
            }
        }
        if (now_ns() - begin > limit) {
            c.cells.give_back(ticket);
            throw Error(Errc::timeout, "worker 0 has not kept up with the subscriptions of host " +
                                           std::to_string(peer) + " for " + detail::seconds(limit));
        }
        wait.pause();
    }
    uint32_t error = 0; // Errc
    c.wait_reply(ticket, &error, sizeof error, limit,
                 [&] { return "taking over the subscriptions of host " + std::to_string(peer); });
    if (static_cast<Errc>(error) == Errc::exhausted) {
        throw Error(Errc::exhausted, "table of subscriptions (" +
                                         std::to_string(c.options.subscriptions) +
                                         " entries) is full and has no room for the pattern of "
                                         "host " +
                                         std::to_string(peer) + "; raise subscriptions");
    }
}

} // namespace denizen
