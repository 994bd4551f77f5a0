// SPDX-License-Identifier: Apache-2.0
// The simulation on threads of the host: by slabs with a barrier per step, or by the resident tiles
// of the GPU, a thread for each.
#include "engine.hpp"
#include "sweep.hpp"

#include <denizen/wave/tile.hpp>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <new>
#include <thread>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace denizen::wave {
namespace {

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

constexpr uint32_t most_tiles = 64; // threads

template <class T>
class CpuEngine final : public Engine {
public:
    CpuEngine(State& state, uint32_t threads)
        : state_(state), layout_(layout_of<T>(state.geometry)),
          threads_(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency())),
          kinds_(kinds_of(state))
    {
        device = "CPU, " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
        for (auto& field : fields_) field = make_field();
        zeros_.assign(layout_.pitch + layout_.lead, 0);
    }

    Method chosen() const override { return Method::threads; }

    void set(const std::vector<double>& now, const std::vector<double>& before) override
    {
        const auto& n = layout_.n;
        for (uint32_t which = 0; which < 2; ++which) {
            const auto& from = which == 0 ? now : before;
            size_t i = 0;
            for (uint32_t z = 0; z < n[2]; ++z) {
                for (uint32_t y = 0; y < n[1]; ++y) {
                    for (uint32_t x = 0; x < n[0]; ++x, ++i) {
                        fields_[which].get()[layout_.index(x, y, z)] =
                            kinds_.cells[i] > soft ? static_cast<T>(from[i]) : 0;
                    }
                }
            }
        }
        ghosts();
    }

    std::vector<double> get(bool before) const override
    {
        const auto& n = layout_.n;
        std::vector<double> all;
        all.reserve(state_.geometry.cells());
        for (uint32_t z = 0; z < n[2]; ++z) {
            for (uint32_t y = 0; y < n[1]; ++y) {
                const T* const row = fields_[before ? 1 : 0].get() + layout_.row(y, z);
                all.insert(all.end(), row, row + n[0]);
            }
        }
        return all;
    }

    std::unique_ptr<Mailbox> open_mailbox() override
    {
        const auto& n = state_.geometry.n;
        const uint64_t cells =
            std::max({uint64_t{n[0]} * n[1], uint64_t{n[0]} * n[2], uint64_t{n[1]} * n[2]});
        const auto allocate = [](size_t bytes) {
            const size_t whole = (bytes + line - 1) / line * line;
            std::shared_ptr<void> memory(std::aligned_alloc(line, whole), std::free);
            if (!memory) throw Error(Errc::exhausted, "no memory left for a mailbox");
            std::fill_n(static_cast<unsigned char*>(memory.get()), whole, 0);
            return memory;
        };
        return std::make_unique<Mailbox>(allocate, cells, sizeof(T));
    }

    Ran run(uint32_t steps, Method method, Mailbox* mailbox, uint32_t ahead) override
    {
        Ran ran;
        ran.method = method;
        const size_t receivers = state_.receivers.size();
        traces_.assign(receivers * steps, 0);
        const uint64_t first = state_.step;
        if (method == Method::threads) {
            sweep_all(steps, mailbox, ran);
        } else {
            tile_all(steps, method == Method::deep, mailbox, ahead, ran);
        }
        for (size_t k = 0; k < receivers; ++k) {
            const T* const heard = traces_.data() + k * steps;
            state_.traces[k].insert(state_.traces[k].end(), heard, heard + ran.steps);
        }
        state_.step = first + ran.steps;
        return ran;
    }

private:
    using Memory = std::shared_ptr<T>;

    Memory make_field() const
    {
        const auto memory = on_huge_pages(layout_.elements() * sizeof(T));
        return {memory, static_cast<T*>(memory.get())};
    }

    void ghosts_of_row(T* row) const
    {
        row[-1] = row[layout_.n[0] - 1];
        row[layout_.n[0]] = row[0];
    }

    void ghosts()
    {
        if (!state_.geometry.periodic(0)) return;
        for (auto& field : fields_) {
            for (uint32_t z = 0; z < layout_.n[2]; ++z) {
                for (uint32_t y = 0; y < layout_.n[1]; ++y) {
                    ghosts_of_row(field.get() + layout_.row(y, z));
                }
            }
        }
    }

    // The grid as one slab, before step `turn`.
    Slab<T> slab(const std::vector<Coefficients<T>>& table, uint32_t turn)
    {
        T* const now = fields_[turn].get();
        const bool around = state_.geometry.periodic(2);
        const T* const top = now + (layout_.n[2] - 1) * layout_.plane();
        return {layout_,
                now,
                fields_[turn ^ 1].get(),
                around ? top : nullptr,
                around ? now : nullptr,
                zeros_.data(),
                kinds_.cells.data(),
                kinds_.segments.data(),
                table.data(),
                state_.geometry.periodic(0),
                state_.geometry.periodic(1)};
    }

    void sweep_all(uint32_t steps, Mailbox* mailbox, Ran& ran)
    {
        auto table = table_of<T>(state_.medium);
        const uint64_t first = state_.step;
        uint32_t turn = 0;
        bool on = true;
        std::unique_ptr<Served> served;
        if (mailbox != nullptr) {
            served = std::make_unique<Served>(
                *mailbox,
                [&](Request& command) {
                    state_.keep(command, first);
                    if (command.act == Act::damping) table = table_of<T>(state_.medium);
                    if (command.act == Act::cells) changed(command.edit);
                },
                [&](const Box& box) { show(box, turn, static_cast<T*>(mailbox->window())); });
        }
        uint32_t step = 0;
        const auto go_on = [&]() noexcept {
            on = step < steps;
            if (on && served) on = served->serve(step);
        };
        const uint64_t began = now_ns();
        go_on();
        const uint32_t members = std::min(threads_, layout_.n[2]);
        // Between two steps one thread serves the commands; the others wait for it.
        std::barrier<std::function<void()>> meet(members, [&] {
            turn ^= 1;
            ++step;
            go_on();
        });
        const auto member = [&](uint32_t id) {
            const FlushToZero flush;
            const uint32_t low = static_cast<uint32_t>(uint64_t{layout_.n[2]} * id / members);
            const uint32_t high =
                static_cast<uint32_t>(uint64_t{layout_.n[2]} * (id + 1) / members);
            while (on) { // ends with the last step or by a command
                const Slab<T> all = slab(table, turn);
                sweep(all, low, high);
                touch(all, low, high, first + step, step, steps);
                meet.arrive_and_wait();
            }
        };
        std::vector<std::thread> others;
        for (uint32_t id = 1; id < members; ++id) others.emplace_back(member, id);
        member(0);
        for (std::thread& other : others) other.join();
        if (served) served->close(step);
        ran.seconds = static_cast<double>(now_ns() - began) * 1e-9;
        ran.steps = step;
        if (turn != 0) std::swap(fields_[0], fields_[1]);
    }

    // Sources, receivers and ghosts of the planes that a thread has swept.
    void touch(const Slab<T>& all, uint32_t low, uint32_t high, uint64_t step, uint32_t in_run,
               uint32_t steps)
    {
        const auto mine = [&](const auto& at) {
            return at[2] >= static_cast<int32_t>(low) && at[2] < static_cast<int32_t>(high);
        };
        const auto element = [&](const auto& at) -> T& {
            return all
                .before[layout_.index(static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]),
                                      static_cast<uint32_t>(at[2]))];
        };
        for (const Source& source : state_.sources) {
            if (!mine(source.at) || kinds_.cells[state_.geometry.index(source.at)] <= soft)
                continue;
            element(source.at) += drive<T>(source, step, state_.pool.data());
        }
        for (size_t k = 0; k < state_.receivers.size(); ++k) {
            if (mine(state_.receivers[k])) {
                traces_[k * steps + in_run] = element(state_.receivers[k]);
            }
        }
        if (!all.periodic_x) return;
        for (uint32_t z = low; z < high; ++z) {
            for (uint32_t y = 0; y < layout_.n[1]; ++y) {
                ghosts_of_row(all.before + layout_.row(y, z));
            }
        }
    }

    template <class Use>
    void each(const Box& box, Use use)
    {
        for (int32_t z = box.low[2]; z < box.high[2]; ++z) {
            for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
                for (int32_t x = box.low[0]; x < box.high[0]; ++x) {
                    use(layout_.index(static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                                      static_cast<uint32_t>(z)));
                }
            }
        }
    }

    void changed(const Edit& edit)
    {
        refresh(kinds_, state_, edit.box);
        if (edit.cell < static_cast<uint32_t>(Cell::reflector)) return;
        each(edit.box, [&](uint64_t i) { fields_[0].get()[i] = fields_[1].get()[i] = 0; });
        ghosts();
    }

    void show(const Box& box, uint32_t turn, T* window)
    {
        each(box, [&, k = size_t{0}](uint64_t i) mutable { window[k++] = fields_[turn].get()[i]; });
    }

    void tile_all(uint32_t steps, bool deep, Mailbox* mailbox, uint32_t ahead, Ran& ran)
    {
        const std::vector<Tiling> shapes = tilings<T>(state_.geometry, deep);
        const std::vector<Seats> seats(shapes.size(), {most_tiles, most_tiles});
        std::string why_not;
        const Tiling tiling = choose_tiling(state_.geometry, shapes, seats, deep, why_not);
        if (tiling.name == nullptr) {
            throw Error(Errc::bad_argument, std::string("method ") + (deep ? "deep" : "tiles") +
                                                ": " + why_not + "; use threads");
        }
        ran.tiles = tiling.text();
        for_shapes<T>(deep, [&]<class S>(const char* name) {
            if (std::string(name) == tiling.name) {
                run_tiles<S>(steps, tiling, mailbox, ahead, ran);
            }
        });
    }

    template <class S>
    void run_tiles(uint32_t steps, const Tiling& tiling, Mailbox* mailbox, uint32_t ahead, Ran& ran)
    {
        constexpr uint32_t packets = hops<T, S>();
        const Packing packing = pack<T, S>();
        std::vector<Packet> mail(size_t{2} * packets * tiling.count());
        std::vector<Request> commands(most_commands);
        std::vector<Edit> edits(most_commands);
        std::vector<Source> sources = state_.sources;
        sources.resize(most_sources);
        Control control{};
        if (mailbox == nullptr) ahead = 0;
        std::unique_ptr<Mailbox> silent;
        if (mailbox == nullptr) silent = open_mailbox();
        Mailbox& box = mailbox != nullptr ? *mailbox : *silent;
        Memory to[2] = {make_field(), make_field()};
        TileRun<T> run{};
        run.cells = {state_.geometry, state_.kinds.data(), edits.data(), 0};
        run.medium = state_.medium;
        run.layout = layout_;
        for (uint32_t i = 0; i < 2; ++i) {
            run.from[i] = fields_[i].get();
            run.to[i] = to[i].get();
        }
        std::copy_n(tiling.tiles, 3, run.tiles);
        run.steps = steps;
        run.first = state_.step;
        run.patience_ns = patience_ns;
        run.outgoing = packing.outgoing.data();
        run.incoming = packing.incoming.data();
        run.mail = mail.data();
        run.control = &control;
        run.commands = commands.data();
        run.sources = sources.data();
        run.source_count = static_cast<uint32_t>(state_.sources.size());
        run.pool = state_.pool.data();
        run.receivers = reinterpret_cast<const int32_t (*)[3]>(state_.receivers.data());
        run.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        run.traces = traces_.data();
        run.window = static_cast<T*>(box.window());
        const Leading leading{&control,       commands.data(),  edits.data(),    0,
                              sources.data(), run.source_count, box.heartbeat(), box.orders(),
                              box.answers(),  state_.step,      steps,           ahead,
                              tiling.count(), ~uint64_t{0}};
        std::vector<std::unique_ptr<TileMemory<T, S>>> memories;
        for (uint32_t i = 0; i < tiling.count(); ++i) {
            memories.push_back(std::make_unique<TileMemory<T, S>>());
        }
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < tiling.count(); ++i) {
            threads.emplace_back([&, i] {
                const FlushToZero flush;
                Tile<T, S>(run, *memories[i], i).run();
            });
        }
        Conductor(leading).lead();
        for (std::thread& thread : threads) thread.join();
        if (control.late != 0) {
            throw Error(Errc::timeout, "the tiles did not get on for 10 s and gave up");
        }
        ran.steps = control.steps;
        ran.seconds = static_cast<double>(control.ended - control.began) * 1e-9;
        for (uint32_t i = 0; i < control.commands; ++i) state_.keep(commands[i], run.first);
        if (control.commands != 0) kinds_ = kinds_of(state_);
        for (uint32_t i = 0; i < 2; ++i) fields_[i] = std::move(to[i]);
        ghosts();
    }

    State& state_;
    Layout layout_;
    uint32_t threads_;
    Kinds kinds_;
    Memory fields_[2]; // now, before
    std::vector<T> zeros_;
    std::vector<T> traces_; // of this run
};

} // namespace

std::unique_ptr<Engine> make_cpu_engine(State& state, uint32_t threads)
{
    if (state.precision == Precision::single) {
        return std::make_unique<CpuEngine<float>>(state, threads);
    }
    return std::make_unique<CpuEngine<double>>(state, threads);
}

} // namespace denizen::wave
