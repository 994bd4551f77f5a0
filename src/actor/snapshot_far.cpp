// SPDX-License-Identifier: Apache-2.0
#include "snapshot_far.hpp"

#include "snapshot_memory.hpp"

#include <set>

namespace denizen {
namespace {

// The slots that a worker has drawn tickets for and the link has not taken: of these some are in an
// outbox, and their places here are empty.
void put_lane(SnapshotSection& s, const AnyRuntime::Core& c, uint32_t host)
{
    FarLane& lane = *c.far.lane[host];
    for (size_t n = 0; n < c.nodes.size(); ++n) {
        for (const bool urgent : {false, true}) {
            const FarRing ring = far_ring(c.nodes[n].shared, host, urgent);
            uint32_t tail = 0;
            read_memory(c.nodes[n], &tail, ring.tail, sizeof tail);
            const uint32_t head = lane.head[n][urgent];
            const uint32_t count = std::min(tail - head, ring.mask + 1);
            s.put(head);
            s.put(count);
            for (uint32_t i = 0; i < count; ++i) {
                s.put(ring.slots[(head + i) & ring.mask]);
            }
        }
    }
    {
        const std::lock_guard guard(lane.aside_lock);
        s.put(static_cast<uint32_t>(lane.aside.size()));
        for (const Message& m : lane.aside) {
            s.put(m.header);
            s.put(m.payload.data(), m.payload.size());
        }
    }
    const std::lock_guard guard(lane.lock);
    s.put(static_cast<uint32_t>(lane.watches.size()));
    for (const FarWatch& w : lane.watches) {
        s.put(w);
    }
    s.put(static_cast<uint32_t>(lane.theirs.size()));
    for (const auto& [multicast, pattern] : lane.theirs) {
        s.put(multicast);
        s.put(pattern);
    }
}

void take_lane(SnapshotBytes& s, AnyRuntime::Core& c, uint32_t other)
{
    FarLane& lane = *c.far.lane[other];
    const FarFormat& format = c.far.format;
    for (size_t n = 0; n < c.nodes.size(); ++n) {
        for (const bool urgent : {false, true}) {
            const FarRing ring = far_ring(c.nodes[n].shared, other, urgent);
            const auto head = s.take<uint32_t>();
            const auto count = s.take<uint32_t>();
            if (count > ring.mask + 1) {
                s.refuse("tells of more messages than the ring to host " + std::to_string(other) +
                         " holds");
            }
            for (uint32_t i = 0; i < count; ++i) {
                ring.slots[(head + i) & ring.mask] = s.take<Slot>();
            }
            lane.head[n][urgent] = lane.credited[n][urgent] = head;
            store<Scope::system>(ring.credit, head);
        }
    }
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        Message m{s.take<Header>(), {}};
        const Header& h = m.header;
        const bool good = is_topic_change(h) || (is_order(h) && h.length == 0) ||
                          ((h.flags & ~flag_traced) == 0 && h.type < c.image.table.messages &&
                           payload_bytes(h) == c.image.table.message[h.type].size);
        if (!good || (Address{h.destination} != host && !c.inside({h.destination}))) {
            s.refuse("has a message of host " + std::to_string(other) + " that is none");
        }
        const auto payload = s.take(h.length);
        m.payload.assign(payload.begin(), payload.end());
        lane.aside.push_back(std::move(m));
    }
    lane.count_aside = lane.aside.size();
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        const auto w = s.take<FarWatch>();
        if (!Address{w.watched}.is_far() || format.host_of({w.watched}) != other) {
            s.refuse("has a watch of no actor of host " + std::to_string(other));
        }
        lane.watches.push_back(w);
    }
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        const Address multicast{s.take<uint32_t>()};
        const auto pattern = s.take<TopicKey>();
        if (!format.is_multicast(multicast) || format.host_of(multicast) != other ||
            !pattern.valid() || lane.theirs.size() >= c.options.subscriptions) {
            s.refuse("has a subscription of nobody on host " + std::to_string(other));
        }
        lane.theirs[multicast.value] = pattern;
    }
}

void take_topics(SnapshotBytes& s, AnyRuntime::Core& c)
{
    FarTopics& topics = c.far.topics;
    const FarFormat& format = c.far.format;
    topics.next = s.take<uint32_t>();
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        const auto pattern = s.take<TopicKey>();
        const Address multicast{s.take<uint32_t>()};
        std::vector<uint32_t> members;
        std::set<uint32_t> once;
        for (auto m = s.take<uint32_t>(); m != 0; --m) {
            const auto member = s.take<uint32_t>();
            if (member != host.value && !c.inside({member})) {
                s.refuse("has a subscription of an actor that there cannot be");
            }
            once.insert(member);
            members.push_back(member);
        }
        if (!format.is_multicast(multicast) || format.host_of(multicast) != format.host ||
            !pattern.valid() || members.empty() || once.size() != members.size() ||
            !topics.pattern.emplace(multicast.value, pattern).second ||
            topics.pattern.size() > c.options.subscriptions) {
            s.refuse("has subscribers to what is no topic");
        }
        topics.multicast[pattern] = {
            multicast, std::make_shared<const std::vector<uint32_t>>(std::move(members))};
    }
}

void take_letters(SnapshotBytes& s, AnyRuntime::Core& c)
{
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        DeadLetter d;
        const auto reason = s.take<uint32_t>();
        d.sender = s.take<Address>();
        d.destination = s.take<Address>();
        d.type = s.take<uint32_t>();
        d.length = s.take<uint32_t>();
        d.time_ns = s.take<uint64_t>();
        d.payload = s.take<std::array<unsigned char, dead_payload>>();
        d.text = s.take_text();
        if (reason >= reasons || c.far.letters.size() >= c.options.dead_letter_slots) {
            s.refuse("has a letter without a reason, or more than there is room for");
        }
        d.reason = static_cast<Reason>(reason);
        c.far.letters.push_back(std::move(d));
    }
}

} // namespace

SnapshotSection far_section(const AnyRuntime::Core& c)
{
    SnapshotSection s("other hosts");
    auto& far = const_cast<FarLanes&>(c.far); // its locks
    s.put(far.format.hosts);
    s.put(far.format.host);
    for (uint32_t h = 0; h < far.format.hosts; ++h) {
        put_lane(s, c, h);
    }
    {
        const std::lock_guard guard(far.topics.lock);
        s.put(far.topics.next);
        s.put(static_cast<uint32_t>(far.topics.multicast.size()));
        for (const auto& [pattern, multicast] : far.topics.multicast) {
            s.put(pattern);
            s.put(multicast.address.value);
            s.put(static_cast<uint32_t>(multicast.members->size()));
            s.put(multicast.members->data(), sizeof(uint32_t) * multicast.members->size());
        }
    }
    const std::lock_guard guard(far.letters_lock);
    s.put(static_cast<uint32_t>(far.letters.size()));
    for (const DeadLetter& d : far.letters) {
        s.put(static_cast<uint32_t>(d.reason));
        s.put(d.sender);
        s.put(d.destination);
        s.put(d.type);
        s.put(d.length);
        s.put(d.time_ns);
        s.put(d.payload);
        s.put_text(d.text);
    }
    return s;
}

void compare_far(const SnapshotFile& file, const AnyRuntime::Core& c)
{
    const FarFormat& format = c.far.format;
    if (file.has("other hosts") != (c.options.hosts != 0)) {
        file.refuse(c.options.hosts != 0 ? "is of no cluster"
                                         : "is of a host of a cluster; restore it by "
                                           "denizen.Cluster(program, restore=...)");
    }
    if (c.options.hosts == 0) {
        return;
    }
    SnapshotBytes s = file.section("other hosts");
    const auto hosts = s.take<uint32_t>();
    const auto own = s.take<uint32_t>();
    if (hosts != format.hosts || own != format.host) {
        file.refuse("is of host " + std::to_string(own) + " of " + std::to_string(hosts) +
                    ", this is host " + std::to_string(format.host) + " of " +
                    std::to_string(format.hosts));
    }
}

void restore_far(const SnapshotFile& file, AnyRuntime::Core& c)
{
    if (c.options.hosts == 0) {
        return;
    }
    SnapshotBytes s = file.section("other hosts");
    s.take(2 * sizeof(uint32_t)); // see compare_far()
    for (uint32_t h = 0; h < c.options.hosts; ++h) {
        take_lane(s, c, h);
    }
    take_topics(s, c);
    take_letters(s, c);
}

} // namespace denizen
