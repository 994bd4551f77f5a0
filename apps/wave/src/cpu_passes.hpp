// SPDX-License-Identifier: Apache-2.0
// The passes of the GPU on the host, a thread for each slab, block after block: the same text, for
// tests. What is fast on a host is in cpu_march.hpp.
#pragma once

#include "cpu_march.hpp"

#include <denizen/wave/detail/pass.hpp>

namespace denizen::wave {

template <class T>
class CpuPasses {
public:
    // `traces`: for each receiver `steps`.
    CpuPasses(State& state, CpuField<T>& field, T* traces, uint32_t steps)
        : state_(state), field_(field), traces_(traces), steps_(steps), begun_(state.step),
          clock_(state.step)
    {
        field_.make_spare();
    }

    // By shape S; what is left of the steps one by one. As March::run().
    template <class S>
    uint32_t run(const Kinds& kinds, const std::function<bool(uint32_t)>& serve)
    {
        const auto plan = [&]() noexcept {
            const auto done = static_cast<uint32_t>(clock_ - begun_);
            on_ = !error_ && done < steps_ && (!serve || serve(done));
            together_ = steps_ - done < S::depth ? 1 : S::depth;
            if (!on_) return;
            table_ = table_of<T>(state_.medium);
            kinds_.clear();
            for (uint32_t r = 0; r < field_.slabs(); ++r) {
                kinds_.push_back(
                    kinds_around(kinds, state_.geometry, field_.first(r), field_.planes(r)));
            }
        };
        plan();
        std::barrier<std::function<void()>> meet(field_.slabs(), [&] {
            clock_ += together_;
            field_.swap_spare();
            plan();
        });
        const auto member = [&](uint32_t slab) {
            const FlushToZero flush;
            while (on_) { // ends with the last step, by a command or with an error
                together_ == 1 ? pass<PassShape<1, 16, 2>>(slab) : pass<S>(slab);
                try {
                    field_.meet(slab);
                } catch (...) {
                    const std::lock_guard lock(mutex_);
                    error_ = std::current_exception();
                }
                meet.arrive_and_wait();
            }
        };
        on_threads(field_.slabs(), member);
        if (error_) std::rethrow_exception(error_);
        return static_cast<uint32_t>(clock_ - begun_);
    }

private:
    template <class S>
    void pass(uint32_t slab)
    {
        const auto& n = state_.geometry.n;
        Pass<T> pass = field_.pass(slab);
        pass.sweep.slab.table = table_.data();
        const uint64_t rows = uint64_t{kinds_beside} * n[1];
        pass.sweep.slab.kinds = kinds_[slab].cells.data() + rows * n[0];
        pass.sweep.slab.segments = kinds_[slab].segments.data() + rows * segments_in(n[0]);
        pass.sweep.clock = &clock_;
        pass.sweep.begun = &begun_;
        pass.sweep.planes = (field_.planes(slab) + 1) / 2; // as on a GPU: several blocks along z
        pass.sweep.sources = state_.sources.data();
        pass.sweep.source_count = static_cast<uint32_t>(state_.sources.size());
        pass.sweep.pool = state_.pool.data();
        pass.sweep.receivers = reinterpret_cast<const int32_t (*)[3]>(state_.receivers.data());
        pass.sweep.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        pass.sweep.traces = traces_;
        pass.sweep.trace_steps = steps_;
        const auto memory = std::make_unique<PassMemory<T, S>>();
        std::vector<Strip<T, S>> strips(S::threads);
        const Geometry& g = state_.geometry;
        const uint32_t count[3] = {columns(n[0], g.periodic(0), S::wide, S::inner_x),
                                   columns(n[1], g.periodic(1), S::high, S::inner_y),
                                   (field_.planes(slab) + pass.sweep.planes - 1) /
                                       pass.sweep.planes};
        for (uint32_t b = 0; b < count[0] * count[1] * count[2]; ++b) {
            Column<T, S>(pass, *memory, b % count[0], b / count[0] % count[1],
                         b / count[0] / count[1])
                .run(strips.data());
        }
    }

    State& state_;
    CpuField<T>& field_;
    T* traces_;
    uint32_t steps_;
    uint64_t begun_;
    // Changed while all threads wait.
    uint64_t clock_;
    uint32_t together_ = 1; // steps of the next pass
    bool on_ = true;
    std::vector<Coefficients<T>> table_;
    std::vector<Kinds> kinds_; // of each slab
    std::mutex mutex_;
    std::exception_ptr error_;
};

} // namespace denizen::wave
