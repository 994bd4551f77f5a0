// SPDX-License-Identifier: Apache-2.0
// Tasks of a program of actors: small structs that its own workers run, each once, between two
// rounds of messages. A handler spawns one, and whichever worker of its node has time runs it; the
// task sends what it has found as a message. (Programs of tasks alone, with joins, groups and
// stealing, are in denizen/task.)
//
//   struct Count { // primes from `first` on
//       uint32_t first;
//       uint32_t n;
//       DENIZEN_HD void run(auto& ctx) const
//       {
//           ctx.send(ctx.asker(), Found{primes(first, n)});
//       }
//   };
//   struct Counter {
//       uint64_t found = 0;
//       DENIZEN_HD void on(const Begin& m, auto& ctx)
//       {
//           for (uint32_t i = 0; i < m.n; i += 1000) {
//               const Count piece{i, 1000};
//               if (!ctx.spawn(piece)) piece.run(ctx); // the queue is full: now and here
//           }
//       }
//       DENIZEN_HD void on(const Found& m, auto&) { found += m.primes; }
//   };
//   using Counting = denizen::Program<denizen::Actors<Counter>, denizen::Messages<Begin, Found>,
//                                     denizen::Tasks<Count>>;
//
// Who asked for a task (ctx.asker()) is the actor whose handler spawned it, or spawned the task
// that spawned it. In a task ctx.reply() answers it too; where a handler calls run() itself, as
// above, that would answer the handler's message. Messages that a task sends come from that actor.
// Those of one task to one actor keep their order, but between tasks, and between a task and its
// actor's handlers, there is none.
//
// A task whose run() calls ctx.fail(code) declares `static constexpr bool can_fail = true`; one
// that calls ctx.arena() declares `allocates`. With `grain = denizen::Grain::warp` all lanes of a
// warp run it, with `Grain::block` all threads of a block. If it fails, its actor gets a
// TaskFailed, if the program lists that among its Messages.
//
// Hazards. A task is not interrupted: a long one holds up the messages of its worker, and the end
// of a breath. What an actor spawns while it is being stopped runs, and its answers are dead
// letters.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/actor/detail/crew.hpp>
#include <denizen/actor/detail/pool.hpp>

namespace denizen {

// To the actor that asked for a task that has failed. What else it has spawned runs on.
struct TaskFailed {
    uint32_t task; // its number in Tasks<...>
    uint32_t code; // as fail() was told
};

// What a task has while it runs; each call is described in Context.
template <class P>
class TaskContext : private Context<P> {
public:
    DENIZEN_HD TaskContext(const Shared& shared, uint32_t id, uint32_t of, bool whole_warp)
        : Context<P>(shared, id, of, of, whole_warp, no_type, nullptr, true)
    {
    }

    using Context<P>::asker;
    using Context<P>::send;
    using Context<P>::send_each;
    using Context<P>::reply; // to the asker
    using Context<P>::publish;
    using Context<P>::spawn;
    using Context<P>::fail;
    using Context<P>::failure;
    using Context<P>::stop;
    using Context<P>::pause;
    using Context<P>::resume;
    using Context<P>::restart;
    using Context<P>::drain;
    using Context<P>::arena;
    using Context<P>::fence;
    using Context<P>::worker;
    using Context<P>::workers;
    using Context<P>::node;
    using Context<P>::now_ns;
    using Context<P>::lane;
    using Context<P>::lanes;
    using Context<P>::sync;

#if DENIZEN_ON_DEVICE
    // Of programs that have tasks or handlers of a block. For the runtime.
    __device__ void enter_block() { Context<P>::enter_block(); }
#endif

    // For tasks whose functions know a context by its address alone (src/actor/handlers.cpp).
    DENIZEN_HD Context<P>* untyped() { return this; }
};

namespace detail {

// Runs one task: by one lane, or by all for a task of a warp or of a block.
template <class P>
DENIZEN_HD inline void run_task(const Shared& s, uint32_t id, const TakenTask& task, bool whole)
{
    const bool speaks = !whole || lanes::id() == 0;
    uint64_t* running = &s.status[id].running[whole ? 0 : lanes::id()];
    // The monitor looks on, and names this task if it never returns.
    store<Scope::gpu>(running, task.asker | uint64_t{max_message_types + task.type + 1} << 32);
    TaskContext<P> context(s, id, task.asker, whole);
    [[maybe_unused]] uint32_t of_block = 0; // a thread has failed with it
    bool by_block = false;
#if DENIZEN_ON_DEVICE
    if constexpr (P::has_blocks) {
        by_block = whole && P::task_grain(task.type) == Grain::block;
        if (by_block) {
            run_by_block<P>(s, id, task, of_block);
        }
    }
#endif
    if (!by_block) {
        P::run_task(task.type, task.word, context);
    }
    if constexpr (P::can_fail) {
        uint32_t code = context.failure();
        if constexpr (P::has_blocks) {
            code = code != 0 ? code : of_block;
        }
        if (whole) { // the first lane's that has one
            lanes::rejoin();
            const uint32_t first = lanes::first(lanes::ballot(code != 0));
            code = lanes::shuffle(code, first & (lanes::size - 1));
        }
        if (code != 0 && speaks) {
            bump(&s.counters[id].tasks_failed, 1);
            if (const uint32_t type = P::task_failed(); type != no_type) {
                const TaskFailed failed{task.type, code};
                post_raw(s, id, {task.asker, task.asker, type, 0, sizeof failed}, &failed,
                         Priority::data);
            }
        }
    }
    store<Scope::gpu>(running, uint64_t{0});
}

// Takes tasks and runs them: those of a thread side by side, the others one after the other.
// Returns how many. Called by all lanes.
template <class P>
DENIZEN_COLD uint32_t run_tasks(const Shared& s, uint32_t id)
{
    TakenTask task{};
    const uint32_t n = pool::take(s, task);
    if (n == 0) {
        return 0;
    }
    const bool mine = lanes::id() < n;
    const bool whole = P::has_whole_tasks && mine && P::task_grain(task.type) != Grain::thread;
    if (mine && !whole) {
        run_task<P>(s, id, task, false);
    }
    lanes::rejoin();
    if constexpr (P::has_whole_tasks) {
        for (uint32_t todo = lanes::ballot(whole); todo != 0; todo &= todo - 1) {
            const uint32_t from = lanes::first(todo);
            TakenTask same{};
            same.asker = lanes::shuffle(task.asker, from);
            same.type = lanes::shuffle(task.type, from);
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < task_words; ++i) {
                same.word[i] = lanes::shuffle(task.word[i], from);
            }
            run_task<P>(s, id, same, true);
            lanes::rejoin();
        }
    }
    if (lanes::id() == 0) {
        bump(&s.counters[id].tasks, n);
    }
    return n;
}

} // namespace detail

} // namespace denizen
