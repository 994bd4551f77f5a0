// SPDX-License-Identifier: Apache-2.0
#include "snapshot_host.hpp"

#include "snapshot_far.hpp"
#include "snapshot_memory.hpp"

namespace denizen {
namespace {

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
    s.put(BufferTable::last_generation());
    put_all(s, c.placing.next_local);
    s.put(static_cast<uint64_t>(c.placing.next_worker));
    s.put(static_cast<uint64_t>(c.placing.next_near));
    for (const Node& node : c.nodes) {
        s.put(node.heap_used);
    }
    const auto put_guest = [&](const Guest& g) {
        s.put(g.at.value);
        s.put(g.bytes);
        s.put(g.offset);
    };
    s.put(static_cast<uint32_t>(c.moving.guests.size()));
    for (const auto& [address, guest] : c.moving.guests) {
        s.put(address);
        put_guest(guest);
    }
    s.put(static_cast<uint32_t>(c.moving.vacancies.size()));
    for (const Guest& g : c.moving.vacancies) {
        put_guest(g);
    }
    s.put(c.moving.moves);
    s.put(static_cast<uint32_t>(c.names.addresses.size()));
    for (const auto& [name, address] : c.names.addresses) {
        s.put_text(name);
        s.put(address);
    }
    for (size_t i = 0; i < c.all_workers(); ++i) {
        s.put(c.types + i * c.actors_per_worker, c.placing.next_local[i]);
    }
    return s;
}

void take_host(SnapshotBytes s, AnyRuntime::Core& c)
{
    BufferTable::skip_generations(s.take<uint64_t>());
    take_all(s, c.placing.next_local);
    c.placing.next_worker = static_cast<size_t>(s.take<uint64_t>()) % c.all_workers();
    c.placing.next_near = static_cast<size_t>(s.take<uint64_t>());
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
        c.moving.guests[address] = take_guest();
    }
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        c.moving.vacancies.push_back(take_guest());
    }
    c.moving.moves = s.take<uint32_t>();
    for (auto n = s.take<uint32_t>(); n != 0; --n) {
        const std::string name = s.take_text();
        const Address a{s.take<uint32_t>()};
        if (name.empty() || name.size() > max_name || !c.inside(a) ||
            !c.names.addresses.emplace(name, a.value).second) {
            s.refuse("has a name that is none, or names no actor");
        }
    }
    for (size_t i = 0; i < c.all_workers(); ++i) {
        if (c.placing.next_local[i] > c.actors_per_worker ||
            c.placing.next_local[i] < c.spawn_room()) {
            s.refuse("tells of more actors than there is room for");
        }
        const auto types = s.take(c.placing.next_local[i]);
        for (size_t k = 0; k < types.size(); ++k) {
            if (types[k] > c.image.table.actors) {
                s.refuse("tells of an actor of type " + std::to_string(types[k]));
            }
            c.types[i * c.actors_per_worker + k] = types[k];
        }
    }
}

// How far the workers have handled each of their rings, worker by worker.
class Heads {
public:
    explicit Heads(const AnyRuntime::Core& c)
    {
        for (const Node& node : c.nodes) {
            const std::vector<Status> of_node =
                read_all(node, node.shared.status, node.shared.workers);
            status_.insert(status_.end(), of_node.begin(), of_node.end());
        }
    }
    std::vector<uint32_t> of(uint32_t source) const
    {
        std::vector<uint32_t> heads;
        for (const Status& s : status_) {
            heads.push_back(s.done[source]);
        }
        return heads;
    }

private:
    std::vector<Status> status_;
};

// The messages that the host has sent and no worker has taken. With the port's lock held, so that
// no later one gets in between; a sender that has let go of the lock may still have some of its
// last message in its core's write-combining buffers, hence the wait for whole slots.
SnapshotSection host_rings_section(const char* name, const AnyRuntime::Core& c, Port& port,
                                   const std::vector<uint32_t>& heads, uint64_t deadline_ns)
{
    SnapshotSection s(name);
    const uint64_t begin = now_ns();
    for (size_t i = 0; i < c.all_workers(); ++i) {
        s.put(heads[i]);
        s.put(port.rings.tail(i));
        port.each_slot(i, heads[i], [&](const Slot& slot, uint32_t ticket) {
            Slot whole;
            for (uint32_t k = 0; k < 4;) { // ends when all four have arrived
                whole.packet[k] = load_packet<Scope::system>(&slot.packet[k]);
                if (whole.packet[k].sequence == ticket + 1) {
                    ++k;
                } else if (now_ns() - begin > deadline_ns) {
                    throw Error(Errc::timeout,
                                "a message to " + c.worker_name(c.address_of_worker(i)) +
                                    " did not arrive within " + seconds(deadline_ns));
                }
            }
            s.put(whole);
        });
    }
    return s;
}

void take_host_rings(SnapshotBytes s, AnyRuntime::Core& c, Port& port)
{
    for (size_t i = 0; i < c.all_workers(); ++i) {
        const auto head = s.take<uint32_t>();
        HostRing& ring = port.table[i];
        ring.place.tail = s.take<uint32_t>();
        ring.place.seen = head;
        store<Scope::system>(const_cast<uint32_t*>(ring.credit), head);
        if (ring.place.tail - head > port.rings.capacity()) {
            s.refuse("tells of more messages than host ring " + std::to_string(i) + " holds");
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
    s.put(static_cast<uint64_t>(c.for_service.size() + c.backlog.size()));
    for (const auto* waiting : {&c.for_service, &c.backlog}) {
        for (const Message& m : *waiting) {
            s.put(m.header);
            s.put(m.payload.data(), m.payload.size());
        }
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

void take_egress(SnapshotBytes s, AnyRuntime::Core& c)
{
    for (auto n = s.take<uint64_t>(); n != 0; --n) {
        Message m;
        m.header = s.take<Header>();
        const ProgramTable& t = c.image.table;
        if (m.header.type >= t.messages || m.header.flags != 0 ||
            m.header.length != t.message[m.header.type].size) {
            s.refuse("has a message to the host that is none of the program's");
        }
        const auto payload = s.take(m.header.length);
        m.payload.assign(payload.begin(), payload.end());
        c.backlog.push_back(std::move(m));
    }
    for (Node& node : c.nodes) {
        const uint32_t mask = node.shared.egress_mask;
        const auto head = s.take<uint32_t>();
        const auto n = s.take<uint32_t>();
        if (n > mask + uint64_t{1}) {
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
        const uint32_t mask = node.shared.dead_mask;
        const uint32_t unread = tail - node.dead_head;
        if (static_cast<int32_t>(unread) < 0 || n != std::min(unread, mask + 1)) {
            s.refuse("tells of other letters than their ring holds");
        }
        // From 2^31 letters on, a slot that was never written would pass for a newer one.
        for (uint32_t t = tail - mask - 1; static_cast<int32_t>(tail) < 0 && t != tail - n; ++t) {
            for (Packet& p : node.shared.dead[t & mask].packet) {
                p.sequence = t + 1;
            }
        }
        for (uint32_t t = tail - n; t != tail; ++t) {
            const auto letter = s.take<Slot>();
            // Two that were written one lap apart may be mixed; none is of another place or newer.
            for (const Packet& p : letter.packet) {
                const uint32_t ticket = p.sequence - 1;
                if ((ticket & mask) != (t & mask) || static_cast<int32_t>(tail - ticket) <= 0) {
                    s.refuse("has a letter in the place of another");
                }
            }
            if (const uint32_t reason = letter.packet[0].word[0] >> 10 & 0xf; reason >= reasons) {
                s.refuse("has a letter without a reason");
            }
            node.shared.dead[t & mask] = letter;
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

} // namespace

void save_host(AnyRuntime::Core& core, std::vector<SnapshotSection>& sections, uint64_t deadline_ns)
{
    constexpr size_t urgent = AnyRuntime::Core::urgent;
    const Heads handled(core);
    const std::vector<uint32_t> heads = handled.of(source_host);
    const std::vector<uint32_t> urgent_heads = handled.of(source_host_urgent);
    {
        // All locks at once: what the host has sent and what it has received are of one moment.
        const std::lock_guard data(core.ports[0].lock);
        const std::lock_guard urgent_too(core.ports[urgent].lock);
        const std::lock_guard received(core.egress_lock);
        sections.push_back(
            host_rings_section("host rings", core, core.ports[0], heads, deadline_ns));
        sections.push_back(host_rings_section("urgent host rings", core, core.ports[urgent],
                                              urgent_heads, deadline_ns));
        core.take_into_backlog();
        sections.push_back(egress_section(core));
    }
    {
        const std::lock_guard read(core.dead_mutex);
        sections.push_back(dead_section(core));
    }
    if (core.options.hosts != 0) {
        const std::lock_guard from_others(core.far.port.lock);
        const std::vector<uint32_t> far_heads =
            handled.of(source_peer + static_cast<uint32_t>(core.nodes.size()) - 1);
        sections.push_back(host_rings_section("rings of other hosts", core, core.far.port,
                                              far_heads, deadline_ns));
        sections.push_back(far_section(core));
    }
    sections.push_back(cells_section(core.cells));
    sections.push_back(host_section(core));
}

void restore_host(const SnapshotFile& file, AnyRuntime::Core& core)
{
    take_host(file.section("host"), core);
    take_host_rings(file.section("host rings"), core, core.ports[0]);
    take_host_rings(file.section("urgent host rings"), core, core.ports[AnyRuntime::Core::urgent]);
    take_egress(file.section("egress"), core);
    take_dead(file.section("dead letters"), core);
    take_cells(file.section("cells"), core.cells);
    restore_far(file, core);
    if (core.options.hosts != 0) {
        take_host_rings(file.section("rings of other hosts"), core, core.far.port);
    }
    core.flush_stores();
}

} // namespace denizen
