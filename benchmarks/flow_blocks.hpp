// SPDX-License-Identifier: Apache-2.0
// Blocks, kernels and graphs that the programs about flow share.
#pragma once

#include "common.hpp"

#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <thread>

namespace denizen::bench {

// y = a y + b, one multiply-add per sample, in vectors: qsdr's saxpy. The same code for the block
// and for the loop without a runtime. Its loop begins on a cache line: a loop of a few instructions
// that lies over the border of two takes twice as long on a Zen 3, and where it lies would depend
// on the program.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
__attribute__((optimize("align-loops=64")))
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
__attribute__((noinline, target_clones("default", "avx2,fma", "avx512f")))
#else
__attribute__((noinline))
#endif
inline void saxpy_kernel(float* y, size_t count, float a, float b)
{
    for (size_t i = 0; i < count; ++i) y[i] = a * y[i] + b;
}

// The same sample by sample, about one a cycle: what the kernels of the machine did that qsdr was
// measured on. In vectors a quantum of 16 KiB takes a tenth of that.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
__attribute__((noinline, optimize("align-loops=64", "no-tree-vectorize", "no-unroll-loops")))
#else
__attribute__((noinline))
#endif
inline void saxpy_by_sample(float* y, size_t count, float a, float b)
{
#if defined(__clang__)
#pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
#endif
    for (size_t i = 0; i < count; ++i) y[i] = a * y[i] + b;
}

using SaxpyKernel = void (*)(float*, size_t, float, float);

inline constexpr float by = 0.5f; // with plus = 1 every sample tends to 2 and stays finite
inline constexpr float plus = 1.0f;
inline constexpr float once = 1.0f; // with plus = 1 a sample counts the kernels that worked on it,
inline constexpr uint64_t most_counted = 1u << 24; // up to here: more is not told apart

// On a cache line's boundary, as quanta are.
struct FreeLines {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Lines = std::unique_ptr<float[], FreeLines>;
inline Lines lines_of(size_t count)
{
    auto* p = static_cast<float*>(::operator new[](count * sizeof(float), std::align_val_t{64}));
    std::fill_n(p, count, plus);
    return Lines(p);
}

struct SaxpyBlock : flow::Block {
    flow::InPlace<float> samples{*this, "samples"};
    // `own` > 0: works on a buffer of its own of so many samples, and the quantum's samples stay
    // where they are: qsdr's "fake messages".
    explicit SaxpyBlock(std::string name, size_t own = 0, SaxpyKernel kernel = saxpy_kernel,
                        float times = by)
        : Block(std::move(name)), own_(own != 0 ? lines_of(own) : nullptr), size_(own),
          kernel_(kernel), times_(times)
    {
    }
    uint64_t done = 0; // samples
    std::span<const float> own() const { return {own_.get(), size_}; }

private:
    void work() override
    {
        const auto window = samples.samples();
        kernel_(own_ ? own_.get() : window.data(), window.size(), times_, plus);
        done += window.size();
        samples.pass();
    }
    Lines own_;
    size_t size_;
    SaxpyKernel kernel_;
    float times_;
};

// Sends whole quanta as they are, the first `fresh` of them as zeros, until it is stopped or `most`
// samples have left; with `data`, of whole quanta, those are sent again and again.
struct Empties : flow::Block {
    flow::Source<float> out{*this, "out"};
    Empties(std::string name, uint64_t most = ~0ull, std::span<const float> data = {},
            uint32_t fresh = 0)
        : Block(std::move(name)), most_(most), data_(data), fresh_(fresh)
    {
    }

private:
    void work() override
    {
        const auto room = out.room();
        if (most_ < room.size()) {
            finish();
            return;
        }
        most_ -= room.size();
        if (!data_.empty()) {
            std::memcpy(room.data(), data_.data() + at_, room.size_bytes());
            at_ = (at_ + room.size()) % data_.size();
        } else if (fresh_ != 0) {
            std::ranges::fill(room, 0.0f);
            --fresh_;
        }
        out.produce(room.size());
    }
    uint64_t most_;
    std::span<const float> data_;
    size_t at_ = 0;
    uint32_t fresh_;
};

// Reads nothing, or sums all, a thousand at a time; tells when `untimed` and when the last of
// `total` samples had come, so that a rate is that of the graph at work, without its start and end.
struct TimingSink : flow::Block {
    flow::In<float> in{*this, "in"};
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
    uint64_t first_samples = 0;
    double sum = 0;
    std::span<const float> last; // quantum, which nobody writes any more
    TimingSink(std::string name, uint64_t untimed, uint64_t total, bool sums)
        : Block(std::move(name)), untimed_(untimed), total_(total), sums_(sums)
    {
    }

private:
    void work() override
    {
        const size_t count = in.view().size();
        const uint64_t come = in.position() + count;
        if (first_ns == 0 && come >= untimed_) {
            first_ns = now_ns();
            first_samples = come;
        }
        constexpr size_t together = 1024;
        for (size_t i = 0; sums_ && i < count; i += together) {
            float part = 0;
            for (const float x : in.view().subspan(i, std::min(together, count - i))) part += x;
            sum += part;
        }
        if (come == total_) last = in.view();
        in.consume(count);
        if (come == total_) last_ns = now_ns();
    }
    uint64_t untimed_;
    uint64_t total_;
    bool sums_;
};

// Those of this process, whatever its main thread is pinned to by now.
inline const std::vector<int> all_cores = allowed_cores();

// The core of a graph's thread number i, -1 where there are not so many.
inline int core_of(size_t i) { return i < all_cores.size() ? all_cores[i] : -1; }

// How the blocks of a graph are run.
enum class Kind { futex, coroutine, stealing };
inline const char* to_string(Kind kind)
{
    constexpr const char* names[] = {"futex", "coroutine", "stealing"};
    return names[static_cast<int>(kind)];
}

struct ChainResult {
    double msps = 0; // million samples per second that left the last block
    bool right = false;
};

// The mean of `data` after so many of the kernels.
inline double mean_after(std::span<const float> data, size_t kernels)
{
    double sum = 0;
    for (float x : data) {
        for (size_t k = 0; k < kernels; ++k) x = by * x + plus;
        sum += x;
    }
    return sum / static_cast<double>(data.size());
}

// Whether so many kernels worked on each of the samples.
inline bool counted(std::span<const float> samples, uint64_t kernels)
{
    const auto expected = static_cast<float>(std::min(kernels, most_counted));
    return std::ranges::all_of(samples, [=](float x) { return x == expected; });
}

// `kernels` saxpy blocks on `cores` cores: each core has its share of them, in their order, and the
// first and the last core the source and the sink as well, so the quanta go round all cores.
// `fake`: see SaxpyBlock. Stops after `samples`; timed from when each quantum has come once.
// `data`: what the source sends and the sink sums, else neither touches a sample, and those of the
// last quantum, or of the blocks' own, have counted the kernels that worked on them. All is
// checked.
inline ChainResult run_chain(Kind kind, size_t cores, size_t kernels, uint32_t quanta,
                             size_t quantum, uint64_t samples, bool fake,
                             SaxpyKernel kernel = saxpy_kernel, std::span<const float> data = {})
{
    const size_t unit = data.empty() ? quantum : data.size();
    const uint64_t total = samples / unit * unit;
    flow::Flowgraph graph;
    auto& source = graph.add<Empties>("source", total, data, quanta);
    auto& sink = graph.add<TimingSink>("sink", uint64_t{quanta} * quantum, total, !data.empty());
    std::vector<SaxpyBlock*> blocks;
    for (size_t k = 0; k < kernels; ++k) {
        blocks.push_back(&graph.add<SaxpyBlock>("saxpy " + std::to_string(k), fake ? quantum : 0,
                                                kernel, data.empty() ? once : by));
    }
    auto& circuit = graph.circuit("samples", source.out, quanta, quantum);
    graph.connect(source.out, blocks[0]->samples);
    for (size_t k = 1; k < kernels; ++k) {
        graph.connect(blocks[k - 1]->samples, blocks[k]->samples);
    }
    graph.connect(blocks.back()->samples, sink.in);

    std::vector<std::vector<std::reference_wrapper<flow::Block>>> shares(cores);
    shares[0].push_back(source);
    for (size_t k = 0; k < kernels; ++k) shares[k * cores / kernels].push_back(*blocks[k]);
    shares[cores - 1].push_back(sink);
    flow::Executors executors;
    if (kind == Kind::stealing) {
        flow::Pool pool{graph.blocks(), {}};
        for (size_t i = 0; i < cores; ++i) pool.cores.push_back(core_of(i));
        executors.pools.push_back(pool);
    } else {
        for (size_t i = 0; i < cores; ++i) {
            if (kind == Kind::futex) {
                executors.sequences.push_back({shares[i], core_of(i)});
            } else {
                executors.pools.push_back({shares[i], {core_of(i)}});
            }
        }
    }
    graph.start(executors);
    graph.wait(std::chrono::seconds(60));
    bool right = circuit.at_home() == quanta && sink.in.position() == total;
    for (const SaxpyBlock* block : blocks) right &= block->done == total;
    if (data.empty()) {
        // Quanta come back in the order they left: the last one's memory has come so many times.
        const uint64_t sent = total / quantum;
        const uint64_t passes = (sent - 1) / quanta + 1;
        right &= sink.last.size() == quantum && counted(sink.last, fake ? 0 : passes * kernels);
        for (const SaxpyBlock* block : blocks) right &= counted(block->own(), 1 + sent);
    } else {
        const double expected = mean_after(data, kernels);
        right &= std::fabs(sink.sum / static_cast<double>(total) - expected) < 1e-4 * expected;
    }
    const auto ns = static_cast<double>(sink.last_ns - sink.first_ns);
    return {ns > 0 ? static_cast<double>(total - sink.first_samples) / ns * 1e3 : 0, right};
}

// The kernel alone: one core, one buffer after the other.
inline double kernel_alone(size_t buffers, size_t quantum, uint64_t samples,
                           SaxpyKernel kernel = saxpy_kernel)
{
    std::vector<Lines> memory;
    for (size_t i = 0; i < buffers; ++i) memory.push_back(lines_of(quantum));
    const uint64_t turns = samples / quantum;
    const uint64_t begin = now_ns();
    for (uint64_t t = 0; t < turns; ++t) kernel(memory[t % buffers].get(), quantum, by, plus);
    return static_cast<double>(turns * quantum) / static_cast<double>(now_ns() - begin) * 1e3;
}

} // namespace denizen::bench
