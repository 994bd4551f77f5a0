// SPDX-License-Identifier: Apache-2.0
// The start of a program: checks its options, lays out its memory, and puts it on its processor.
#include "core.hpp"

#include <algorithm>
#include <bit>

namespace denizen {
namespace {

constexpr uint32_t max_egress_slots = 1u << 20;

void require_power_of_two(const char* name, uint32_t n, uint32_t most)
{
    if (n < 2 || n > most || !std::has_single_bit(n)) {
        throw Error(Errc::bad_argument, std::string(name) + " = " + std::to_string(n) +
                                            "; use a power of two from 2 to " +
                                            std::to_string(most));
    }
}

} // namespace

AnyRuntime::Core::Core(Image program, const Options& wanted)
    : image(std::move(program)), options(wanted)
{
    const uint64_t begin = now_ns();
    if (image.table.abi != layout_abi) {
        throw Error(Errc::compile, "the program was compiled for layout " +
                                       std::to_string(image.table.abi) + ", this runtime has " +
                                       std::to_string(layout_abi) + "; compile it again");
    }
    require_power_of_two("lane_slots", options.lane_slots, 1u << 16);
    require_power_of_two("inbox_slots", options.inbox_slots, 1u << 16);
    require_power_of_two("local_slots", options.local_slots, 1u << 12);
    require_power_of_two("near_slots", options.near_slots, 1u << 12);
    require_power_of_two("urgent_slots", options.urgent_slots, 1u << 12);
    require_power_of_two("egress_slots", options.egress_slots, max_egress_slots);
    if (options.asks < 1 || options.asks > max_cells) {
        throw Error(Errc::bad_argument,
                    "asks = " + std::to_string(options.asks) + "; use 1 to 65,536");
    }
    if (options.idle.count() < 0 || options.host_timeout.count() < 1) {
        throw Error(Errc::bad_argument,
                    "idle = " + std::to_string(options.idle.count()) +
                        " ms, host_timeout = " + std::to_string(options.host_timeout.count()) +
                        " ms; use 0 or more, and 1 or more");
    }
    const uint32_t message_slots = slots_for(image.table.max_message);
    const bool use_gpu =
        options.device.kind == Device::Kind::gpu ||
        (options.device.kind == Device::Kind::automatic && gpu_present() && image.runs_on_gpu());
    if (use_gpu) {
        backend = make_gpu_backend(image, options, workers, [this] { return pending(); });
    } else {
        backend = make_cpu_backend(image, options, workers);
    }
    if (workers < 1 || workers > max_workers) {
        throw Error(Errc::bad_argument, "workers = " + std::to_string(workers) + "; use 1 to 2048");
    }
    on_gpu = use_gpu;

    shared.workers = workers;
    shared.actors_per_worker = (options.max_actors + workers - 1) / workers;
    if (shared.actors_per_worker < 1 || shared.actors_per_worker > max_actors_per_worker) {
        throw Error(Errc::bad_argument, "max_actors = " + std::to_string(options.max_actors) +
                                            " on " + std::to_string(workers) +
                                            " workers; use 1 to 262,144 per worker");
    }
    // Twice the longest message fits in every ring.
    const uint32_t least = std::bit_ceil(2 * message_slots);
    shared.lane_mask = std::max(options.lane_slots, least) - 1;
    shared.inbox_mask = std::max(options.inbox_slots, least) - 1;
    shared.urgent_mask = std::max(options.urgent_slots, least) - 1;
    shared.near_mask = std::max(options.near_slots, least) - 1;
    shared.local_mask = std::max(options.local_slots, least) - 1;
    shared.near = std::min(workers, options.cluster != 0 ? options.cluster : 4u);
    shared.box_bytes = static_cast<uint32_t>(
        sizeof(NearBox) + sizeof(Slot) * (shared.local_mask + 1 +
                                          shared.near * static_cast<size_t>(shared.near_mask + 1)));
    shared.egress_mask = std::max(options.egress_slots, least) - 1;
    shared.outbox_capacity = std::max(options.outbox_slots, least);
    shared.cell_count = options.asks;
    shared.cell_slots = std::bit_ceil(message_slots);
    shared.scratch_bytes =
        message_slots > 1 ? static_cast<uint32_t>(round_up(message_slots * 48, 128)) : 0;
    shared.idle_ns = static_cast<uint64_t>(options.idle.count()) * 1'000'000;
    shared.host_timeout_ns = static_cast<uint64_t>(options.host_timeout.count()) * 1'000'000;

    // Two passes over one plan: the first counts, the second hands out.
    Regions base;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    RingWords* egress_words = nullptr;
    Slot* egress_slots = nullptr;
    const auto plan = [&] {
        host_bytes = device_bytes = 0;
        const auto place = [](std::byte* region, size_t& used, auto*& p, size_t count) {
            using T = std::remove_reference_t<decltype(*p)>;
            used = round_up(used, 256);
            p = reinterpret_cast<T*>(region + used);
            used += sizeof(T) * count;
        };
        const auto in_host = [&](auto*& p, size_t n) { place(base.host, host_bytes, p, n); };
        const auto in_device = [&](auto*& p, size_t n) { place(base.device, device_bytes, p, n); };
        in_host(control, 1);
        in_host(reports, workers);
        in_host(shared.lane_credit, static_cast<size_t>(workers) * credit_stride);
        in_host(shared.urgent_lane_credit, static_cast<size_t>(workers) * credit_stride);
        in_host(egress_words, 1);
        in_host(egress_slots, shared.egress_mask + 1u);
        in_host(shared.cells, static_cast<size_t>(options.asks) * shared.cell_slots);
        in_device(shared.board, 1);
        in_device(shared.status, workers);
        in_device(shared.watch, workers);
        in_device(shared.inbox, workers);
        in_device(shared.urgent_inbox, workers);
        in_device(shared.bells, workers);
        in_device(shared.boxes, static_cast<size_t>(workers) * shared.box_bytes);
        in_device(shared.urgent_inboxes, static_cast<size_t>(workers) * (shared.urgent_mask + 1));
        in_device(shared.inboxes, static_cast<size_t>(workers) * (shared.inbox_mask + 1));
        in_device(shared.outboxes, static_cast<size_t>(workers) * shared.outbox_capacity);
        in_device(shared.actors, static_cast<size_t>(workers) * shared.actors_per_worker);
        in_device(shared.scratch, static_cast<size_t>(workers) * shared.scratch_bytes);
        in_device(shared.heap, options.state_bytes);
    };
    plan();
    const size_t lane_bytes = static_cast<size_t>(workers) *
                              (shared.lane_mask + 1 + shared.urgent_mask + 1) * sizeof(Slot);
    base = backend->allocate(round_up(host_bytes, 4096), round_up(device_bytes, 4096), lane_bytes);
    plan();
    shared.control = control;
    shared.reports = reports;
    shared.egress = egress_slots;
    shared.egress_credit = &egress_words->credit;
    shared.lanes = reinterpret_cast<Slot*>(base.lanes_device);
    shared.urgent_lanes = shared.lanes + static_cast<size_t>(workers) * (shared.lane_mask + 1);
    write_combined = backend->write_combined();
    port.open(workers, shared.lane_mask, reinterpret_cast<Slot*>(base.lanes_host),
              shared.lane_credit);
    cells.open(shared.cells, shared.cell_slots, options.asks);
    egress = SpscReceiver<Scope::system>({egress_slots, shared.egress_mask, 0, egress_words});
    next_local.assign(workers, 0);
    types.assign(static_cast<size_t>(workers) * shared.actors_per_worker, 0);
    backend->launch(shared);
    // The program is up when every worker has said so.
    if (!wait_until(10'000'000'000, [&] {
            for (uint32_t w = 0; w < workers; ++w) {
                if (load<Scope::system>(&reports[w].mode) != static_cast<uint32_t>(Mode::running)) {
                    return false;
                }
            }
            return true;
        })) {
        throw Error(Errc::timeout, "the program did not start within 10 s on " +
                                       std::to_string(workers) +
                                       " workers; is the processor taken by another program?");
    }
    description.workers = workers;
    backend->describe(description);
    description.start_ms = static_cast<double>(now_ns() - begin) * 1e-6;
}

} // namespace denizen
