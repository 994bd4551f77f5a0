// SPDX-License-Identifier: Apache-2.0
// Where the models of a test live: threads of the CPU, a GPU if nvcc compiles the test, or, with
// DENIZEN_INFER_BLOCKS, threads that run the text of the GPU's blocks.
#pragma once

#if defined(__CUDACC__)
#include <denizen/infer/gpu.hpp>
#else
#include "threads_chip.hpp"
#include <atomic>
#endif

namespace denizen::infer {

// The fewest parts that have room for the largest model of the tests.
#if defined(__CUDACC__)
inline constexpr uint32_t few_parts = 4;
#else
inline constexpr uint32_t few_parts = 1;
#endif

inline std::unique_ptr<Chip> chip()
{
#if defined(__CUDACC__)
    return on_gpu(0);
#elif defined(DENIZEN_INFER_BLOCKS)
    // By turns with slots that all blocks read and with slots that the leader passes on.
    static std::atomic<uint32_t> made{0};
    return std::make_unique<ThreadsChip>(ThreadsChip::Made{.slots_near = made++ % 2 == 0});
#else
    return nullptr;
#endif
}

} // namespace denizen::infer
