// SPDX-License-Identifier: Apache-2.0
// Steps by launches, which the host leads: one by one, in a captured graph, or several in a pass;
// on one slab or on several, whose GPUs meet after each launch.
#pragma once

#include "gpu_slab.hpp"

#include <denizen/group/group.hpp>

namespace denizen::wave {

constexpr uint32_t graph_steps = 512;          // of a captured graph at most; even
constexpr uint32_t steered_steps = 16;         // at most, between two looks into the mailbox
constexpr uint64_t steered_cells = 30'000'000; // that are made between them: some 0.1 ms

template <class T>
class GpuLaunches {
public:
    using Slabs = std::vector<std::unique_ptr<GpuSlab<T>>>;

    // `group`: a rank for each slab; empty for one.
    GpuLaunches(Slabs& slabs, std::vector<Group>& group, uint64_t cells)
        : slabs_(slabs), group_(group), cells_(cells)
    {
    }

    // Steps done. `serve`: between launches, when all GPUs are idle; whether to go on.
    uint32_t run(uint32_t steps, Method method, const std::function<bool(uint32_t)>& serve,
                 double& seconds)
    {
        const uint32_t depth = method == Method::pass2 ? 2 : method == Method::pass4 ? 4 : 1;
        uint32_t most = graph_steps;
        if (serve) {
            const uint64_t few = steered_cells / cells_;
            most = static_cast<uint32_t>(std::clamp<uint64_t>(few, 2, steered_steps)) / 2 * 2;
        }
        most = std::max(most, depth);
        const uint32_t batch = std::max(2u, std::min(most, steps / 2 * 2));
        if (depth > 1) {
            for (auto& slab : slabs_) within(*slab, [&] { slab->make_spare(); });
        }
        Graphs graphs;
        if (method == Method::graph && steps >= batch) graphs = capture(batch, steps);
        uint32_t step = 0;  // even whenever a graph begins
        uint32_t clock = 0; // steps that the clock has been moved on
        const uint64_t began = now_ns();
        while (step < steps) { // ends with the last step or by a command
            if (serve) {
                wait();
                if (!serve(step)) break;
            }
            if (method == Method::graph && steps - step >= batch) {
                if (stale_) graphs = capture(batch, steps);
                for (auto& graph : graphs) graph->launch();
                step += batch;
                clock += batch;
                continue;
            }
            const uint32_t end = step + std::min(batch, steps - step);
            while (step < end) { // ends: at least one step each time
                const uint32_t now = steps - step < depth ? 1 : depth;
                each(now, step - clock, steps);
                step += now;
            }
        }
        wait();
        for (Group& rank : group_) rank.check();
        seconds = static_cast<double>(now_ns() - began) * 1e-9;
        return step;
    }

    // serve() has changed what is part of a captured graph.
    void renew() { stale_ = true; }

    void wait() const
    {
        for (const auto& slab : slabs_) within(*slab, [&] { slab->chip().wait(); });
    }

private:
    // A captured graph of some steps of one slab, an even number, which moves the clock on.
    class Graph {
    public:
        Graph(const gpu::Chip& chip, const std::function<void()>& steps) : chip_(chip)
        {
            const gpu::Driver& driver = gpu::driver();
            gpu::check(driver.stream_begin_capture(chip.stream(), gpu::capture_relaxed),
                       "cuStreamBeginCapture");
            steps();
            gpu::check(driver.stream_end_capture(chip.stream(), &graph_), "cuStreamEndCapture");
            gpu::check(driver.graph_instantiate(&exec_, graph_, 0), "cuGraphInstantiateWithFlags");
        }
        ~Graph()
        {
            if (exec_ != nullptr) gpu::driver().graph_exec_destroy(exec_);
            if (graph_ != nullptr) gpu::driver().graph_destroy(graph_);
        }
        Graph(const Graph&) = delete;
        Graph& operator=(const Graph&) = delete;

        void launch()
        {
            const gpu::ContextScope scope(chip_.context());
            gpu::check(gpu::driver().graph_launch(exec_, chip_.stream()), "cuGraphLaunch");
        }

    private:
        const gpu::Chip& chip_;
        gpu::Graph graph_ = nullptr;
        gpu::GraphExec exec_ = nullptr;
    };
    using Graphs = std::vector<std::unique_ptr<Graph>>;

    template <class Use>
    static void within(const GpuSlab<T>& slab, Use use)
    {
        const gpu::ContextScope scope(slab.chip().context());
        use();
    }

    // On every slab; then they meet, and their fields change places.
    void each(uint32_t depth, uint32_t after, uint32_t steps)
    {
        for (size_t r = 0; r < slabs_.size(); ++r) {
            GpuSlab<T>& slab = *slabs_[r];
            within(slab, [&] {
                if (depth == 1) slab.sweep(after, steps, 0);
                if (depth == 2) slab.template pass<2>(after, steps);
                if (depth == 4) slab.template pass<4>(after, steps);
                if (!group_.empty()) group_[r].barrier(slab.chip().stream());
            });
        }
        for (auto& slab : slabs_) depth == 1 ? slab->swap() : slab->swap_spare();
    }

    Graphs capture(uint32_t count, uint32_t steps)
    {
        Graphs graphs;
        for (size_t r = 0; r < slabs_.size(); ++r) {
            GpuSlab<T>& slab = *slabs_[r];
            within(slab, [&] {
                graphs.push_back(std::make_unique<Graph>(slab.chip(), [&] {
                    for (uint32_t i = 0; i < count; ++i) {
                        slab.sweep(i, steps, i % 2);
                        if (!group_.empty()) group_[r].barrier(slab.chip().stream());
                    }
                    slab.tick(count);
                }));
            });
        }
        stale_ = false;
        return graphs;
    }

    Slabs& slabs_;
    std::vector<Group>& group_;
    uint64_t cells_;
    bool stale_ = false; // a captured graph is no longer what is to be done
};

} // namespace denizen::wave
