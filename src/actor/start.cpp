// SPDX-License-Identifier: Apache-2.0
// The start of a program: checks its options, lays out its memory, and puts it on its processor.
#include "core.hpp"
#include "fingerprint.hpp"

#include <denizen/actor/detail/pool.hpp>
#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/detail/topics.hpp>

#include <algorithm>
#include <bit>
#include <optional>

namespace denizen {
namespace {

constexpr uint32_t max_egress_slots = 1u << 20;
constexpr uint32_t max_stash_slots = 1u << 20;

void require_power_of_two(const char* name, uint32_t n, uint32_t most)
{
    if (n < 2 || n > most || !std::has_single_bit(n)) {
        throw Error(Errc::bad_argument, std::string(name) + " = " + std::to_string(n) +
                                            "; use a power of two from 2 to " +
                                            std::to_string(most));
    }
}

} // namespace

AnyRuntime::Core::Core(Image program, const Options& wanted) : Asking(std::move(program), wanted)
{
    const uint64_t begin = now_ns();
    check_options();
    image.buffers.resize(image.table.messages);
    image.tasks.resize(image.table.tasks);
    on_gpu =
        options.device.kind == Device::Kind::gpu ||
        (options.device.kind == Device::Kind::automatic && gpu_present() && image.runs_on_gpu());
    // Before the nodes are made: what a snapshot's memory depends on is taken from the file where
    // no option says otherwise.
    std::optional<SnapshotFile> saved;
    if (!options.restore.empty()) {
        saved.emplace(options.restore, SnapshotKind::program, layout_abi);
        compare_program(*saved, image);
        adopt_geometry(*saved, options, on_gpu);
    }
    make_nodes();
    for (uint32_t n = 0; n < nodes.size(); ++n) {
        lay_out(nodes[n], n);
    }
    make_arenas();
    wire_peers();
    make_buffers();
    open_far();
    const Shared& first = nodes[0].shared;
    cells.open(first.cells, first.cell_slots, options.asks);
    host_trace.open(all_workers() * options.trace_slots);
    for (size_t i = 0; i < all_workers(); ++i) {
        placing.everywhere.push_back(address_of_worker(i));
    }
    placing.next_local.assign(all_workers(), spawn_room());
    types = first.types;
    stopped.assign(all_workers() * actors_per_worker, 0);
    if (saved) {
        restore(*saved); // no worker runs yet, so the memory is the host's alone
    }
    launch();
    const Geometry& g = nodes[0].backend->geometry();
    description.ordinal = options.device.ordinal;
    description.nodes = options.nodes;
    description.workers = workers;
    description.cluster = g.cluster;
    description.per_sm = g.per_sm;
    description.shared_bytes = on_gpu ? g.shared_bytes() : 0;
    for (const Node& node : nodes) {
        node.backend->describe(description);
    }
    description.start_ms = static_cast<double>(now_ns() - begin) * 1e-6;
}

void AnyRuntime::Core::check_options() const
{
    if (image.table.abi != layout_abi) {
        throw Error(Errc::compile, "the program was compiled for layout " +
                                       std::to_string(image.table.abi) + ", this runtime has " +
                                       std::to_string(layout_abi) + "; compile it again");
    }
    require_power_of_two("host_ring_slots", options.host_ring_slots, 1u << 16);
    if (options.inbox_slots != 0) { // 0: the device's, as the next
        require_power_of_two("inbox_slots", options.inbox_slots, 1u << 16);
    }
    if (options.local_slots != 0) {
        require_power_of_two("local_slots", options.local_slots, 1u << 12);
    }
    if (options.near_slots != 0) {
        require_power_of_two("near_slots", options.near_slots, 1u << 12);
    }
    require_power_of_two("urgent_slots", options.urgent_slots, 1u << 12);
    require_power_of_two("egress_slots", options.egress_slots, max_egress_slots);
    require_power_of_two("dead_letter_slots", options.dead_letter_slots, max_egress_slots);
    require_power_of_two("task_slots", options.task_slots, max_egress_slots);
    require_power_of_two("subscriptions", options.subscriptions, max_egress_slots);
    if (options.trace_slots != 0) {
        require_power_of_two("trace_slots", options.trace_slots, max_egress_slots);
    }
    if (options.stash_slots < 1 || options.stash_slots > max_stash_slots ||
        options.watch_slots < 1 || options.watch_slots > max_stash_slots) {
        throw Error(Errc::bad_argument,
                    "stash_slots = " + std::to_string(options.stash_slots) + ", watch_slots = " +
                        std::to_string(options.watch_slots) + "; use 1 to 1,048,576");
    }
    if (options.spawn_room != 0) { // 0: the program's choice
        require_power_of_two("spawn_room", options.spawn_room, 1u << 16);
    }
    if (options.timer_slots < 1 || options.timer_slots > max_timer_slots) {
        throw Error(Errc::bad_argument,
                    "timer_slots = " + std::to_string(options.timer_slots) + "; use 1 to 65,536");
    }
    if (options.cluster > 16 || (options.cluster != 0 && !std::has_single_bit(options.cluster))) {
        throw Error(Errc::bad_argument, "cluster = " + std::to_string(options.cluster) +
                                            "; use a power of two from 1 to 16, or 0");
    }
    if (options.asks < 1 || options.asks > max_cells) {
        throw Error(Errc::bad_argument,
                    "asks = " + std::to_string(options.asks) + "; use 1 to 65,536");
    }
    if (options.hosts != 0 && options.asks > FarFormat::multicast_bit) {
        throw Error(Errc::bad_argument, "asks = " + std::to_string(options.asks) +
                                            "; a host of a cluster has at most 32,768");
    }
    if (options.idle.count() < 0 || options.host_timeout.count() < 1) {
        throw Error(Errc::bad_argument,
                    "idle = " + std::to_string(options.idle.count()) +
                        " ms, host_timeout = " + std::to_string(options.host_timeout.count()) +
                        " ms; use 0 or more, and 1 or more");
    }
    breath_ns_of(options.breath); // checks it
    if (options.buffers < 1 || options.buffers > max_buffers) {
        throw Error(Errc::bad_argument,
                    "buffers = " + std::to_string(options.buffers) + "; use 1 to 16,777,216");
    }
    if (options.nodes < 1 || options.nodes > max_nodes) {
        throw Error(Errc::bad_argument, "nodes = " + std::to_string(options.nodes) + "; use 1 to " +
                                            std::to_string(max_nodes));
    }
    if (options.hosts > max_hosts || (options.hosts != 0 && options.host >= options.hosts)) {
        throw Error(Errc::bad_argument, "host " + std::to_string(options.host) + " of " +
                                            std::to_string(options.hosts) + "; use at most " +
                                            std::to_string(max_hosts) +
                                            ", and a host's number counted from 0");
    }
    if (options.hosts != 0 && options.nodes == max_nodes) {
        throw Error(Errc::bad_argument, "nodes = " + std::to_string(options.nodes) +
                                            " of a host of a cluster; use at most " +
                                            std::to_string(max_nodes - 1));
    }
    if (options.nodes > 1 && options.idle.count() != 0) {
        throw Error(Errc::bad_argument, "idle = " + std::to_string(options.idle.count()) +
                                            " ms with " + std::to_string(options.nodes) +
                                            " nodes: a node that is idle cannot know that no other "
                                            "has work for it; use idle = 0 and call park()");
    }
}

// Chooses the processors. The first node's number of workers is every node's.
void AnyRuntime::Core::make_nodes()
{
    nodes = std::vector<Node>(options.nodes);
    Options of_node = options;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
        std::unique_ptr<Backend>& backend = nodes[n].backend;
        if (on_gpu) {
            const auto ordinal = options.device.ordinal + static_cast<int>(n);
            const auto wake_others = [this, n] {
                for (uint32_t other = 0; other < nodes.size(); ++other) {
                    if (other != n) {
                        nodes[other].backend->wake(0);
                    }
                }
            };
            backend = make_gpu_backend(image, of_node, ordinal,
                                       {[this] { return return_needed(); }, wake_others});
        } else {
            backend = make_cpu_backend(image, of_node);
        }
        const Geometry& g = backend->geometry();
        workers = of_node.workers = g.workers;
        if (on_gpu && options.workers == 0) { // the others lie as the first one's do
            of_node.sms = (g.workers + g.per_sm - 1) / g.per_sm;
        }
        if (workers < 1 || workers > max_workers) {
            throw Error(Errc::bad_argument,
                        "workers = " + std::to_string(workers) + "; use 1 to 2048");
        }
    }
    for (const Node& node : nodes) {
        for (const Node& peer : nodes) {
            if (&node != &peer) {
                node.backend->reach(*peer.backend);
            }
        }
    }
    if (options.inbox_slots == 0) {
        // How many messages wait for a worker of many is a matter of luck: where each has some
        // thousands on average, many have several times as many. On the CPU a ring that is longer
        // than the cache is slower.
        options.inbox_slots = on_gpu ? std::bit_floor(16384 / options.nodes) : 1024;
    }
    const uint64_t all = static_cast<uint64_t>(workers) * nodes.size();
    const uint64_t each = (options.max_actors + all - 1) / all;
    if (each < 1 || each > max_actors_per_worker) {
        throw Error(Errc::bad_argument, "max_actors = " + std::to_string(options.max_actors) +
                                            " on " + std::to_string(all) +
                                            " workers; use 1 to 262,144 per worker");
    }
    actors_per_worker = static_cast<uint32_t>(each);
    make_room_to_spawn();
}

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
            in_host(others.inboxes, size_t{options.hosts} * (shared.inbox_mask + 1));
            in_host(others.credits, size_t{options.hosts} * credit_stride);
            in_device("tails to other hosts", others.tails, size_t{options.hosts} * credit_stride);
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
    const size_t far_slots = options.hosts != 0 ? host_ring_slots : 0;
    base = node.backend->allocate(round_up(host_bytes, 4096), round_up(device_bytes, 4096),
                                  (host_ring_slots + urgent_slots + far_slots) * sizeof(Slot));
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

// The program is up when every worker has said so.
void AnyRuntime::Core::launch()
{
    try {
        for (const Node& node : nodes) {
            const Shared& s = node.shared;
            const Gate gate{s.inboxes,    s.inbox,   s.bells, s.board,
                            s.inbox_mask, s.workers, s.node,  0};
            node.backend->write(node.gate, &gate, sizeof gate);
            node.backend->launch();
        }
        // One that has found nothing to do for as long as `idle` says is off again: it was up.
        const auto left_idle = [&] {
            const Control& told = *nodes[0].control;
            return load<Scope::system, Order::acquire>(&told.mode) ==
                       static_cast<uint32_t>(Mode::left) &&
                   load<Scope::system>(&told.leave) == static_cast<uint32_t>(Leave::idle);
        };
        if (!wait_until(10'000'000'000, [&] { return in_mode(Mode::running) || left_idle(); })) {
            throw Error(Errc::timeout, "the program did not start within 10 s on " +
                                           std::to_string(workers * nodes.size()) +
                                           " workers; is the processor taken by another program?");
        }
    } catch (...) {
        command(Command::stop);
        join(2'000'000'000);
        throw;
    }
}

} // namespace denizen
