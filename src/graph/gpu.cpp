// SPDX-License-Identifier: Apache-2.0
// The searches on a GPU, through the driver: the graph is copied there once, then a few kernels are
// launched per search. Taking and freeing memory, and a kernel that wants every SM, wait for what
// is resident: all of it happens while the resident programs of this process are off the GPU.
#include "engine.hpp"

#include "../backend.hpp"
#include "../gpu/functions.hpp"
#include "../gpu/primary_context.hpp"

#include <denizen/graph/near_far.hpp>
#include <denizen/graph/wide.hpp>

#include <array>

namespace denizen::graph {
namespace {

using namespace gpu;

constexpr unsigned block = 1024; // threads of narrow, wide and near_far
constexpr unsigned level_block = 256;
constexpr int while_nodes = 12'040; // the CUDA that has them: the kernels do not load on older ones
constexpr unsigned shared_reserve = 1024; // of a block's shared memory, for its own variables

class GpuEngine final : public Engine {
public:
    GpuEngine(const Csr& graph, int ordinal, const Code& code)
        : graph_(graph), driver_(driver()), info_(device_info(ordinal)),
          words_((graph.vertices() + 31) / 32 + 1)
    {
        device = info_.name;
        on_gpu = true;
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device,
                        info_.name + " has compute capability " + std::to_string(info_.major) +
                            "." + std::to_string(info_.minor) + "; the searches need 8.0 or newer");
        }
        if (info_.driver_cuda_version < while_nodes) {
            throw Error(Errc::no_device,
                        "the driver of " + info_.name + " supports CUDA " +
                            std::to_string(info_.driver_cuda_version / 1000) + "." +
                            std::to_string(info_.driver_cuda_version % 1000 / 10) +
                            "; the searches have while nodes, which need 12.4: install driver 550 "
                            "or newer, or use Device::cpu()");
        }
        off_the_gpu("a search of a graph", [&] { open(code); });
    }

    ~GpuEngine() override
    {
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] { give_back(); });
        } catch (const Error&) { // or a dead context: nothing is left to give back
            context_.abandon();
        }
    }

    Paths bfs(uint32_t source, Method method) override
    {
        if (method == Method::tasks) return visit(source);
        Paths paths;
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(context_);
            switch (method) {
            case Method::narrow: narrow(source); break;
            case Method::wide:
                clear(0, 0, source, true);
                wide();
                break;
            case Method::graph: captured(source); break;
            default: launches(source); break;
            }
            paths = finish(method);
        });
        return paths;
    }

    Paths shortest_paths(uint32_t source, Method method) override
    {
        Paths paths;
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(context_);
            near_far(source, method);
            paths = finish(method);
        });
        return paths;
    }

private:
    void open(const Code& code)
    {
        context_ = PrimaryContext(info_);
        try {
            const ContextScope scope(context_);
            check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
            load_code(code);
            const size_t n = graph_.vertices();
            view_ = {graph_.vertices(), graph_.arcs(), copy(graph_.offsets),
                     copy(graph_.neighbours), nullptr};
            found_ = {take<int32_t>(n), take<int32_t>(n)};
            seen_ = take<uint32_t>(words_);
            progress_ = take<Progress>(1);
            journal_ = {take<Step>(journal_places(graph_)), take<uint32_t>(n + 2)};
        } catch (...) {
            give_back();
            throw;
        }
    }

    void load_code(const Code& code)
    {
        functions_ = load_functions(code, module_, "denizen_graph_",
                                    {"clear", "narrow", "spread", "wide", "near_far",
                                     "near_far_wide", "tasks", "unpack", "level", "repeated"},
                                    "the graph searches'");
        most_shared_ = static_cast<unsigned>(info_.shared_bytes) - shared_reserve;
        for (const char* name : {"narrow", "near_far"}) {
            check(driver_.func_set_attribute(functions_[name], func_max_dynamic_shared,
                                             static_cast<int>(most_shared_)),
                  "cuFuncSetAttribute", "dynamic shared memory");
        }
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            if (repeating_ != nullptr) driver_.graph_exec_destroy(repeating_);
            if (captured_ != nullptr) driver_.graph_destroy(captured_);
            for (const DevicePtr memory : memory_) driver_.mem_free(memory);
            if (module_ != nullptr) driver_.module_unload(module_);
            if (stream_ != nullptr) driver_.stream_destroy(stream_);
        }
        context_.release();
    }

    template <class T>
    T* take(size_t count)
    {
        DevicePtr memory = 0;
        const size_t bytes = std::max<size_t>(1, count) * sizeof(T);
        const Result result = driver_.mem_alloc(&memory, bytes);
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no " + std::to_string(bytes >> 20) +
                                             " MiB left on the GPU for a graph of " +
                                             std::to_string(graph_.vertices()) + " vertices and " +
                                             std::to_string(graph_.arcs()) + " arcs");
        }
        check(result, "cuMemAlloc");
        memory_.push_back(memory);
        return reinterpret_cast<T*>(memory);
    }

    template <class T>
    T* copy(const std::vector<T>& from)
    {
        T* to = take<T>(from.size());
        if (!from.empty()) {
            check(driver_.memcpy_htod_async(reinterpret_cast<DevicePtr>(to), from.data(),
                                            from.size() * sizeof(T), stream_),
                  "cuMemcpyHtoDAsync");
            check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        }
        return to;
    }

    void set(void* memory, unsigned char value, size_t bytes)
    {
        check(driver_.memset_d8_async(reinterpret_cast<DevicePtr>(memory), value, bytes, stream_),
              "cuMemsetD8Async");
    }

    template <class T>
    T read(const T* from)
    {
        T value;
        check(driver_.memcpy_dtoh_async(&value, reinterpret_cast<DevicePtr>(from), sizeof(T),
                                        stream_),
              "cuMemcpyDtoHAsync");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        return value;
    }

    template <class T>
    void write(T* to, const T& value)
    {
        check(
            driver_.memcpy_htod_async(reinterpret_cast<DevicePtr>(to), &value, sizeof(T), stream_),
            "cuMemcpyHtoDAsync");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch(const char* name, unsigned blocks, unsigned threads, unsigned shared_bytes,
                bool cooperative, Arguments... arguments)
    {
        void* pointers[] = {&arguments...};
        LaunchAttribute together;
        together.id = launch_cooperative;
        together.value.cooperative = 1;
        LaunchConfig config;
        config.grid[0] = blocks;
        config.block[0] = threads;
        config.shared_bytes = shared_bytes;
        config.stream = stream_;
        config.attributes = &together;
        config.attribute_count = cooperative ? 1 : 0;
        check(driver_.launch_kernel_ex(&config, functions_[name], pointers, nullptr),
              "cuLaunchKernelEx", name);
    }

    unsigned sms() const { return static_cast<unsigned>(info_.sm_count); }

    void clear(DevicePtr records, unsigned long long record_bytes, uint32_t source, bool begin)
    {
        launch("clear", 2 * sms(), 512, 0, false, view_, records, record_bytes, journal_, found_,
               seen_, progress_, source, uint32_t{begin ? 1u : 0u});
    }

    void narrow(uint32_t source)
    {
        const unsigned queue = 2 * queue_slots * sizeof(uint32_t);
        const unsigned bits = words_ * static_cast<unsigned>(sizeof(uint32_t));
        const bool near = queue + bits <= most_shared_;
        if (records_ == nullptr) {
            records_ = copy(records_of(graph_));
            if (!near) visited_ = take<uint32_t>(words_);
        }
        // Records that do not stay in L2 would only push one another out.
        const uint64_t bytes = uint64_t{graph_.vertices()} * sizeof(Record);
        clear(reinterpret_cast<DevicePtr>(records_), bytes <= (uint64_t{32} << 20) ? bytes : 0,
              source, false);
        launch("narrow", 1, block, near ? queue + bits : queue, false, view_,
               static_cast<const Record*>(records_), journal_, visited_, progress_, queue_slots,
               source, hand_over, 0ull + limit_ns);
        launch("spread", 2 * sms(), 512, 0, false, journal_, progress_, found_, seen_,
               graph_.vertices());
        if (read(progress_).done == 0) wide();
    }

    // From where the journal ends.
    void wide()
    {
        if (wide_.tally == nullptr) {
            const uint64_t pieces = most_pieces(graph_.vertices(), graph_.arcs());
            wide_ = {{take<Piece>(pieces), take<Piece>(pieces)},
                     seen_,
                     {take<uint32_t>(words_), take<uint32_t>(words_)},
                     take<Tally>(3)};
        }
        if (meeting_ == nullptr) meeting_ = take<Meeting>(1);
        set(wide_.tally, 0, 3 * sizeof(Tally));
        set(meeting_, 0, sizeof(Meeting));
        launch("wide", sms(), block, 0, true, view_, journal_, found_, wide_, progress_, meeting_,
               uint32_t{graph_.undirected ? 1u : 0u}, 0ull + limit_ns);
    }

    void set_word(uint32_t* word, uint32_t value)
    {
        check(driver_.memset_d32_async(reinterpret_cast<DevicePtr>(word), value, 1, stream_),
              "cuMemsetD32Async");
    }

    void take_frontiers()
    {
        if (frontier_[0] != nullptr) return;
        for (auto& frontier : frontier_) frontier = take<uint32_t>(graph_.vertices());
        count_ = take<uint32_t>(1);
        repeated_ = take<Repeated>(1);
    }

    void captured(uint32_t source)
    {
        take_frontiers();
        if (repeating_ == nullptr) repeat_level();
        set_word(frontier_[0], source);
        set(repeated_, 0, sizeof(Repeated));
        set_word(&repeated_->size, 1);
        clear(0, 0, source, true);
        check(driver_.graph_launch(repeating_, stream_), "cuGraphLaunch");
    }

    // A while node whose body is one kernel, which says itself whether it is run again.
    void repeat_level()
    {
        if (captured_ != nullptr) driver_.graph_destroy(captured_); // of an attempt that failed
        captured_ = nullptr;
        check(driver_.graph_create(&captured_, 0), "cuGraphCreate");
        GraphCondition condition = 0;
        check(
            driver_.graph_condition_create(&condition, captured_, context_, 1, condition_assigned),
            "cuGraphConditionalHandleCreate");
        GraphNodeParams loop;
        loop.type = node_conditional;
        loop.of.conditional = {condition, while_not_zero, 1, nullptr, context_};
        GraphNode node = nullptr;
        check(driver_.graph_add_node(&node, captured_, nullptr, nullptr, 0, &loop),
              "cuGraphAddNode", "while");
        void* arguments[] = {&view_,     &found_,    &frontier_[0], &frontier_[1],
                             &repeated_, &progress_, &condition};
        // Each block's end is an atomic on one word, and each block has to begin: few where the
        // frontiers are small.
        KernelNode kernel;
        kernel.function = functions_["repeated"];
        kernel.grid[0] = has_hub(graph_) ? 2 * sms() : 16;
        kernel.block[0] = level_block;
        kernel.params = arguments;
        GraphNodeParams level;
        level.of.kernel = kernel;
        check(driver_.graph_add_node(&node, *loop.of.conditional.body, nullptr, nullptr, 0, &level),
              "cuGraphAddNode", "repeated");
        check(driver_.graph_instantiate(&repeating_, captured_, 0), "cuGraphInstantiateWithFlags");
    }

    void launches(uint32_t source)
    {
        take_frontiers();
        clear(0, 0, source, true);
        set_word(frontier_[0], source);
        uint32_t size = 1;
        launched_levels_ = 0;
        for (; size != 0; ++launched_levels_) { // ends: every vertex is found once
            set(count_, 0, sizeof(uint32_t));
            const uint32_t turn = launched_levels_ % 2;
            launch("level", (size + level_block - 1) / level_block, level_block, 0, false, view_,
                   found_, static_cast<const uint32_t*>(frontier_[turn]), size, frontier_[turn ^ 1],
                   count_, static_cast<int32_t>(launched_levels_ + 1), progress_);
            size = read(count_);
        }
    }

    // The workers come to the GPU when all is ready, and leave it for good before the end.
    Paths visit(uint32_t source)
    {
        Visits search{};
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(context_);
            const size_t n = graph_.vertices();
            if (visits_ == nullptr) {
                visits_ = take<Visits>(1);
                take_best();
                for (auto*& pile : piles_) pile = take<uint32_t>(2 * n);
            }
            clear(0, 0, source, true); // the source's bit in `seen` says that it is queued
            set(near_far_.best, 0xff, sizeof(unsigned long long) * n);
            search = {view_,
                      near_far_.best,
                      seen_,
                      {piles_[0], piles_[1]},
                      visit_window,
                      0,
                      visit_window,
                      1,
                      1,
                      0,
                      0};
            const unsigned long long nearest = source;
            write(visits_, search);
            write(near_far_.best + source, nearest);
        });
        double seconds = 0;
        {
            Visitors visitors(graph_, denizen::Device::gpu(info_.ordinal), 0,
                              [this]() -> void* { return functions_.at("tasks"); });
            seconds = visitors.run(visits_, source);
        }
        Paths paths;
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(context_);
            launch("unpack", 2 * sms(), 512, 0, false,
                   static_cast<const unsigned long long*>(near_far_.best), found_,
                   graph_.vertices(), progress_);
            search = read(visits_);
            paths = finish(Method::tasks);
        });
        paths.seconds = seconds;
        paths.levels = levels_of(paths);
        paths.rounds = search.windows;
        return paths;
    }

    void take_best()
    {
        if (near_far_.best == nullptr) {
            near_far_.best = take<unsigned long long>(graph_.vertices());
        }
    }

    void near_far(uint32_t source, Method method)
    {
        const size_t room = std::min<size_t>(size_t{graph_.vertices()} + graph_.arcs(), ~0u);
        if (weighted_ == nullptr) {
            weighted_ = copy(weighted_records_of(graph_));
            view_.weights = copy(graph_.weights);
            take_best();
            for (auto* entries : {&near_far_.spill[0], &near_far_.spill[1], &near_far_.pile[0],
                                  &near_far_.pile[1]}) {
                *entries = take<Entry>(room);
            }
            near_counters_ = take<uint32_t>(6);
            near_far_.room = static_cast<uint32_t>(room);
            near_far_.zero_weights = has_zero_weights(graph_);
            step_ = first_step(graph_);
        }
        clear(0, 0, source, false);
        set(near_far_.best, 0xff, sizeof(unsigned long long) * graph_.vertices());
        if (method == Method::wide) {
            if (meeting_ == nullptr) meeting_ = take<Meeting>(1);
            set(meeting_, 0, sizeof(Meeting));
            near_far_.slots = 0;
            near_far_.counters = near_counters_;
            launch("near_far_wide", sms(), block, 0, true, view_,
                   static_cast<const WeightedRecord*>(weighted_), near_far_, progress_, meeting_,
                   source, step_, few_near_wide, many_near_wide, 0ull + limit_ns);
        } else {
            near_far_.slots = near_slots;
            launch("near_far", 1, block, 2 * near_slots * sizeof(Entry), false, view_,
                   static_cast<const WeightedRecord*>(weighted_), near_far_, progress_, source,
                   step_, few_near, many_near, 0ull + limit_ns);
        }
        launch("unpack", 2 * sms(), 512, 0, false,
               static_cast<const unsigned long long*>(near_far_.best), found_, graph_.vertices(),
               progress_);
    }

    Paths finish(Method method)
    {
        const Progress progress = read(progress_);
        check_progress(progress);
        Paths paths;
        const size_t n = graph_.vertices();
        paths.distances.resize(n);
        paths.parents.resize(n);
        for (const auto& [to, from] :
             {std::pair{&paths.distances, found_.distance}, {&paths.parents, found_.parent}}) {
            check(driver_.memcpy_dtoh_async(to->data(), reinterpret_cast<DevicePtr>(from),
                                            n * sizeof(int32_t), stream_),
                  "cuMemcpyDtoHAsync");
        }
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        paths.reached = static_cast<uint32_t>(std::count_if(
            paths.distances.begin(), paths.distances.end(), [](int32_t d) { return d >= 0; }));
        paths.levels = method == Method::launches ? launched_levels_ : progress.levels;
        paths.rounds = progress.rounds;
        paths.seconds = static_cast<double>(progress.ended - progress.began) * 1e-9;
        paths.method = method;
        return paths;
    }

    const Csr& graph_;
    const Driver& driver_;
    DeviceInfo info_;
    uint32_t words_; // of a bit per vertex
    PrimaryContext context_;
    Stream stream_ = nullptr;
    Module module_ = nullptr;
    Functions functions_;
    unsigned most_shared_ = 0;
    std::vector<DevicePtr> memory_;

    View view_{};
    Found found_{};
    uint32_t* seen_ = nullptr;
    Progress* progress_ = nullptr;
    Journal journal_{};
    // Taken at first use.
    Record* records_ = nullptr;
    uint32_t* visited_ = nullptr;
    WideMemory wide_{};
    Meeting* meeting_ = nullptr;
    std::array<uint32_t*, 2> frontier_{};
    uint32_t* count_ = nullptr;
    Repeated* repeated_ = nullptr;
    gpu::Graph captured_ = nullptr;
    GraphExec repeating_ = nullptr;
    uint32_t launched_levels_ = 0;
    WeightedRecord* weighted_ = nullptr;
    NearFarMemory near_far_{};
    uint32_t* near_counters_ = nullptr;
    Visits* visits_ = nullptr;
    std::array<uint32_t*, 2> piles_{};
    uint32_t step_ = 1;
};

} // namespace

std::unique_ptr<Engine> make_gpu_engine(const Csr& graph, int ordinal, const Code& code)
{
    return std::make_unique<GpuEngine>(graph, ordinal, code);
}

} // namespace denizen::graph
