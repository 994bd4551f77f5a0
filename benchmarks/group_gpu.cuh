// SPDX-License-Identifier: Apache-2.0
// The arms of bench_group on GPUs. A thread for each rank; times of kernels are those between two
// events of the rank's stream, those of calls inside a kernel by the device's clock, from when all
// ranks are there: who is launched first does not wait in what is measured.
#pragma once

#include "group_arms.hpp"
#include "rivals/cuda.cuh"
#include "rivals/nccl.hpp"

#include <denizen/group/persistent.hpp>

#include <map>
#include <memory>

namespace denizen::bench {

// Of one rank, on its device.
struct Watch {
    unsigned long long wrong;
    unsigned long long begin; // of the first team, ns
    unsigned long long end;   // of the last one
    uint32_t failed;
};

// What a program that stays on the device does between its own steps: no launch for each sum.
static __global__ void __launch_bounds__(512)
    sums_inside(const __grid_constant__ GroupRef group, const float* in, float* out, uint64_t count,
                group::Algorithm algorithm, uint32_t rounds, Watch* watch)
{
    using namespace group;
    Channel<> channel(group, blockIdx.x);
    bool good = barrier(channel, gridDim.x);
    if (threadIdx.x == 0) atomicMin(&watch->begin, now_ns());
    const AllReduce<float> sum(channel, gridDim.x, in, out, count, Op::sum, algorithm);
    for (uint32_t i = 0; good && i < rounds; ++i) good = sum(channel);
    if (threadIdx.x == 0) {
        atomicMax(&watch->end, now_ns());
        if (!good) watch->failed = 1;
    }
    channel.close();
}

static __global__ void fill_ranks(float* x, uint64_t count, uint32_t rank)
{
    const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        x[i] = static_cast<float>(i % 1000) * static_cast<float>(rank + 1);
    }
}

// Elements of the result of `kind` that are not what fill_ranks() makes of them; broadcast: rank
// 0's.
static __global__ void count_wrong(const float* x, group::Kind kind, uint64_t count, uint32_t rank,
                                   uint32_t ranks, unsigned long long* wrong)
{
    using namespace group;
    const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
    const uint64_t elements = count * (gathers(kind) ? ranks : 1);
    const float all = static_cast<float>(ranks * (ranks + 1) / 2);
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) {
        const uint64_t place = i % count + (scatters(kind) ? rank * count : 0);
        const float factor = reduces(kind)   ? all
                             : gathers(kind) ? static_cast<float>(i / count + 1)
                                             : 1.0f;
        if (x[i] != static_cast<float>(place % 1000) * factor) atomicAdd(wrong, 1ull);
    }
}

// One rank's stream, events and memory.
struct GpuRank {
    int device = 0;
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    float* in = nullptr; // symmetric
    float* out = nullptr;
    Watch* watch = nullptr;

    GpuRank(int ordinal, Group& group, uint64_t bytes) : device(ordinal)
    {
        use();
        check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
        check_cuda(cudaEventCreate(&end), "cudaEventCreate");
        in = static_cast<float*>(group.allocate(bytes));
        out = static_cast<float*>(group.allocate(bytes));
        check_cuda(cudaMalloc(&watch, sizeof(Watch)), "cudaMalloc");
        check_cuda(cudaMemset(watch, 0, sizeof(Watch)), "cudaMemset");
        preload(sums_inside); // not while another GPU's kernel waits for this one's
        preload(fill_ranks);
        preload(count_wrong);
    }
    ~GpuRank()
    {
        cudaSetDevice(device);
        cudaFree(watch);
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
        cudaStreamDestroy(stream);
    }
    GpuRank(const GpuRank&) = delete;
    GpuRank& operator=(const GpuRank&) = delete;

    void use() const { check_cuda(cudaSetDevice(device), "cudaSetDevice"); }
    // Seconds of a kernel that notes them in `watch`.
    template <class Work>
    double watched(Work work)
    {
        use();
        const unsigned long long times[2] = {~0ull, 0};
        check_cuda(
            cudaMemcpyAsync(&watch->begin, times, sizeof times, cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
        work();
        Watch seen{};
        check_cuda(cudaMemcpyAsync(&seen, watch, sizeof seen, cudaMemcpyDeviceToHost, stream),
                   "cudaMemcpyAsync");
        check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        return static_cast<double>(seen.end - seen.begin) * 1e-9;
    }
    // Seconds of what `work` puts on the stream.
    template <class Work>
    double timed(Work work)
    {
        use();
        check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
        work();
        check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
        check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        float ms = 0;
        check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        return ms * 1e-3;
    }
};

// A graph of some calls, captured once.
class Captured {
public:
    template <class Enqueue>
    Captured(const GpuRank& rank, uint32_t calls, Enqueue enqueue)
    {
        rank.use();
        cudaGraph_t graph = nullptr;
        check_cuda(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture");
        for (uint32_t i = 0; i < calls; ++i) enqueue();
        check_cuda(cudaStreamEndCapture(rank.stream, &graph), "cudaStreamEndCapture");
        check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
        cudaGraphDestroy(graph);
    }
    ~Captured() { cudaGraphExecDestroy(graph_); }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    void launch(cudaStream_t stream) const
    {
        check_cuda(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch");
    }

private:
    cudaGraphExec_t graph_ = nullptr;
};

constexpr const char* in_windows = "NCCL in a graph, windows";

class GpuBench {
public:
    GpuBench(const Arguments& arguments, uint32_t ranks, uint64_t most)
        : arguments_(arguments), ranks_(ranks), most_(most), nccl_(static_cast<int>(ranks))
    {
        GroupOptions options;
        options.heap_bytes = 2 * (most + 256);
        groups_ = Group::local(ranks, Device::gpu(), options);
        for (uint32_t r = 0; r < ranks; ++r) {
            gpus_.push_back(std::make_unique<GpuRank>(static_cast<int>(r), groups_[r], most));
            fill_ranks<<<256, 512, 0, gpus_[r]->stream>>>(gpus_[r]->in, most / 4, r);
            check_cuda(cudaStreamSynchronize(gpus_[r]->stream), "fill_ranks");
        }
        inputs_ = nccl_.window(most);
        outputs_ = nccl_.window(most);
        if (inputs_.empty())
            std::fprintf(stderr, "no windows in NCCL %s\n", nccl_version().c_str());
        for (size_t r = 0; r < inputs_.size(); ++r) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            check_cuda(
                cudaMemcpyAsync(inputs_[r], gpu.in, most, cudaMemcpyDeviceToDevice, gpu.stream),
                "cudaMemcpyAsync");
            check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
        }
    }

    std::string nccl_version() const { return nccl_.version(); }

    // GB/s of copies by the driver from GPU 1 to GPU 0: what bandwidths are compared with.
    void peer_copy()
    {
        Json params;
        params.add("bytes", most_).add("ranks", 2);
        Case result("peer copy", params, "GB/s");
        Samples samples(16);
        GpuRank& to = *gpus_[0];
        for (int i = 0; i < 8; ++i) {
            const double seconds = to.timed([&] {
                check_cuda(cudaMemcpyPeerAsync(to.out, 0, gpus_[1]->in, 1, most_, to.stream),
                           "cudaMemcpyPeerAsync");
            });
            if (i > 0) samples.add(static_cast<double>(most_) / seconds * 1e-9);
        }
        std::vector<float> some(1000);
        check_cuda(cudaMemcpy(some.data(), to.out, 4000, cudaMemcpyDeviceToHost), "cudaMemcpy");
        result.verified = true;
        for (uint64_t i = 0; i < some.size(); ++i) result.verified &= some[i] == value_at(i, 1);
        result.n = samples.size();
        result.print(samples);
    }

    void all_reduce(uint64_t bytes)
    {
        const uint64_t count = bytes / 4;
        const uint32_t many = bytes <= 1u << 18 ? 1000 : bytes <= 16u << 20 ? 100 : 10;
        const uint32_t graph_calls = calls_in_graph(bytes);
        std::vector<Arm> arms;
        const auto add = [&](std::string name, uint32_t calls,
                             std::function<double(uint32_t, uint32_t)> batch) -> Case& {
            Json params;
            params.add("bytes", bytes).add("ranks", ranks_);
            arms.push_back({Case(std::move(name), params), calls, std::move(batch), Samples(64)});
            return arms.back().result;
        };
        inside(add, count, many);
        add("message to a resident group", std::min(many, 200u),
            [&, count](uint32_t r, uint32_t n) { return by_message(r, n, count, default_breath); })
            .ratio_base = {"message to a resident group, one kernel", "NCCL eager, synchronised"};
        add("message to a resident group, one kernel", std::min(many, 200u),
            [&, count](uint32_t r, uint32_t n) {
                return by_message(r, n, count, std::chrono::microseconds(0));
            });
        kernels(add, count, graph_calls);
        rivals(add, count, graph_calls);
        measure_arms(
            arms, ranks_, arguments_.quick ? 3 : 15, [&] { clear(bytes); },
            [&] { return right(group::Kind::all_reduce, count); });
    }

    // Another collective, automatic, beside NCCL's. `bytes`: of the larger of input and output.
    void collective(group::Kind kind, uint64_t bytes)
    {
        using group::Kind;
        const uint64_t count = kind == Kind::broadcast ? bytes / 4 : bytes / 4 / ranks_;
        const uint32_t calls = calls_in_graph(bytes);
        std::vector<Arm> arms;
        const auto add = [&](const std::string& name, uint32_t n,
                             std::function<double(uint32_t, uint32_t)> batch) -> Case& {
            Json params;
            params.add("bytes", bytes).add("ranks", ranks_);
            arms.push_back({Case(name, params), n, std::move(batch), Samples(64)});
            return arms.back().result;
        };
        const std::string name = to_string(kind);
        graph_arm(add, name + ", kernel in a graph", calls, [this, kind, count](uint32_t r) {
            group::Call call;
            call.kind = kind;
            call.algorithm = group::Algorithm::automatic;
            call.channels = 0;
            call.count = count;
            call.in = gpus_[r]->in;
            call.out = gpus_[r]->out;
            groups_[r].run(call, gpus_[r]->stream);
        }).ratio_base = beside(name + ", ");
        graph_arm(add, name + ", NCCL in a graph", calls, [this, kind, count](uint32_t r) {
            collect(kind, r, gpus_[r]->in, gpus_[r]->out, count);
        });
        if (!inputs_.empty()) {
            const uint64_t written = kind == Kind::reduce_scatter ? bytes / ranks_ : bytes;
            window_arm(add, name + ", ", calls, written, [this, kind, count](uint32_t r) {
                collect(kind, r, static_cast<float*>(inputs_[r]), static_cast<float*>(outputs_[r]),
                        count);
            });
        }
        measure_arms(
            arms, ranks_, arguments_.quick ? 3 : 15, [&] { clear(bytes); },
            [&] { return right(kind, count); });
    }

private:
    // Enough that who begins first does not wait long, compared with what is measured.
    static uint32_t calls_in_graph(uint64_t bytes)
    {
        return bytes <= 1u << 20 ? 200 : bytes <= 16u << 20 ? 50 : 5;
    }

    template <class Add>
    void inside(Add& add, uint64_t count, uint32_t many)
    {
        using group::Algorithm;
        const uint64_t bytes = count * 4;
        std::vector<std::pair<std::string, group::Choice>> ways;
        const group::Choice chosen = groups_[0].ref().choice(bytes);
        ways.push_back({"inside a kernel", chosen});
        const std::vector<uint32_t> sms = bytes <= 1u << 20
                                              ? std::vector<uint32_t>{8, 16, 32, 64}
                                              : std::vector<uint32_t>{16, 32, 64, 128};
        for (const Algorithm a : group::every_algorithm) {
            const bool packets = a == Algorithm::one_shot || a == Algorithm::two_shot;
            if (packets && bytes > 4u << 20) continue;
            for (const uint32_t c : sms) {
                if (arguments_.quick && c != 32) continue;
                ways.push_back({std::string("inside a kernel, ") + to_string(a) + ", " +
                                    std::to_string(c) + " SMs",
                                {0, a, c}});
            }
        }
        for (const auto& [name, choice] : ways) {
            // A short sum has a packet for each thread, and no more threads than that at its
            // barrier.
            const bool few = choice.algorithm == Algorithm::one_shot &&
                             bytes <= uint64_t{choice.channels} * 256 * sizeof(Packet::word);
            const uint32_t threads = few ? 256 : 512;
            Case& one = add(name, many, [=, this, choice = choice](uint32_t r, uint32_t n) {
                GpuRank& gpu = *gpus_[r];
                return gpu.watched([&] {
                    sums_inside<<<choice.channels, threads, 0, gpu.stream>>>(
                        groups_[r].ref(), gpu.in, gpu.out, count, choice.algorithm, n, gpu.watch);
                });
            });
            if (name == "inside a kernel") one.ratio_base = beside("");
        }
    }

    double by_message(uint32_t r, uint32_t n, uint64_t count, std::chrono::microseconds breath)
    {
        GpuRank& gpu = *gpus_[r];
        gpu.use();
        ResidentGroup resident(groups_[r], 0, std::chrono::milliseconds(500), breath);
        resident.wait(resident.all_reduce(gpu.in, gpu.out, count, group::Type::f32));
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; i < n; ++i) {
            resident.wait(resident.all_reduce(gpu.in, gpu.out, count, group::Type::f32));
        }
        return static_cast<double>(now_ns() - begin) * 1e-9;
    }

    template <class Add>
    void kernels(Add& add, uint64_t count, uint32_t graph_calls)
    {
        const auto enqueue = [this, count](uint32_t r) {
            groups_[r].all_reduce(gpus_[r]->in, gpus_[r]->out, count, group::Type::f32,
                                  group::Op::sum, gpus_[r]->stream);
        };
        graph_arm(add, "kernel in a graph", graph_calls, enqueue).ratio_base = beside("");
        graph_arm(add, "kernel in a graph", graph_calls, enqueue).arm = "A/A";
        add("kernel on a stream", graph_calls, [this, enqueue](uint32_t r, uint32_t n) {
            return gpus_[r]->timed([&] {
                for (uint32_t i = 0; i < n; ++i) enqueue(r);
            });
        }).ratio_base = beside("");
        add("kernel, synchronised", graph_calls, [this, enqueue](uint32_t r, uint32_t n) {
            return synchronised(r, n, enqueue);
        }).ratio_base = {"NCCL eager, synchronised"};
    }

    template <class Add>
    void rivals(Add& add, uint64_t count, uint32_t graph_calls)
    {
        const auto enqueue = [this, count](uint32_t r) {
            nccl_.all_reduce(static_cast<int>(r), gpus_[r]->in, gpus_[r]->out, count,
                             gpus_[r]->stream);
        };
        graph_arm(add, "NCCL in a graph", graph_calls, enqueue);
        if (!inputs_.empty()) {
            window_arm(add, "", graph_calls, count * 4, [this, count](uint32_t r) {
                nccl_.all_reduce(static_cast<int>(r), inputs_[r], outputs_[r], count,
                                 gpus_[r]->stream);
            });
        }
        add("NCCL eager, synchronised", graph_calls,
            [this, enqueue](uint32_t r, uint32_t n) { return synchronised(r, n, enqueue); });
    }

    // NCCL's arms that a kernel of ours is compared with; `what` is the collective's name.
    std::vector<std::string> beside(const std::string& what) const
    {
        std::vector<std::string> names{what + "NCCL in a graph"};
        if (!inputs_.empty()) names.push_back(what + in_windows);
        return names;
    }

    void collect(group::Kind kind, uint32_t r, float* in, float* out, uint64_t count)
    {
        using group::Kind;
        const auto rank = static_cast<int>(r);
        const cudaStream_t stream = gpus_[r]->stream;
        switch (kind) {
        case Kind::reduce_scatter: return nccl_.reduce_scatter(rank, in, out, count, stream);
        case Kind::all_gather: return nccl_.all_gather(rank, in, out, count, stream);
        case Kind::broadcast: return nccl_.broadcast(rank, in, out, count, stream);
        default: return nccl_.all_to_all(rank, in, out, count, stream);
        }
    }

    // From window to window. What it has written, `bytes`, is copied to where results are checked,
    // outside of the time, and was something else before.
    template <class Add, class Enqueue>
    void window_arm(Add& add, const std::string& what, uint32_t calls, uint64_t bytes,
                    Enqueue enqueue)
    {
        const auto timed = graph_batch(calls, enqueue);
        add(what + in_windows, calls, [this, timed, bytes](uint32_t r, uint32_t n) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            check_cuda(cudaMemsetAsync(outputs_[r], 0xff, bytes, gpu.stream), "cudaMemsetAsync");
            check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
            const double seconds = timed(r, n);
            check_cuda(
                cudaMemcpyAsync(gpu.out, outputs_[r], bytes, cudaMemcpyDeviceToDevice, gpu.stream),
                "cudaMemcpyAsync");
            check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
            return seconds;
        });
    }

    template <class Enqueue>
    double synchronised(uint32_t r, uint32_t n, const Enqueue& enqueue)
    {
        gpus_[r]->use();
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; i < n; ++i) {
            enqueue(r);
            check_cuda(cudaStreamSynchronize(gpus_[r]->stream), "cudaStreamSynchronize");
        }
        return static_cast<double>(now_ns() - begin) * 1e-9;
    }

    template <class Add, class Enqueue>
    Case& graph_arm(Add& add, const std::string& name, uint32_t calls, Enqueue enqueue)
    {
        return add(name, calls, graph_batch(calls, enqueue));
    }

    // Captured at its first batch, by each rank for itself, after a call outside.
    template <class Enqueue>
    std::function<double(uint32_t, uint32_t)> graph_batch(uint32_t calls, Enqueue enqueue)
    {
        auto graphs = std::make_shared<std::vector<std::unique_ptr<Captured>>>(ranks_);
        return [this, graphs, calls, enqueue](uint32_t r, uint32_t n) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            if ((*graphs)[r] == nullptr) {
                enqueue(r);
                check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
                (*graphs)[r] = std::make_unique<Captured>(gpu, calls, [&] { enqueue(r); });
            }
            const double seconds = gpu.timed([&] { (*graphs)[r]->launch(gpu.stream); });
            return seconds * n / calls; // a graph is always of `calls`
        };
    }

    void clear(uint64_t bytes)
    {
        for (auto& gpu : gpus_) {
            gpu->use();
            check_cuda(cudaMemsetAsync(gpu->out, 0xff, bytes, gpu->stream), "cudaMemsetAsync");
            check_cuda(cudaStreamSynchronize(gpu->stream), "cudaStreamSynchronize");
        }
    }

    bool right(group::Kind kind, uint64_t count)
    {
        bool all = true;
        for (uint32_t r = 0; r < ranks_; ++r) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            count_wrong<<<256, 512, 0, gpu.stream>>>(gpu.out, kind, count, r, ranks_,
                                                     &gpu.watch->wrong);
            Watch seen{};
            check_cuda(
                cudaMemcpyAsync(&seen, gpu.watch, sizeof seen, cudaMemcpyDeviceToHost, gpu.stream),
                "cudaMemcpyAsync");
            check_cuda(cudaMemsetAsync(gpu.watch, 0, sizeof seen, gpu.stream), "cudaMemsetAsync");
            check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
            groups_[r].check();
            all &= seen.wrong == 0 && seen.failed == 0;
        }
        return all;
    }

    const Arguments& arguments_;
    uint32_t ranks_;
    uint64_t most_;
    Nccl nccl_;
    std::vector<void*> inputs_, outputs_; // of each rank, in NCCL's windows; empty without
    std::vector<Group> groups_;
    std::vector<std::unique_ptr<GpuRank>> gpus_;
};

inline void measure_gpus(const Arguments& arguments)
{
    int there = 0;
    check_cuda(cudaGetDeviceCount(&there), "cudaGetDeviceCount");
    if (there < 2) throw std::runtime_error("bench_group needs two GPUs; try --device cpu");
    const uint64_t most = arguments.quick ? uint64_t{16} << 20 : uint64_t{1} << 30;
    std::vector<uint64_t> sizes{1024, 65536, 1 << 20, 16 << 20};
    if (!arguments.quick) {
        sizes = {8,       1024,    8192,     65536,       1 << 17,   1 << 18,
                 1 << 20, 4 << 20, 16 << 20, 64ull << 20, 1ull << 30};
    }
    const uint32_t last = there >= 8 ? 8 : there >= 4 ? 4 : 2;
    for (uint32_t ranks = 2; ranks <= last; ranks *= 2) {
        GpuBench bench(arguments, ranks, most);
        if (ranks == 2) {
            print_environment(environment(arguments)
                                  .add("nccl", bench.nccl_version())
                                  .add("gpus", there)
                                  .add("nvls", false));
            bench.peer_copy();
        }
        for (const uint64_t bytes : sizes) bench.all_reduce(bytes);
        using group::Kind;
        for (const Kind kind :
             {Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::all_to_all}) {
            for (const uint64_t bytes : sizes) {
                if (bytes >= 1024) bench.collective(kind, bytes);
            }
        }
    }
}

} // namespace denizen::bench
