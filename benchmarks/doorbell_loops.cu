// SPDX-License-Identifier: Apache-2.0
#include "doorbell_loops.hpp"

#include "common.hpp"
#include "rivals/launch.cuh"

namespace denizen::bench {
namespace {

// LaunchSync with the kernel of GraphSync.
class CountedLaunchSync : public CountedSync {
public:
    CountedLaunchSync() { preload(kernels::answer_counter); }

    uint32_t call()
    {
        launch(stream_);
        check_cuda(cudaGetLastError(), "launch");
        return answered();
    }
};

template <class Way>
void loop(const char* name, uint32_t calls)
{
    constexpr uint32_t warm = 50;
    Way way;
    Samples samples(calls);
    uint32_t before = 0, answer = 0;
    for (uint32_t i = 0; i < warm; ++i) before = way.call();
    const uint64_t begin = now_ns();
    for (uint32_t i = 0; i < calls; ++i) {
        const uint64_t sent = now_ns();
        answer = way.call();
        samples.add_ns_as_us(now_ns() - sent);
        if (answer != way.expected()) throw std::runtime_error("a launch was lost or made twice");
    }
    const uint64_t end = now_ns();
    Json line;
    line.add("loop", name).add("calls", calls).add("counted", (answer - before) / 2);
    line.add("begin", begin).add("end", end).add("samples", samples.values());
    std::printf("%s\n", line.str().c_str());
    std::fflush(stdout);
}

} // namespace

void doorbell_loops(bool quick)
{
    const uint32_t calls = quick ? 500 : 5000;
    loop<CountedLaunchSync>("launch + sync", calls);
    loop<GraphSync>("graph + sync", calls);
}

} // namespace denizen::bench
