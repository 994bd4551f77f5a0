// SPDX-License-Identifier: Apache-2.0
// The simulation on one GPU or on several: launches (gpu_launches.hpp) on a slab of planes for
// each, or, on one, resident tiles (gpu_tiles.hpp). Taking and freeing memory, and a kernel that
// wants every SM, wait for what is resident: all of it happens while the resident programs of this
// process are off the GPU.
#include "gpu_launches.hpp"
#include "gpu_tiles.hpp"
#include "planes.hpp"

#include <optional>
#include <utility>

namespace denizen::wave {
namespace {

constexpr uint64_t trial_cells = 200'000'000; // that a method makes when it is tried out

template <class T>
class GpuEngine final : public Engine {
public:
    GpuEngine(State& state, int ordinal, uint32_t slabs, const Code& code, const Code& group_code)
        : state_(state), layout_(layout_of<T>(state.geometry)), kinds_(kinds_of(state))
    {
        on_gpu = true;
        try {
            if (slabs > 1) open_group(ordinal, slabs, group_code);
            off_the_gpu("a simulation", [&] { open(ordinal, slabs, code); });
        } catch (...) {
            close();
            throw;
        }
        device = slabs_[0]->chip().info().name;
        if (slabs > 1) device = std::to_string(slabs) + " x " + device;
    }

    ~GpuEngine() override { close(); }

    // Those that the grid fits are tried out, without sources, and the fields are as before.
    Method chosen() override
    {
        if (chosen_) return *chosen_;
        std::vector<Method> all{Method::graph};
        std::string why_not;
        if (tiles_ && tiles_->tiling(false, why_not).name != nullptr) {
            all.push_back(Method::tiles);
            if (tiles_->tiling(true, why_not).name != nullptr) all.push_back(Method::deep);
        }
        if (!state_.geometry.periodic(0) || state_.geometry.n[0] % 4 == 0) {
            all.push_back(Method::pass2);
            all.push_back(Method::pass4);
        }
        std::vector<std::vector<T>> kept; // of each slab now and before
        off_the_gpu("a simulation", [&] {
            each_slab([&](GpuSlab<T>& slab) {
                for (const uint32_t which : {0, 1}) {
                    kept.emplace_back(slab.layout().elements());
                    slab.chip().fetch(kept.back().data(), slab.field(which), kept.back().size());
                }
            });
        });
        const uint64_t first = state_.step;
        const auto sources = std::exchange(state_.sources, {});
        const auto receivers = std::exchange(state_.receivers, {});
        const auto put_back = [&] {
            state_.step = first;
            state_.sources = sources;
            state_.receivers = receivers;
            off_the_gpu("a simulation", [&] {
                each_slab([&, i = size_t{0}](GpuSlab<T>& slab) mutable {
                    for (const uint32_t which : {0, 1}) {
                        slab.chip().put(slab.field(which), kept[i++]);
                    }
                });
            });
        };
        const uint64_t few = trial_cells / state_.geometry.cells();
        const auto steps = static_cast<uint32_t>(std::clamp<uint64_t>(few, 8, 512)) / 8 * 8;
        double least = 0;
        try {
            for (const Method method : all) {
                for (int time = 0; time < 2; ++time) { // the first is a warm-up
                    const double seconds = run(steps, method, nullptr, 0).seconds;
                    if (time == 0 || (chosen_ && seconds >= least)) continue;
                    least = seconds;
                    chosen_ = method;
                }
            }
        } catch (...) {
            put_back();
            throw;
        }
        put_back();
        return *chosen_;
    }

    void set(const std::vector<double>& now, const std::vector<double>& before) override
    {
        off_the_gpu("a simulation", [&] {
            for (uint32_t which = 0; which < 2; ++which) {
                const auto& from = which == 0 ? now : before;
                each_slab([&](GpuSlab<T>& slab) {
                    std::vector<T> padded(slab.layout().elements());
                    each_row(slab, padded.data(), [&](T* to, size_t i) {
                        for (uint32_t x = 0; x < layout_.n[0]; ++x, ++i) {
                            to[x] = kinds_.cells[i] > soft ? static_cast<T>(from[i]) : 0;
                        }
                        close_row(to);
                    });
                    slab.chip().put(slab.field(which), padded);
                });
            }
        });
    }

    std::vector<double> get(bool before) const override
    {
        std::vector<double> all(state_.geometry.cells());
        off_the_gpu("a simulation", [&] {
            each_slab([&](GpuSlab<T>& slab) {
                std::vector<T> padded(slab.layout().elements());
                slab.chip().fetch(padded.data(), slab.field(before ? 1 : 0), padded.size());
                each_row(slab, padded.data(), [&](const T* from, size_t i) {
                    std::copy_n(from, layout_.n[0], all.data() + i);
                });
            });
        });
        return all;
    }

    std::unique_ptr<Mailbox> open_mailbox() override
    {
        std::unique_ptr<Mailbox> mailbox;
        off_the_gpu("a simulation", [&] {
            const gpu::Chip& chip = slabs_[0]->chip();
            const gpu::ContextScope scope(chip.context());
            mailbox =
                std::make_unique<Mailbox>([&chip](size_t bytes) { return chip.pinned(bytes); },
                                          largest_face(state_.geometry), sizeof(T));
        });
        return mailbox;
    }

    Ran run(uint32_t steps, Method method, Mailbox* mailbox, uint32_t ahead) override
    {
        const bool resident = method == Method::tiles || method == Method::deep;
        if (resident && !tiles_) {
            throw Error(Errc::bad_argument, std::string("method ") + to_string(method) +
                                                " uses one GPU; use graph, pass2 or pass4");
        }
        if (method == Method::pass2 || method == Method::pass4) {
            check_passes(state_.geometry, "graph");
        }
        std::unique_ptr<Mailbox> silent;
        if (resident && mailbox == nullptr) silent = open_mailbox();
        Ran ran;
        ran.method = method;
        off_the_gpu("a simulation", [&] {
            each_slab([&](GpuSlab<T>& slab) { slab.begin(steps); });
            if (resident) {
                stay(steps, method == Method::deep, silent ? *silent : *mailbox, silent ? 0 : ahead,
                     ran);
            } else {
                launches(steps, method, mailbox, ran);
            }
            each_slab([&](GpuSlab<T>& slab) { hear(slab, steps, ran.steps); });
        });
        state_.step += ran.steps;
        return ran;
    }

private:
    void open_group(int ordinal, uint32_t slabs, const Code& code)
    {
        if (!code.runs_on_gpu()) {
            throw Error(Errc::bad_argument, "a simulation on several GPUs needs the groups' "
                                            "kernels as well: give group::compiled_code()");
        }
        uint32_t most = 0;
        for (uint32_t r = 0; r < slabs; ++r) most = std::max(most, planes(slabs, r));
        bytes_ = GpuSlab<T>::elements(state_.geometry, most) * sizeof(T);
        GroupOptions options;
        options.heap_bytes = 4 * (bytes_ + 256);
        options.channels = 1; // for barriers
        group_ = Group::local(slabs, denizen::Device::gpu(ordinal), options, code);
    }

    uint32_t planes(uint32_t slabs, uint32_t r) const
    {
        return first_plane(layout_.n[2], slabs, r + 1) - first_plane(layout_.n[2], slabs, r);
    }

    void open(int ordinal, uint32_t slabs, const Code& code)
    {
        std::vector<std::string> names = GpuSlab<T>::names();
        if (slabs == 1) {
            const std::vector<std::string> more = GpuTiles<T>::names(state_.geometry);
            names.insert(names.end(), more.begin(), more.end());
        }
        const auto& n = state_.geometry.n;
        const std::string what = "a simulation of " + std::to_string(n[0]) + " x " +
                                 std::to_string(n[1]) + " x " + std::to_string(n[2]) + " cells";
        for (uint32_t r = 0; r < slabs; ++r) {
            const gpu::DeviceInfo info = gpu::device_info(ordinal + static_cast<int>(r));
            gpu::check_capability(info, 8, what + " needs 8.0");
            chips_.push_back(std::make_unique<gpu::Chip>(info, what));
            {
                const gpu::ContextScope scope(chips_[r]->context());
                chips_[r]->load(code, "denizen_wave_", names, "the wave's cubin");
            }
            std::array<T*, 4> memory{};
            if (slabs > 1) {
                for (T*& field : memory) field = static_cast<T*>(group_[r].allocate(bytes_));
            }
            slabs_.push_back(std::make_unique<GpuSlab<T>>(
                *chips_[r], state_, first_plane(layout_.n[2], slabs, r), planes(slabs, r), memory));
        }
        const bool around = state_.geometry.periodic(2);
        for (uint32_t r = 0; r < slabs; ++r) {
            const bool first = r == 0;
            const bool last = r + 1 == slabs;
            slabs_[r]->beside(!first || around ? slabs_[first ? slabs - 1 : r - 1].get() : nullptr,
                              !last || around ? slabs_[last ? 0 : r + 1].get() : nullptr);
        }
        if (slabs == 1) tiles_ = std::make_unique<GpuTiles<T>>(*slabs_[0], state_);
        put_kinds();
    }

    void close()
    {
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] {
                tiles_.reset();
                slabs_.clear();
                chips_.clear();
            });
        } catch (const Error&) { // a dead context
        }
        for (auto& chip : chips_) (void)chip.release();
    }

    template <class Use>
    void each_slab(Use use) const
    {
        for (const auto& slab : slabs_) {
            const gpu::ContextScope scope(slab->chip().context());
            use(*slab);
        }
    }

    // Calls use(row, i) for every row of a slab's field that lies at `padded`; its first cell is
    // cell i of the grid.
    template <class Use>
    static void each_row(const GpuSlab<T>& slab, T* padded, const Use& use)
    {
        const Layout& layout = slab.layout();
        const uint64_t before = uint64_t{slab.first()} * layout.n[0] * layout.n[1];
        by_rows(layout.n, [&](uint32_t y, uint32_t z, uint64_t i) {
            use(padded + layout.row(y, z), before + i);
        });
    }

    void put_kinds()
    {
        each_slab([&](GpuSlab<T>& slab) { slab.put_kinds(kinds_); });
        if (!tiles_) return;
        const gpu::ContextScope scope(chips_[0]->context());
        tiles_->put_start();
    }

    // The ghosts at both ends of a row.
    void close_row(T* row) const
    {
        if (!state_.geometry.periodic(0)) return;
        row[-1] = row[layout_.n[0] - 1];
        row[layout_.n[0]] = row[0];
    }

    // Tiles write no ghosts: launches need them.
    void close_rows(GpuSlab<T>& slab) const
    {
        if (!state_.geometry.periodic(0)) return;
        std::vector<T> padded(slab.layout().elements());
        for (const uint32_t which : {0, 1}) {
            slab.chip().fetch(padded.data(), slab.field(which), padded.size());
            for (uint64_t row = 0; row < uint64_t{layout_.n[1]} * layout_.n[2]; ++row) {
                close_row(padded.data() + layout_.lead + row * layout_.pitch);
            }
            slab.chip().put(slab.field(which), padded);
        }
    }

    // What was heard in the planes of a slab.
    void hear(GpuSlab<T>& slab, uint32_t steps, uint32_t done)
    {
        const auto first = static_cast<int32_t>(slab.first());
        const int32_t end = first + static_cast<int32_t>(slab.layout().n[2]);
        std::vector<T> heard(done);
        for (size_t k = 0; k < state_.receivers.size(); ++k) {
            const int32_t z = state_.receivers[k][2];
            if (z < first || z >= end || done == 0) continue;
            slab.chip().fetch(heard.data(), slab.traces() + k * steps, done);
            state_.traces[k].insert(state_.traces[k].end(), heard.begin(), heard.end());
        }
    }

    void stay(uint32_t steps, bool deep, Mailbox& mailbox, uint32_t ahead, Ran& ran)
    {
        const gpu::ContextScope scope(chips_[0]->context());
        const auto changes = tiles_->run(steps, deep, mailbox, ahead, ran);
        for (const Request& change : changes) state_.keep(change, state_.step);
        if (!changes.empty()) {
            kinds_ = kinds_of(state_);
            put_kinds();
        }
        close_rows(*slabs_[0]);
    }

    void launches(uint32_t steps, Method method, Mailbox* mailbox, Ran& ran)
    {
        GpuLaunches<T> all(slabs_, group_, state_.geometry.cells());
        std::unique_ptr<Served> served;
        std::function<bool(uint32_t)> serve;
        if (mailbox != nullptr) {
            served = std::make_unique<Served>(
                *mailbox,
                [&](Request& command) {
                    state_.keep(command, state_.step);
                    if (command.act == Act::cells) changed(command.edit);
                    each_slab([](GpuSlab<T>& slab) { slab.put_medium(); });
                    all.renew();
                },
                [&](const Box& box) { show(box, static_cast<T*>(mailbox->window())); });
            serve = [&](uint32_t step) { return served->serve(step); };
        }
        ran.steps = all.run(steps, method, serve, ran.seconds);
        if (served) served->close(ran.steps);
    }

    // Row by row the part of the box that lies in a slab: where it begins.
    template <class Use>
    void rows_of(const GpuSlab<T>& slab, const Box& box, Use use) const
    {
        const auto first = static_cast<int32_t>(slab.first());
        const int32_t end = first + static_cast<int32_t>(slab.layout().n[2]);
        for (int32_t z = std::max(box.low[2], first); z < std::min(box.high[2], end); ++z) {
            for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
                use(slab.layout().index(static_cast<uint32_t>(box.low[0]), static_cast<uint32_t>(y),
                                        static_cast<uint32_t>(z - first)));
            }
        }
    }

    void changed(const Edit& edit)
    {
        refresh(kinds_, state_, edit.box);
        put_kinds();
        if (edit.cell < static_cast<uint32_t>(Cell::reflector)) return;
        const auto n = static_cast<int32_t>(layout_.n[0]);
        const Box& box = edit.box;
        each_slab([&](GpuSlab<T>& slab) {
            rows_of(slab, box, [&](uint64_t i) {
                for (const uint32_t which : {0, 1}) {
                    T* const at = slab.field(which) + i;
                    T* const row = at - box.low[0];
                    const gpu::Chip& chip = slab.chip();
                    chip.set(at, 0, static_cast<size_t>(box.high[0] - box.low[0]) * sizeof(T));
                    if (box.low[0] == 0) chip.set(row + n, 0, sizeof(T)); // the ghosts
                    if (box.high[0] == n) chip.set(row - 1, 0, sizeof(T));
                }
            });
            slab.chip().wait();
        });
    }

    void show(const Box& box, T* window)
    {
        const auto wide = static_cast<size_t>(box.high[0] - box.low[0]);
        each_slab([&](GpuSlab<T>& slab) {
            rows_of(slab, box, [&](uint64_t i) {
                gpu::check(gpu::driver().memcpy_dtoh_async(
                               window, reinterpret_cast<gpu::DevicePtr>(slab.field(0) + i),
                               wide * sizeof(T), slab.chip().stream()),
                           "cuMemcpyDtoHAsync");
                window += wide;
            });
            slab.chip().wait();
        });
    }

    State& state_;
    Layout layout_; // of the whole grid
    Kinds kinds_;
    std::vector<Group> group_; // of several GPUs
    uint64_t bytes_ = 0;       // of a slab's field in the group's memory
    std::vector<std::unique_ptr<gpu::Chip>> chips_;
    std::vector<std::unique_ptr<GpuSlab<T>>> slabs_;
    std::unique_ptr<GpuTiles<T>> tiles_; // of one GPU
    std::optional<Method> chosen_;
};

} // namespace

std::unique_ptr<Engine> make_gpu_engine(State& state, int ordinal, uint32_t slabs, const Code& code,
                                        const Code& group_code)
{
    if (state.precision == Precision::single) {
        return std::make_unique<GpuEngine<float>>(state, ordinal, slabs, code, group_code);
    }
    return std::make_unique<GpuEngine<double>>(state, ordinal, slabs, code, group_code);
}

} // namespace denizen::wave
