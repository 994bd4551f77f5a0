// SPDX-License-Identifier: Apache-2.0
// The searches on a GPU, through the driver: the graph is copied there once, then a few kernels are
// launched per search. Taking and freeing memory, and a kernel that wants every SM, wait for what
// is resident: all of it happens while the resident programs of this process are off the GPU.
#include "engine.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/device/chip.hpp>

#include <denizen/graph/detail/near_far.hpp>
#include <denizen/graph/detail/wide.hpp>

#include <array>
#include <thread>

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
        : graph_(graph), words_((graph.vertices() + 31) / 32 + 1)
    {
        off_the_gpu("a search of a graph", [&] { open(ordinal, code); });
        device = chip_->info().name;
        on_gpu = true;
    }

    ~GpuEngine() override
    {
        if (!without_residents([this] { give_back(); })) {
            (void)chip_.release(); // a program is stuck: better than to wait for ever
        }
    }

    Paths bfs(uint32_t source, Method method) override
    {
        if (method == Method::tasks) return visit(source);
        Paths paths;
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(chip_->context());
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
            const ContextScope scope(chip_->context());
            near_far(source, method);
            paths = finish(method);
        });
        return paths;
    }

private:
    void open(int ordinal, const Code& code)
    {
        const std::string what = "a search of a graph of " + std::to_string(graph_.vertices()) +
                                 " vertices and " + std::to_string(graph_.arcs()) + " arcs";
        const DeviceInfo info = device_info(ordinal);
        check_capability(info, 8, what + " needs 8.0");
        check_driver(info);
        Chip::open(chip_, info, what, StreamPriority::ordinary, [&] {
            load_code(code);
            const size_t n = graph_.vertices();
            view_ = {graph_.vertices(), graph_.arcs(), copy(graph_.offsets),
                     copy(graph_.neighbours), nullptr};
            found_ = {chip_->take<int32_t>(n), chip_->take<int32_t>(n)};
            seen_ = chip_->take<uint32_t>(words_);
            progress_ = chip_->take<Progress>(1);
            journal_ = {chip_->take<Step>(journal_places(graph_)), chip_->take<uint32_t>(n + 2)};
        });
    }

    static void check_driver(const DeviceInfo& info)
    {
        const int has = info.driver_cuda_version;
        if (has >= while_nodes) return;
        throw Error(Errc::no_device,
                    "the driver of " + info.name + " supports CUDA " + std::to_string(has / 1000) +
                        "." + std::to_string(has % 1000 / 10) +
                        "; the searches have while nodes, which need 12.4: install driver 550 or "
                        "newer, or use Device::cpu()");
    }

    void load_code(const Code& code)
    {
        chip_->load(code, "denizen_graph_",
                    {"clear", "narrow", "spread", "wide", "near_far", "near_far_wide", "tasks",
                     "unpack", "level", "repeated"},
                    "the graph searches' cubin");
        most_shared_ = static_cast<unsigned>(chip_->info().shared_bytes) - shared_reserve;
        for (const char* name : {"narrow", "near_far"}) chip_->allow_shared(name, most_shared_);
    }

    void give_back()
    {
        if (captured_ != nullptr) {
            try {
                const ContextScope scope(chip_->context());
                if (repeating_ != nullptr) driver().graph_exec_destroy(repeating_);
                driver().graph_destroy(captured_);
            } catch (const Error&) { // a dead context: nothing is left to give back
            }
        }
        chip_.reset();
    }

    template <class T>
    T* copy(const std::vector<T>& from)
    {
        T* to = chip_->take<T>(from.size());
        chip_->put(to, from);
        return to;
    }

    template <class T>
    T read(const T* from)
    {
        T value;
        chip_->fetch(&value, from, 1);
        return value;
    }

    template <class... Arguments>
    void launch(const char* name, unsigned blocks, unsigned threads, unsigned shared_bytes,
                bool cooperative, Arguments... arguments)
    {
        chip_->launch(name, {{blocks, 1, 1}, {threads, 1}, shared_bytes, cooperative},
                      arguments...);
    }

    void clear(DevicePtr records, unsigned long long record_bytes, uint32_t source, bool begin)
    {
        launch("clear", 2 * chip_->sms(), 512, 0, false, view_, records, record_bytes, journal_,
               found_, seen_, progress_, source, uint32_t{begin ? 1u : 0u});
    }

    void narrow(uint32_t source)
    {
        const unsigned queue = 2 * queue_slots * sizeof(uint32_t);
        const unsigned bits = words_ * static_cast<unsigned>(sizeof(uint32_t));
        const bool near = queue + bits <= most_shared_;
        if (records_ == nullptr) {
            records_ = copy(records_of(graph_));
            if (!near) visited_ = chip_->take<uint32_t>(words_);
        }
        // Records that do not stay in L2 would only push one another out.
        const uint64_t bytes = uint64_t{graph_.vertices()} * sizeof(Record);
        clear(reinterpret_cast<DevicePtr>(records_), bytes <= (uint64_t{32} << 20) ? bytes : 0,
              source, false);
        launch("narrow", 1, block, near ? queue + bits : queue, false, view_,
               static_cast<const Record*>(records_), journal_, visited_, progress_, queue_slots,
               source, hand_over, 0ull + limit_ns);
        launch("spread", 2 * chip_->sms(), 512, 0, false, journal_, progress_, found_, seen_,
               graph_.vertices());
        await();
        if (read(progress_).done == 0) wide();
    }

    // From where the journal ends.
    void wide()
    {
        if (wide_.tally == nullptr) {
            const uint64_t pieces = most_pieces(graph_.vertices(), graph_.arcs());
            wide_ = {{chip_->take<Piece>(pieces), chip_->take<Piece>(pieces)},
                     seen_,
                     {chip_->take<uint32_t>(words_), chip_->take<uint32_t>(words_)},
                     chip_->take<Tally>(3)};
        }
        if (meeting_ == nullptr) meeting_ = chip_->take<Meeting>(1);
        chip_->set(wide_.tally, 0, 3 * sizeof(Tally));
        chip_->set(meeting_, 0, sizeof(Meeting));
        launch("wide", chip_->sms(), block, 0, true, view_, journal_, found_, wide_, progress_,
               meeting_, uint32_t{graph_.undirected ? 1u : 0u}, 0ull + limit_ns);
    }

    void take_frontiers()
    {
        if (frontier_[0] != nullptr) return;
        for (auto& frontier : frontier_) frontier = chip_->take<uint32_t>(graph_.vertices());
        count_ = chip_->take<uint32_t>(1);
        repeated_ = chip_->take<Repeated>(1);
    }

    void captured(uint32_t source)
    {
        take_frontiers();
        if (repeating_ == nullptr) repeat_level();
        chip_->set_word(frontier_[0], source);
        chip_->set(repeated_, 0, sizeof(Repeated));
        chip_->set_word(&repeated_->size, 1);
        clear(0, 0, source, true);
        check(driver().graph_launch(repeating_, chip_->stream()), "cuGraphLaunch");
    }

    // A while node whose body is one kernel, which says itself whether it is run again.
    void repeat_level()
    {
        if (captured_ != nullptr) driver().graph_destroy(captured_); // of an attempt that failed
        captured_ = nullptr;
        check(driver().graph_create(&captured_, 0), "cuGraphCreate");
        GraphCondition condition = 0;
        check(driver().graph_condition_create(&condition, captured_, chip_->context(), 1,
                                              condition_assigned),
              "cuGraphConditionalHandleCreate");
        GraphNodeParams loop;
        loop.type = node_conditional;
        loop.of.conditional = {condition, while_not_zero, 1, nullptr, chip_->context()};
        GraphNode node = nullptr;
        check(driver().graph_add_node(&node, captured_, nullptr, nullptr, 0, &loop),
              "cuGraphAddNode", "while");
        void* arguments[] = {&view_,     &found_,    &frontier_[0], &frontier_[1],
                             &repeated_, &progress_, &condition};
        // Each block's end is an atomic on one word, and each block has to begin: few where the
        // frontiers are small.
        KernelNode kernel;
        kernel.function = chip_->function("repeated");
        kernel.grid[0] = has_hub(graph_) ? 2 * chip_->sms() : 16;
        kernel.block[0] = level_block;
        kernel.params = arguments;
        GraphNodeParams level;
        level.of.kernel = kernel;
        check(
            driver().graph_add_node(&node, *loop.of.conditional.body, nullptr, nullptr, 0, &level),
            "cuGraphAddNode", "repeated");
        check(driver().graph_instantiate(&repeating_, captured_, 0), "cuGraphInstantiateWithFlags");
    }

    void launches(uint32_t source)
    {
        take_frontiers();
        clear(0, 0, source, true);
        chip_->set_word(frontier_[0], source);
        uint32_t size = 1;
        launched_levels_ = 0;
        for (; size != 0; ++launched_levels_) { // ends: every vertex is found once
            check_interrupt();
            chip_->set(count_, 0, sizeof(uint32_t));
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
            const ContextScope scope(chip_->context());
            const size_t n = graph_.vertices();
            if (visits_ == nullptr) {
                visits_ = chip_->take<Visits>(1);
                take_best();
                for (auto*& pile : piles_) pile = chip_->take<uint32_t>(2 * n);
            }
            clear(0, 0, source, true); // the source's bit in `seen` says that it is queued
            chip_->set(near_far_.best, 0xff, sizeof(unsigned long long) * n);
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
            chip_->put(visits_, &search, 1);
            chip_->put(near_far_.best + source, &nearest, 1);
        });
        double seconds = 0;
        {
            Visitors visitors(graph_, denizen::Device::gpu(chip_->info().ordinal), 0,
                              [this]() -> void* { return chip_->function("tasks"); });
            seconds = visitors.run(visits_, source);
        }
        Paths paths;
        off_the_gpu("a search of a graph", [&] {
            const ContextScope scope(chip_->context());
            launch("unpack", 2 * chip_->sms(), 512, 0, false,
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
            near_far_.best = chip_->take<unsigned long long>(graph_.vertices());
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
                *entries = chip_->take<Entry>(room);
            }
            near_counters_ = chip_->take<uint32_t>(6);
            near_far_.room = static_cast<uint32_t>(room);
            near_far_.zero_weights = has_zero_weights(graph_);
            step_ = first_step(graph_);
        }
        clear(0, 0, source, false);
        chip_->set(near_far_.best, 0xff, sizeof(unsigned long long) * graph_.vertices());
        if (method == Method::wide) {
            if (meeting_ == nullptr) meeting_ = chip_->take<Meeting>(1);
            chip_->set(meeting_, 0, sizeof(Meeting));
            near_far_.slots = 0;
            near_far_.counters = near_counters_;
            launch("near_far_wide", chip_->sms(), block, 0, true, view_,
                   static_cast<const WeightedRecord*>(weighted_), near_far_, progress_, meeting_,
                   source, step_, few_near_wide, many_near_wide, 0ull + limit_ns);
        } else {
            near_far_.slots = near_slots;
            launch("near_far", 1, block, 2 * near_slots * sizeof(Entry), false, view_,
                   static_cast<const WeightedRecord*>(weighted_), near_far_, progress_, source,
                   step_, few_near, many_near, 0ull + limit_ns);
        }
        launch("unpack", 2 * chip_->sms(), 512, 0, false,
               static_cast<const unsigned long long*>(near_far_.best), found_, graph_.vertices(),
               progress_);
    }

    // Waits for the kernels; they leave when the wait is interrupted.
    void await()
    {
        const Driver& gpu = driver();
        for (uint32_t looks = 1;; ++looks) { // ends with the kernels, at their deadline at last
            const Result state = gpu.stream_query(chip_->stream());
            if (state != error_not_ready) {
                check(state, "cuStreamQuery", device);
                return;
            }
            if (looks % 64 != 0) continue;
            try {
                check_interrupt();
            } catch (...) {
                tell_late();
                chip_->wait();
                throw;
            }
            std::this_thread::yield();
        }
    }

    // As if the deadline had passed. By a stream of its own: the search's is busy.
    void tell_late()
    {
        const Driver& gpu = driver();
        const uint32_t late = 1;
        Stream aside = nullptr;
        check(gpu.stream_create_with_priority(&aside, stream_non_blocking, 0),
              "cuStreamCreateWithPriority");
        for (uint32_t* const word :
             {&progress_->late, meeting_ != nullptr ? &meeting_->late : nullptr}) {
            if (word == nullptr) continue;
            check(
                gpu.memcpy_htod_async(reinterpret_cast<DevicePtr>(word), &late, sizeof late, aside),
                "cuMemcpyHtoDAsync");
        }
        check(gpu.stream_synchronize(aside), "cuStreamSynchronize", device);
        gpu.stream_destroy(aside);
    }

    Paths finish(Method method)
    {
        await();
        const Progress progress = read(progress_);
        check_progress(progress);
        Paths paths;
        const size_t n = graph_.vertices();
        paths.distances.resize(n);
        paths.parents.resize(n);
        for (const auto& [to, from] :
             {std::pair{&paths.distances, found_.distance}, {&paths.parents, found_.parent}}) {
            chip_->fetch(to->data(), from, n);
        }
        paths.reached = static_cast<uint32_t>(std::count_if(
            paths.distances.begin(), paths.distances.end(), [](int32_t d) { return d >= 0; }));
        paths.levels = method == Method::launches ? launched_levels_ : progress.levels;
        paths.rounds = progress.rounds;
        paths.seconds = static_cast<double>(progress.ended - progress.began) * 1e-9;
        paths.method = method;
        return paths;
    }

    const Csr& graph_;
    uint32_t words_; // of a bit per vertex
    std::unique_ptr<Chip> chip_;
    unsigned most_shared_ = 0;

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
