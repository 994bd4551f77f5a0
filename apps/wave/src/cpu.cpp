// SPDX-License-Identifier: Apache-2.0
// The simulation on threads of the host: by slabs and rows (cpu_march.hpp), or by the resident
// tiles and the passes of the GPU (gpu_text.hpp).
#include "cpu_march.hpp"
#include "gpu_text.hpp"
#include "planes.hpp"

#include <cstdlib>

namespace denizen::wave {
namespace {

template <class T>
class CpuEngine final : public Engine {
public:
    CpuEngine(State& state, uint32_t threads, uint32_t slabs)
        : state_(state),
          threads_(threads != 0 ? threads : std::max(slabs, std::thread::hardware_concurrency())),
          kinds_(kinds_of(state)), field_(state.geometry, slabs)
    {
        device = "CPU, " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        if (slabs > 1) device += " in " + std::to_string(slabs) + " slabs";
    }

    Method chosen() override { return Method::threads; }

    void set(const std::vector<double>& now, const std::vector<double>& before) override
    {
        for (uint32_t which = 0; which < 2; ++which) {
            const auto& from = which == 0 ? now : before;
            by_rows(state_.geometry.n, [&](uint32_t y, uint32_t z, size_t i) {
                T* const row = field_.row(which, y, z);
                for (uint32_t x = 0; x < state_.geometry.n[0]; ++x, ++i) {
                    row[x] = kinds_.cells[i] > soft ? static_cast<T>(from[i]) : 0;
                }
            });
        }
        field_.close_rows();
    }

    std::vector<double> get(bool before) const override
    {
        std::vector<double> all(state_.geometry.cells());
        by_rows(state_.geometry.n, [&](uint32_t y, uint32_t z, size_t i) {
            std::copy_n(field_.row(before ? 1 : 0, y, z), state_.geometry.n[0], all.data() + i);
        });
        return all;
    }

    std::unique_ptr<Mailbox> open_mailbox() override
    {
        const auto allocate = [](size_t bytes) {
            const size_t whole = (bytes + line - 1) / line * line;
            std::shared_ptr<void> memory(std::aligned_alloc(line, whole), std::free);
            if (!memory) throw Error(Errc::exhausted, "no memory left for a mailbox");
            std::fill_n(static_cast<unsigned char*>(memory.get()), whole, 0);
            return memory;
        };
        return std::make_unique<Mailbox>(allocate, largest_face(state_.geometry), sizeof(T));
    }

    Ran run(uint32_t steps, Method method, Mailbox* mailbox, uint32_t ahead) override
    {
        Ran ran;
        ran.method = method;
        const size_t receivers = state_.receivers.size();
        traces_.assign(receivers * steps, 0);
        const uint64_t first = state_.step;
        if (method != Method::tiles && method != Method::deep) {
            led(steps, method, mailbox, ran);
        } else {
            tiles(steps, method == Method::deep, mailbox, ahead, ran);
        }
        for (size_t k = 0; k < receivers; ++k) {
            const T* const heard = traces_.data() + k * steps;
            state_.traces[k].insert(state_.traces[k].end(), heard, heard + ran.steps);
        }
        state_.step = first + ran.steps;
        return ran;
    }

private:
    // By the methods that the host leads step by step.
    void led(uint32_t steps, Method method, Mailbox* mailbox, Ran& ran)
    {
        if (method != Method::threads) check_passes(state_.geometry, "threads");
        March<T> march(state_, field_, kinds_, threads_, traces_.data(), steps);
        const uint64_t first = state_.step;
        std::unique_ptr<Served> served;
        std::function<bool(uint32_t)> serve;
        if (mailbox != nullptr) {
            served = std::make_unique<Served>(
                *mailbox,
                [&](Request& command) {
                    state_.keep(command, first);
                    if (command.act == Act::damping) march.refresh_table();
                    if (command.act == Act::cells) changed(command.edit);
                },
                [&](const Box& box) {
                    T* window = static_cast<T*>(mailbox->window());
                    each(box, march.turn(),
                         [&](T* begin, T* end) { window = std::copy(begin, end, window); });
                });
            serve = [&](uint32_t step) { return served->serve(step); };
        }
        const uint64_t began = now_ns();
        if (method == Method::threads) {
            ran.steps = march.run(serve);
        } else {
            ran.steps = run_passes(state_, field_, kinds_, method == Method::pass2 ? 2 : 4, steps,
                                   serve, traces_.data());
        }
        if (served) served->close(ran.steps);
        ran.seconds = static_cast<double>(now_ns() - began) * 1e-9;
    }

    // Row by row, the part of it that lies in the box.
    template <class Use>
    void each(const Box& box, uint32_t which, Use use)
    {
        for (int32_t z = box.low[2]; z < box.high[2]; ++z) {
            for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
                T* const row =
                    field_.row(which, static_cast<uint32_t>(y), static_cast<uint32_t>(z));
                use(row + box.low[0], row + box.high[0]);
            }
        }
    }

    void changed(const Edit& edit)
    {
        refresh(kinds_, state_, edit.box);
        if (edit.cell < static_cast<uint32_t>(Cell::reflector)) return;
        for (uint32_t which = 0; which < 2; ++which) {
            each(edit.box, which, [](T* begin, T* end) { std::fill(begin, end, T{0}); });
        }
        field_.close_rows();
    }

    void tiles(uint32_t steps, bool deep, Mailbox* mailbox, uint32_t ahead, Ran& ran)
    {
        std::unique_ptr<Mailbox> silent;
        if (mailbox == nullptr) silent = open_mailbox();
        run_by_tiles(state_, field_, deep, steps, silent ? *silent : *mailbox, silent ? 0 : ahead,
                     traces_.data(), ran);
        if (mailbox != nullptr) kinds_ = kinds_of(state_);
    }

    State& state_;
    uint32_t threads_;
    Kinds kinds_;
    CpuField<T> field_;
    std::vector<T> traces_; // of this run
};

} // namespace

std::unique_ptr<Engine> make_cpu_engine(State& state, uint32_t threads, uint32_t slabs)
{
    if (state.precision == Precision::single) {
        return std::make_unique<CpuEngine<float>>(state, threads, slabs);
    }
    return std::make_unique<CpuEngine<double>>(state, threads, slabs);
}

} // namespace denizen::wave
