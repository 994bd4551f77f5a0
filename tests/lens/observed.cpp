// SPDX-License-Identifier: Apache-2.0
// The observed program of `denizen bench driver` (benchmarks/observed.hpp) on the fake driver and
// the fake CUPTI: what it says is the same, and test_lens_observers.py measures it without a GPU.
#include "benchmarks/observed.hpp"
#include "fake_cuda.hpp"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

int main()
{
    using Kernel = void (*)();
    const char* path = std::getenv("DENIZEN_LENS_CUPTI");
    void* cupti = path ? dlopen(path, RTLD_NOW) : nullptr;
    const auto kernel = reinterpret_cast<Kernel>(cupti ? dlsym(cupti, "fake_kernel") : nullptr);
    if (fake_open(0) != 0) return 1;
    FakeChannel channels[] = {fake_channel(64), fake_channel(64)};
    uint64_t counts[2] = {};
    const auto loop = [&](const char* name, uint32_t which, uint32_t kernels) {
        const auto launch = [&, which, kernels] {
            FakeChannel& c = channels[which];
            for (uint32_t i = 0; kernel && i < kernels; ++i) kernel();
            if (kernels == 1) {
                fakeLaunchKernel(c, static_cast<uint32_t>(counts[which]), 4);
            } else {
                fakeGraphLaunch(c, 3);
            }
            counts[which] += kernels;
        };
        return denizen::bench::ObservedLoop{name, kernels, launch, [] {},
                                            [&, which] { return counts[which]; }};
    };
    try {
        denizen::bench::Observed({loop("kernels", 0, 1), loop("graphs", 1, 10)}).obey();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "observed: %s\n", error.what());
        return 1;
    }
    return 0;
}
