// SPDX-License-Identifier: Apache-2.0
// A worker and its crew: the worker is the first warp of a block, the crew is the block's other
// warps. Together they run the handlers and tasks that take a whole block. Called by what runs
// handlers and tasks; the crew's loop is in crew_loop.hpp. GPU only.
//
//  1. The crew waits at the barrier, which costs the SM nothing.
//  2. The worker writes the job (block.hpp), and comes to the barrier.
//  3. All warps run the job, each thread with a context of its own, and tell what came of it.
//  4. All warps come to the barrier. The worker reads what came of it and goes on alone; the crew
//     is at step 1 again.
//  5. When the worker leaves the GPU, in step 2 the job is to leave, and the crew's warps end.
//
// Hazard: the crew reads the job in step 3 alone, and the worker writes it in step 2 alone. So a
// barrier lies between each write and each read.
#pragma once

#include <denizen/actor/context.hpp>

#if DENIZEN_ON_DEVICE

namespace denizen::detail {

// Step 3, by each warp. Out of line: the one copy of all handlers of a block.
template <class P>
__device__ __noinline__ void run_part(const Shared& s, uint32_t id);

// From the barrier of step 2 to that of step 4, by all lanes of any warp. False: the job is to
// leave, and step 3 is none.
template <class P>
__device__ inline bool run_next(const Shared& s, uint32_t id)
{
    block::barrier(P::block_threads);
    // Read by each lane for itself. As one read for all ptxas takes it that the warp is together
    // when it calls, and comes back so: see lanes.hpp.
    if (load<Scope::block>(&block::place().job.kind) == block::leave) {
        return false;
    }
    run_part<P>(s, id);
    block::barrier(P::block_threads);
    return true;
}

// Steps 2 to 4, by all lanes of the worker, which has written the job.
template <class P>
__device__ inline void run_job(const Shared& s, uint32_t id, [[maybe_unused]] uint32_t& failed)
{
    run_next<P>(s, id);
    if constexpr (P::can_fail) {
        const uint32_t w = lanes::id();
        const block::Job& job = block::place().job;
        const uint32_t one = w < P::block_threads / lanes::size ? job.failed[w] : 0;
        const uint32_t first = lanes::first(lanes::ballot(one != 0));
        failed = lanes::shuffle(one, first & (lanes::size - 1));
    }
}

// The handler of one message, by all lanes of the worker. Whether there is one, and the code of the
// first thread that has failed, or 0.
template <class P>
__device__ inline bool handle_by_block(const Shared& s, uint32_t id, const ActorEntry& entry,
                                       const Header& h, const void* payload, uint32_t& failed)
{
    block::Job& job = block::place().job;
    if (lanes::id() == 0) {
        job.kind = block::handler;
        job.self = entry.self;
        job.sender = h.sender;
        job.actor = entry.type();
        job.type = h.type;
        job.state = entry.state;
        job.payload = payload;
        if (h.length <= first_payload) { // it may lie in this lane's own memory
            const auto* words = static_cast<const uint32_t*>(payload);
            for (uint32_t i = 0; i < first_payload / 4; ++i) {
                job.word[i] = words[i];
            }
            job.payload = job.word;
        }
    }
    run_job<P>(s, id, failed);
    return job.ran != 0;
}

// A task, as above.
template <class P>
__device__ inline void run_by_block(const Shared& s, uint32_t id, const TakenTask& task,
                                    uint32_t& failed)
{
    block::Job& job = block::place().job;
    if (lanes::id() == 0) {
        job.kind = block::task;
        job.self = task.asker;
        job.type = task.type;
        for (uint32_t i = 0; i < task_words; ++i) {
            job.word[i] = task.word[i];
        }
    }
    run_job<P>(s, id, failed);
}

// Step 5, by all lanes of the worker.
template <class P>
__device__ inline void dismiss_crew()
{
    if (lanes::id() == 0) {
        block::place().job.kind = block::leave;
    }
    block::barrier(P::block_threads);
}

} // namespace denizen::detail

#endif
