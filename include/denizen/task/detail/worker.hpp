// SPDX-License-Identifier: Apache-2.0
// A worker's loop: it takes a batch of tasks (sources.hpp), runs the batch, and publishes what the
// batch has spawned (settle.hpp). A worker that has nothing looks at the other sources. A batch is
// up to 32 thread tasks side by side, or one task of a warp or a block.
//
// The loop's state stays in registers. Functions that are rare and large are called out of sight
// (base/out_of_sight.hpp); they take and return values, never addresses of that state.
#pragma once

#include <denizen/task/detail/gathering.hpp>
#include <denizen/task/detail/sources.hpp>

namespace denizen::task {

namespace detail {

inline constexpr uint32_t turns_per_look = 8;   // batches between two looks for what comes first
inline constexpr uint32_t turns_per_shelf = 64; // and at shelves whatever there is
inline constexpr uint32_t idle_per_steal = 4;   // looks at the mailbox for one at other workers
inline constexpr uint32_t patient_looks =
    64; // before an idle worker looks at the command each time
inline constexpr uint32_t eager_looks = 5000; // before it begins to nap
inline constexpr uint32_t patient_lanes = 32; // looks, before a lane settles its end by itself

} // namespace detail

template <class P>
class Worker {
public:
    using Words = typename P::Words;

    DENIZEN_HD Worker(const Shared& s, uint32_t id, Local<P>& local)
        : at_{s, id, local, id * 2654435761u + 1}
    {
        for (uint32_t c = denizen::lanes::id(); c < P::classes; c += denizen::lanes::size) {
            local.seen[c] = load<Scope::gpu, Order::acquire>(&s.deques[id].word[c]);
            local.fresh[c] = local.early[c] = 0;
        }
        if (denizen::lanes::id() == 0) {
            local.reported = local.sharing = local.arrived = 0;
            local.pool = local.pool_group = local.cached = local.uses_joins = local.freed = 0;
            local.spilled = local.joined = 0;
        }
        denizen::lanes::sync();
    }

    // Runs until the board's command has all workers leave, or the next incarnation take over.
    DENIZEN_HD void run()
    {
        uint32_t idle = 0;
        uint32_t told = 0;                 // the command, as last seen
        for (uint32_t turn = 1;; ++turn) { // ends by the command, which the monitor sees to
            if (turn % 16 == 0 || idle > detail::patient_looks || told != 0) {
                told = command();
                if (told != 0 && gives_way(told)) {
                    return;
                }
            }
            if (join_block()) {
                idle = 0; // the worker may hold tokens again, of tasks that others have taken
            }
            Batch<P> batch;
            bool found = turn % detail::turns_per_look == 0 &&
                         sources::urgent(at_, batch, turn % detail::turns_per_shelf == 0);
            found = found || sources::own(at_, batch);
            if (!found) {
                if (idle == 4) { // not at once: an answer to a task just sent may come soon
                    tokens::give_back(at_);
                    at_.tell();
                }
                found =
                    sources::elsewhere(at_, batch, idle < 4 || idle % detail::idle_per_steal == 0);
            }
            if (found) {
                idle = 0;
                execute(batch);
            } else {
                nap(++idle);
            }
        }
    }

private:
    // ---- running

    DENIZEN_HD void execute(const Batch<P>& batch)
    {
        // Tokens of another group must not be held while a long task runs: that group could not
        // end.
        if (denizen::lanes::ballot(batch.mine &&
                                   group_of(batch.words.word[0]) != at_.local.pool_group) != 0) {
            tokens::give_back(at_);
        }
        if constexpr (P::has_warps) {
            if (batch.grain == Grain::warp) {
                run_warp(batch);
                return;
            }
        }
        if constexpr (P::has_blocks) {
            if (batch.grain == Grain::block) {
                run_block(batch.words);
                return;
            }
        }
        if constexpr (P::has_threads) {
            run_threads(batch);
        }
    }

    DENIZEN_HD void run_threads(const Batch<P>& batch)
    {
        Context<P> ctx = context(batch.words, Grain::thread, batch.tokens, batch.size);
        if (batch.mine && !dropped(ctx, true)) {
            P::template run<Grain::thread>(batch.words, ctx);
        }
        const bool alone = ended_alone(ctx, batch.mine); // on every lane
        const bool mine = batch.mine && !alone;
        at_.done.add(Count::run,
                     denizen::lanes::popcount(denizen::lanes::ballot(batch.mine && !mine)));
        settle(at_, ctx, mine, mine ? 1 : 0);
    }

    // Waits for the other lanes' tasks. True: one of them takes so long that this lane's end has
    // been settled by itself. Since Volta no thread of a warp holds up another for ever, so the
    // others go on while this lane waits.
    DENIZEN_HD bool ended_alone([[maybe_unused]] Context<P>& ctx, [[maybe_unused]] bool mine)
    {
        bool alone = false;
#if DENIZEN_ON_DEVICE
        if (__activemask() == ~0u) { // nearly always: all have come at once
            return false;
        }
        // No lane has seen all 32 of them, so each lane comes here.
        uint32_t* const arrived = &at_.local.arrived;
        fetch_add<Scope::block>(arrived, 1u << denizen::lanes::id());
        for (uint32_t look = 0; load<Scope::block>(arrived) != ~0u; ++look) {
            if (look == detail::patient_lanes) { // ends when the longest task does
                ctx.end_alone(mine);
                alone = true;
            } else if (look > detail::patient_lanes) {
                Context<P>::share(at_.s, at_.local, at_.id);
            }
            __nanosleep(look < detail::patient_lanes ? 20 : 500);
        }
        denizen::lanes::sync();
        if (denizen::lanes::id() == 0) {
            store<Scope::block>(arrived, 0u);
        }
        denizen::lanes::rejoin();
#endif
        return alone;
    }

    DENIZEN_HD void run_warp(const Batch<P>& batch)
    {
        Words same;
        for (uint32_t i = 0; i < 4 * Words::packets; ++i) {
            same.word[i] = denizen::lanes::shuffle(batch.words.word[i], 0);
        }
        Context<P> ctx = context(same, Grain::warp);
        const bool first = denizen::lanes::id() == 0;
        if (denizen::lanes::ballot(dropped(ctx, first)) == 0) {
            P::template run<Grain::warp>(same, ctx);
        }
        denizen::lanes::rejoin(); // after whatever the task has done
        settle(at_, ctx, true, first ? 1 : 0);
    }

    DENIZEN_HD Context<P> context(const Words& words, Grain grain, uint32_t tokens = 0,
                                  uint32_t batch = 1)
    {
        return {at_.s, at_.local, at_.id, group_of(words.word[0]), grain, tokens, batch};
    }

    // Whether the task's group was cancelled. `count`: if so, adds 1 to the group's dropped tasks.
    DENIZEN_HD bool dropped(const Context<P>& ctx, bool count)
    {
        if (!ctx.in_cancelled_group()) {
            return false;
        }
        if (count) {
            add_global(&at_.s.groups[ctx.group()].dropped, uint64_t{1});
        }
        return true;
    }

    // ---- a block's task

    DENIZEN_HD void run_block(const Words& words)
    {
#if DENIZEN_ON_DEVICE
        if (gathering::announce(at_.id, words.word)) {
            meet();
            return;
        }
        // Another warp's task was announced first: this one waits in the deque.
        Context<P> ctx(at_.s, at_.local, at_.id, 0, Grain::thread);
        if (denizen::lanes::id() == 0) {
            keep(ctx, words);
        }
        denizen::lanes::rejoin();
        settle(at_, ctx, false, 0);
        join_block();
#else
        Context<P> ctx = context(words, Grain::block);
        if (!dropped(ctx, true)) {
            P::template run<Grain::block>(words, ctx);
        }
        settle(at_, ctx, true, 1);
#endif
    }

    // Takes part in an announced task of the block. Returns whether there was one.
    DENIZEN_HD bool join_block()
    {
#if DENIZEN_ON_DEVICE
        if constexpr (P::has_blocks) {
            if (gathering::is_announced()) {
                meet();
                return true;
            }
        }
#endif
        return false;
    }

#if DENIZEN_ON_DEVICE
    // All warps of the block.
    __device__ void meet()
    {
        gathering::Place& place = gathering::here();
        gathering::barrier(at_.s);
        Words words;
        for (uint32_t i = 0; i < 4 * Words::packets; ++i) {
            words.word[i] = place.word[i];
        }
        const bool announcer = place.announcer == at_.id;
        if (group_of(words.word[0]) != at_.local.pool_group) {
            tokens::give_back(at_);
        }
        Context<P> ctx = context(words, Grain::block);
        if (threadIdx.x == 0) {
            place.drop = dropped(ctx, true) ? 1 : 0;
        }
        gathering::barrier(at_.s);
        const bool drop = place.drop != 0;
        // All warps have come: the next task may be announced, and runs once all are through.
        if (announcer && denizen::lanes::id() == 0) {
            store<Scope::block>(&place.state, 0u);
        }
        if (!drop) {
            P::template run<Grain::block>(words, ctx);
        }
        denizen::lanes::rejoin();   // after whatever the task has done
        settle(at_, ctx, false, 0); // while the task's token still stands
        gathering::barrier(at_.s);
        if (announcer) {
            tokens::account_all(at_, denizen::lanes::id() == 0, ctx.group(), 1, 0);
            at_.done.add(Count::run, 1);
        }
    }
#endif

    // ---- leaving and waiting

    DENIZEN_HD uint32_t command() const
    {
        static_assert(static_cast<uint32_t>(Command::run) == 0);
        return denizen::lanes::shuffle(load<Scope::gpu>(&at_.s.board->command), 0);
    }

    // Whether the worker leaves now, by a command or at the end of a breath.
    DENIZEN_HD bool gives_way(uint32_t told)
    {
        if (leaves(command_of(told))) {
            return leave();
        }
#if DENIZEN_ON_DEVICE
        if ((told & breath_go) != 0) {
            return hand_over(told);
        }
        denizen::detail::acknowledge(at_.s.breath, at_.id, told);
#endif
        return false;
    }

#if DENIZEN_ON_DEVICE
    // Leaves at the end of a breath. False: not all workers have come to the gate, or the block has
    // a task to run first.
    __device__ bool hand_over(uint32_t told)
    {
        if constexpr (P::has_blocks) {
            if (!gathering::end(gathering::handing_over)) {
                return false;
            }
        }
        if (!denizen::detail::pass_gate(at_.s.breath, told)) {
            if constexpr (P::has_blocks) {
                gathering::go_on();
            }
            return false;
        }
        put_down();
        if (denizen::lanes::id() == 0) {
            denizen::detail::end_breath(at_.s.breath);
        }
        return true;
    }
#endif

    DENIZEN_HD void put_down()
    {
        tokens::give_back(at_);
        joins::give_back(at_);
        at_.tell();
    }

    // Writes back what the worker holds, and leaves. Its tasks stay in its deques. False: the block
    // has a task to run first.
    DENIZEN_HD bool leave()
    {
#if DENIZEN_ON_DEVICE
        if constexpr (P::has_blocks) {
            if (!gathering::end(gathering::leaving)) {
                return false;
            }
        }
#endif
        put_down();
        if (denizen::lanes::id() == 0) {
            // Release: partner of the monitor's acquire, which says that all have left.
            fetch_add<Scope::gpu, Order::release>(&at_.s.board->left, 1u);
            at_.wake_monitor();
        }
        return true;
    }

    DENIZEN_HD void nap([[maybe_unused]] uint32_t idle)
    {
#if DENIZEN_ON_DEVICE
        if (idle > detail::eager_looks) {
            __nanosleep(500);
        }
#elif DENIZEN_HOSTED
        if (idle < 64) {
            relax();
        } else if (idle < 512) {
            sched_yield(); // the work may be with a worker that needs this core
        } else {
            // Ends by the bell; the time-out bounds what no bell tells of.
            sleep_on_bell(&at_.s.board->bell, &at_.s.board->sleeping, 2'000'000,
                          [this] { return command() != 0 || sources::something(at_); });
        }
#endif
    }

    Station<P> at_;
};

} // namespace denizen::task
