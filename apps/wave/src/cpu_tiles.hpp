// SPDX-License-Identifier: Apache-2.0
// The resident tiles of the GPU on threads of the host, one for each tile: the same text, so that
// what they send each other can be looked at by the tools of the host.
#pragma once

#include "cpu_march.hpp"

#include <denizen/wave/detail/tile.hpp>

namespace denizen::wave {

constexpr uint32_t most_tiles = 64; // threads

// `traces`: for each receiver `steps`. Returns when the run is over. The threads of an incarnation
// are started anew, as a GPU's successor is launched.
template <class S, class T>
void run_tiles(State& state, CpuField<T>& field, const Tiling& tiling, uint32_t steps, Mailbox& box,
               uint32_t ahead, T* traces, Ran& ran)
{
    constexpr uint32_t packets = hops<T, S>();
    const Packing packing = pack<T, S>();
    std::vector<Packet> mail(size_t{2} * packets * tiling.count());
    std::vector<CommandSlot> commands(most_under_way);
    std::vector<Request> changes(most_changes);
    std::vector<Source> sources = state.sources;
    sources.resize(most_sources);
    Control control{};
    control.checkpoint = first_checkpoint(steps, ahead, state.breath_ns, first_quota);
    control.checkpoint.sources = static_cast<uint32_t>(state.sources.size());
    control.checkpoint.damping = state.medium.damping;
    std::vector<uint8_t> kinds[2];
    const std::array<typename CpuField<T>::Memory, 2> to = {field.make(), field.make()};
    TileRun<T> run{};
    run.cells = {state.geometry, state.kinds.data()};
    run.medium = state.medium;
    run.layout = field.layout();
    for (uint32_t i = 0; i < 2; ++i) {
        run.fields[0][i] = field.row(i, 0, 0) - run.layout.lead;
        run.fields[1][i] = to[i].get();
        if (state.breath_ns == 0) continue;
        kinds[i].resize(state.geometry.cells());
        run.kinds[i] = kinds[i].data();
    }
    std::copy_n(tiling.tiles, 3, run.tiles);
    run.steps = steps;
    run.first = state.step;
    run.patience_ns = patience_ns;
    run.outgoing = packing.outgoing.data();
    run.incoming = packing.incoming.data();
    run.mail = mail.data();
    run.control = &control;
    run.commands = commands.data();
    run.sources = sources.data();
    run.pool = state.pool.data();
    run.receivers = reinterpret_cast<const int32_t (*)[3]>(state.receivers.data());
    run.receiver_count = static_cast<uint32_t>(state.receivers.size());
    run.traces = traces;
    run.window = static_cast<T*>(box.window());
    const Leading leading{&control,           commands.data(), changes.data(), sources.data(),
                          box.heartbeat(),    box.told(),      box.orders(),   box.answers(),
                          state.step,         steps,           ahead,          tiling.count(),
                          {S::x, S::y, S::z}, ~uint64_t{0},    state.breath_ns};
    std::vector<std::unique_ptr<TileMemory<T, S>>> memories;
    for (uint32_t i = 0; i < tiling.count(); ++i) {
        memories.push_back(std::make_unique<TileMemory<T, S>>());
    }
    const Checkpoint& checkpoint = control.checkpoint;
    do { // ends with the last step, by a command or late
        const uint32_t orders = checkpoint.orders;
        Porch porch = porch_of(checkpoint);
        Threads threads; // one for each tile, and who carries commands
        threads.start(tiling.count() + (ahead != 0 ? 1 : 0), "tile", [&](uint32_t i) {
            if (i == tiling.count()) {
                carry(Orders(ring_from(leading.in, orders)), porch);
                return;
            }
            const FlushToZero flush;
            Tile<T, S>(run, *memories[i], i).run();
        });
        Conductor(leading, ahead != 0 ? &porch : nullptr).lead();
        threads.join();
    } while (checkpoint.over == 0);
    if (checkpoint.incarnation % 2 != 0) field.replace(to);
    field.close_rows();
    if (control.late != 0) {
        throw Error(Errc::timeout, "the tiles did not get on for 10 s and gave up");
    }
    ran.steps = checkpoint.begin;
    ran.incarnations = checkpoint.incarnation;
    ran.seconds = static_cast<double>(control.ended - control.began) * 1e-9;
    for (uint32_t i = 0; i < checkpoint.changes; ++i) state.keep(changes[i], run.first);
}

} // namespace denizen::wave
