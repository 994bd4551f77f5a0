// SPDX-License-Identifier: Apache-2.0
// The arms of bench_group on GPUs: a thread for each rank.
#pragma once

#include "group_rank.cuh"
#include "rivals/nccl.hpp"
#include "rivals/vllm.hpp"

#include <map>
#include <memory>

namespace denizen::bench {

constexpr const char* in_windows = "NCCL in a graph, windows";
constexpr const char* by_vllm = "vLLM's custom all-reduce in a graph";

class GpuBench {
public:
    GpuBench(const Arguments& arguments, uint32_t ranks, uint64_t most)
        : arguments_(arguments), ranks_(ranks), most_(most), nccl_(static_cast<int>(ranks)),
          vllm_(ranks)
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
        for (uint32_t r = 0; r < ranks; ++r) {
            if (!inputs_.empty()) copy(r, inputs_[r], gpus_[r]->in, most);
            if (vllm_.here()) copy(r, vllm_.in(r), gpus_[r]->in, std::min(most, vllm_.most()));
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
            const std::string called = name + ", " + in_windows;
            copied_arm(add, called, calls, written, outputs_, [this, kind, count](uint32_t r) {
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
            if (name == "inside a kernel") one.ratio_base = all_beside(bytes);
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
        graph_arm(add, "kernel in a graph", graph_calls, enqueue).ratio_base =
            all_beside(count * 4);
        graph_arm(add, "kernel in a graph", graph_calls, enqueue).arm = "A/A";
        add("kernel on a stream", graph_calls, [this, enqueue](uint32_t r, uint32_t n) {
            return gpus_[r]->timed([&] {
                for (uint32_t i = 0; i < n; ++i) enqueue(r);
            });
        }).ratio_base = all_beside(count * 4);
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
            copied_arm(add, in_windows, graph_calls, count * 4, outputs_,
                       [this, count](uint32_t r) {
                           nccl_.all_reduce(static_cast<int>(r), inputs_[r], outputs_[r], count,
                                            gpus_[r]->stream);
                       });
        }
        if (vllm_.takes(count * 4)) {
            copied_arm(
                add, by_vllm, graph_calls, count * 4, vllm_.outputs(),
                [this, count](uint32_t r) { vllm_.all_reduce(r, count, gpus_[r]->stream); },
                [this](uint32_t r) { vllm_.captured(r); });
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

    // All that a kernel of ours is compared with in an all-reduce of so many bytes.
    std::vector<std::string> all_beside(uint64_t bytes) const
    {
        std::vector<std::string> names = beside("");
        if (vllm_.takes(bytes)) names.push_back(by_vllm);
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

    // Into memory of the rival's own, `outputs`. What it has written there, `bytes`, is copied to
    // where results are checked, outside of the time, and was something else before. `captured` is
    // told each rank that has just captured.
    template <class Add, class Enqueue>
    void copied_arm(
        Add& add, const std::string& name, uint32_t calls, uint64_t bytes,
        const std::vector<void*>& outputs, Enqueue enqueue,
        std::function<void(uint32_t)> captured = [](uint32_t) {})
    {
        const auto timed = graph_batch(calls, enqueue, std::move(captured));
        add(name, calls, [this, timed, bytes, &outputs](uint32_t r, uint32_t n) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            check_cuda(cudaMemsetAsync(outputs[r], 0xff, bytes, gpu.stream), "cudaMemsetAsync");
            check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
            const double seconds = timed(r, n);
            copy(r, gpu.out, outputs[r], bytes);
            return seconds;
        });
    }

    // On the rank's device, and waits for it.
    void copy(uint32_t r, void* to, const void* from, uint64_t bytes)
    {
        GpuRank& gpu = *gpus_[r];
        gpu.use();
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu.stream),
                   "cudaMemcpyAsync");
        check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
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
    std::function<double(uint32_t, uint32_t)> graph_batch(
        uint32_t calls, Enqueue enqueue, std::function<void(uint32_t)> captured = [](uint32_t) {})
    {
        auto graphs = std::make_shared<std::vector<std::unique_ptr<Captured>>>(ranks_);
        return [this, graphs, calls, enqueue, captured](uint32_t r, uint32_t n) {
            GpuRank& gpu = *gpus_[r];
            gpu.use();
            if ((*graphs)[r] == nullptr) {
                enqueue(r);
                check_cuda(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
                (*graphs)[r] = std::make_unique<Captured>(gpu, calls, [&] { enqueue(r); });
                captured(r);
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
    Vllm vllm_;
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
