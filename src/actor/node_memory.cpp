// SPDX-License-Identifier: Apache-2.0
// The memory of a program's nodes: how much each takes, what lies where in it, and what the nodes
// know of each other's.
#include "core.hpp"

#include <denizen/actor/detail/pool.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/detail/topics.hpp>

#include <algorithm>
#include <bit>

namespace denizen {

// What handlers spawn has places and states of its own, in front of those that the host gives out.
void AnyRuntime::Core::make_room_to_spawn()
{
    uint64_t stride = 0;
    uint64_t align = 16;
    for (uint32_t a = 0; a < image.table.actors; ++a) {
        if (image.table.actor[a].spawned != 0) {
            stride = std::max(stride, stride_of(a));
            align = std::max<uint64_t>(align, image.table.actor[a].align);
        }
    }
    uint64_t room = options.spawn_room;
    if (stride == 0) {
        if (room != 0) {
            throw Error(Errc::bad_argument,
                        "spawn_room = " + std::to_string(room) +
                            ": the program has no actors that handlers spawn; their types declare "
                            "`static constexpr bool spawned = true`");
        }
        return;
    }
    stride = round_up(stride, align);
    if (room == 0) {
        constexpr uint64_t most_bytes = 64u << 20;
        for (room = 256; room > 2 && workers * room * stride > most_bytes;) {
            room /= 2;
        }
    }
    // An address has room for so many; the default of max_actors is all of them with one worker.
    actors_per_worker =
        static_cast<uint32_t>(std::min<uint64_t>(actors_per_worker + room, max_actors_per_worker));
    for (Node& node : nodes) {
        node.shared.spawn_room = static_cast<uint32_t>(room);
        node.shared.spawn_stride = stride;
        node.heap_used = workers * room * stride;
    }
    options.state_bytes += nodes[0].heap_used;
}

// Sizes one node's rings and takes its memory.
void AnyRuntime::Core::lay_out(Node& node, uint32_t number)
{
    const Geometry& g = node.backend->geometry();
    const uint32_t longest = message_slots(image.table);
    const uint32_t least = least_slots(image.table);
    // A ring takes the program's longest message, whatever its option says: a message that fits
    // into no ring could never be sent.
    Shared& shared = node.shared;
    shared.workers = workers;
    shared.node = number;
    shared.nodes = options.nodes;
    shared.actors_per_worker = actors_per_worker;
    shared.near = g.near;
    shared.per_sm = g.per_sm;
    shared.far = far_format();
    shared.near_mask = g.near_slots - 1;
    shared.local_mask = g.local_slots - 1;
    shared.box_bytes = static_cast<uint32_t>(g.box_bytes());
    shared.near_bytes = static_cast<uint32_t>(g.near_bytes());
    shared.host_ring_mask = std::max(options.host_ring_slots, least) - 1;
    shared.inbox_mask = std::max(options.inbox_slots, least) - 1;
    shared.urgent_mask = std::max(options.urgent_slots, least) - 1;
    shared.urgent_sources = 1u << source_host_urgent | 1u << source_node_urgent |
                            ((1u << (options.nodes - 1)) - 1) << source_peer_urgent(shared);
    shared.egress_mask = std::max(options.egress_slots, least) - 1;
    shared.stash_slots = std::max(options.stash_slots, longest);
    shared.watch_slots = options.watch_slots;
    shared.timer_slots = options.timer_slots;
    shared.subscription_mask = 2 * options.subscriptions - 1; // half of them are never filled
    if (image.table.tasks != 0) {
        shared.task_mask = options.task_slots - 1;
        shared.task_shift = static_cast<uint32_t>(std::countr_zero(options.task_slots));
    }
    shared.dead_mask = options.dead_letter_slots - 1;
    shared.outbox_capacity = std::max(options.outbox_slots, least);
    shared.cell_count = options.asks;
    shared.buffer_count = options.buffers;
    shared.cell_slots = std::bit_ceil(longest);
    shared.scratch_bytes = stage_bytes(image.table);
    shared.stage_bytes = on_gpu ? g.stage : shared.scratch_bytes;
    shared.actor_types = image.table.actors;
    for (uint32_t a = 0; a < image.table.actors; ++a) {
        shared.overflow[a / 32] |= uint64_t{image.table.actor[a].overflow} << a % 32 * 2;
    }
    shared.trace_slots = options.trace_slots;
    node.trace = TraceReader(workers, options.trace_slots);
    shared.idle_ns = static_cast<uint64_t>(options.idle.count()) * 1'000'000;
    if (on_gpu || options.breath) {
        set_breath(shared.breath, options.breath);
    }
    shared.breath.workers = workers;
    shared.host_timeout_ns = static_cast<uint64_t>(options.host_timeout.count()) * 1'000'000;

    // Two passes over one plan: the first counts, the second hands out.
    Regions base;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    RingWords*& egress_words = node.egress_words;
    const auto plan = [&] {
        host_bytes = device_bytes = 0;
        const auto place = [](std::byte* region, size_t& used, auto*& p, size_t count) {
            using T = std::remove_reference_t<decltype(*p)>;
            used = round_up(used, 256);
            // The first pass has no region: not a pointer's addition.
            p = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(region) + used);
            used += sizeof(T) * count;
        };
        const auto in_host = [&](auto*& p, size_t n) { place(base.host, host_bytes, p, n); };
        // By name, so that a snapshot has all of it.
        const auto in_device = [&](std::string name, auto*& p, size_t n) {
            place(base.device, device_bytes, p, n);
            if (base.device != nullptr) {
                auto* memory = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(p));
                node.regions.push_back({std::move(name), memory, sizeof(*p) * n});
            }
        };
        const size_t of_workers = workers;
        in_host(shared.control, 1);
        in_host(shared.reports, of_workers);
        in_host(shared.host_ring_credit, of_workers * credit_stride);
        in_host(shared.urgent_host_ring_credit, of_workers * credit_stride);
        in_host(egress_words, 1);
        in_host(shared.egress, shared.egress_mask + 1u);
        in_host(shared.dead, shared.dead_mask + 1u);
        if (options.hosts != 0) {
            PeerLink& others = shared.peer[number];
            const size_t of_hosts = options.hosts;
            in_host(others.inboxes, of_hosts * (shared.inbox_mask + 1 + shared.urgent_mask + 1));
            in_host(others.credits, 2 * of_hosts * credit_stride);
            in_device("tails to other hosts", others.tails, 2 * of_hosts * credit_stride);
            in_host(others.from_credits, of_workers * credit_stride);
            if (number == 0) {
                in_host(far_bells, options.hosts);
            }
        }
        if (number == 0) { // one pool for all nodes
            in_host(shared.cells, static_cast<size_t>(options.asks) * shared.cell_slots);
            in_host(shared.types, all_workers() * actors_per_worker);
        }
        in_device("gate", node.gate, 1);
        in_device("board", shared.board, 1);
        in_device("acknowledged", shared.breath.acked, of_workers);
        in_device("status", shared.status, of_workers);
        in_device("watch", shared.watch, of_workers);
        in_device("counters", shared.counters, of_workers);
        in_device("histograms", shared.histograms, of_workers * shared.actor_types);
        in_device("latencies", shared.latencies, of_workers * shared.actor_types);
        in_device("inbox", shared.inbox, of_workers);
        in_device("urgent_inbox", shared.urgent_inbox, of_workers);
        in_device("bells", shared.bells, of_workers);
        in_device("boxes", shared.boxes, of_workers * shared.box_bytes);
        in_device("urgent_inboxes", shared.urgent_inboxes, of_workers * (shared.urgent_mask + 1));
        in_device("inboxes", shared.inboxes, of_workers * (shared.inbox_mask + 1));
        in_device("outboxes", shared.outboxes, of_workers * shared.outbox_capacity);
        in_device("worker_states", shared.worker_states, of_workers);
        in_device("stash", shared.stash, of_workers * shared.stash_slots);
        in_device("watchers", shared.watchers, of_workers * shared.watch_slots);
        in_device("vacant", shared.vacant, of_workers * shared.spawn_room);
        in_device("timer_due", shared.timer_due, of_workers * shared.timer_slots);
        in_device("timers", shared.timers, of_workers * shared.timer_slots);
        if (image.table.tasks != 0) {
            in_device("pool", shared.pool, 1);
            in_device("tasks", shared.tasks, options.task_slots);
        }
        in_device("topics", shared.topics, 1);
        in_device("subscriptions", shared.subscriptions, shared.subscription_mask + 1u);
        in_device("actor_records", shared.actor_records, of_workers * shared.actors_per_worker);
        in_device("actors", shared.actors, of_workers * shared.actors_per_worker);
        in_device("buffers", shared.buffers, options.buffers);
        in_device("scratch", shared.scratch, 2 * of_workers * shared.scratch_bytes);
        for (uint32_t other = 0; other < options.nodes; ++other) {
            if (other != number) {
                PeerLink& peer = shared.peer[other];
                const std::string with = "peer " + std::to_string(other);
                in_device(with + " tails", peer.tails, 2 * of_workers * credit_stride);
                in_device(with + " credits", peer.credits, 2 * of_workers * credit_stride);
                in_device(with + " from", peer.from,
                          of_workers * (shared.inbox_mask + shared.urgent_mask + size_t{2}));
            }
        }
        if (options.trace_slots != 0) {
            in_device("trace", shared.trace, of_workers * trace_ring_bytes(options.trace_slots));
        }
        in_device("heap", shared.heap, options.state_bytes);
    };
    plan();
    const size_t host_ring_slots = static_cast<size_t>(workers) * (shared.host_ring_mask + 1);
    const size_t urgent_slots = static_cast<size_t>(workers) * (shared.urgent_mask + 1);
    base = node.backend->allocate(round_up(host_bytes, 4096), round_up(device_bytes, 4096),
                                  workers * host_slots(options, least) * sizeof(Slot));
    plan();
    shared.breath.command = &shared.board->command;
    shared.breath.state = &shared.board->breath;
    shared.breath.jammed = &shared.board->jammed;
    shared.egress_credit = &egress_words->credit;
    shared.host_rings = reinterpret_cast<Slot*>(base.rings_device);
    shared.urgent_host_rings = shared.host_rings + host_ring_slots;
    node.control = shared.control;
    node.reports = shared.reports;
    node.egress = SpscReceiver<Scope::system>({shared.egress, shared.egress_mask, 0, egress_words});
    write_combined |= node.backend->write_combined();
    auto* rings = reinterpret_cast<Slot*>(base.rings_host);
    ports[0].add(workers, shared.host_ring_mask, rings, shared.host_ring_credit);
    ports[urgent].add(workers, shared.urgent_mask, rings + host_ring_slots,
                      shared.urgent_host_ring_credit);
    if (options.hosts != 0) {
        PeerLink& others = shared.peer[number];
        others.from = shared.urgent_host_rings + urgent_slots;
        far.port.add(workers, shared.host_ring_mask, rings + host_ring_slots + urgent_slots,
                     others.from_credits);
    }
}

void AnyRuntime::Core::make_arenas()
{
    if (image.table.allocates == 0) {
        return;
    }
    for (Node& node : nodes) {
        const auto ordinal = options.device.ordinal + static_cast<int>(node.shared.node);
        node.arena = std::make_unique<Arena>(on_gpu ? Device::gpu(ordinal) : Device::cpu(),
                                             options.arena_bytes);
        node.shared.arena = node.arena->ref().map();
    }
}

// Tells every node where in the other nodes' memory it writes.
void AnyRuntime::Core::wire_peers()
{
    for (Node& node : nodes) {
        PeerLink& others = node.shared.peer[node.shared.node]; // see rings.hpp
        others.bells = on_gpu ? nullptr : far_bells;
        node.shared.links = on_gpu || options.hosts == 0 ? nullptr : &far.duty;
        others.actor_records = node.shared.actor_records;
        others.actors = node.shared.actors;
        node.shared.cells = nodes[0].shared.cells;
        node.shared.types = nodes[0].shared.types;
        for (const Node& other : nodes) {
            if (&other == &node) {
                continue;
            }
            PeerLink& peer = node.shared.peer[other.shared.node];
            const PeerLink& there = other.shared.peer[node.shared.node];
            peer.inboxes = const_cast<Slot*>(there.from);
            peer.from_credits = const_cast<uint32_t*>(there.credits);
            peer.bells = other.shared.bells;
            peer.heap = other.shared.heap;
            peer.actor_records = other.shared.actor_records;
            peer.actors = other.shared.actors;
        }
    }
    for (const Node& node : nodes) {
        node.backend->wire(node.shared);
    }
}

void AnyRuntime::Core::make_buffers()
{
    std::vector<BufferNode> made;
    for (const Node& node : nodes) {
        Backend* backend = node.backend.get(); // the table's until stop() or abandon()
        made.push_back({backend, node.shared.buffers, node.shared.status, workers});
    }
    std::function<std::shared_ptr<Space>()> space = make_host_space;
    if (on_gpu) {
        space = [first = options.device.ordinal, count = nodes.size(), bytes = options.pool_bytes] {
            return make_gpu_space(first, static_cast<int>(count), bytes);
        };
    }
    buffers = std::make_shared<BufferTable>(std::move(made), std::move(space), options.buffers);
}

} // namespace denizen
