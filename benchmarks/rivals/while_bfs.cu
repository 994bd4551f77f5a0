// SPDX-License-Identifier: Apache-2.0
#include "bfs.cuh"

namespace denizen::bench {
namespace {

// words: 0 the frontier's size, 1 the next one's, 2 the level, 3 blocks that are done
__global__ void level_of_while(const uint32_t* offsets, const uint32_t* neighbours,
                               int32_t* distance, int32_t* parent, uint32_t* queues,
                               uint32_t vertices, uint32_t* words, cudaGraphConditionalHandle go_on)
{
    const uint32_t size = words[0];
    const uint32_t turn = words[2] % 2;
    const auto level = static_cast<int32_t>(words[2] + 1);
    const uint32_t* frontier = queues + std::size_t{turn} * vertices;
    uint32_t* next = queues + std::size_t{turn ^ 1} * vertices;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
        kernels::bfs_expand(offsets, neighbours, distance, parent, frontier[i], level, next,
                            &words[1]);
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence(); // this block's counts before its ticket
    if (atomicAdd(&words[3], 1) != gridDim.x - 1) return;
    __threadfence(); // all tickets before the counts are read
    const uint32_t found = *static_cast<volatile uint32_t*>(&words[1]);
    words[0] = found;
    words[1] = 0;
    words[2] += 1;
    words[3] = 0;
    cudaGraphSetConditional(go_on, found != 0 ? 1 : 0);
}

} // namespace

WhileBfs::WhileBfs(const graph::Csr& g) : memory(g)
{
    preload(kernels::bfs_begin);
    preload(level_of_while);
    check_cuda(cudaEventCreate(&begin_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&end_), "cudaEventCreate");
    check_cuda(cudaGraphCreate(&graph_, 0), "cudaGraphCreate");
    cudaGraphConditionalHandle go_on{};
    check_cuda(cudaGraphConditionalHandleCreate(&go_on, graph_, 1, cudaGraphCondAssignDefault),
               "cudaGraphConditionalHandleCreate");
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = go_on;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 1;
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    check_cuda(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params), "cudaGraphAddNode");
#else
    check_cuda(cudaGraphAddNode(&node, graph_, nullptr, 0, &params), "cudaGraphAddNode");
#endif
    check_cuda(cudaStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[0], nullptr,
                                             nullptr, 0, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCaptureToGraph");
    level_of_while<<<16, 256, 0, stream>>>(
        memory.offsets.get(), memory.neighbours.get(), memory.distance.get(), memory.parent.get(),
        memory.queues.get(), memory.vertices, memory.words.get(), go_on);
    check_cuda(cudaStreamEndCapture(stream, nullptr), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphUpload(exec_, stream), "cudaGraphUpload");
    stream.synchronize();
}

WhileBfs::~WhileBfs()
{
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
}

double WhileBfs::timed_run(uint32_t source)
{
    check_cuda(cudaEventRecord(begin_, stream), "cudaEventRecord");
    kernels::bfs_begin<<<264, 512, 0, stream>>>(memory.distance.get(), memory.parent.get(),
                                                memory.queues.get(), memory.words.get(),
                                                memory.vertices, source);
    check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
    check_cuda(cudaEventRecord(end_, stream), "cudaEventRecord");
    stream.synchronize();
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return ms;
}

} // namespace denizen::bench
