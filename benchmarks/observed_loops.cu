// SPDX-License-Identifier: Apache-2.0
#include "observed_loops.hpp"

#include "observed.hpp"
#include "rivals/cuda.cuh"

namespace denizen::bench {
namespace {

constexpr uint32_t nodes = 10;

// Of one thread, and one after the other on a stream.
__global__ void count_itself(uint64_t* counter) { *counter += 1; }

} // namespace

void observed_loops()
{
    preload(count_itself);
    const OwnStream stream;
    const DeviceBuffer<uint64_t> counter(1);
    const auto launch = [&](cudaStream_t on) { count_itself<<<1, 1, 0, on>>>(counter.get()); };
    const Graph graph(stream, [&](cudaStream_t on) {
        for (uint32_t i = 0; i < nodes; ++i) launch(on);
    });
    const auto wait = [&] { stream.synchronize(); };
    const auto counted = [&] {
        uint64_t count = 0;
        check_cuda(cudaMemcpyAsync(&count, counter.get(), sizeof count, cudaMemcpyDefault, stream),
                   "copy of the count");
        stream.synchronize();
        return count;
    };
    const auto kernel = [&] {
        launch(stream);
        check_cuda(cudaGetLastError(), "launch");
    };
    Observed({
                 {"kernels", 1, kernel, wait, counted},
                 {"graphs", nodes, [&] { graph.launch(stream); }, wait, counted},
             })
        .obey();
}

} // namespace denizen::bench
