// SPDX-License-Identifier: Apache-2.0
// Graphs of bench_driver: chains, forks, IF nodes and updates, beside the same as launches.
#include "driver_place.cuh"

#include <memory>

namespace denizen::bench {
namespace {

__global__ void add_one_atomically(unsigned long long* total) { atomicAdd(total, 1ull); }

// A chain of kernels, or (branches > 1) that many side by side between two.
struct Graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    std::vector<cudaGraphNode_t> nodes;
};

cudaKernelNodeParams kernel_node(const void* function, void** arguments)
{
    cudaKernelNodeParams params{};
    params.func = const_cast<void*>(function);
    params.gridDim = dim3(1);
    params.blockDim = dim3(1);
    params.kernelParams = arguments;
    return params;
}

std::shared_ptr<Graph> make_graph(uint32_t kernels, uint32_t branches)
{
    auto made = std::make_shared<Graph>();
    void* arguments[] = {&Place::get().total};
    const void* function = branches > 1 ? reinterpret_cast<const void*>(&add_one_atomically)
                                        : reinterpret_cast<const void*>(&add_one);
    const cudaKernelNodeParams params = kernel_node(function, arguments);
    CHECK(cudaGraphCreate(&made->graph, 0));
    made->nodes.resize(kernels);
    for (uint32_t i = 0; i < kernels; ++i) {
        const bool last = i + 1 == kernels;
        std::vector<cudaGraphNode_t> before;
        if (branches > 1 && last) { // the one that joins
            before.assign(made->nodes.begin() + 1, made->nodes.end() - 1);
        } else if (i > 0) {
            before = {made->nodes[branches > 1 ? 0 : i - 1]};
        }
        CHECK(cudaGraphAddKernelNode(&made->nodes[i], made->graph, before.data(), before.size(),
                                     &params));
    }
    CHECK(cudaGraphInstantiate(&made->exec, made->graph, 0));
    CHECK(cudaGraphUpload(made->exec, Place::get().stream));
    return made;
}

// IF nodes whose condition is true by default: each runs its body of one kernel.
std::shared_ptr<Graph> make_conditional(uint32_t count)
{
    auto made = std::make_shared<Graph>();
    void* arguments[] = {&Place::get().total};
    const cudaKernelNodeParams kernel =
        kernel_node(reinterpret_cast<const void*>(&add_one), arguments);
    CHECK(cudaGraphCreate(&made->graph, 0));
    cudaGraphNode_t before = nullptr;
    for (uint32_t i = 0; i < count; ++i) {
        cudaGraphConditionalHandle handle{};
        CHECK(
            cudaGraphConditionalHandleCreate(&handle, made->graph, 1, cudaGraphCondAssignDefault));
        cudaGraphNodeParams params{};
        params.type = cudaGraphNodeTypeConditional;
        params.conditional.handle = handle;
        params.conditional.type = cudaGraphCondTypeIf;
        params.conditional.size = 1;
        cudaGraphNode_t node = nullptr;
        CHECK(cudaGraphAddNode(&node, made->graph, before ? &before : nullptr, nullptr,
                               before ? 1 : 0, &params));
        cudaGraphNode_t inner = nullptr;
        CHECK(
            cudaGraphAddKernelNode(&inner, params.conditional.phGraph_out[0], nullptr, 0, &kernel));
        before = node;
    }
    CHECK(cudaGraphInstantiate(&made->exec, made->graph, 0));
    CHECK(cudaGraphUpload(made->exec, Place::get().stream));
    return made;
}

} // namespace

void add_graphs(std::vector<DriverCall>& calls, bool quick)
{
    Place& at = Place::get();
    const std::vector<uint32_t> lengths =
        quick ? std::vector<uint32_t>{1, 10, 100}
              : std::vector<uint32_t>{1,   2,   5,   10,  20,  50,   75,   100, 125,
                                      150, 200, 300, 500, 750, 1000, 1500, 2000};
    for (const uint32_t kernels : lengths) {
        const auto graph = make_graph(kernels, 1);
        const auto launch = [&at, graph] { CHECK(cudaGraphLaunch(graph->exec, at.stream)); };
        calls.push_back(
            launches("graph, a chain", Json().add("kernels", kernels), kernels, launch));
        calls.back().ratio_base = {"launches, a chain"};
        const auto straight = [&at, kernels] {
            for (uint32_t i = 0; i < kernels; ++i) add_one<<<1, 1, 0, at.stream>>>(at.total);
            CHECK(cudaGetLastError());
        };
        calls.push_back(
            launches("launches, a chain", Json().add("kernels", kernels), kernels, straight));
        calls.back().most_rounds = kernels > 100 ? 50 : 1000;
    }
    for (const uint32_t branches :
         quick ? std::vector<uint32_t>{4}
               : std::vector<uint32_t>{1, 2, 4, 5, 8, 10, 16, 20, 50, 75, 100, 200, 500}) {
        const auto graph = make_graph(branches + 2, branches);
        const Json params = Json().add("branches", branches);
        calls.push_back(launches("graph, fork and join", params, branches + 2,
                                 [&at, graph] { CHECK(cudaGraphLaunch(graph->exec, at.stream)); }));
        if (branches > at.branches.size()) continue;
        calls.back().ratio_base = {"streams, fork and join"};
        auto* total = reinterpret_cast<unsigned long long*>(at.total);
        calls.push_back(
            launches("streams, fork and join", params, branches + 2, [&at, branches, total] {
                add_one_atomically<<<1, 1, 0, at.stream>>>(total);
                CHECK(cudaEventRecord(at.events[0], at.stream));
                for (uint32_t i = 0; i < branches; ++i) {
                    CHECK(cudaStreamWaitEvent(at.branches[i], at.events[0], 0));
                    add_one_atomically<<<1, 1, 0, at.branches[i]>>>(total);
                    CHECK(cudaEventRecord(at.events[i + 2], at.branches[i]));
                    CHECK(cudaStreamWaitEvent(at.stream, at.events[i + 2], 0));
                }
                add_one_atomically<<<1, 1, 0, at.stream>>>(total);
            }));
    }
}

void add_graph_changes(std::vector<DriverCall>& calls, bool quick)
{
    Place& at = Place::get();
    for (const uint32_t count :
         quick ? std::vector<uint32_t>{1} : std::vector<uint32_t>{1, 2, 5, 10, 20, 50, 100, 200}) {
        const auto graph = make_conditional(count);
        calls.push_back(launches("graph, IF nodes", Json().add("nodes", count), count,
                                 [&at, graph] { CHECK(cudaGraphLaunch(graph->exec, at.stream)); }));
    }
    for (const uint32_t updates : quick
                                      ? std::vector<uint32_t>{1}
                                      : std::vector<uint32_t>{1, 2, 5, 10, 20, 50, 100, 200, 500}) {
        constexpr uint32_t kernels = 500;
        const auto graph = make_graph(kernels, 1);
        const auto update = [&at, graph, updates] {
            void* arguments[] = {&at.total};
            const cudaKernelNodeParams params =
                kernel_node(reinterpret_cast<const void*>(&add_one), arguments);
            for (uint32_t i = 0; i < updates; ++i)
                CHECK(cudaGraphExecKernelNodeSetParams(graph->exec, graph->nodes[i], &params));
        };
        const auto launch = [&at, graph] { CHECK(cudaGraphLaunch(graph->exec, at.stream)); };
        const Json params = Json().add("kernels", kernels).add("updated", updates);
        calls.push_back(launches("graph, node parameters set", params, 0, update));
        calls.push_back(launches("graph, launched after an update", params, kernels, launch));
        calls.back().prepare = update;
    }
}

} // namespace denizen::bench
