// SPDX-License-Identifier: Apache-2.0
// Steps on threads of the host. Each has some planes of a slab and marches through them: for one
// step, or for several at a time, which halves the traffic with memory or better:
//
//   step 1   plane 0   1   2   3   4   5          In its turn i a thread makes step s of plane
//   step 2             0   1   2   3   4          i - s + 1: the planes that it needs are there,
//   step 3                 0   1   2   3          and every cell is written where the pressure two
//                                                 steps earlier was.
//
// So many rows at a time that all planes of a turn stay in the cache; a block's rows of step s lie
// s - 1 rows lower, where the block before it has left what is needed. At a border between two
// threads step s stops s - 1 planes short on both sides; when all are there the gap is filled.
#pragma once

#include "cpu_field.hpp"
#include <denizen/base/on_threads.hpp>

#include <barrier>
#include <exception>
#include <functional>
#include <mutex>
#include <unistd.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace denizen::wave {

// In front of a wave pressures fall below what has a normal representation, and arithmetic on such
// numbers takes a hundred times as long: for the length of a scope they are 0.
class FlushToZero {
public:
#if defined(__SSE2__)
    FlushToZero() { _mm_setcsr(saved_ | 0x8040); }
    ~FlushToZero() { _mm_setcsr(saved_); }

private:
    const unsigned saved_ = _mm_getcsr();
#else
    FlushToZero() {}
    ~FlushToZero() {}
#endif
};

// Of a core's second-level cache.
inline size_t near_bytes()
{
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? static_cast<size_t>(bytes) : size_t{1} << 20;
}

template <class T>
class March {
public:
    // `traces`: for each receiver `steps`.
    March(State& state, CpuField<T>& field, Kinds& kinds, uint32_t threads, T* traces,
          uint32_t steps, size_t cache = near_bytes())
        : cache_(cache), state_(state), field_(field), kinds_(kinds), traces_(traces),
          steps_(steps), first_(state.step), table_(table_of<T>(state.medium)),
          members_(std::clamp(threads / field.slabs(), 1u, field.layout().n[2] / field.slabs())),
          most_(depth())
    {
    }

    // Steps done: fewer than asked where `serve` or an interrupt ends it, which the caller then
    // throws. `serve`: between two passes, with the number of steps done; whether to go on.
    uint32_t run(const std::function<bool(uint32_t)>& serve)
    {
        const uint32_t slabs = field_.slabs();
        // Who waits for a command is not kept waiting for more than two steps.
        if (serve) most_ = std::min(most_, 2u);
        const auto plan = [&]() noexcept {
            on_ = !error_ && !ended_ && step_ < steps_ && (!serve || serve(step_));
            together_ = std::min(most_, steps_ - step_);
        };
        plan();
        std::barrier<> apart(std::ptrdiff_t{members_} * slabs);
        std::barrier<std::function<void()>> meet(std::ptrdiff_t{members_} * slabs, [&] {
            step_ += together_;
            turn_ ^= together_ & 1;
            plan();
        });
        const auto member = [&](uint32_t slab, uint32_t id) {
            const FlushToZero flush;
            while (on_) { // ends with the last step, by a command, a signal or with an error
                march(slab, id);
                if (together_ > 1 || slabs > 1) apart.arrive_and_wait();
                if (id > 0) fill(slab, id);
                if (id == 0) join(slab);
                // In the caller's thread, whose signals are looked at.
                if (slab == 0 && id == 0) ended_ = detail::interrupted();
                meet.arrive_and_wait();
            }
        };
        on_threads(members_ * slabs, [&](uint32_t i) { member(i / members_, i % members_); });
        if (error_) std::rethrow_exception(error_);
        if (turn_ != 0) field_.swap();
        return step_;
    }

    // Steps of a pass: one where a step finds the whole field in the cache, where planes have no
    // first one, and where slabs need each other's.
    uint32_t depth() const
    {
        const Layout& all = field_.layout();
        if (field_.slabs() > 1 || state_.geometry.periodic(2)) return 1;
        if (2 * sizeof(T) * all.elements() <= members_ * cache_) return 1;
        return std::clamp(all.n[2] / members_ / 2, 1u, most_depth);
    }

    void refresh_table() { table_ = table_of<T>(state_.medium); }
    uint32_t turn() const { return turn_; }

private:
    static constexpr uint32_t most_depth = 4;
    static constexpr uint32_t least_rows = 8; // of a block

    // Rows of a block: two fields' planes of a turn in half the cache. Where y is periodic a row
    // needs one of the other end, so all go together.
    uint32_t rows() const
    {
        const Layout& all = field_.layout();
        if (state_.geometry.periodic(1)) return all.n[1];
        const size_t row = 2 * sizeof(T) * all.pitch * (together_ + 2);
        return static_cast<uint32_t>(std::max<size_t>(least_rows, cache_ / 2 / row));
    }

    uint32_t border(uint32_t slab, uint32_t id) const // where thread `id` of a slab begins
    {
        return first_plane(field_.planes(slab), members_, id);
    }

    void march(uint32_t slab, uint32_t id)
    {
        const Slab<T> fields[2] = {field_.slab(slab, turn_, kinds_, table_.data()),
                                   field_.slab(slab, turn_ ^ 1, kinds_, table_.data())};
        const uint32_t high = field_.layout().n[1];
        const uint32_t low_plane = border(slab, id);
        const uint32_t end_plane = border(slab, id + 1);
        const uint32_t block = rows();
        for (uint32_t row = 0; row < high; row += block) {
            const bool last = row + block >= high;
            for (uint32_t i = low_plane; i < end_plane + together_ - 1; ++i) {
                for (uint32_t s = 0; s < together_; ++s) {
                    const uint32_t begin = low_plane + (id > 0 ? s : 0);
                    const uint32_t end = end_plane - (id + 1 < members_ ? s : 0);
                    if (i < begin + s || i >= end + s) continue;
                    make(fields[s & 1], slab, i - s, row - std::min(row, s),
                         last ? high : row + block - s, s, s == 0);
                }
            }
        }
    }

    // The steps that are missing at the border under a thread's planes.
    void fill(uint32_t slab, uint32_t id)
    {
        const uint32_t plane = border(slab, id);
        for (uint32_t s = 1; s < together_; ++s) {
            const Slab<T> part = field_.slab(slab, turn_ ^ (s & 1), kinds_, table_.data());
            for (uint32_t z = plane - s; z < plane + s; ++z) {
                make(part, slab, z, 0, field_.layout().n[1], s, false);
            }
        }
    }

    // Step `s` of the pass, counted from 0, of some rows of a plane.
    void make(const Slab<T>& part, uint32_t slab, uint32_t plane, uint32_t low, uint32_t high,
              uint32_t s, bool far)
    {
        sweep(part, plane, low, high, far);
        touch(part, slab, plane, low, high, step_ + s);
    }

    // What a group's barrier throws ends the run for all.
    void join(uint32_t slab)
    {
        try {
            field_.meet(slab);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            error_ = std::current_exception();
        }
    }

    // Sources, receivers and ghosts of the rows of a plane that have been made into the next step.
    void touch(const Slab<T>& made, uint32_t slab, uint32_t plane, uint32_t low, uint32_t high,
               uint32_t step)
    {
        const auto z = static_cast<int32_t>(field_.first(slab) + plane);
        const auto mine = [&](const auto& at) {
            return at[2] == z && at[1] >= static_cast<int32_t>(low) &&
                   at[1] < static_cast<int32_t>(high);
        };
        const auto element = [&](const auto& at) -> T& {
            return made.before[made.layout.index(static_cast<uint32_t>(at[0]),
                                                 static_cast<uint32_t>(at[1]), plane)];
        };
        for (const Source& source : state_.sources) {
            if (!mine(source.at) || kinds_.cells[state_.geometry.index(source.at)] <= soft)
                continue;
            element(source.at) += drive<T>(source, first_ + step, state_.pool.data());
        }
        for (size_t k = 0; k < state_.receivers.size(); ++k) {
            if (mine(state_.receivers[k])) {
                traces_[k * steps_ + step] = element(state_.receivers[k]);
            }
        }
        if (!made.periodic_x) return;
        for (uint32_t y = low; y < high; ++y) {
            field_.close_row(made.before + made.layout.row(y, plane));
        }
    }

    size_t cache_; // of a core, bytes
    State& state_;
    CpuField<T>& field_;
    Kinds& kinds_;
    T* traces_;
    uint32_t steps_;
    uint64_t first_;
    std::vector<Coefficients<T>> table_;
    uint32_t members_; // threads of a slab
    uint32_t most_;    // steps of a pass
    // Changed while all threads wait.
    uint32_t step_ = 0;
    uint32_t turn_ = 0;     // which field is now
    uint32_t together_ = 1; // steps of the next pass
    bool on_ = true;
    bool ended_ = false; // by an interrupt; set by the caller's thread, in front of a meeting
    std::mutex mutex_;
    std::exception_ptr error_;
};

} // namespace denizen::wave
