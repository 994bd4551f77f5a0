// SPDX-License-Identifier: Apache-2.0
// What each warp of a block does with a job, and the loop of those that are a worker's crew. The
// steps are those of crew.hpp. GPU only.
#pragma once

#include <denizen/actor/detail/crew.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/actor/tasks.hpp>

#if DENIZEN_ON_DEVICE

namespace denizen::detail {

// The code of the first lane that has failed, or 0, for the worker.
__device__ inline void tell_failed(uint32_t code)
{
    lanes::rejoin(); // after whatever the handler has done
    const uint32_t first = lanes::first(lanes::ballot(code != 0));
    code = lanes::shuffle(code, first & (lanes::size - 1));
    if (lanes::id() == 0) {
        block::place().job.failed[block::warp()] = code;
    }
}

template <class P>
__device__ __noinline__ void run_part(const Shared& s, uint32_t id)
{
    block::Job& job = block::place().job;
    uint32_t failed = 0;
    if (P::has_tasks && job.kind == block::task) {
        if constexpr (P::has_tasks) {
            TaskContext<P> context(s, id, job.self, true);
            context.enter_block();
            P::template run_task<true>(job.type, job.word, context);
            failed = P::can_fail ? context.failure() : 0;
        }
    } else {
        Context<P> context(s, id, job.self, job.sender, true, job.actor, job.state, true);
        context.enter_block();
        const bool ran =
            P::template dispatch<true>(job.actor, job.type, job.state, job.payload, context);
        failed = P::can_fail ? context.failure() : 0;
        if (threadIdx.x == 0) {
            job.ran = ran ? 1 : 0;
        }
    }
    if constexpr (P::can_fail) {
        tell_failed(failed);
    }
    lanes::rejoin();
}

// By all lanes of a warp of the crew. Ends when the worker leaves. Out of line: a loop whose end is
// the kernel's is none to ptxas that lanes leave one by one.
template <class P>
__device__ __noinline__ void run_crew(const Shared& s, uint32_t id)
{
    while (run_next<P>(s, id)) {
    }
}

} // namespace denizen::detail

#endif
