// SPDX-License-Identifier: Apache-2.0
// Which bytes of a node's memory a snapshot has. Of a GPU's region of a GB most are slots that hold
// nothing, so each region is saved in the pieces that are in use. All is read after the workers
// have left: then the words that say what is in use stand still.
#include "snapshot_memory.hpp"

#include "sparse.hpp"

#include <denizen/actor/detail/near_box.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/life.hpp>

namespace denizen {

namespace {

[[noreturn]] void cannot_read(const Node& node)
{
    throw Error(Errc::driver, "cannot read the memory of node " + std::to_string(node.shared.node) +
                                  " for a snapshot");
}

[[noreturn]] void cannot_write(const Node& node)
{
    throw Error(Errc::driver,
                "cannot write the memory of node " + std::to_string(node.shared.node));
}

} // namespace

void read_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->read(to, from, bytes)) {
        cannot_read(node);
    }
}

void write_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->write(to, from, bytes)) {
        cannot_write(node);
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
    std::vector<NearBox> boxes;                 // empty while a snapshot is restored
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
        if (m == "watchers") {
            return rows(sizeof(WatchEntry) * s_.watch_slots, [&](uint32_t w) {
                return sizeof(WatchEntry) * fill_.worker_states[w].watch_fresh;
            });
        }
        if (m == "heap") {
            return {{0, node_.heap_used}};
        }
        if (m == "boxes" && !fill_.boxes.empty()) { // restored: all of it, and each slot is checked
            return boxes();
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
            window(all, w * row, mask, fill_.status[w].done[source], tail(w));
        }
        return all;
    }

    // The slots of a ring from the reader's next to the tail.
    static void window(std::vector<Piece>& all, uint64_t at, uint32_t mask, uint32_t head,
                       uint32_t tail)
    {
        const uint32_t n = std::min(tail - head, mask + 1);
        const uint32_t to_end = std::min(n, mask + 1 - (head & mask));
        if (to_end != 0) {
            all.push_back({at + (head & mask) * sizeof(Slot), to_end * sizeof(Slot)});
        }
        if (n != to_end) {
            all.push_back({at, (n - to_end) * sizeof(Slot)});
        }
    }

    // The words of each box, and what is under way in its rings.
    std::vector<Piece> boxes() const
    {
        std::vector<Piece> all;
        for (uint32_t w = 0; w < s_.workers; ++w) {
            unsigned char* box = s_.boxes + w * size_t{s_.box_bytes};
            const auto at = [&](const unsigned char* p) {
                return static_cast<uint64_t>(p - s_.boxes);
            };
            all.push_back({at(box), sizeof(NearBox)});
            const uint32_t own = w % s_.near;
            for (uint32_t from = 0; from < s_.near && w - own + from < s_.workers; ++from) {
                const uint32_t mask = detail::near_ring_mask(s_, own, from);
                if (mask != 0) {
                    window(all, at(detail::near_slots(s_, box, own, from)), mask,
                           fill_.boxes[w].head[from], fill_.boxes[w - own + from].tail[own]);
                }
            }
        }
        return all;
    }

    const AnyRuntime::Core& core_;
    const Node& node_;
    const Shared& s_;
    const Fill& fill_;
};

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

// Calls `use(at, bytes)` for what lies there, part by part: many small pieces are one read, and a
// long one is several.
template <class Use>
void read_pieces(const Node& node, const Region& r, const std::vector<Piece>& pieces, Use&& use)
{
    constexpr uint64_t at_once = 1 << 20; // bytes: they stay in a core's cache
    uint64_t total = 0;
    for (const Piece& p : pieces) {
        total += p.bytes;
    }
    std::vector<unsigned char> bytes(std::min(total, at_once));
    std::vector<Copy> copies;
    uint64_t filled = 0;
    const auto go = [&] {
        if (!copies.empty() && !node.backend->read(copies)) {
            cannot_read(node);
        }
        for (const Copy& c : copies) {
            use(static_cast<uint64_t>(static_cast<std::byte*>(c.device) - r.memory),
                std::span(static_cast<unsigned char*>(c.host), c.bytes));
        }
        copies.clear();
        filled = 0;
    };
    for (const Piece& p : pieces) {
        for (uint64_t done = 0; done < p.bytes;) { // ends: each step takes at least one byte
            if (filled == at_once) {
                go();
            }
            const uint64_t n = std::min(p.bytes - done, at_once - filled);
            copies.push_back({r.memory + p.at + done, bytes.data() + filled, n});
            done += n;
            filled += n;
        }
    }
    go();
}

SnapshotSection memory_section(const Node& node, const Region& r, const std::vector<Piece>& pieces)
{
    SnapshotSection section(section_name(node, r));
    section.put(r.bytes);
    read_pieces(node, r, pieces, [&](uint64_t at, std::span<unsigned char> bytes) {
        if (r.name == "actors") {
            change_entries(bytes, [&](ActorEntry& e) {
                const auto offset = static_cast<unsigned char*>(e.state) - node.shared.heap;
                e.state = reinterpret_cast<void*>(offset + 1);
            });
        }
        put_runs(section, at, bytes);
    });
    return section;
}

// Takes what save_memory() writes of a region, and nothing else: `pieces`.
void take_region(const SnapshotFile& file, const AnyRuntime::Core& c, const Node& node,
                 const Region& r, std::vector<Piece> pieces, MemoryImage& image)
{
    const SnapshotBytes section = file.section(section_name(node, r));
    const auto before = [](const Piece& a, const Piece& b) { return a.at < b.at; };
    std::sort(pieces.begin(), pieces.end(), before);
    std::vector<Piece> taken;
    take_sparse(section, r.bytes, [&](uint64_t at, std::span<const unsigned char> run) {
        const auto behind = std::upper_bound(pieces.begin(), pieces.end(), at,
                                             [](uint64_t a, const Piece& p) { return a < p.at; });
        if (behind == pieces.begin() || at - behind[-1].at > behind[-1].bytes ||
            run.size() > behind[-1].bytes - (at - behind[-1].at)) {
            section.refuse("has bytes where nothing is in use");
        }
        if (run.empty()) {
            return;
        }
        taken.push_back({at, run.size()});
        if (r.name != "actors") {
            image.add(r.memory + at, run);
            return;
        }
        std::vector<unsigned char> entries(run.begin(), run.end());
        change_entries(entries, [&](ActorEntry& e) {
            const uint64_t place = reinterpret_cast<uintptr_t>(e.state) - 1;
            if (place >= c.options.state_bytes) {
                section.refuse("has an actor whose state lies outside of the heap");
            }
            e.state = node.shared.heap + place;
        });
        image.add(r.memory + at, std::move(entries));
    });
    std::sort(taken.begin(), taken.end(), before);
    for (size_t i = 1; i < taken.size(); ++i) {
        if (taken[i - 1].at + taken[i - 1].bytes > taken[i].at) {
            section.refuse("has bytes twice");
        }
    }
}

// Reads what says how much is in use, with `read(node, address, count)`.
template <class Read>
Fill fill_of(const AnyRuntime::Core& c, const Node& node, Read&& read)
{
    const Shared& s = node.shared;
    Fill f;
    f.status = read(node, s.status, s.workers);
    f.inbox = read(node, s.inbox, s.workers);
    f.urgent_inbox = read(node, s.urgent_inbox, s.workers);
    f.worker_states = read(node, s.worker_states, s.workers);
    for (const Node& other : c.nodes) {
        if (&other == &node) {
            continue;
        }
        const std::vector<uint32_t> words =
            read(other, other.shared.peer[s.node].tails, 2 * size_t{s.workers} * credit_stride);
        for (uint32_t w = 0; w < 2 * s.workers; ++w) { // data and urgent
            f.peer_tail[other.shared.node].push_back(words[w * credit_stride]);
        }
    }
    return f;
}

// The words of all boxes, without their slots.
std::vector<NearBox> read_boxes(const Node& node)
{
    const Shared& s = node.shared;
    std::vector<NearBox> boxes(s.workers);
    std::vector<Copy> copies;
    for (uint32_t w = 0; w < s.workers; ++w) {
        copies.push_back({s.boxes + w * size_t{s.box_bytes}, &boxes[w], sizeof(NearBox)});
    }
    if (!node.backend->read(copies)) {
        cannot_read(node);
    }
    return boxes;
}

// Into regions that are zero. Runs of one that lie close to each other are one copy, with the zeros
// between them.
void write_image(const Node& node, const MemoryImage& image)
{
    constexpr uintptr_t close = 4096; // bytes: to copy them takes less time than another copy
    std::vector<Copy> copies;
    std::deque<std::vector<unsigned char>> joined;
    for (const Region& r : node.regions) {
        const std::span<const MemoryImage::Run> runs = image.runs(r.memory, r.bytes);
        for (size_t i = 0; i < runs.size();) { // ends: each step takes at least one run
            const MemoryImage::Run& first = runs[i];
            size_t end = i + 1;
            while (end < runs.size() && runs[end].at - runs[end - 1].end() <= close) {
                ++end;
            }
            const size_t bytes = runs[end - 1].end() - first.at;
            auto* host = const_cast<unsigned char*>(first.bytes.data());
            if (end != i + 1) {
                host = joined.emplace_back(bytes).data();
                for (size_t k = i; k < end; ++k) {
                    std::memcpy(host + (runs[k].at - first.at), runs[k].bytes.data(),
                                runs[k].bytes.size());
                }
            }
            copies.push_back(
                {r.memory + (first.at - reinterpret_cast<uintptr_t>(r.memory)), host, bytes});
            i = end;
        }
    }
    if (!node.backend->write(copies)) {
        cannot_write(node);
    }
}

} // namespace

void save_memory(const AnyRuntime::Core& core, std::vector<SnapshotSection>& sections)
{
    for (const Node& node : core.nodes) {
        Fill fill = fill_of(core, node, [](const Node& of, auto* from, size_t count) {
            return read_all(of, from, count);
        });
        fill.boxes = read_boxes(node);
        const NodeMemory memory(core, node, fill);
        for (const Region& r : node.regions) {
            sections.push_back(memory_section(node, r, memory.pieces(r)));
        }
    }
}

std::vector<MemoryImage> restore_memory(const SnapshotFile& file, const AnyRuntime::Core& core)
{
    // The words that say how much of the rest is in use.
    const auto says_how_much = [](const std::string& m) {
        return m == "status" || m == "inbox" || m == "urgent_inbox" || m == "worker_states" ||
               (m.starts_with("peer ") && m.ends_with(" tails"));
    };
    std::vector<MemoryImage> images(core.nodes.size());
    for (const Node& node : core.nodes) {
        MemoryImage& image = images[node.shared.node];
        for (const Region& r : node.regions) {
            if (says_how_much(r.name)) {
                take_region(file, core, node, r, {{0, r.bytes}}, image);
            }
        }
        image.sort();
    }
    for (const Node& node : core.nodes) {
        const Fill fill = fill_of(core, node, [&](const Node& of, auto* from, size_t count) {
            return images[of.shared.node].read_all(from, count);
        });
        const NodeMemory memory(core, node, fill);
        MemoryImage& image = images[node.shared.node];
        for (const Region& r : node.regions) {
            if (!says_how_much(r.name)) {
                take_region(file, core, node, r, memory.pieces(r), image);
            }
        }
        image.sort();
        write_image(node, image);
        std::vector<WorkerState> again =
            fill.worker_states; // its clock is another: adjust_timers()
        for (WorkerState& state : again) {
            state.due = state.armed != 0 ? detail::timer_filling : detail::never;
            state.restored = state.armed != 0 ? 1 : 0;
        }
        write_memory(node, node.shared.worker_states, again.data(),
                     sizeof(WorkerState) * again.size());
        const uint32_t unobserved = 0; // whoever looked on did so in another process
        write_memory(node, &node.shared.board->observe, &unobserved, sizeof unobserved);
    }
    return images;
}

} // namespace denizen
