// SPDX-License-Identifier: Apache-2.0
// Snapshots of a whole program. Its workers are taken off between two messages; then all there is
// of it lies in memory: what actors know, what waits for them in rings, outboxes and stores, and
// the positions that say so. That is written as it lies, with addresses made relative, and put back
// into the same places of a program of the same types and geometry. docs/snapshots.md says what
// a restored program is.
#include "core.hpp"
#include "fingerprint.hpp"
#include "sparse.hpp"

#include <denizen/actor/supervisor.hpp>
#include <denizen/resident/held.hpp>

namespace denizen {
namespace {

// ---- a node's memory

// A part of a region that holds something.
struct Piece {
    uint64_t at; // bytes from the region's beginning
    uint64_t bytes;
};

// The words that say how much of a node's memory is in use, read after its workers have left.
struct Fill {
    std::vector<Status> status;
    std::vector<Inbox> inbox;
    std::vector<Inbox> urgent_inbox;
    std::vector<Ward> wards;
    std::vector<uint32_t> lane_tail[2];         // by Priority
    std::vector<uint32_t> peer_tail[max_nodes]; // by sending node: the tails to our workers
};

class NodeMemory {
public:
    NodeMemory(const AnyRuntime::Core& core, const Node& node, const Fill& fill)
        : core_(core), node_(node), s_(node.shared), fill_(fill)
    {
    }

    std::vector<Piece> pieces(const Region& r) const
    {
        const void* m = r.memory;
        if (m == s_.watch || m == s_.bells || m == s_.scratch) {
            return {}; // the monitor's memory, a sleeper's, a handler's: nobody is there
        }
        if (m == s_.actors) {
            return rows(sizeof(ActorEntry) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorEntry) * spawned(w); });
        }
        if (m == s_.books) {
            return rows(sizeof(ActorBook) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorBook) * spawned(w); });
        }
        if (m == s_.heap) {
            return {{0, node_.heap_used}};
        }
        if (m == s_.held) {
            return rows(sizeof(HeldSlot) * s_.held_slots,
                        [&](uint32_t w) { return sizeof(HeldSlot) * fill_.wards[w].held_fresh; });
        }
        if (m == s_.outboxes) {
            return rows(sizeof(Parked) * s_.outbox_capacity,
                        [&](uint32_t w) { return sizeof(Parked) * fill_.status[w].outbox; });
        }
        if (m == s_.inboxes) {
            return ring(s_.inbox_mask, source_node,
                        [&](uint32_t w) { return fill_.inbox[w].tail; });
        }
        if (m == s_.urgent_inboxes) {
            return ring(s_.urgent_mask, source_node_urgent,
                        [&](uint32_t w) { return fill_.urgent_inbox[w].tail; });
        }
        if (m == s_.lanes) {
            return ring(s_.lane_mask, source_host,
                        [&](uint32_t w) { return fill_.lane_tail[0][w]; });
        }
        if (m == s_.urgent_lanes) {
            return ring(s_.urgent_mask, source_host_urgent,
                        [&](uint32_t w) { return fill_.lane_tail[1][w]; });
        }
        uint32_t source = source_peer;
        for (uint32_t other = 0; other < s_.nodes; ++other) {
            if (other == s_.node) {
                continue;
            }
            if (m == s_.peer[other].from) {
                return ring(s_.inbox_mask, source,
                            [&](uint32_t w) { return fill_.peer_tail[other][w]; });
            }
            ++source;
        }
        return {{0, r.bytes}};
    }

private:
    uint32_t spawned(uint32_t w) const
    {
        return core_.next_local[core_.lane(Address::actor(w, 0, s_.node))];
    }

    template <class Used>
    std::vector<Piece> rows(uint64_t row, Used&& used) const
    {
        std::vector<Piece> all;
        for (uint32_t w = 0; w < s_.workers; ++w) {
            if (const uint64_t n = std::min<uint64_t>(used(w), row); n != 0) {
                all.push_back({w * row, n});
            }
        }
        return all;
    }

    // What has been sent and not been handled: with room for `mask + 1` slots for each worker.
    template <class Tail>
    std::vector<Piece> ring(uint32_t mask, uint32_t source, Tail&& tail) const
    {
        std::vector<Piece> all;
        const uint64_t row = (mask + uint64_t{1}) * sizeof(Slot);
        for (uint32_t w = 0; w < s_.workers; ++w) {
            const uint32_t head = fill_.status[w].done[source];
            const uint32_t n = std::min(tail(w) - head, mask + 1);
            const uint32_t to_end = std::min(n, mask + 1 - (head & mask));
            if (to_end != 0) {
                all.push_back({w * row + (head & mask) * sizeof(Slot), to_end * sizeof(Slot)});
            }
            if (n != to_end) {
                all.push_back({w * row, (n - to_end) * sizeof(Slot)});
            }
        }
        return all;
    }

    const AnyRuntime::Core& core_;
    const Node& node_;
    const Shared& s_;
    const Fill& fill_;
};

void read_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->read(to, from, bytes)) {
        throw Error(Errc::driver, "cannot read the memory of node " +
                                      std::to_string(node.shared.node) + " for a snapshot");
    }
}

template <class T>
std::vector<T> read_array(const Node& node, const T* from, size_t count)
{
    std::vector<T> values(count);
    read_memory(node, values.data(), from, sizeof(T) * count);
    return values;
}


std::string section_name(const Node& node, const Region& r)
{
    return "node " + std::to_string(node.shared.node) + ' ' + r.name;
}

// Entries of the actor table hold addresses of states; in a file, places in the heap, and 1 more.
template <class Change>
void change_entries(std::span<unsigned char> bytes, Change&& change)
{
    for (size_t at = 0; at + sizeof(ActorEntry) <= bytes.size(); at += sizeof(ActorEntry)) {
        ActorEntry e;
        std::memcpy(&e, bytes.data() + at, sizeof e);
        if (e.state != nullptr) {
            change(e);
            std::memcpy(bytes.data() + at, &e, sizeof e);
        }
    }
}

SnapshotSection memory_section(const Node& node, const Region& r, const std::vector<Piece>& pieces)
{
    SnapshotSection section(section_name(node, r));
    section.put(r.bytes);
    std::vector<unsigned char> bytes;
    for (const Piece& p : pieces) {
        bytes.resize(p.bytes);
        read_memory(node, bytes.data(), r.memory + p.at, p.bytes);
        if (r.memory == static_cast<void*>(node.shared.actors)) {
            change_entries(bytes, [&](ActorEntry& e) {
                const auto offset = static_cast<unsigned char*>(e.state) - node.shared.heap;
                e.state = reinterpret_cast<void*>(offset + 1);
            });
        }
        put_runs(section, p.at, bytes);
    }
    return section;
}

// Reads what says how much is in use.
Fill fill_of(const AnyRuntime::Core& c, const Node& node, const std::vector<uint32_t> (&tails)[2])
{
    const Shared& s = node.shared;
    Fill f;
    f.status = read_array(node, s.status, s.workers);
    f.inbox = read_array(node, s.inbox, s.workers);
    f.urgent_inbox = read_array(node, s.urgent_inbox, s.workers);
    f.wards = read_array(node, s.wards, s.workers);
    const auto begin = static_cast<long>(c.lane(Address::actor(0, 0, s.node)));
    for (uint32_t p = 0; p < 2; ++p) {
        f.lane_tail[p].assign(tails[p].begin() + begin, tails[p].begin() + begin + s.workers);
    }
    for (const Node& other : c.nodes) {
        if (&other == &node) {
            continue;
        }
        const std::vector<uint32_t> words = read_array(
            other, other.shared.peer[s.node].tails, size_t{s.workers} * credit_stride);
        for (uint32_t w = 0; w < s.workers; ++w) {
            f.peer_tail[other.shared.node].push_back(words[w * credit_stride]);
        }
    }
    return f;
}

void put_message(SnapshotSection& s, const Message& m)
{
    s.put(m.header);
    s.put(static_cast<uint32_t>(m.payload.size()));
    s.put(m.payload.data(), m.payload.size());
}

Message take_message(SnapshotBytes& s)
{
    Message m;
    m.header = s.take<Header>();
    const auto payload = s.take(s.take<uint32_t>());
    m.payload.assign(payload.begin(), payload.end());
    return m;
}

template <class T>
void put_all(SnapshotSection& s, const std::vector<T>& values)
{
    s.put(values.data(), sizeof(T) * values.size());
}

template <class T>
void take_all(SnapshotBytes& s, std::vector<T>& values) // as many as there are
{
    const auto bytes = s.take(sizeof(T) * values.size());
    if (!bytes.empty()) {
        std::memcpy(values.data(), bytes.data(), bytes.size());
    }
}

} // namespace
} // namespace denizen
