// SPDX-License-Identifier: Apache-2.0
// The kernels of resident models: near, whose blocks are one cluster, and far, for each format of
// weights. NVRTC compiles those of DENIZEN_INFER_FORMAT (fp32, bf16, fp16) alone.
#pragma once

#include <denizen/infer/detail/resident_loop.hpp>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_INFER_KERNEL extern "C" __global__ void
#else
#define DENIZEN_INFER_KERNEL static __global__ void
#endif
// clang-format on

namespace denizen::infer::detail {
// The address of shared memory, from a register: the compiler would else compute it anew wherever
// it is used, from the block's place in its cluster, which takes longer than the load. What a
// shuffle gives is not computed anew.
template <class T>
__device__ inline T* in_register(void* shared)
{
    const uint32_t at = lanes::shuffle(static_cast<uint32_t>(__cvta_generic_to_shared(shared)), 0);
    return static_cast<T*>(__cvta_shared_to_generic(at));
}
} // namespace denizen::infer::detail

// Launched with block_threads, one block on an SM, and shared_bytes of shared memory.
#define DENIZEN_INFER_ONE(name, format, clusters)                                                  \
    DENIZEN_INFER_KERNEL __launch_bounds__(denizen::infer::detail::block_threads, 1)               \
        name(const __grid_constant__ denizen::infer::detail::ResidentModel model)                  \
    {                                                                                              \
        if (model.blocks == 0) return; /* the first launch, which has the driver make ready */     \
        extern __shared__ uint4 infer_memory[];                                                    \
        __shared__ denizen::infer::detail::Turn turn;                                              \
        denizen::infer::detail::serve<denizen::infer::Format::format, clusters>(                   \
            model, blockIdx.x, denizen::infer::detail::in_register<unsigned char>(infer_memory),   \
            model.shared_bytes,                                                                    \
            *denizen::infer::detail::in_register<denizen::infer::detail::Turn>(&turn));            \
    }
#define DENIZEN_INFER_BOTH(format)                                                                 \
    DENIZEN_INFER_ONE(denizen_infer_near_##format, format, true)                                   \
    DENIZEN_INFER_ONE(denizen_infer_far_##format, format, false)
#define DENIZEN_INFER_NAMED(format) DENIZEN_INFER_BOTH(format)

#if defined(__CUDACC_RTC__)
DENIZEN_INFER_NAMED(DENIZEN_INFER_FORMAT)
#else
DENIZEN_INFER_BOTH(fp32)
DENIZEN_INFER_BOTH(bf16)
DENIZEN_INFER_BOTH(fp16)
#endif
#endif
