// SPDX-License-Identifier: Apache-2.0
// The wave equation as tutorials write it: one sweep of the seven-point stencil, in place over the
// step before, walls that are zeros at the sides of the grid, no obstacles, sources or losses; a
// graph of sweeps, captured once and launched again and again.
#pragma once

#include "cuda.cuh"

#include <denizen/base/clock.hpp>

#include <cmath>
#include <optional>
#include <vector>

namespace denizen::bench {

namespace kernels {

constexpr uint32_t sweep_width = 64, sweep_height = 4, sweep_depth = 32;

// A thread marches along z and keeps the three cells of its column in registers. `field` has the
// step before and gets the next.
static __global__ void plain_sweep(float* field, const float* now, uint32_t cells, float courant2)
{
    const uint32_t x = blockIdx.x * sweep_width + threadIdx.x;
    const uint32_t y = blockIdx.y * sweep_height + threadIdx.y;
    const uint32_t first = blockIdx.z * sweep_depth;
    if (x == 0 || y == 0 || x + 1 >= cells || y + 1 >= cells) return;
    const size_t plane = size_t{cells} * cells;
    const uint32_t low = first == 0 ? 1 : first;
    const uint32_t high = min(first + sweep_depth, cells - 1);
    size_t i = low * plane + size_t{y} * cells + x;
    float below = now[i - plane];
    float here = now[i];
    for (uint32_t z = low; z < high; ++z, i += plane) {
        const float above = now[i + plane];
        const float around =
            below + above + now[i - 1] + now[i + 1] + now[i - cells] + now[i + cells];
        field[i] = 2.0f * here - field[i] + courant2 * (around - 6.0f * here);
        below = here;
        here = above;
    }
}

} // namespace kernels

class PlainWave {
public:
    // A room of `cells` a side; a graph has 20 steps.
    explicit PlainWave(uint32_t cells)
        : cells_(cells), count_(size_t{cells} * cells * cells), before_(count_), now_(count_)
    {
        const std::vector<float> begin = beginning();
        for (const auto* field : {&before_, &now_})
            check_cuda(cudaMemcpy(field->get(), begin.data(), count_ * sizeof(float),
                                  cudaMemcpyHostToDevice),
                       "cudaMemcpy");
        preload(kernels::plain_sweep);
        graph_.emplace(stream_, [&](cudaStream_t stream) {
            for (uint32_t i = 0; i < steps_of_graph / 2; ++i) two_steps(stream);
        });
    }

    // Mcells/s of at least `steps` steps.
    double rate(uint32_t steps)
    {
        const uint32_t graphs = (steps + steps_of_graph - 1) / steps_of_graph;
        graph_->launch(stream_);
        stream_.synchronize();
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; i < graphs; ++i) graph_->launch(stream_);
        stream_.synchronize();
        const auto updates = static_cast<double>(count_) * graphs * steps_of_graph;
        return updates / static_cast<double>(now_ns() - begin) * 1e3;
    }

    // Whether two steps from the beginning are those of a plain loop; before any other.
    bool right()
    {
        two_steps(stream_);
        stream_.synchronize();
        std::vector<float> found(count_), before = beginning(), now = before;
        check_cuda(
            cudaMemcpy(found.data(), now_.get(), count_ * sizeof(float), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
        step(before, now);
        step(now, before); // now has the second
        for (size_t i = 0; i < count_; ++i)
            if (std::abs(found[i] - now[i]) > 1e-5f) return false;
        return true;
    }

private:
    static constexpr uint32_t steps_of_graph = 20;
    static constexpr float courant2 = 0.25f; // below 1/3: stable

    void two_steps(cudaStream_t stream) const
    {
        sweep(stream, before_.get(), now_.get());
        sweep(stream, now_.get(), before_.get());
    }

    void sweep(cudaStream_t stream, float* field, const float* now) const
    {
        using namespace kernels;
        const auto parts = [&](uint32_t size) { return (cells_ + size - 1) / size; };
        plain_sweep<<<dim3(parts(sweep_width), parts(sweep_height), parts(sweep_depth)),
                      dim3(sweep_width, sweep_height), 0, stream>>>(field, now, cells_, courant2);
        check_cuda(cudaGetLastError(), "plain_sweep");
    }

    std::vector<float> beginning() const
    {
        std::vector<float> field(count_);
        for (uint32_t z = 1; z + 1 < cells_; ++z)
            for (uint32_t y = 1; y + 1 < cells_; ++y)
                for (uint32_t x = 1; x + 1 < cells_; ++x)
                    field[(size_t{z} * cells_ + y) * cells_ + x] =
                        static_cast<float>((13 * x + 7 * y + 3 * z) % 17) * 0.01f;
        return field;
    }

    void step(std::vector<float>& field, const std::vector<float>& now) const
    {
        const size_t plane = size_t{cells_} * cells_;
        for (uint32_t z = 1; z + 1 < cells_; ++z)
            for (uint32_t y = 1; y + 1 < cells_; ++y)
                for (uint32_t x = 1; x + 1 < cells_; ++x) {
                    const size_t i = z * plane + size_t{y} * cells_ + x;
                    const float around = now[i - plane] + now[i + plane] + now[i - 1] + now[i + 1] +
                                         now[i - cells_] + now[i + cells_];
                    field[i] = 2.0f * now[i] - field[i] + courant2 * (around - 6.0f * now[i]);
                }
    }

    uint32_t cells_;
    size_t count_;
    OwnStream stream_;
    DeviceBuffer<float> before_, now_;
    std::optional<Graph> graph_;
};

} // namespace denizen::bench
