// SPDX-License-Identifier: Apache-2.0
// The start of a program: checks its options, makes its nodes, and puts it on its processor.
#include "core.hpp"
#include "fingerprint.hpp"

#include <denizen/actor/detail/timers.hpp>
#include <denizen/base/cpu.hpp>

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
    check_cpu();
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
    description.worker_threads = on_gpu ? 32 * g.warps : 1;
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

// The lengths of inboxes and outboxes that are not given. How many messages wait for a worker of
// many is a matter of luck: where each has some thousands on average, many have several times as
// many. On the CPU a ring that is longer than the cache is slower. What finds no room is parked by
// its sender: the more of them there are, the less by each.
void AnyRuntime::Core::share_out_room()
{
    if (options.inbox_slots == 0) {
        options.inbox_slots = on_gpu ? std::bit_floor(16384 / options.nodes) : 1024;
    }
    if (options.outbox_slots == 0) {
        const uint32_t share = std::bit_floor((1u << 20) / (workers + 1)); // 1: the monitor
        options.outbox_slots = on_gpu ? std::clamp(share, 2048u, 8192u) : 8192;
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
    share_out_room();
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
