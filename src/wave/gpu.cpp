// SPDX-License-Identifier: Apache-2.0
// The simulation on a GPU, through the driver: launches, a captured graph of them, or resident
// tiles in one cooperative kernel. Taking and freeing memory, and a kernel that wants every SM,
// wait for what is resident: all of it happens while the resident programs of this process are off
// the GPU.
#include "engine.hpp"

#include "../backend.hpp"
#include "../gpu/driver.hpp"
#include "../gpu/functions.hpp"

#include <denizen/wave/sweep.hpp>
#include <denizen/wave/tile.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

namespace denizen::wave {
namespace {

using namespace gpu;

constexpr unsigned sweep_threads = 256;
constexpr uint32_t most_planes = 16;   // that a thread of a launch marches through
constexpr uint32_t graph_steps = 512;  // of a captured graph at most; even
constexpr uint32_t steered_steps = 16; // between two looks into the mailbox

void off_the_gpu(const std::function<void()>& use)
{
    if (!without_residents(use)) {
        throw Error(Errc::stuck, "a simulation has to wait until the programs of this process "
                                 "have left the GPU, and one of their handlers is stuck");
    }
}

template <class T>
class GpuEngine final : public Engine {
public:
    GpuEngine(State& state, int ordinal, const Code& code)
        : state_(state), layout_(layout_of<T>(state.geometry)), kinds_(kinds_of(state)),
          driver_(driver()), info_(device_info(ordinal))
    {
        device = info_.name;
        on_gpu = true;
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has compute capability " +
                                             std::to_string(info_.major) + "." +
                                             std::to_string(info_.minor) +
                                             "; the simulation needs 8.0 or newer");
        }
        off_the_gpu([&] { open(code); });
    }

    ~GpuEngine() override
    {
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] { give_back(); });
        } catch (const Error&) { // a dead context: nothing is left to give back
        }
    }

    Method chosen() override
    {
        std::string why_not;
        return tiling(false, why_not).name != nullptr ? Method::tiles : Method::graph;
    }

    void set(const std::vector<double>& now, const std::vector<double>& before) override
    {
        off_the_gpu([&] {
            const ContextScope scope(context_);
            for (uint32_t which = 0; which < 2; ++which) {
                const auto& from = which == 0 ? now : before;
                std::vector<T> padded(layout_.elements());
                size_t i = 0;
                for (uint32_t z = 0; z < layout_.n[2]; ++z) {
                    for (uint32_t y = 0; y < layout_.n[1]; ++y) {
                        for (uint32_t x = 0; x < layout_.n[0]; ++x, ++i) {
                            padded[layout_.index(x, y, z)] =
                                kinds_.cells[i] > soft ? static_cast<T>(from[i]) : 0;
                        }
                        if (state_.geometry.periodic(0)) {
                            padded[layout_.row(y, z) - 1] =
                                padded[layout_.index(layout_.n[0] - 1, y, z)];
                            padded[layout_.index(layout_.n[0], y, z)] =
                                padded[layout_.index(0, y, z)];
                        }
                    }
                }
                put(fields_[which], padded);
            }
        });
    }

    std::vector<double> get(bool before) const override
    {
        std::vector<T> padded(layout_.elements());
        off_the_gpu([&] {
            const ContextScope scope(context_);
            fetch(padded.data(), fields_[before ? 1 : 0], padded.size());
        });
        std::vector<double> all;
        all.reserve(state_.geometry.cells());
        for (uint32_t z = 0; z < layout_.n[2]; ++z) {
            for (uint32_t y = 0; y < layout_.n[1]; ++y) {
                const T* const row = padded.data() + layout_.row(y, z);
                all.insert(all.end(), row, row + layout_.n[0]);
            }
        }
        return all;
    }

    std::unique_ptr<Mailbox> open_mailbox() override
    {
        const auto& n = state_.geometry.n;
        const uint64_t cells =
            std::max({uint64_t{n[0]} * n[1], uint64_t{n[0]} * n[2], uint64_t{n[1]} * n[2]});
        std::unique_ptr<Mailbox> mailbox;
        off_the_gpu([&] {
            const ContextScope scope(context_);
            mailbox = std::make_unique<Mailbox>([this](size_t bytes) { return pinned(bytes); },
                                                cells, sizeof(T));
        });
        return mailbox;
    }

    Ran run(uint32_t steps, Method method, Mailbox* mailbox, uint32_t ahead) override
    {
        std::unique_ptr<Mailbox> silent;
        const bool resident = method == Method::tiles || method == Method::deep;
        if (resident && mailbox == nullptr) silent = open_mailbox();
        Ran ran;
        ran.method = method;
        off_the_gpu([&] {
            const ContextScope scope(context_);
            upload(steps);
            if (resident) {
                tiles(steps, method == Method::deep, mailbox != nullptr ? *mailbox : *silent,
                      mailbox != nullptr ? ahead : 0, ran);
            } else {
                launches(steps, method == Method::graph, mailbox, ran);
            }
            const size_t receivers = state_.receivers.size();
            std::vector<T> heard(receivers * steps);
            if (!heard.empty()) fetch(heard.data(), traces_, heard.size());
            for (size_t k = 0; k < receivers; ++k) {
                const T* const of = heard.data() + k * steps;
                state_.traces[k].insert(state_.traces[k].end(), of, of + ran.steps);
            }
        });
        state_.step += ran.steps;
        return ran;
    }

private:
    void open(const Code& code)
    {
        check(driver_.device_get(&device_, info_.ordinal), "cuDeviceGet");
        check(driver_.primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain",
              info_.name);
        try {
            const ContextScope scope(context_);
            check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
            load_code(code);
            // A little more: loads of four cells reach beyond the last row.
            for (auto& field : fields_) field = take<T>(layout_.elements() + 16);
            zeros_ = take<T>(2 * size_t{layout_.pitch});
            start_ = take<uint8_t>(kinds_.cells.size());
            cells_ = take<uint8_t>(kinds_.cells.size() + 4);
            segments_ = take<uint8_t>(kinds_.segments.size());
            table_ = take<Coefficients<T>>(classes);
            sources_ = take<Source>(most_sources);
            receivers_ = take<int32_t>(3 * most_receivers);
            clocks_ = take<uint64_t>(2);
            put_kinds();
        } catch (...) {
            give_back();
            throw;
        }
    }

    void load_code(const Code& code)
    {
        const std::string suffix = sizeof(T) == 4 ? "_f32" : "_f64";
        std::vector<std::string> names{"tick", "sweep" + suffix};
        for (const bool deep : {false, true}) {
            for (const Tiling& shape : tilings<T>(state_.geometry, deep)) {
                names.push_back(shape.name + suffix);
            }
        }
        functions_ = load_functions(code, module_, "denizen_wave_", names, "the wave's");
        for (const bool deep : {false, true}) {
            for_shapes<T>(deep, [&]<class S>(const char* name) {
                const Function function = functions_.at(name + suffix);
                Seats seats; // none where the memory does not suffice
                if (sizeof(TileMemory<T, S>) <= info_.shared_bytes) {
                    check(driver_.func_set_attribute(function, func_max_dynamic_shared,
                                                     static_cast<int>(sizeof(TileMemory<T, S>))),
                          "cuFuncSetAttribute", "dynamic shared memory");
                    int blocks = 0;
                    check(driver_.occupancy_max_active_blocks(&blocks, function, S::threads,
                                                              sizeof(TileMemory<T, S>)),
                          "cuOccupancyMaxActiveBlocksPerMultiprocessor", name);
                    const auto all = static_cast<uint32_t>(blocks * info_.sm_count);
                    seats.most = all == 0 ? 0 : all - 1; // one is the conductor's
                    seats.alone = std::min(seats.most, static_cast<uint32_t>(info_.sm_count) - 1);
                }
                seats_[deep ? 1 : 0].push_back(seats);
            });
        }
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            for (const auto& [memory, bytes] : memory_) driver_.mem_free(memory);
            if (module_ != nullptr) driver_.module_unload(module_);
            if (stream_ != nullptr) driver_.stream_destroy(stream_);
        }
        driver_.primary_ctx_release(device_);
    }

    // Zero-filled.
    template <class U>
    U* take(size_t count)
    {
        DevicePtr memory = 0;
        const size_t bytes = std::max<size_t>(1, count) * sizeof(U);
        const Result result = driver_.mem_alloc(&memory, bytes);
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no " + std::to_string(bytes >> 20) +
                                             " MiB left on the GPU for a simulation of " +
                                             std::to_string(state_.geometry.cells()) + " cells");
        }
        check(result, "cuMemAlloc");
        memory_.emplace_back(memory, bytes);
        clear(reinterpret_cast<void*>(memory), bytes);
        return reinterpret_cast<U*>(memory);
    }

    // Grows `memory` to at least `count`, whose content is lost.
    template <class U>
    void reserve(U*& memory, size_t& have, size_t count)
    {
        if (count <= have) return;
        if (memory != nullptr) {
            const auto old = std::find_if(memory_.begin(), memory_.end(), [&](const auto& m) {
                return m.first == reinterpret_cast<DevicePtr>(memory);
            });
            driver_.mem_free(old->first);
            memory_.erase(old);
            memory = nullptr;
            have = 0;
        }
        memory = take<U>(count);
        have = count;
    }

    std::shared_ptr<void> pinned(size_t bytes)
    {
        void* memory = nullptr;
        check(driver_.mem_host_alloc(&memory, bytes, host_alloc_portable | host_alloc_device_map),
              "cuMemHostAlloc", std::to_string(bytes >> 10) + " KiB");
        std::memset(memory, 0, bytes);
        return {memory, [this](void* p) {
                    try {
                        without_residents([&] {
                            const ContextScope scope(context_);
                            driver_.mem_free_host(p);
                        });
                    } catch (const Error&) { // a dead context
                    }
                }};
    }

    void clear(void* memory, size_t bytes)
    {
        check(driver_.memset_d8_async(reinterpret_cast<DevicePtr>(memory), 0, bytes, stream_),
              "cuMemsetD8Async");
    }

    template <class U>
    void put(U* to, const std::vector<U>& from)
    {
        put_some(to, from.data(), from.size());
    }

    template <class U>
    void put_some(U* to, const U* from, size_t count)
    {
        if (count == 0) return;
        check(driver_.memcpy_htod_async(reinterpret_cast<DevicePtr>(to), from, count * sizeof(U),
                                        stream_),
              "cuMemcpyHtoDAsync");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    template <class U>
    void fetch(U* to, const U* from, size_t count) const
    {
        check(driver_.memcpy_dtoh_async(to, reinterpret_cast<DevicePtr>(from), count * sizeof(U),
                                        stream_),
              "cuMemcpyDtoHAsync");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch(const std::string& name, const unsigned (&grid)[3], const unsigned (&threads)[2],
                unsigned shared_bytes, bool cooperative, Arguments... arguments)
    {
        void* pointers[] = {&arguments...};
        LaunchAttribute together;
        together.id = launch_cooperative;
        together.value.cooperative = 1;
        LaunchConfig config;
        std::copy_n(grid, 3, config.grid);
        std::copy_n(threads, 2, config.block);
        config.shared_bytes = shared_bytes;
        config.stream = stream_;
        config.attributes = &together;
        config.attribute_count = cooperative ? 1 : 0;
        check(driver_.launch_kernel_ex(&config, functions_.at(name), pointers, nullptr),
              "cuLaunchKernelEx", name);
    }

    void put_kinds()
    {
        put(start_, state_.kinds);
        put(cells_, kinds_.cells);
        put(segments_, kinds_.segments);
    }

    // What the host may have changed since the last run.
    void upload(uint32_t steps)
    {
        put(table_, table_of<T>(state_.medium));
        put(sources_, state_.sources);
        reserve(pool_, pool_size_, state_.pool.size());
        put(pool_, state_.pool);
        if (!state_.receivers.empty()) {
            put_some(receivers_, state_.receivers.front().data(), 3 * state_.receivers.size());
        }
        reserve(traces_, traces_size_, state_.receivers.size() * steps);
        put(clocks_, {state_.step, state_.step});
    }

    std::string typed(const char* name) const
    {
        return std::string(name) + (sizeof(T) == 4 ? "_f32" : "_f64");
    }

    // --- launches ---
    Sweep<T> sweep_of(uint32_t turn, uint32_t after, uint32_t steps, uint32_t planes) const
    {
        T* const now = fields_[turn];
        const bool around = state_.geometry.periodic(2);
        Sweep<T> sweep{};
        sweep.slab = {layout_,
                      now,
                      fields_[turn ^ 1],
                      around ? now + (layout_.n[2] - 1) * layout_.plane() : nullptr,
                      around ? now : nullptr,
                      zeros_,
                      cells_,
                      segments_,
                      table_,
                      state_.geometry.periodic(0),
                      state_.geometry.periodic(1)};
        sweep.clock = clocks_;
        sweep.begun = clocks_ + 1;
        sweep.after = after;
        sweep.planes = planes;
        sweep.sources = sources_;
        sweep.source_count = static_cast<uint32_t>(state_.sources.size());
        sweep.pool = pool_;
        sweep.receivers = reinterpret_cast<const int32_t (*)[3]>(receivers_);
        sweep.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        sweep.traces = traces_;
        sweep.trace_steps = steps;
        return sweep;
    }

    // Step `after` after the clock's.
    void sweep(uint32_t after, uint32_t steps)
    {
        const uint32_t strips = (layout_.n[0] + 3) / 4;
        unsigned across = 1;
        while (across < 32 && across < strips) across *= 2; // ends: doubled each time
        const unsigned rows = sweep_threads / across;
        const uint64_t all = uint64_t{strips} * layout_.n[1] * layout_.n[2];
        const auto seats = static_cast<uint64_t>(info_.sm_count) * 2048;
        const auto planes =
            static_cast<uint32_t>(std::clamp<uint64_t>(all / seats, 1, most_planes));
        launch(typed("sweep"),
               {(strips + across - 1) / across, (layout_.n[1] + rows - 1) / rows,
                (layout_.n[2] + planes - 1) / planes},
               {across, rows}, 0, false, sweep_of(after % 2, after, steps, planes));
    }

    // A captured graph of `count` steps, an even number, which moves the clock on.
    class Captured {
    public:
        Captured(GpuEngine& engine, uint32_t count, uint32_t steps) : driver_(engine.driver_)
        {
            check(driver_.stream_begin_capture(engine.stream_, capture_relaxed),
                  "cuStreamBeginCapture");
            for (uint32_t i = 0; i < count; ++i) engine.sweep(i, steps);
            engine.launch("tick", {1, 1, 1}, {1, 1}, 0, false, engine.clocks_, count);
            check(driver_.stream_end_capture(engine.stream_, &graph_), "cuStreamEndCapture");
            check(driver_.graph_instantiate(&exec_, graph_, 0), "cuGraphInstantiateWithFlags");
        }
        ~Captured()
        {
            if (exec_ != nullptr) driver_.graph_exec_destroy(exec_);
            if (graph_ != nullptr) driver_.graph_destroy(graph_);
        }
        Captured(const Captured&) = delete;
        Captured& operator=(const Captured&) = delete;

        void launch(Stream stream) { check(driver_.graph_launch(exec_, stream), "cuGraphLaunch"); }

    private:
        const Driver& driver_;
        Graph graph_ = nullptr;
        GraphExec exec_ = nullptr;
    };

    void launches(uint32_t steps, bool captured, Mailbox* mailbox, Ran& ran)
    {
        const uint32_t most = mailbox != nullptr ? steered_steps : graph_steps;
        const uint32_t batch = std::max(2u, std::min(most, steps / 2 * 2));
        std::unique_ptr<Captured> graph;
        const auto capture = [&] {
            if (captured && steps >= batch) {
                graph = std::make_unique<Captured>(*this, batch, steps);
            }
        };
        capture();
        const uint64_t first = state_.step;
        uint32_t step = 0;  // even whenever the mailbox is served
        uint32_t clock = 0; // steps that the clock has been moved on
        std::unique_ptr<Served> served;
        if (mailbox != nullptr) {
            served = std::make_unique<Served>(
                *mailbox,
                [&](Request& command) {
                    state_.keep(command, first);
                    if (command.act == Act::cells) changed(command.edit);
                    put(table_, table_of<T>(state_.medium));
                    put(sources_, state_.sources);
                    capture(); // the number of sources is part of it
                },
                [&](const Box& box) { show(box, static_cast<T*>(mailbox->window())); });
        }
        const uint64_t began = now_ns();
        while (step < steps) { // ends with the last step or by a command
            if (served) {
                check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
                if (!served->serve(step)) break;
            }
            if (graph && steps - step >= batch) {
                graph->launch(stream_);
                step += batch;
                clock += batch;
                continue;
            }
            const uint32_t end = step + std::min(batch, steps - step);
            for (; step < end; ++step) sweep(step - clock, steps);
        }
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        ran.seconds = static_cast<double>(now_ns() - began) * 1e-9;
        ran.steps = step;
        if (served) served->close(step);
        if (step % 2 != 0) std::swap(fields_[0], fields_[1]);
    }

    template <class Use>
    void rows_of(const Box& box, Use use)
    {
        for (int32_t z = box.low[2]; z < box.high[2]; ++z) {
            for (int32_t y = box.low[1]; y < box.high[1]; ++y) {
                use(layout_.index(static_cast<uint32_t>(box.low[0]), static_cast<uint32_t>(y),
                                  static_cast<uint32_t>(z)));
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
        rows_of(box, [&](uint64_t i) {
            for (T* const field : fields_) {
                clear(field + i, static_cast<size_t>(box.high[0] - box.low[0]) * sizeof(T));
                T* const row = field + i - box.low[0];
                if (box.low[0] == 0) clear(row + n, sizeof(T)); // the ghosts
                if (box.high[0] == n) clear(row - 1, sizeof(T));
            }
        });
    }

    void show(const Box& box, T* window)
    {
        const auto wide = static_cast<size_t>(box.high[0] - box.low[0]);
        rows_of(box, [&](uint64_t i) {
            check(driver_.memcpy_dtoh_async(window, reinterpret_cast<DevicePtr>(fields_[0] + i),
                                            wide * sizeof(T), stream_),
                  "cuMemcpyDtoHAsync");
            window += wide;
        });
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    // --- resident tiles ---
    Tiling tiling(bool deep, std::string& why_not) const
    {
        return choose_tiling(state_.geometry, tilings<T>(state_.geometry, deep),
                             seats_[deep ? 1 : 0], deep, why_not);
    }

    void tiles(uint32_t steps, bool deep, Mailbox& mailbox, uint32_t ahead, Ran& ran)
    {
        std::string why_not;
        const Tiling chosen = tiling(deep, why_not);
        if (chosen.name == nullptr) {
            throw Error(Errc::bad_argument, std::string("method ") + (deep ? "deep" : "tiles") +
                                                ": " + why_not + "; use graph");
        }
        ran.tiles = chosen.text();
        for_shapes<T>(deep, [&]<class S>(const char* name) {
            if (std::string(name) == chosen.name) {
                run_tiles<S>(steps, chosen, mailbox, ahead, ran);
            }
        });
    }

    template <class S>
    void run_tiles(uint32_t steps, const Tiling& tiling, Mailbox& mailbox, uint32_t ahead, Ran& ran)
    {
        constexpr uint32_t packets = hops<T, S>();
        const Packing packing = pack<T, S>();
        if (to_[0] == nullptr) {
            for (auto& field : to_) field = take<T>(layout_.elements() + 16);
            commands_ = take<Request>(most_commands);
            edits_ = take<Edit>(most_commands);
            control_ = take<Control>(1);
        }
        const size_t mail_packets = size_t{2} * packets * tiling.count();
        reserve(mail_, mail_size_, mail_packets);
        clear(mail_, mail_packets * sizeof(Packet));
        clear(control_, sizeof(Control));
        reserve(hops_, hops_size_, 2 * size_t{packets});
        put(hops_, packing.outgoing);
        put(hops_ + packets, packing.incoming);
        TileRun<T> run{};
        run.cells = {state_.geometry, start_, edits_, 0};
        run.medium = state_.medium;
        run.layout = layout_;
        for (uint32_t i = 0; i < 2; ++i) {
            run.from[i] = fields_[i];
            run.to[i] = to_[i];
        }
        std::copy_n(tiling.tiles, 3, run.tiles);
        run.steps = steps;
        run.first = state_.step;
        run.patience_ns = patience_ns;
        run.outgoing = hops_;
        run.incoming = hops_ + packets;
        run.mail = mail_;
        run.control = control_;
        run.commands = commands_;
        run.sources = sources_;
        run.source_count = static_cast<uint32_t>(state_.sources.size());
        run.pool = pool_;
        run.receivers = reinterpret_cast<const int32_t (*)[3]>(receivers_);
        run.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        run.traces = traces_;
        run.window = static_cast<T*>(mailbox.window());
        const Leading leading{control_,
                              commands_,
                              edits_,
                              0,
                              sources_,
                              run.source_count,
                              mailbox.heartbeat(),
                              mailbox.orders(),
                              mailbox.answers(),
                              state_.step,
                              steps,
                              ahead,
                              tiling.count(),
                              {S::x, S::y, S::z},
                              patience_ns};
        launch(typed(tiling.name), {tiling.count() + 1, 1, 1}, {S::threads, 1},
               sizeof(TileMemory<T, S>), true, run, leading);
        uint32_t beats = 0;
        Result result = driver_.stream_query(stream_);
        // Ends with the kernel, which leaves when it has done its steps or has waited too long.
        for (Backoff idle; result == error_not_ready; result = driver_.stream_query(stream_)) {
            store<Scope::system>(mailbox.heartbeat(), ++beats);
            idle.pause();
        }
        check(result, "cuStreamQuery", "the resident tiles");
        Control control{};
        fetch(&control, control_, 1);
        if (control.late != 0) {
            throw Error(Errc::timeout, "the tiles did not get on for 10 s and gave up");
        }
        ran.steps = control.steps;
        ran.seconds = static_cast<double>(control.ended - control.began) * 1e-9;
        std::vector<Request> commands(control.commands);
        if (!commands.empty()) fetch(commands.data(), commands_, commands.size());
        for (const Request& command : commands) state_.keep(command, run.first);
        if (!commands.empty()) {
            kinds_ = kinds_of(state_);
            put_kinds();
        }
        for (uint32_t i = 0; i < 2; ++i) std::swap(fields_[i], to_[i]);
        if (state_.geometry.periodic(0)) ghosts();
    }

    // Tiles write no ghosts: the launches' kernel needs them.
    void ghosts()
    {
        std::vector<T> padded(layout_.elements());
        for (T* const field : fields_) {
            fetch(padded.data(), field, padded.size());
            for (uint32_t z = 0; z < layout_.n[2]; ++z) {
                for (uint32_t y = 0; y < layout_.n[1]; ++y) {
                    T* const row = padded.data() + layout_.row(y, z);
                    row[-1] = row[layout_.n[0] - 1];
                    row[layout_.n[0]] = row[0];
                }
            }
            put(field, padded);
        }
    }

    State& state_;
    Layout layout_;
    Kinds kinds_;
    const Driver& driver_;
    DeviceInfo info_;
    gpu::Device device_ = 0;
    Context context_ = nullptr;
    Stream stream_ = nullptr;
    Module module_ = nullptr;
    Functions functions_;
    std::vector<Seats> seats_[2]; // of tiles, of deep ones
    std::vector<std::pair<DevicePtr, size_t>> memory_;

    T* fields_[2] = {}; // now, before
    T* zeros_ = nullptr;
    uint8_t* start_ = nullptr; // Cell by cell
    uint8_t* cells_ = nullptr; // class by cell
    uint8_t* segments_ = nullptr;
    Coefficients<T>* table_ = nullptr;
    Source* sources_ = nullptr;
    int32_t* receivers_ = nullptr;
    uint64_t* clocks_ = nullptr; // the step of the next launch, and the run's first
    float* pool_ = nullptr;
    size_t pool_size_ = 0;
    T* traces_ = nullptr;
    size_t traces_size_ = 0;
    // Taken at first use.
    T* to_[2] = {};
    Request* commands_ = nullptr;
    Edit* edits_ = nullptr;
    Control* control_ = nullptr;
    Packet* mail_ = nullptr;
    size_t mail_size_ = 0;
    Hop* hops_ = nullptr;
    size_t hops_size_ = 0;
};

} // namespace

std::unique_ptr<Engine> make_gpu_engine(State& state, int ordinal, uint32_t, const Code& code, const Code&)
{
    if (state.precision == Precision::single) {
        return std::make_unique<GpuEngine<float>>(state, ordinal, code);
    }
    return std::make_unique<GpuEngine<double>>(state, ordinal, code);
}

} // namespace denizen::wave
