// SPDX-License-Identifier: Apache-2.0
// Which bytes of a node's memory a snapshot has. Of a GPU's region of a GB most are slots that hold
// nothing, so each region is saved in the pieces that are in use. All is read after the workers
// have left: then the words that say what is in use stand still.
#include "snapshot_memory.hpp"

#include "sparse.hpp"

#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/life.hpp>

namespace denizen {

void read_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->read(to, from, bytes)) {
        throw Error(Errc::driver, "cannot read the memory of node " +
                                      std::to_string(node.shared.node) + " for a snapshot");
    }
}

void write_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->write(to, from, bytes)) {
        throw Error(Errc::driver,
                    "cannot write the memory of node " + std::to_string(node.shared.node));
    }
}

namespace {

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
    std::vector<WorkerState> worker_states;
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
        const std::string& m = r.name; // see lay_out()
        if (m == "gate" || m == "watch" || m == "bells" || m == "scratch" || m == "buffers" ||
            m == "counters" || m == "histograms" || m == "latencies" || m == "trace") {
            return {}; // of whoever is there: the monitor, a sleeper, a handler, the process
        }
        if (m == "actors") {
            return rows(sizeof(ActorEntry) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorEntry) * spawned(w); });
        }
        if (m == "actor_records") {
            return rows(sizeof(ActorRecord) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorRecord) * spawned(w); });
        }
        if (m == "stash") {
            return rows(sizeof(StashSlot) * s_.stash_slots, [&](uint32_t w) {
                return sizeof(StashSlot) * fill_.worker_states[w].stash_fresh;
            });
        }
        if (m == "heap") {
            return {{0, node_.heap_used}};
        }
        if (m == "outboxes") {
            return rows(sizeof(Parked) * s_.outbox_capacity,
                        [&](uint32_t w) { return sizeof(Parked) * fill_.status[w].outbox; });
        }
        if (m == "inboxes") {
            return ring(s_.inbox_mask, source_node,
                        [&](uint32_t w) { return fill_.inbox[w].tail; });
        }
        if (m == "urgent_inboxes") {
            return ring(s_.urgent_mask, source_node_urgent,
                        [&](uint32_t w) { return fill_.urgent_inbox[w].tail; });
        }
        uint32_t source = source_peer;
        for (uint32_t other = 0; other < s_.nodes; ++other) {
            if (other == s_.node) {
                continue;
            }
            if (m == "peer " + std::to_string(other) + " from") {
                const std::vector<uint32_t>& tail = fill_.peer_tail[other];
                std::vector<Piece> all =
                    ring(s_.inbox_mask, source, [&](uint32_t w) { return tail[w]; });
                const uint64_t data = s_.workers * (s_.inbox_mask + uint64_t{1}) * sizeof(Slot);
                const uint32_t urgent = source_peer_urgent(s_) + source - source_peer;
                for (Piece p : ring(s_.urgent_mask, urgent,
                                    [&](uint32_t w) { return tail[s_.workers + w]; })) {
                    p.at += data;
                    all.push_back(p);
                }
                return all;
            }
            ++source;
        }
        return {{0, r.bytes}};
    }

private:
    uint32_t spawned(uint32_t w) const
    {
        return core_.placing.next_local[core_.worker_index(Address::actor(w, 0, s_.node))];
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
        if (r.name == "actors") {
            change_entries(bytes, [&](ActorEntry& e) {
                const auto offset = static_cast<unsigned char*>(e.state) - node.shared.heap;
                e.state = reinterpret_cast<void*>(offset + 1);
            });
        }
        put_runs(section, p.at, bytes);
    }
    return section;
}

// Takes what save_memory() writes of a region, and nothing else: `pieces`.
void restore_region(const SnapshotFile& file, const AnyRuntime::Core& c, const Node& node,
                    const Region& r, std::vector<Piece> pieces)
{
    const SnapshotBytes section = file.section(section_name(node, r));
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.at < b.at; });
    std::vector<unsigned char> bytes;
    take_sparse(section, r.bytes, [&](uint64_t at, std::span<const unsigned char> run) {
        const auto behind = std::upper_bound(pieces.begin(), pieces.end(), at,
                                             [](uint64_t a, const Piece& p) { return a < p.at; });
        if (behind == pieces.begin() || at - behind[-1].at > behind[-1].bytes ||
            run.size() > behind[-1].bytes - (at - behind[-1].at)) {
            section.refuse("has bytes where nothing is in use");
        }
        bytes.assign(run.begin(), run.end());
        if (r.name == "actors") {
            change_entries(bytes, [&](ActorEntry& e) {
                const uint64_t place = reinterpret_cast<uintptr_t>(e.state) - 1;
                if (place >= c.options.state_bytes) {
                    section.refuse("has an actor whose state lies outside of the heap");
                }
                e.state = node.shared.heap + place;
            });
        }
        write_memory(node, r.memory + at, bytes.data(), bytes.size());
    });
}

// Reads what says how much is in use.
Fill fill_of(const AnyRuntime::Core& c, const Node& node)
{
    const Shared& s = node.shared;
    Fill f;
    f.status = read_array(node, s.status, s.workers);
    f.inbox = read_array(node, s.inbox, s.workers);
    f.urgent_inbox = read_array(node, s.urgent_inbox, s.workers);
    f.worker_states = read_array(node, s.worker_states, s.workers);
    for (const Node& other : c.nodes) {
        if (&other == &node) {
            continue;
        }
        const std::vector<uint32_t> words = read_array(other, other.shared.peer[s.node].tails,
                                                       2 * size_t{s.workers} * credit_stride);
        for (uint32_t w = 0; w < 2 * s.workers; ++w) { // data and urgent
            f.peer_tail[other.shared.node].push_back(words[w * credit_stride]);
        }
    }
    return f;
}

} // namespace

void save_memory(const AnyRuntime::Core& core, std::vector<SnapshotSection>& sections)
{
    for (const Node& node : core.nodes) {
        const Fill fill = fill_of(core, node);
        const NodeMemory memory(core, node, fill);
        for (const Region& r : node.regions) {
            sections.push_back(memory_section(node, r, memory.pieces(r)));
        }
    }
}

void restore_memory(const SnapshotFile& file, const AnyRuntime::Core& core)
{
    // The words that say how much of the rest is in use.
    const auto says_how_much = [](const std::string& m) {
        return m == "status" || m == "inbox" || m == "urgent_inbox" || m == "worker_states" ||
               (m.starts_with("peer ") && m.ends_with(" tails"));
    };
    for (const Node& node : core.nodes) {
        for (const Region& r : node.regions) {
            if (says_how_much(r.name)) {
                restore_region(file, core, node, r, {{0, r.bytes}});
            }
        }
    }
    for (const Node& node : core.nodes) {
        const Fill fill = fill_of(core, node);
        const NodeMemory memory(core, node, fill);
        for (const Region& r : node.regions) {
            if (!says_how_much(r.name)) {
                restore_region(file, core, node, r, memory.pieces(r));
            }
        }
        for (uint32_t w = 0; w < core.workers; ++w) { // its clock is another: see adjust_timers()
            const bool armed = fill.worker_states[w].armed != 0;
            const uint64_t again[2] = {armed ? detail::timer_filling : detail::never,
                                       armed ? 1u : 0u};
            WorkerState* worker_state = node.shared.worker_states + w;
            write_memory(node, &worker_state->due, &again[0], sizeof again[0]);
            write_memory(node, &worker_state->restored, &again[1], sizeof again[1]);
        }
        const uint32_t unobserved = 0; // whoever looked on did so in another process
        write_memory(node, &node.shared.board->observe, &unobserved, sizeof unobserved);
    }
}

} // namespace denizen
