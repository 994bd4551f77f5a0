// SPDX-License-Identifier: Apache-2.0
// main() of the tests that have nothing to do without a GPU: 77 tells ctest that they were skipped.
#include <cstdio>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

int main(int argc, char** argv)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("skipped: this machine has no CUDA device");
        return 77;
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
