// SPDX-License-Identifier: Apache-2.0
// What is under way in a restored program. A ring's tickets from its reader's next to its tail are
// each in the ring or parked in an outbox, never both and never neither, and read in their order
// they are whole messages that the program knows. No other slot may look like a ticket to come.
#include "snapshot_check.hpp"
#include "snapshot_memory.hpp"

#include <denizen/actor/detail/move.hpp>
#include <denizen/actor/detail/near_box.hpp>
#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/supervisor.hpp>

#include <map>
#include <tuple>

namespace denizen {
namespace {

// A ring by who reads it: number of the worker (or node, for egress) and what it is to that reader.
using RingName = std::tuple<size_t, uint32_t>;

constexpr Slot no_slot{};

// Of the second part. Sources number a worker's rings in global memory.
constexpr uint32_t near_rings = 64; // and the near worker's number
constexpr uint32_t egress_ring = 128;
constexpr uint32_t host_ring = 256; // and the number of the host that it goes to
constexpr uint32_t urgent_host_ring = host_ring + max_hosts + 1;

template <class T>
T from(const uint32_t* words)
{
    static_assert(sizeof(T) <= first_payload);
    T value;
    std::memcpy(static_cast<void*>(&value), words, sizeof value);
    return value;
}

uint32_t source_of(const Node& reader, uint32_t sender)
{
    return source_peer + sender - (sender > reader.shared.node ? 1 : 0);
}

uint32_t urgent_source_of(const Node& reader, uint32_t sender)
{
    return source_peer_urgent(reader.shared) + source_of(reader, sender) - source_peer;
}

} // namespace

// What outboxes hold for each ring.
struct SnapshotCheck::Flight {
    std::map<RingName, std::map<uint32_t, Slot>> parked; // by ticket
};

struct SnapshotCheck::RingView {
    RingName name;
    Address reader;
    bool to_host = false;
    bool to_other_host = false;
    uint32_t mask = 0;
    uint32_t head = 0; // the reader's next ticket
    uint32_t tail = 0;
    uint32_t credit = 0;        // what its writers know of `head`
    Slot* memory = nullptr;     // where the slots lie: in the node's memory,
    const Node* node = nullptr; // or, if there is none, in the host's
    // The slots that may be other than zero, each once, and how far behind `head` each is.
    std::vector<Slot> slots;
    std::vector<std::pair<uint32_t, size_t>> held; // distance, and which of `slots`

    void hold(uint32_t index, const Slot& slot)
    {
        held.emplace_back((index - head) & mask, slots.size());
        slots.push_back(slot);
    }
};

// ---- what a message says

// A message of the program, of its type's length.
void SnapshotCheck::check_payload(Address reader, const Header& h, uint32_t flags) const
{
    const ProgramTable& t = c_.image.table;
    require((h.flags & ~flags) == 0, reader, "is sent a message with flags that it cannot have");
    require(h.type < t.messages, reader, "is sent a message of no type of the program");
    const uint32_t stamp = (h.flags & flag_traced) != 0 ? stamp_bytes : 0;
    require(h.length == t.message[h.type].size + stamp, reader,
            "is sent a message of another length than its type");
}

void SnapshotCheck::check_life_order(Address reader, const Header& h, const uint32_t* words) const
{
    const auto op = static_cast<SystemOp>(h.type);
    require(h.length == sizeof(LifeRequest), reader, "is given an order of no known length");
    const auto r = from<LifeRequest>(words);
    require(r.local < c_.actors_per_worker, reader, "is given an order to an actor it cannot have");
    bool good = true;
    switch (op) {
    case SystemOp::stop:
    case SystemOp::pause:
    case SystemOp::resume:
    case SystemOp::restart:
    case SystemOp::drain:
    case SystemOp::suspend:
    case SystemOp::checkpoint:
    case SystemOp::look:
    case SystemOp::watch:
    case SystemOp::unwatch:
    case SystemOp::failure: break;
    case SystemOp::drained: good = r.value < c_.all_workers(); break;
    case SystemOp::bounce: good = r.value < c_.all_workers() && c_.inside({r.rank}); break;
    case SystemOp::pass:
    case SystemOp::passed: good = c_.inside({r.rank}); break;
    case SystemOp::attach: good = r.value == nobody || c_.inside({r.value}); break;
    case SystemOp::tell: good = r.value <= static_cast<uint32_t>(Life::moved); break;
    case SystemOp::move_out:
    case SystemOp::depart:
    case SystemOp::move_in:
    case SystemOp::settle:
    case SystemOp::vacate: refuse(reader, "is in the middle of a move that was given up");
    default: good = false;
    }
    require(good, reader, "is given an order that makes no sense");
}

// The runtime's own.
void SnapshotCheck::check_system(Address reader, const Header& h, const uint32_t* words)
{
    const ProgramTable& t = c_.image.table;
    const auto op = static_cast<SystemOp>(h.type);
    require(h.flags == flag_system, reader, "is given an order with flags that it cannot have");
    const auto length = [&](size_t bytes) {
        require(h.length == bytes, reader, "is given an order of no known length");
    };
    // Where an order puts new states: where no actor is yet.
    const auto claim = [&](uint32_t first, uint64_t count, uint64_t at, uint64_t bytes) {
        const Node& node = c_.nodes[reader.node()];
        require(first >= c_.placing.next_local[c_.worker_index(reader)] &&
                    first < c_.actors_per_worker && count >= 1 &&
                    count <= c_.actors_per_worker - first,
                reader, "is told to make actors where there are some, or is no room");
        require(at >= node.heap_used && at % 256 == 0 && at <= c_.options.state_bytes &&
                    bytes <= c_.options.state_bytes - at,
                reader, "is told to make a state where there is one, or is no room");
        const Address place = Address::actor(reader.worker(), first, reader.node());
        claims_.push_back({place, static_cast<uint32_t>(count), {at, bytes, place}});
    };
    if (op == SystemOp::none) {
        length(0);
    } else if (op == SystemOp::spawn) {
        length(sizeof(SpawnRequest));
        const auto r = from<SpawnRequest>(words);
        require(r.type < t.actors && r.stride == c_.stride_of(r.type) &&
                    r.life <= static_cast<uint32_t>(Life::created),
                reader, "is told to make actors of no type of the program");
        claim(r.first, r.count, r.offset, static_cast<uint64_t>(r.count) * r.stride);
    } else if (op == SystemOp::supervise) {
        length(sizeof(SuperviseRequest));
        const auto r = from<SuperviseRequest>(words);
        require(r.strategy <= static_cast<uint32_t>(Strategy::escalate) &&
                    (r.max_restarts <= max_restart_budget || r.max_restarts == unlimited_restarts),
                reader, "is told to make a supervisor of no known kind");
        claim(r.local, 1, r.offset, detail::supervisor_bytes(r.children, r.max_restarts));
    } else if (op == SystemOp::adopt) {
        length(sizeof(AdoptRequest));
        const auto r = from<AdoptRequest>(words);
        const NodeImage& image = images_[reader.node()];
        const std::vector<ActorEntry>& actors = image.actors[reader.worker()];
        require(r.local < actors.size() && actors[r.local].kind != 0 &&
                    actors[r.local].type() == supervisor_type,
                reader, "is told of children of an actor that is no supervisor");
        const auto sup =
            image.memory->read(static_cast<const detail::Supervisor*>(actors[r.local].state));
        const uint32_t first = r.rank_and_count & 0xfffffff;
        const uint32_t count = r.rank_and_count >> 28;
        require(count <= 7 && first <= sup.children && count <= sup.children - first, reader,
                "is told of more children than its supervisor has");
    } else if (op == SystemOp::aim_text) {
        length(sizeof(AimText));
        require(reader.worker() == 0 && from<AimText>(words).at / 2 < AimText::pieces, reader,
                "is told of a piece of a topic that has no place, or not its affair");
    } else if (detail::is_topic_op(op)) {
        length(sizeof(TopicRequest));
        const auto r = from<TopicRequest>(words);
        require(reader.worker() == 0 && r.key.valid(), reader,
                "is told of a topic that is none, or not its affair");
    } else {
        check_life_order(reader, h, words);
    }
}

void SnapshotCheck::check_message(Address reader, const Header& h, const uint32_t* words)
{
    if ((h.flags & flag_system) != 0) {
        check_system(reader, h, words);
    } else {
        const bool publish = (h.flags & flag_publish) != 0;
        check_payload(reader, h, flag_traced | (publish ? flag_publish : flag_broadcast));
    }
}

// ---- where it is

void SnapshotCheck::read_outboxes(Flight& flight) const
{
    for (const NodeImage& image : images_) {
        const Shared& s = image.node->shared;
        for (uint32_t w = 0; w < s.workers; ++w) {
            const Address worker = worker_of(image, w);
            const std::vector<Parked> outbox = image.memory->read_all(
                s.outboxes + w * static_cast<size_t>(s.outbox_capacity), image.status[w].outbox);
            for (const Parked& p : outbox) {
                if (p.state == detail::entry_free) {
                    continue;
                }
                require(p.state == detail::entry_filled, worker, "is about to park a message");
                require(p.kind != static_cast<uint32_t>(RingKind::egress) ||
                            image.status[w].for_host != 0,
                        worker, "has parked a message for the host and does not say so");
                const uint32_t first = w - w % s.near;
                const uint32_t near = std::min(s.near, s.workers - first);
                RingName ring;
                bool good = true;
                switch (static_cast<RingKind>(p.kind)) {
                case RingKind::inbox:
                case RingKind::urgent: {
                    const bool data = static_cast<RingKind>(p.kind) == RingKind::inbox;
                    good = p.index < s.workers;
                    ring = {c_.worker_index(worker) - w + p.index,
                            data ? source_node : source_node_urgent};
                    break;
                }
                case RingKind::near:
                    good = p.index < near;
                    ring = {c_.worker_index(worker) - w + first + p.index, near_rings + w % s.near};
                    break;
                case RingKind::peer:
                case RingKind::peer_urgent: {
                    const bool data = static_cast<RingKind>(p.kind) == RingKind::peer;
                    const uint32_t node = p.index / max_workers;
                    const uint32_t to = p.index % max_workers;
                    if (node == s.node) {
                        good = to < s.far.hosts;
                        ring = {s.node, (data ? host_ring : urgent_host_ring) + to};
                        break;
                    }
                    good = node < s.nodes && to < s.workers;
                    if (good) {
                        ring = {c_.worker_index(Address::actor(to, 0, node)),
                                data ? source_of(c_.nodes[node], s.node)
                                     : urgent_source_of(c_.nodes[node], s.node)};
                    }
                    break;
                }
                case RingKind::egress: ring = {s.node, egress_ring}; break;
                default: good = false;
                }
                require(good, worker, "has parked a message for a ring that there is not");
                for (const Packet& packet : p.slot.packet) {
                    require(packet.sequence == p.ticket + 1, worker,
                            "has parked a message of another ticket");
                }
                require(flight.parked[ring].emplace(p.ticket, p.slot).second, worker,
                        "has parked a message whose ticket is taken");
            }
        }
    }
}

void SnapshotCheck::check_ring(RingView& r, Flight& flight)
{
    const auto found = flight.parked.find(r.name);
    std::map<uint32_t, Slot> parked;
    if (found != flight.parked.end()) {
        parked = std::move(found->second);
        flight.parked.erase(found);
    }
    const uint64_t capacity = r.mask + uint64_t{1};
    const uint32_t n = r.tail - r.head;
    require(n <= capacity + parked.size(), r.reader, "is to read more messages than a ring holds");
    require(r.head - r.credit <= capacity, r.reader,
            "has given its senders room that is not there");
    const auto packets_of = [](const Slot& slot, uint32_t ticket) {
        return std::count_if(std::begin(slot.packet), std::end(slot.packet),
                             [&](const Packet& p) { return p.sequence == ticket + 1; });
    };
    std::sort(r.held.begin(), r.held.end());
    auto next = r.held.begin();
    // The slot so far behind the reader's next; asked for one after the other.
    const auto slot_at = [&](uint32_t distance) {
        while (next != r.held.end() && next->first < distance) {
            ++next;
        }
        const bool there = next != r.held.end() && next->first == distance;
        return there ? &r.slots[next->second] : &no_slot;
    };
    uint32_t rest = 0; // slots of the message that has begun
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t ticket = r.head + i;
        const Slot* slot = i < capacity ? slot_at(i) : nullptr;
        const auto whole = slot != nullptr ? packets_of(*slot, ticket) : 0;
        const auto waits = parked.find(ticket);
        require(whole == (waits == parked.end() ? 4 : 0), r.reader,
                "is sent a message that is not whole, or twice");
        if (rest == 0) {
            const Slot& first = whole != 0 ? *slot : waits->second;
            uint32_t words[12];
            for (uint32_t k = 0; k < 12; ++k) {
                words[k] = first.packet[k / 3].word[k % 3];
            }
            const Header h = decode(first.packet[0]);
            rest = slots_for(h.length);
            require(rest <= n - i, r.reader, "is sent a message without its end");
            if (r.to_host || (r.to_other_host && (h.flags & flag_system) == 0)) {
                check_payload(r.reader, h, flag_traced);
            } else if (r.to_other_host) { // take() passes over what it does not know
                require(h.flags == flag_system && h.length <= first_payload, r.reader,
                        "is to give another host an order that there is not");
            } else {
                check_message(r.reader, h, words + 3);
            }
        }
        --rest;
        if (waits != parked.end()) {
            parked.erase(waits);
        }
    }
    require(parked.empty(), r.reader, "is to be sent messages that have no place in their ring");
    // Ticket 2^32 - 1 expects sequence 0, and finds it in a slot that was never written.
    for (const auto& [distance, which] : r.held) {
        const uint32_t ticket = r.head + distance;
        require(distance < n || ticket == ~0u || packets_of(r.slots[which], ticket) == 0, r.reader,
                "is sent a message that nobody has sent");
    }
    const uint32_t last = ~0u - r.head;
    next = r.held.begin();
    if (last >= n && last < capacity && packets_of(*slot_at(last), ~0u) != 0) {
        Slot unused{};
        for (Packet& p : unused.packet) {
            p.sequence = 1;
        }
        Slot* there = r.memory + (~0u & r.mask);
        if (r.node != nullptr) {
            write_memory(*r.node, there, &unused, sizeof unused);
        } else {
            for (uint32_t k = 0; k < 4; ++k) {
                store_packet<Scope::system>(&there->packet[k], unused.packet[k]);
            }
        }
    }
}

void SnapshotCheck::check_messages()
{
    Flight flight;
    read_outboxes(flight);
    const auto hold_restored = [&](RingView& r) { // in the memory of a node
        images_[r.node->shared.node].memory->each_slot(
            r.memory, r.mask + size_t{1},
            [&](uint32_t index, const Slot& slot) { r.hold(index, slot); });
    };
    const auto hold_all = [&](RingView& r, const Slot* slots) { // in the host's memory
        for (uint32_t i = 0; i <= r.mask; ++i) {
            if (std::memcmp(slots + i, &no_slot, sizeof(Slot)) != 0) {
                r.hold(i, slots[i]);
            }
        }
    };
    for (const NodeImage& image : images_) {
        const Node& node = *image.node;
        const Shared& s = node.shared;
        for (uint32_t w = 0; w < s.workers; ++w) {
            const Address worker = worker_of(image, w);
            const size_t reader = c_.worker_index(worker);
            const uint32_t* done = image.status[w].done;
            const auto ring = [&](uint32_t source, uint32_t mask, const Slot* memory,
                                  const uint32_t* tail, const uint32_t* credit,
                                  const Node& writer) {
                const MemoryImage& writers = *images_[writer.shared.node].memory;
                RingView r;
                r.name = {reader, source};
                r.reader = worker;
                r.node = &node;
                r.mask = mask;
                r.head = done[source];
                r.tail = writers.read(tail);
                r.credit = writers.read(credit);
                r.memory = const_cast<Slot*>(memory) + w * (mask + size_t{1});
                hold_restored(r);
                check_ring(r, flight);
            };
            ring(source_node, s.inbox_mask, s.inboxes, &s.inbox[w].tail, &s.inbox[w].credit, node);
            ring(source_node_urgent, s.urgent_mask, s.urgent_inboxes, &s.urgent_inbox[w].tail,
                 &s.urgent_inbox[w].credit, node);
            for (const Node& other : c_.nodes) {
                if (&other != &node) {
                    const PeerLink& there = other.shared.peer[s.node];
                    ring(source_of(node, other.shared.node), s.inbox_mask,
                         s.peer[other.shared.node].from, there.tails + w * credit_stride,
                         there.credits + w * credit_stride, other);
                    const size_t place = (s.workers + w) * size_t{credit_stride};
                    ring(urgent_source_of(node, other.shared.node), s.urgent_mask,
                         s.peer[other.shared.node].from + s.workers * (s.inbox_mask + size_t{1}),
                         there.tails + place, there.credits + place, other);
                }
            }
            const uint32_t source_hosts = source_peer + s.nodes - 1;
            for (const uint32_t source : {source_host, source_host_urgent, source_hosts}) {
                if (source == source_hosts && s.far.hosts == 0) {
                    continue;
                }
                Port& port = source == source_hosts  ? c_.far.port
                             : source == source_host ? c_.ports[0]
                                                     : c_.ports[AnyRuntime::Core::urgent];
                const HostRing& l = port.table[reader];
                require(l.place.seen == done[source], worker,
                        "has handled other messages of the host "
                        "than the host knows");
                RingView r;
                r.name = {reader, source};
                r.reader = worker;
                r.mask = port.rings.capacity() - 1;
                r.head = r.credit = l.place.seen;
                r.tail = l.place.tail;
                r.memory = l.slots;
                port.each_slot(reader, r.head, [&](const Slot& slot, uint32_t ticket) {
                    r.hold(ticket & r.mask, slot);
                });
                check_ring(r, flight);
            }
        }
        // The near rings: words of the sender's box and of the reader's.
        std::vector<NearBox> boxes(s.workers);
        for (uint32_t w = 0; w < s.workers; ++w) {
            boxes[w] = image.memory->read(
                reinterpret_cast<const NearBox*>(s.boxes + w * size_t{s.box_bytes}));
        }
        for (uint32_t w = 0; w < s.workers && s.local_mask != 0; ++w) {
            const uint32_t own = w % s.near;
            for (uint32_t from = 0; from < s.near; ++from) {
                RingView r;
                r.mask = detail::near_ring_mask(s, own, from);
                if (r.mask == 0) {
                    continue;
                }
                const uint32_t sender = w - own + from;
                r.name = {c_.worker_index(worker_of(image, w)), near_rings + from};
                r.reader = worker_of(image, w);
                r.node = &node;
                r.head = r.tail = r.credit = boxes[w].head[from];
                if (sender < s.workers) {
                    r.tail = boxes[sender].tail[own];
                    r.credit = boxes[sender].credit[own];
                }
                r.memory = reinterpret_cast<Slot*>(
                    detail::near_slots(s, s.boxes + w * size_t{s.box_bytes}, own, from));
                hold_restored(r);
                check_ring(r, flight);
            }
        }
        for (uint32_t i = 0; i < 2 * s.far.hosts; ++i) {
            const bool urgent = i >= s.far.hosts;
            const uint32_t h = urgent ? i - s.far.hosts : i;
            const FarRing ring = far_ring(s, h, urgent);
            RingView r;
            r.name = {s.node, (urgent ? urgent_host_ring : host_ring) + h};
            r.reader = worker_of(image, 0);
            r.to_other_host = true;
            r.mask = ring.mask;
            r.head = r.credit = c_.far.lane[h]->head[s.node][urgent];
            r.tail = image.memory->read(ring.tail);
            hold_all(r, ring.slots);
            check_ring(r, flight);
            require(static_cast<int32_t>(r.head - image.memory->read(ring.credit_seen)) >= 0,
                    r.reader, "believes that another host has taken more than it has");
        }
        RingView r;
        r.name = {s.node, egress_ring};
        r.reader = worker_of(image, 0);
        r.to_host = true;
        r.mask = s.egress_mask;
        r.head = r.credit = node.egress.position();
        r.tail = image.board.egress_tail;
        r.memory = s.egress;
        hold_all(r, s.egress);
        check_ring(r, flight);
        require(static_cast<int32_t>(r.head - image.board.egress_credit) >= 0, r.reader,
                "believes that the host has taken more than it has");
    }
    if (!flight.parked.empty()) {
        file_.refuse("makes no sense: messages are parked for a ring that there is not");
    }
    c_.flush_stores();
}

} // namespace denizen
