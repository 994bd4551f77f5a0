// SPDX-License-Identifier: Apache-2.0
// The searches on threads of the host: serial ones and narrow() by one, wide() by all, near_far()
// by either.
#include "engine.hpp"
#include "serial.hpp"
#include <denizen/base/on_threads.hpp>

#include <denizen/graph/detail/narrow.hpp>
#include <denizen/graph/detail/near_far.hpp>
#include <denizen/graph/detail/wide.hpp>

#include <functional>
#include <thread>

namespace denizen::graph {
namespace {

class CpuEngine final : public Engine {
public:
    CpuEngine(const Csr& graph, uint32_t threads)
        : graph_(graph), view_{graph.vertices(), graph.arcs(), graph.offsets.data(),
                               graph.neighbours.data(), graph.weights.data()},
          threads_(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency())),
          words_((size_t{graph.vertices()} + 31) / 32)
    {
        device = "CPU, " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
    }

    Paths bfs(uint32_t source, Method method) override
    {
        if (method == Method::serial) return alone(source, false);
        if (method == Method::tasks) return visit(source);
        Paths paths = empty();
        const Found found{paths.distances.data(), paths.parents.data()};
        seen_.assign(words_, 0);
        resize_interruptibly(steps_, journal_places(graph_));
        resize_interruptibly(start_, size_t{graph_.vertices()} + 2);
        if (method == Method::narrow && records_.empty()) records_ = records_of(graph_);
        for (auto& front : front_) front.resize(words_);
        for (auto& pieces : pieces_) {
            resize_interruptibly(pieces, most_pieces(graph_.vertices(), graph_.arcs()));
        }
        visited_.resize(words_);
        const Journal journal{steps_.data(), start_.data()};
        Progress progress{1, 1, 0, 0, 0, 0, now_ns(), 0};
        Block alone;
        const bool begin = method == Method::wide;
        clear(alone, found, seen_.data(), graph_.vertices(), begin ? source : no_vertex);
        if (begin) {
            steps_[0] = {source, source};
            start_[0] = 0;
            start_[1] = 1;
        } else {
            search_alone(alone, journal, progress, source);
            spread(alone, journal, progress, found, seen_.data(), graph_.vertices());
        }
        if (progress.done == 0 && progress.late == 0) {
            search_together(journal, found, progress);
        }
        return finish(std::move(paths), progress, method);
    }

    Paths shortest_paths(uint32_t source, Method method) override
    {
        if (method == Method::serial) return alone(source, true);
        const bool together = method == Method::wide;
        Paths paths = empty();
        if (weighted_.empty()) weighted_ = weighted_records_of(graph_);
        const size_t room = size_t{graph_.vertices()} + graph_.arcs();
        assign_interruptibly(best_, graph_.vertices(), ~0ull);
        for (auto& entries : entries_) resize_interruptibly(entries, room);
        std::vector<Entry> queue(size_t{2} * near_slots);
        uint32_t counters[6];
        const NearFarMemory memory{best_.data(),
                                   queue.data(),
                                   together ? 0 : near_slots,
                                   {entries_[0].data(), entries_[1].data()},
                                   {entries_[2].data(), entries_[3].data()},
                                   static_cast<uint32_t>(std::min<size_t>(room, ~0u)),
                                   has_zero_weights(graph_),
                                   counters};
        Progress progress{0, 0, 0, 0, 0, 0, now_ns(), 0};
        const uint64_t deadline = progress.began + limit_ns;
        // One thread has no use for many at a time: it expands less twice.
        const uint32_t few = together ? 16 * threads_ : 1;
        if (together) {
            each(
                [&](Grid& grid) {
                    near_far<detail::OfAll>(grid, view_, weighted_.data(), memory, &progress,
                                            source, first_step(graph_), few, 16 * few, deadline);
                },
                deadline);
        } else {
            Block block;
            near_far<detail::OfBlock>(block, view_, weighted_.data(), memory, &progress, source,
                                      first_step(graph_), few, 16 * few, deadline);
        }
        unpack(Block{}, best_.data(), {paths.distances.data(), paths.parents.data()},
               graph_.vertices(), &progress);
        return finish(std::move(paths), progress, method);
    }

private:
    Paths alone(uint32_t source, bool weighted)
    {
        Paths paths = empty();
        Progress progress{0, 0, 1, 0, 0, 0, now_ns(), 0};
        int32_t* const distances = paths.distances.data();
        int32_t* const parents = paths.parents.data();
        if (weighted) {
            const bool fits = serial_shortest_paths(graph_, source, distances, parents);
            progress.overflow = fits ? 0 : 1;
        } else {
            progress.levels =
                serial_bfs(graph_, source, distances, parents, serial_queue_, serial_seen_);
        }
        return finish(std::move(paths), progress, Method::serial);
    }

    Paths visit(uint32_t source)
    {
        if (!visitors_) {
            visitors_ = std::make_unique<Visitors>(graph_, Device::cpu(), threads_, nullptr);
            for (auto& pile : piles_) resize_interruptibly(pile, size_t{2} * graph_.vertices());
        }
        Paths paths = empty();
        Progress progress{0, 0, 1, 0, 0, 0, now_ns(), 0};
        assign_interruptibly(best_, graph_.vertices(), ~0ull);
        best_[source] = source;
        seen_.assign(words_, 0);
        seen_[source / 32] = 1u << source % 32;
        Visits search{view_,
                      best_.data(),
                      seen_.data(),
                      {piles_[0].data(), piles_[1].data()},
                      visit_window,
                      0,
                      visit_window,
                      1,
                      1,
                      0,
                      0};
        visitors_->run(&search, source);
        unpack(Block{}, best_.data(), {paths.distances.data(), paths.parents.data()},
               graph_.vertices(), &progress);
        progress.levels = levels_of(paths);
        progress.rounds = search.windows;
        return finish(std::move(paths), progress, Method::tasks);
    }

    // Threads of the host that meet at a barrier.
    void each(const std::function<void(Grid&)>& member, uint64_t deadline)
    {
        Meeting meeting{};
        const auto run = [&](uint32_t id) {
            Grid grid{&meeting, id, threads_, deadline};
            member(grid);
        };
        on_threads(threads_, run);
    }

    Paths empty() const
    {
        Paths paths;
        resize_interruptibly(paths.distances, graph_.vertices());
        resize_interruptibly(paths.parents, graph_.vertices());
        return paths;
    }

    static Paths finish(Paths paths, const Progress& progress, Method method)
    {
        paths.seconds = static_cast<double>(now_ns() - progress.began) * 1e-9;
        denizen::detail::throw_interrupt();
        check_progress(progress);
        paths.reached = static_cast<uint32_t>(std::count_if(
            paths.distances.begin(), paths.distances.end(), [](int32_t d) { return d >= 0; }));
        paths.levels = progress.levels;
        paths.rounds = progress.rounds;
        paths.method = method;
        return paths;
    }

    void search_alone(Block& alone, const Journal& journal, Progress& progress, uint32_t source)
    {
        std::vector<uint32_t> queue(size_t{2} * queue_slots);
        uint32_t counters[4];
        const NarrowMemory memory{visited_.data(), queue.data(), queue_slots, counters};
        const uint64_t deadline = progress.began + limit_ns;
        narrow<true>(alone, view_, records_.data(), journal, memory, &progress, source, hand_over,
                     deadline);
    }

    void search_together(const Journal& journal, const Found& found, Progress& progress)
    {
        Tally tally[3] = {};
        const WideMemory memory{{pieces_[0].data(), pieces_[1].data()},
                                seen_.data(),
                                {front_[0].data(), front_[1].data()},
                                tally};
        each(
            [&](Grid& grid) {
                wide(grid, view_, journal, found, memory, &progress, graph_.undirected);
            },
            progress.began + limit_ns);
    }

    const Csr& graph_;
    View view_;
    uint32_t threads_;
    size_t words_; // of a bit per vertex
    // Made at first use, kept for the next.
    std::vector<Record> records_;
    std::vector<WeightedRecord> weighted_;
    std::vector<uint32_t> seen_, visited_, start_, front_[2], serial_queue_;
    std::vector<uint64_t> serial_seen_;
    std::vector<Step> steps_;
    std::vector<Piece> pieces_[2];
    std::vector<unsigned long long> best_;
    std::vector<Entry> entries_[4];
    std::vector<uint32_t> piles_[2];
    std::unique_ptr<Visitors> visitors_;
};

} // namespace

std::unique_ptr<Engine> make_cpu_engine(const Csr& graph, uint32_t threads)
{
    return std::make_unique<CpuEngine>(graph, threads);
}

} // namespace denizen::graph
