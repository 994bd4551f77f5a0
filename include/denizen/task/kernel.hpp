// SPDX-License-Identifier: Apache-2.0
// The entry points of a program of tasks. On a GPU it is one cooperative kernel: each block has the
// same number of worker warps, and the first block has one warp more, the monitor. On the CPU it is
// one function for each thread. Called by task/runtime.hpp and by programs compiled at run time.
#pragma once

#include <denizen/task/detail/monitor.hpp>
#include <denizen/task/detail/worker.hpp>

namespace denizen::task {

inline constexpr uint32_t most_warps = 24; // worker warps of a block

// CPU: runs worker `id`; with `id` equal to the number of workers, the monitor.
template <class P>
DENIZEN_HD void run_thread(const Shared& s, uint32_t id)
{
    if (id < s.workers) {
        Local<P> local;
        Worker<P>(s, id, local).run();
    } else {
        Monitor(s).run();
    }
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

template <class P>
__device__ inline void run_block(const Shared& s)
{
#if DENIZEN_ON_DEVICE
    if (s.workers == 0) {
        return; // the first launch, which only has the driver make ready
    }
    const uint32_t warp = threadIdx.x / 32;
    if (s.successor != 0 && load<Scope::gpu>(&s.board->left_for_good) != 0) {
        // The program left while this incarnation was queued. The command cannot tell: this
        // incarnation itself may have been told to leave before this block began.
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            store<Scope::system>(&s.control->ended, s.incarnation);
        }
        return;
    }
    __shared__ Local<P> locals[most_warps];
    if constexpr (P::has_blocks) {
        if (threadIdx.x == 0) {
            gathering::here().state = 0;
        }
        __syncthreads();
    }
    if (warp < s.per_block) {
        if (s.breath.ns != 0 && denizen::lanes::id() == 0) {
            denizen::detail::begin_breath(s.breath, now_ns());
        }
        Worker<P>(s, blockIdx.x * s.per_block + warp, locals[warp]).run();
    } else if (blockIdx.x == 0) {
        Monitor(s).run();
    }
#endif
}

#endif

} // namespace denizen::task

// Ends the text of a program of tasks that is compiled at run time: defines the symbols by which
// the host finds the program.
#if defined(__CUDACC_RTC__)
#define DENIZEN_TASKS(P)                                                                           \
    extern "C" __device__ const denizen::task::Table denizen_tasks_table = P::table();             \
    extern "C" __global__ void __launch_bounds__(1024, 1)                                          \
        denizen_tasks(const __grid_constant__ denizen::task::Shared shared)                        \
    {                                                                                              \
        denizen::task::run_block<P>(shared);                                                       \
    }
#else
#define DENIZEN_TASKS(P)                                                                           \
    extern "C" __attribute__((visibility("default")))                                              \
    const denizen::task::Table denizen_tasks_table = P::table();                                   \
    extern "C" __attribute__((visibility("default"))) void denizen_tasks_run(                      \
        const denizen::task::Shared& shared, uint32_t id)                                          \
    {                                                                                              \
        denizen::task::run_thread<P>(shared, id);                                                  \
    }
#endif
