// SPDX-License-Identifier: Apache-2.0
// Snapshots of a whole program. Its workers are taken off between two messages; then all there is
// of it lies in memory: what actors know, what waits for them in rings, outboxes and stores, and
// the positions that say so. That is written as it lies, with addresses made relative, and put back
// into the same places of a program of the same types and geometry. docs/snapshots.md says what
// a restored program is.
#include "core.hpp"
#include "fingerprint.hpp"
#include "sparse.hpp"

#include <denizen/actor/life.hpp>
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
        if (m == "watch" || m == "bells" || m == "scratch" || m == "buffers" || m == "counters" ||
            m == "histograms" || m == "trace") {
            return {}; // the monitor's memory, a sleeper's, a handler's: nobody is there
        }
        if (m == "actors") {
            return rows(sizeof(ActorEntry) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorEntry) * spawned(w); });
        }
        if (m == "books") {
            return rows(sizeof(ActorBook) * s_.actors_per_worker,
                        [&](uint32_t w) { return sizeof(ActorBook) * spawned(w); });
        }
        if (m == "held") {
            return rows(sizeof(HeldSlot) * s_.held_slots,
                        [&](uint32_t w) { return sizeof(HeldSlot) * fill_.wards[w].held_fresh; });
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

void write_memory(const Node& node, void* to, const void* from, size_t bytes)
{
    if (bytes != 0 && !node.backend->write(to, from, bytes)) {
        throw Error(Errc::driver,
                    "cannot write the memory of node " + std::to_string(node.shared.node));
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

void restore_memory(const SnapshotFile& file, const AnyRuntime::Core& c, const Node& node,
                    const Region& r)
{
    const SnapshotBytes section = file.section(section_name(node, r));
    std::vector<unsigned char> bytes;
    take_sparse(section, r.bytes, [&](uint64_t at, std::span<const unsigned char> run) {
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
    f.wards = read_array(node, s.wards, s.workers);
    for (const Node& other : c.nodes) {
        if (&other == &node) {
            continue;
        }
        const std::vector<uint32_t> words =
            read_array(other, other.shared.peer[s.node].tails, size_t{s.workers} * credit_stride);
        for (uint32_t w = 0; w < s.workers; ++w) {
            f.peer_tail[other.shared.node].push_back(words[w * credit_stride]);
        }
    }
    return f;
}

// ---- what the host knows

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

SnapshotSection host_section(const AnyRuntime::Core& c)
{
    SnapshotSection s("host");
    put_all(s, c.next_local);
    s.put(static_cast<uint64_t>(c.next_worker));
    s.put(static_cast<uint64_t>(c.next_near));
    for (const Node& node : c.nodes) {
        s.put(node.heap_used);
    }
    const auto put_guest = [&](const Guest& g) {
        s.put(g.at.value);
        s.put(g.bytes);
        s.put(g.offset);
    };
    s.put(static_cast<uint32_t>(c.guests.size()));
    for (const auto& [address, guest] : c.guests) {
        s.put(address);
        put_guest(guest);
    }
    s.put(static_cast<uint32_t>(c.vacancies.size()));
    for (const Guest& g : c.vacancies) {
        put_guest(g);
    }
    s.put(c.moves);
    for (size_t i = 0; i < c.lanes(); ++i) {
        s.put(c.types.data() + i * c.actors_per_worker, c.next_local[i]);
    }
    return s;
}

void take_host(SnapshotBytes s, AnyRuntime::Core& c)
{
    take_all(s, c.next_local);
    c.next_worker = static_cast<size_t>(s.take<uint64_t>()) % c.lanes();
    c.next_near = static_cast<size_t>(s.take<uint64_t>());
    for (Node& node : c.nodes) {
        node.heap_used = s.take<uint64_t>();
        if (node.heap_used > c.options.state_bytes) {
            s.refuse("tells of more state than there is room for");
        }
    }
    const auto take_guest = [&] {
        Guest g;
        g.at = {s.take<uint32_t>()};
        g.bytes = s.take<uint32_t>();
        g.offset = s.take<uint64_t>();
        if (!c.inside(g.at) || g.offset > c.options.state_bytes) {
            s.refuse("tells of a guest outside of the program");
        }
        return g;
    };
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        const auto address = s.take<uint32_t>();
        c.guests[address] = take_guest();
    }
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        c.vacancies.push_back(take_guest());
    }
    c.moves = s.take<uint32_t>();
    for (size_t i = 0; i < c.lanes(); ++i) {
        if (c.next_local[i] > c.actors_per_worker) {
            s.refuse("tells of more actors than there is room for");
        }
        const auto types = s.take(c.next_local[i]);
        for (size_t k = 0; k < types.size(); ++k) {
            if (types[k] > c.image.table.actors) {
                s.refuse("tells of an actor of type " + std::to_string(types[k]));
            }
            c.types[i * c.actors_per_worker + k] = types[k];
        }
    }
}

// The messages that the host has sent and no worker has taken. With the port's lock held, so that
// no later one gets in between; a sender that has let go of the lock may still have some of its
// last message in its core's write-combining buffers, hence the wait for whole slots.
SnapshotSection lanes_section(const char* name, const AnyRuntime::Core& c, Port& port,
                              uint32_t source, uint64_t deadline_ns)
{
    SnapshotSection s(name);
    const uint64_t begin = now_ns();
    for (size_t i = 0; i < c.lanes(); ++i) {
        const Node& node = c.nodes[i / c.workers];
        uint32_t head = 0;
        read_memory(node, &head, &node.shared.status[i % c.workers].done[source], sizeof head);
        s.put(head);
        s.put(port.lanes.tail(i));
        port.each_slot(i, head, [&](const Slot& slot, uint32_t ticket) {
            Slot whole;
            for (uint32_t k = 0; k < 4;) { // ends when all four have arrived
                whole.packet[k] = load_packet<Scope::system>(&slot.packet[k]);
                if (whole.packet[k].sequence == ticket + 1) {
                    ++k;
                } else if (now_ns() - begin > deadline_ns) {
                    throw Error(Errc::timeout,
                                "a message to " + c.worker_name(c.address_of_lane(i)) +
                                    " did not arrive within " + seconds(deadline_ns));
                }
            }
            s.put(whole);
        });
    }
    return s;
}

void take_lanes(SnapshotBytes s, AnyRuntime::Core& c, Port& port)
{
    for (size_t i = 0; i < c.lanes(); ++i) {
        const auto head = s.take<uint32_t>();
        Lane& lane = port.table[i];
        lane.tail = s.take<uint32_t>();
        lane.seen = head;
        store<Scope::system>(const_cast<uint32_t*>(lane.credit), head);
        if (lane.tail - head > port.lanes.capacity()) {
            s.refuse("tells of more messages than lane " + std::to_string(i) + " holds");
        }
        port.each_slot(i, head, [&](Slot& slot, uint32_t) {
            const auto whole = s.take<Slot>();
            for (uint32_t k = 0; k < 4; ++k) {
                store_packet<Scope::system>(&slot.packet[k], whole.packet[k]);
            }
        });
    }
}

// What actors have sent to the host: what it has moved out of the rings, and the rest of these,
// which may hold half a message whose other half is in an outbox.
SnapshotSection egress_section(const AnyRuntime::Core& c)
{
    SnapshotSection s("egress");
    s.put(static_cast<uint64_t>(c.backlog.size()));
    for (const Message& m : c.backlog) {
        s.put(m.header);
        s.put(m.payload.data(), m.payload.size());
    }
    for (const Node& node : c.nodes) {
        uint32_t tail = 0;
        read_memory(node, &tail, &node.shared.board->egress_tail, sizeof tail);
        const uint32_t mask = node.shared.egress_mask;
        const uint32_t head = node.egress.position();
        const uint32_t n = std::min(tail - head, mask + 1);
        s.put(head);
        s.put(n);
        for (uint32_t i = 0; i < n; ++i) {
            s.put(node.shared.egress[(head + i) & mask]);
        }
    }
    return s;
}

void restore_egress(SnapshotBytes s, AnyRuntime::Core& c)
{
    for (auto n = s.take<uint64_t>(); n != 0; --n) {
        Message m;
        m.header = s.take<Header>();
        const auto payload = s.take(m.header.length);
        m.payload.assign(payload.begin(), payload.end());
        c.backlog.push_back(std::move(m));
    }
    for (Node& node : c.nodes) {
        const uint32_t mask = node.shared.egress_mask;
        const auto head = s.take<uint32_t>();
        const auto n = s.take<uint32_t>();
        if (n > mask + 1) {
            s.refuse("tells of more messages than the egress ring holds");
        }
        for (uint32_t i = 0; i < n; ++i) {
            node.shared.egress[(head + i) & mask] = s.take<Slot>();
        }
        store<Scope::system>(&node.egress_words->credit, head);
        node.egress =
            SpscReceiver<Scope::system>({node.shared.egress, mask, head, node.egress_words});
    }
}

// The dead letters that nobody has read.
SnapshotSection dead_section(const AnyRuntime::Core& c)
{
    SnapshotSection s("dead letters");
    for (const Node& node : c.nodes) {
        uint32_t tail = 0;
        read_memory(node, &tail, &node.shared.board->dead_tail, sizeof tail);
        const uint32_t mask = node.shared.dead_mask;
        const uint32_t n = std::min(tail - node.dead_head, mask + 1);
        s.put(node.dead_head);
        s.put(node.dead_lost);
        s.put(tail);
        s.put(n);
        for (uint32_t t = tail - n; t != tail; ++t) {
            s.put(node.shared.dead[t & mask]);
        }
    }
    return s;
}

void take_dead(SnapshotBytes s, AnyRuntime::Core& c)
{
    for (Node& node : c.nodes) {
        node.dead_head = s.take<uint32_t>();
        node.dead_lost = s.take<uint64_t>();
        const auto tail = s.take<uint32_t>();
        const auto n = s.take<uint32_t>();
        if (n > node.shared.dead_mask + 1) {
            s.refuse("tells of more letters than their ring holds");
        }
        for (uint32_t t = tail - n; t != tail; ++t) {
            node.shared.dead[t & node.shared.dead_mask] = s.take<Slot>();
        }
    }
}

SnapshotSection cells_section(Cells& cells)
{
    SnapshotSection s("cells");
    cells.save([&](uint32_t lap, bool open) {
        s.put(lap);
        s.put(static_cast<uint8_t>(open));
    });
    return s;
}

void take_cells(SnapshotBytes s, Cells& cells)
{
    std::vector<uint32_t> laps;
    std::vector<bool> open;
    for (size_t i = 0; i < cells.count(); ++i) {
        laps.push_back(s.take<uint32_t>());
        open.push_back(s.take<uint8_t>() != 0);
    }
    cells.restore(std::move(laps), open);
}

// ---- off and on again

// While it lives, no worker of the program runs.
class Away {
public:
    Away(AnyRuntime::Core& core, uint64_t deadline_ns) : core_(core)
    {
        const uint64_t begin = now_ns();
        try {
            while (!all_leave(begin, deadline_ns)) { // ends when they have, or by the deadline
                core.check_alive();
                if (now_ns() - begin > deadline_ns) {
                    const std::string who = core.stuck(deadline_ns / 2);
                    throw Error(Errc::timeout, "the workers were not to be had for a snapshot "
                                               "within " +
                                                   seconds(deadline_ns) +
                                                   (who.empty() ? "" : ": " + who));
                }
            }
        } catch (...) {
            let_go();
            throw;
        }
    }
    ~Away() { let_go(); }
    Away(const Away&) = delete;
    Away& operator=(const Away&) = delete;

private:
    // A handler whose worker has an outbox that is full waits for room that a worker which has left
    // does not make: those come back after a moment, and all try again.
    bool all_leave(uint64_t begin, uint64_t deadline_ns)
    {
        for (const Node& node : core_.nodes) {
            node.backend->hold();
        }
        const uint64_t tried = now_ns();
        Backoff wait;
        while (now_ns() - tried < 500'000'000 && now_ns() - begin <= deadline_ns) {
            if (std::all_of(core_.nodes.begin(), core_.nodes.end(),
                            [](const Node& node) { return node.backend->held(); })) {
                return true;
            }
            core_.drain_egress_if_full();
            core_.check_alive();
            wait.pause();
        }
        let_go();
        return false;
    }

    void let_go()
    {
        for (const Node& node : core_.nodes) {
            node.backend->let_go();
        }
    }

    AnyRuntime::Core& core_;
};

} // namespace

void AnyRuntime::Core::save(const std::string& path, uint64_t deadline_ns)
{
    const std::scoped_lock guards(save_mutex, spawn_mutex, move_mutex);
    check_alive();
    std::vector<SnapshotSection> sections{program_section(image), geometry_section(*this)};
    {
        const Away away(*this, deadline_ns);
        check_alive();
        {
            // All locks at once: what the host has sent and what it has received are of one moment.
            const std::lock_guard data(ports[0].lock);
            const std::lock_guard urgent_too(ports[urgent].lock);
            const std::lock_guard received(egress_lock);
            sections.push_back(lanes_section("lanes", *this, ports[0], source_host, deadline_ns));
            sections.push_back(lanes_section("urgent lanes", *this, ports[urgent],
                                             source_host_urgent, deadline_ns));
            take_into_backlog();
            sections.push_back(egress_section(*this));
        }
        {
            const std::lock_guard read(dead_mutex);
            sections.push_back(dead_section(*this));
        }
        sections.push_back(cells_section(cells));
        sections.push_back(host_section(*this));
        for (const Node& node : nodes) {
            const Fill fill = fill_of(*this, node);
            const NodeMemory memory(*this, node, fill);
            for (const Region& r : node.regions) {
                sections.push_back(memory_section(node, r, memory.pieces(r)));
            }
        }
    }
    write_snapshot(path, SnapshotKind::program, layout_abi, sections);
}

void AnyRuntime::Core::restore(const std::string& path)
{
    const SnapshotFile file(path, SnapshotKind::program, layout_abi);
    compare_program(file, image);
    compare_geometry(file, *this);
    take_host(file.section("host"), *this);
    take_lanes(file.section("lanes"), *this, ports[0]);
    take_lanes(file.section("urgent lanes"), *this, ports[urgent]);
    restore_egress(file.section("egress"), *this);
    take_dead(file.section("dead letters"), *this);
    take_cells(file.section("cells"), cells);
    for (const Node& node : nodes) {
        for (const Region& r : node.regions) {
            restore_memory(file, *this, node, r);
        }
        const uint32_t unobserved = 0; // whoever looked on did so in another process
        write_memory(node, &node.shared.board->observe, &unobserved, sizeof unobserved);
    }
    flush_stores();
}

// ---- one actor

namespace {

// An actor's entry and its state's bytes. No worker is on.
ActorEntry entry_of(const AnyRuntime::Core& c, Address actor)
{
    const Node& node = c.nodes[actor.node()];
    ActorEntry entry;
    read_memory(node, &entry,
                node.shared.actors + actor.worker() * static_cast<size_t>(c.actors_per_worker) +
                    actor.local(),
                sizeof entry);
    return entry;
}

} // namespace

void AnyRuntime::Core::save_actor(Address actor, const std::string& path, uint64_t deadline_ns)
{
    const std::scoped_lock guards(save_mutex, move_mutex);
    check_alive();
    check_actor(actor);
    const Address place = place_of(actor);
    SnapshotSection s("actor");
    {
        const Away away(*this, deadline_ns);
        const ActorEntry entry = entry_of(*this, place);
        if (entry.type() >= image.table.actors) {
            refuse(actor, 0); // it has stopped itself
        }
        const ActorInfo& info = image.table.actor[entry.type()];
        s.put_text(actor_name(entry.type()));
        s.put(info.size);
        s.put(info.align);
        std::vector<unsigned char> state(info.size);
        read_memory(nodes[place.node()], state.data(), entry.state, state.size());
        s.put(state.data(), state.size());
    }
    write_snapshot(path, SnapshotKind::actor, layout_abi, {s});
}

void AnyRuntime::Core::load_actor(Address actor, const std::string& path, uint64_t deadline_ns)
{
    const SnapshotFile file(path, SnapshotKind::actor, layout_abi);
    SnapshotBytes s = file.section("actor");
    const std::string name = s.take_text();
    const auto size = s.take<uint32_t>();
    const auto align = s.take<uint32_t>();
    const auto state = s.take(size);
    const std::scoped_lock guards(save_mutex, move_mutex);
    check_alive();
    check_actor(actor);
    const Address place = place_of(actor);
    const Away away(*this, deadline_ns);
    const ActorEntry entry = entry_of(*this, place);
    if (entry.type() >= image.table.actors) {
        refuse(actor, 0);
    }
    const ActorInfo& info = image.table.actor[entry.type()];
    if (name != actor_name(entry.type())) {
        file.refuse("is of an actor " + name + ", " + describe(actor) + " is an actor " +
                    actor_name(entry.type()));
    }
    if (size != info.size || align != info.align) {
        file.refuse("is of an actor " + name + " of " + std::to_string(size) +
                    " bytes, aligned to " + std::to_string(align) + "; this program's has " +
                    std::to_string(info.size) + ", aligned to " + std::to_string(info.align));
    }
    write_memory(nodes[place.node()], entry.state, state.data(), state.size());
}

} // namespace denizen
