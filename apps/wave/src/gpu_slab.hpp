// SPDX-License-Identifier: Apache-2.0
// The planes of the grid that one GPU holds, and the launches that make steps of them: of one step,
// or of several in a pass. Of the slabs under and over it a GPU reads in their memory.
#pragma once

#include "engine.hpp"
#include <denizen/device/chip.hpp>

namespace denizen::wave {

constexpr unsigned sweep_threads = 256;
constexpr uint32_t most_planes = 16; // that a thread of a sweep marches through

template <class T>
class GpuSlab {
public:
    // `memory`: of its four fields, elements() each, zero or not; null: its own.
    GpuSlab(gpu::Chip& chip, const State& state, uint32_t first, uint32_t planes,
            std::array<T*, 4> memory)
        : chip_(chip), state_(state), layout_(layout_of<T>(state.geometry)), first_(first)
    {
        layout_.n[2] = planes;
        const gpu::ContextScope scope(chip.context());
        for (uint32_t i = 0; i < 2; ++i) {
            fields_[i] = memory[i] != nullptr ? memory[i] : chip.take_zeros<T>(elements());
            spare_[i] = memory[2 + i];
            if (memory[i] != nullptr) chip.set(fields_[i], 0, elements() * sizeof(T));
            if (spare_[i] != nullptr) chip.set(spare_[i], 0, elements() * sizeof(T));
        }
        const size_t around = planes + 2 * kinds_beside;
        const auto& n = state.geometry.n;
        zeros_ = chip.take_zeros<T>(2 * size_t{layout_.pitch});
        cells_ = chip.take_zeros<uint8_t>(around * n[0] * n[1] + 4);
        segments_ = chip.take_zeros<uint8_t>(around * segments_in(n[0]) * n[1]);
        table_ = chip.take_zeros<Coefficients<T>>(classes);
        sources_ = chip.take_zeros<Source>(most_sources);
        receivers_ = chip.take_zeros<int32_t>(3 * most_receivers);
        clocks_ = chip.take_zeros<uint64_t>(2);
        allow<2>();
        allow<4>();
    }

    // With loads of four cells beyond the last row.
    static size_t elements(const Geometry& geometry, uint32_t planes)
    {
        Layout layout = layout_of<T>(geometry);
        layout.n[2] = planes;
        return layout.elements() + 16;
    }
    size_t elements() const { return layout_.elements() + 16; }
    // The kernels' names.
    static std::vector<std::string> names()
    {
        return {"tick", typed("sweep"), typed("pass2"), typed("pass4")};
    }
    static std::string typed(const std::string& name)
    {
        return name + (sizeof(T) == 4 ? "_f32" : "_f64");
    }

    gpu::Chip& chip() const { return chip_; }
    const Layout& layout() const { return layout_; }
    uint32_t first() const { return first_; }
    T* field(uint32_t which) const { return fields_[which]; } // now, before
    T* spare(uint32_t which) const { return spare_[which]; }
    Source* sources() const { return sources_; }
    const float* pool() const { return pool_; }
    const int32_t (*receivers() const)[3] { return reinterpret_cast<int32_t (*)[3]>(receivers_); }
    T* traces() const { return traces_; }

    void beside(const GpuSlab* below, const GpuSlab* above)
    {
        below_ = below;
        above_ = above;
    }
    void make_spare()
    {
        for (T*& field : spare_) {
            if (field == nullptr) field = chip_.take_zeros<T>(elements());
        }
    }
    void swap() { std::swap(fields_[0], fields_[1]); }
    void swap_spare() { std::swap(fields_, spare_); }

    // --- what the host changes between runs and between steps ---
    void put_kinds(const Kinds& all)
    {
        const Kinds around = kinds_around(all, state_.geometry, first_, layout_.n[2]);
        chip_.put(cells_, around.cells);
        chip_.put(segments_, around.segments);
    }
    void put_medium()
    {
        chip_.put(table_, table_of<T>(state_.medium));
        chip_.put(sources_, state_.sources);
    }
    void begin(uint32_t steps)
    {
        put_medium();
        chip_.reserve(pool_, pool_size_, state_.pool.size());
        chip_.put(pool_, state_.pool);
        if (!state_.receivers.empty()) {
            chip_.put(receivers_, state_.receivers.front().data(), 3 * state_.receivers.size());
        }
        chip_.reserve(traces_, traces_size_, state_.receivers.size() * steps);
        const std::vector<uint64_t> both{state_.step, state_.step};
        chip_.put(clocks_, both);
    }

    // --- launches ---
    // Step `after` after the clock's; the next pressure lies where the pressure before was. `turn`:
    // 1 for every second of several before swap().
    void sweep(uint32_t after, uint32_t steps, uint32_t turn)
    {
        const uint32_t strips = (layout_.n[0] + 3) / 4;
        unsigned across = 1;
        while (across < 32 && across < strips) across *= 2; // ends: doubled each time
        const unsigned rows = sweep_threads / across;
        const uint64_t all = uint64_t{strips} * layout_.n[1] * layout_.n[2];
        const auto seats = uint64_t{chip_.sms()} * 2048;
        const auto planes =
            static_cast<uint32_t>(std::clamp<uint64_t>(all / seats, 1, most_planes));
        chip_.launch(typed("sweep"),
                     {.blocks = {(strips + across - 1) / across, (layout_.n[1] + rows - 1) / rows,
                                 (layout_.n[2] + planes - 1) / planes},
                      .threads = {across, rows}},
                     sweep_of(after, steps, planes, turn));
    }

    // Depth steps at once, into the spare fields: swap_spare() is to follow.
    template <uint32_t Depth>
    void pass(uint32_t after, uint32_t steps)
    {
        using S = PassOf<T, Depth>;
        const Geometry& g = state_.geometry;
        const unsigned x = columns(g.n[0], g.periodic(0), S::wide, S::inner_x);
        const unsigned y = columns(g.n[1], g.periodic(1), S::high, S::inner_y);
        const uint32_t planes = planes_of_block(x * y, Depth);
        Pass<T> pass{};
        pass.sweep = sweep_of(after, steps, planes, 0);
        pass.before_below = edge(below_, 1, true);
        pass.before_above = edge(above_, 1, false);
        std::copy_n(spare_.begin(), 2, pass.to);
        pass.all_planes = g.n[2];
        pass.periodic_z = g.periodic(2);
        chip_.launch(typed(Depth == 2 ? "pass2" : "pass4"),
                     {.blocks = {x, y, (layout_.n[2] + planes - 1) / planes},
                      .threads = {S::threads, 1},
                      .shared_bytes = sizeof(PassMemory<T, S>)},
                     pass);
    }

    void tick(uint32_t steps)
    {
        chip_.launch("tick", {}, reinterpret_cast<unsigned long long*>(clocks_), steps);
    }

private:
    // The plane next to this slab in the field of its neighbour.
    const T* edge(const GpuSlab* neighbour, uint32_t which, bool last) const
    {
        if (neighbour == nullptr) return nullptr;
        const Layout& theirs = neighbour->layout_;
        return neighbour->fields_[which] + (last ? (theirs.n[2] - 1) * theirs.plane() : 0);
    }

    Sweep<T> sweep_of(uint32_t after, uint32_t steps, uint32_t planes, uint32_t turn) const
    {
        const uint64_t rows = uint64_t{kinds_beside} * layout_.n[1];
        Sweep<T> sweep{};
        sweep.slab = {layout_,
                      fields_[turn],
                      fields_[turn ^ 1],
                      edge(below_, turn, true),
                      edge(above_, turn, false),
                      zeros_,
                      cells_ + rows * layout_.n[0],
                      segments_ + rows * segments_in(layout_.n[0]),
                      table_,
                      state_.geometry.periodic(0),
                      state_.geometry.periodic(1)};
        sweep.clock = clocks_;
        sweep.begun = clocks_ + 1;
        sweep.after = after;
        sweep.planes = planes;
        sweep.first_plane = first_;
        sweep.sources = sources_;
        sweep.source_count = static_cast<uint32_t>(state_.sources.size());
        sweep.pool = pool_;
        sweep.receivers = receivers();
        sweep.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        sweep.traces = traces_;
        sweep.trace_steps = steps;
        return sweep;
    }

    // So that all blocks together take least: as many waves of them as there must be, each as long
    // as a block's planes and the ones beside them that it computes too.
    uint32_t planes_of_block(uint32_t columns, uint32_t depth) const
    {
        const uint32_t seats = std::max(1u, seats_[depth == 2 ? 0 : 1]);
        uint32_t best = layout_.n[2];
        uint64_t least = ~uint64_t{0};
        for (uint32_t blocks = 1; blocks <= layout_.n[2] / 4; ++blocks) {
            const uint32_t planes = (layout_.n[2] + blocks - 1) / blocks;
            const uint64_t waves = (uint64_t{columns} * blocks + seats - 1) / seats;
            const uint64_t takes = waves * (planes + 2 * depth);
            if (takes >= least) continue;
            least = takes;
            best = planes;
        }
        return best;
    }

    template <uint32_t Depth>
    void allow()
    {
        using S = PassOf<T, Depth>;
        seats_[Depth == 2 ? 0 : 1] = chip_.allow(typed(Depth == 2 ? "pass2" : "pass4"), S::threads,
                                                 sizeof(PassMemory<T, S>));
    }

    gpu::Chip& chip_;
    const State& state_;
    Layout layout_; // of this slab
    uint32_t first_;
    const GpuSlab* below_ = nullptr;
    const GpuSlab* above_ = nullptr;
    std::array<T*, 2> fields_{}; // now, before
    std::array<T*, 2> spare_{};  // what passes write
    uint32_t seats_[2] = {};     // of blocks of passes
    T* zeros_ = nullptr;
    uint8_t* cells_ = nullptr; // class by cell, as kinds_around() has them
    uint8_t* segments_ = nullptr;
    Coefficients<T>* table_ = nullptr;
    Source* sources_ = nullptr;
    int32_t* receivers_ = nullptr;
    uint64_t* clocks_ = nullptr; // the step of the next launch, and the run's first
    float* pool_ = nullptr;
    size_t pool_size_ = 0;
    T* traces_ = nullptr;
    size_t traces_size_ = 0;
};

} // namespace denizen::wave
