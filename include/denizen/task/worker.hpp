// SPDX-License-Identifier: Apache-2.0
// A worker's life: it takes a batch of tasks, runs it, publishes what it has spawned, and looks
// elsewhere when it has nothing. A batch is up to 32 thread tasks side by side, or one task of a
// warp or a block.
//
// Termination. Every task that may run or runs has a token, and so has what a worker may spawn
// without asking: a group's word counts all its tokens. They are added before the task becomes
// visible to others, by the release that publishes it, and taken off after its end: the word is
// never too small, and 0 means that nothing runs nor can run, at that very moment. A worker keeps
// the tokens of finished tasks for its next spawns and gives them back when it finds nothing to do:
// while it works, neither costs an atomic access.
#pragma once

#include <denizen/task/context.hpp>

#include <denizen/wire/wait.hpp>

namespace denizen::task {

namespace detail {

inline constexpr uint32_t turns_per_look = 8;   // batches between two looks for what comes first
inline constexpr uint32_t turns_per_shelf = 64; // and at shelves whatever there is
inline constexpr uint32_t idle_per_steal = 4;   // looks at the mailbox for one at other workers
inline constexpr uint32_t polls = 16;           // of the mailbox, in a look at nothing else
inline constexpr uint32_t patient_looks =
    64; // before an idle worker looks at the command each time
inline constexpr uint32_t eager_looks = 5000; // before it begins to nap
inline constexpr uint32_t patient_lanes = 32; // looks, before a lane settles its end by itself

#if DENIZEN_ON_DEVICE
// A block's task, as its warps see it.
struct Gathering {
    uint32_t state; // 0, or one of these
    uint32_t announcer;
    uint32_t word[12];
};
inline constexpr uint32_t announced = 1;
inline constexpr uint32_t leaving = 2;
__device__ inline Gathering& gathering()
{
    __shared__ Gathering here;
    return here;
}
#endif

} // namespace detail

template <class P>
class Worker {
public:
    using Words = typename P::Words;

    DENIZEN_HD Worker(const Shared& s, uint32_t id, Local<P>& local)
        : s_(s), id_(id), local_(local), random_(id * 2654435761u + 1)
    {
        for (uint32_t c = denizen::lanes::id(); c < P::classes; c += denizen::lanes::size) {
            local.seen[c] = load<Scope::gpu, Order::acquire>(&s.deques[id].word[c]);
            local.fresh[c] = local.early[c] = 0;
        }
        if (denizen::lanes::id() == 0) {
            local.reported = local.sharing = local.arrived = 0;
            local.pool = local.pool_group = local.cached = local.freed = 0;
            local.spilled = local.joined = 0;
        }
        denizen::lanes::sync();
    }

    // Until the board says that all are to leave.
    DENIZEN_HD void run()
    {
        uint32_t idle = 0;
        for (uint32_t turn = 1;; ++turn) { // ends by the command, which the monitor sees to
            if ((turn % 16 == 0 || idle > detail::patient_looks) && leaving() && leave()) {
                return;
            }
            join_block();
            Batch batch;
            bool found = turn % detail::turns_per_look == 0 &&
                         look_first(batch, turn % detail::turns_per_shelf == 0);
            found = found || own_of<0>(batch);
            if (!found) {
                if (idle == 4) { // not at once: an answer to what it has just sent may be near
                    give_back();
                    tell();
                }
                const uint32_t each =
                    idle < 32 ? detail::idle_per_steal : detail::idle_per_steal * 8;
                found = look(batch, idle < 4 || idle % each == 0);
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
    // What is run next: thread tasks on those lanes that say so, or lane 0's task of a warp or
    // block.
    struct Batch {
        Words words{};
        bool mine = false;
        Grain grain = Grain::thread;
        uint32_t tokens = 0; // that came with it
    };

    // ---- where tasks come from; each returns whether it has filled the batch

    // The newest of the own deques, the highest priority first.
    template <uint32_t C>
    DENIZEN_HD bool own_of(Batch& batch)
    {
        if constexpr (C < P::classes) {
            constexpr Grain grain = P::grain_of_class(C);
            constexpr uint32_t most = grain == Grain::thread ? denizen::lanes::size : 1;
            const uint64_t seen = local_.seen[C];
            const uint32_t there = deque::size(seen) < most ? deque::size(seen) : most;
            if (there != 0) {
                // They are the owner's own, so they can be read before they are taken: both are on
                // their way at once. Lane i has the one after i newer ones: if a thief leaves
                // fewer, the first lanes have those.
                const uint32_t lane = denizen::lanes::id();
                if (lane < there) {
                    detail::load_slot<P::slot>(
                        detail::slot_of(s_, id_, C, deque::bottom(seen) - 1 - lane, P::slot),
                        batch.words);
                }
                uint32_t n = 0;
                if (lane == 0) {
                    uint64_t now = seen;
                    n = deque::take(&s_.deques[id_].word[C], now, there);
                    local_.seen[C] = now;
                }
                n = denizen::lanes::shuffle(n, 0);
                denizen::lanes::sync();
                if (n != 0) {
                    batch.mine = lane < n;
                    batch.grain = grain;
                    return true;
                }
            }
            return own_of<C + 1>(batch);
        } else {
            return false;
        }
    }

    // What there is elsewhere, seen in one access to L2: all the loads are under way together.
    struct Sight {
        Packet first;        // of this lane's slot of the mailbox
        uint32_t letter = 0; // that slot
        bool mail = false;
        uint32_t shelves = 0; // bit c: there are crates of class c
        bool strand = false;
        bool some = false; // this lane has seen tasks of another worker:
        uint32_t victim = 0;
        uint32_t c = 0;
        uint64_t seen = 0;
    };

    // While there is own work: the mailbox, and shelves of a higher priority than that; now and
    // then all shelves, since own work may never end.
    DENIZEN_HD bool look_first(Batch& batch, bool all)
    {
        Sight sight;
        see_mail(sight);
        uint32_t best = 0;
        while (best < P::classes && deque::size(local_.seen[best]) == 0) {
            ++best; // ends at the last class
        }
        if (all) {
            see_shelves(sight, P::classes);
        } else if (best != 0 && best < P::classes) {
            see_shelves(sight, best);
        }
        return mail(sight, batch) || shelves(sight, batch);
    }

    DENIZEN_HD bool look(Batch& batch, bool all)
    {
        Sight sight;
        if (!all) {
            for (uint32_t i = 0; i < detail::polls; ++i) {
                see_mail(sight);
                if (denizen::lanes::ballot(sight.mail) != 0) {
                    return mail(sight, batch);
                }
            }
            return false;
        }
        see_victims(sight);
        see_mail(sight);
        see_shelves(sight, P::classes);
        return mail(sight, batch) || shelves(sight, batch) || stranded(sight, batch) ||
               steal(sight, batch);
    }

    DENIZEN_HD void see_mail(Sight& sight) const
    {
        const Mailbox& box = s_.mailboxes[id_];
#if DENIZEN_ON_DEVICE
        sight.letter = denizen::lanes::id() % mail_slots;
        sight.mail =
            mailbox::arrived(box, sight.letter, sight.first) && denizen::lanes::id() < mail_slots;
#else
        while (sight.letter < mail_slots && !sight.mail) { // ends at the last slot
            sight.mail = mailbox::arrived(box, sight.letter++, sight.first);
        }
        sight.letter -= 1;
#endif
    }

    DENIZEN_HD void see_shelves(Sight& sight, uint32_t classes) const
    {
#if DENIZEN_ON_DEVICE
        const uint32_t c = denizen::lanes::id();
        const bool shelf = c < classes && index_queue::something(s_.shelf[c < classes ? c : 0]);
        const bool strand = c == 0 && index_queue::something(s_.stranded);
        sight.shelves = denizen::lanes::ballot(shelf);
        sight.strand = strand;
#else
        for (uint32_t c = 0; c < classes; ++c) {
            sight.shelves |= index_queue::something(s_.shelf[c]) ? 1u << c : 0;
        }
        sight.strand = index_queue::something(s_.stranded);
#endif
    }

    // As many other workers at once as there are lanes, from a place drawn at random.
    DENIZEN_HD void see_victims(Sight& sight)
    {
        ++looks_;
        random_ = random_ * 1664525u + 1013904223u;
        const uint32_t base = (random_ >> 8) % s_.workers;
#if DENIZEN_ON_DEVICE
        constexpr uint32_t each = denizen::lanes::size / P::classes;
        sight.c = denizen::lanes::id() % P::classes;
        sight.victim = base + denizen::lanes::id() / P::classes % each;
        sight.victim -= sight.victim >= s_.workers ? s_.workers : 0;
        sight.victim %= s_.workers; // fewer workers than lanes
        sight.seen = load<Scope::gpu>(&s_.deques[sight.victim].word[sight.c]);
        sight.some = denizen::lanes::id() < each * P::classes;
#else
        for (uint32_t i = 0; i < s_.workers * P::classes && deque::size(sight.seen) == 0; ++i) {
            sight.c = P::steal_order(i / s_.workers);
            sight.victim = (base + i) % s_.workers;
            sight.seen =
                sight.victim == id_ ? 0 : load<Scope::gpu>(&s_.deques[sight.victim].word[sight.c]);
        }
        sight.some = true;
#endif
        sight.some = sight.some && sight.victim != id_ && deque::size(sight.seen) != 0 &&
                     (sight.seen & deque::busy) == 0;
    }

    // Tasks for which this worker was named.
    DENIZEN_HD bool mail(const Sight& sight, Batch& batch)
    {
        const uint32_t here = denizen::lanes::ballot(sight.mail);
        if (here == 0) {
            return false;
        }
        [[maybe_unused]] bool plain = true; // a fence is for the device
        if (sight.mail) {
            Mailbox& box = s_.mailboxes[id_];
            mailbox::read(box, sight.letter, sight.first, batch.words.word);
            mailbox::clear(box, sight.letter, sight.first);
            batch.tokens = mailbox::tokens(sight.first) - 1; // beyond its own: for what it spawns
            plain = P::self_contained(type_of(batch.words.word[0]));
        }
#if DENIZEN_ON_DEVICE
        if (denizen::lanes::ballot(!plain) != 0) {
            __threadfence(); // partner: the sender's fence in mailbox::send()
        }
#endif
        letters_ += denizen::lanes::popcount(here);
        batch.mine = sight.mail;
        sort_out(batch);
        return true;
    }

    // A crate of spilled tasks, or of the host's.
    DENIZEN_HD bool shelves(const Sight& sight, Batch& batch)
    {
        for (uint32_t full = sight.shelves; full != 0; full &= full - 1) {
            const uint32_t c = denizen::lanes::first(full);
            if (deque::room(local_.seen[c], s_.deque_mask) < crate_tasks) {
                continue;
            }
            uint32_t tasks = 0; // that it has
            uint32_t number = 0;
            if (denizen::lanes::id() == 0) {
                crate::unshelve(s_, c, number, tasks);
            }
            tasks = denizen::lanes::shuffle(tasks, 0);
            if (tasks != 0) {
                unpack(c, denizen::lanes::shuffle(number, 0), tasks, batch);
                return true;
            }
        }
        return false;
    }

    // Thread tasks of a crate run at once if they are no more than there are lanes; else all of
    // them go to the own deque, which has room for them.
    DENIZEN_HD void unpack(uint32_t c, uint32_t number, uint32_t n, Batch& batch)
    {
        unsigned char* from = crate::at(s_, number);
        denizen::lanes::sync(); // one lane has acquired for all
        const uint32_t lane = denizen::lanes::id();
        ++crates_;
        const bool at_once = n <= denizen::lanes::size;
        if (at_once && lane < n) {
            detail::load_slot<P::slot>(crate::slot_in(from, lane, P::slot), batch.words);
        }
        batch.mine = at_once && lane < n;
        if (!at_once) {
            Context<P> ctx(s_, local_, id_, 0, Grain::thread);
            for (uint32_t i = lane; i < n; i += denizen::lanes::size) {
                Words words;
                detail::load_slot<P::slot>(crate::slot_in(from, i, P::slot), words);
                keep(ctx, words);
            }
            settle(ctx, false, 0);
        }
        denizen::lanes::sync(); // all have copied
        if (lane == 0) {
            crate::give(s_, number);
        }
        if (at_once) {
            take_apart(c, batch);
        }
    }

    // A continuation that found no room.
    DENIZEN_HD bool stranded(const Sight& sight, Batch& batch)
    {
        uint32_t index = 0;
        const bool found = sight.strand && index_queue::pop(s_.stranded, index);
        if (denizen::lanes::ballot(found) == 0) {
            return false;
        }
        if (found) {
            detail::load_slot<P::slot>(reinterpret_cast<const unsigned char*>(s_.join[index].word),
                                       batch.words);
            index_queue::push(s_.free_joins, index);
        }
        denizen::lanes::sync();
        batch.mine = found;
        sort_out(batch);
        return true;
    }

    // Half of another worker's oldest tasks, at most as many as there are lanes.
    DENIZEN_HD bool steal(const Sight& sight, Batch& batch)
    {
        uint32_t candidates = denizen::lanes::ballot(sight.some);
        for (uint32_t k = 0; k + 1 < P::classes; ++k) { // those that come first
            const uint32_t of_class =
                denizen::lanes::ballot(sight.some && sight.c == P::steal_order(k));
            if (of_class != 0) {
                candidates = of_class;
                break;
            }
        }
        if (candidates == 0) {
            return false;
        }
        const uint32_t chosen = denizen::lanes::first(candidates);
        const uint32_t lane = denizen::lanes::id();
        const uint32_t c = denizen::lanes::shuffle(sight.c, chosen);
        const uint32_t victim = denizen::lanes::shuffle(sight.victim, chosen);
        const uint32_t top = denizen::lanes::shuffle(deque::top(sight.seen), chosen);
        uint64_t* word = &s_.deques[victim].word[c];
        uint32_t n = 0;
        if (lane == chosen) {
            n = deque::steal(word, sight.seen,
                             denizen::lanes::size < steal_most ? denizen::lanes::size : steal_most);
        }
        n = denizen::lanes::shuffle(n, chosen);
        if (n == 0) {
            return false;
        }
        denizen::lanes::sync(); // one lane has acquired for all
        if (lane < n) {
            detail::load_slot<P::slot>(detail::slot_of(s_, victim, c, top + lane, P::slot),
                                       batch.words);
        }
        denizen::lanes::sync(); // all have copied
        if (lane == 0) {
            deque::finish(word);
        }
        ++steals_;
        stolen_ += n;
        batch.mine = lane < n;
        take_apart(c, batch);
        return true;
    }

    // ---- what of it is run next

    DENIZEN_HD static Grain grain_of(uint32_t c)
    {
        Grain grain = Grain::thread;
        for (uint32_t k = 0; k < P::classes; ++k) {
            grain = k == c ? P::grain_of_class(k) : grain;
        }
        return grain;
    }

    // The batch is of one class: of tasks of a warp or a block only the first stays in it; the
    // others go to the own deque, where they can be stolen.
    DENIZEN_HD void take_apart(uint32_t c, Batch& batch)
    {
        if constexpr (P::has_warps || P::has_blocks) {
            batch.grain = grain_of(c);
            if (batch.grain != Grain::thread) {
                const bool other = batch.mine && denizen::lanes::id() != 0;
                put_aside(other, batch);
                batch.mine = denizen::lanes::id() == 0;
            }
        }
    }

    // The batch may be of many classes: only the thread tasks stay in it.
    DENIZEN_HD void sort_out(Batch& batch)
    {
        if constexpr (P::has_warps || P::has_blocks) {
            const bool other =
                batch.mine && grain_of(class_of(batch.words.word[0])) != Grain::thread;
            put_aside(other, batch);
            batch.mine = batch.mine && !other;
        }
    }

    DENIZEN_HD void put_aside(bool other, const Batch& batch)
    {
        if (denizen::lanes::ballot(other) == 0) {
            return;
        }
        const uint32_t group = other ? group_of(batch.words.word[0]) : 0;
        Context<P> ctx(s_, local_, id_, group, Grain::thread, other ? batch.tokens : 0);
        if (other) {
            keep(ctx, batch.words);
        }
        settle(ctx, other, 0);
    }

    // A task that has its token already, to where it can be found.
    DENIZEN_HD void keep(Context<P>& ctx, const Words& words)
    {
        while (ctx.keep(words) != Errc::ok) {
            // Ends: others empty crates. Only a program whose deques are all full gets here.
            relax();
        }
    }

    // ---- running

    DENIZEN_HD void execute(const Batch& batch)
    {
        // What this one holds of another group's tokens must not wait for a long task.
        if (denizen::lanes::ballot(batch.mine &&
                                   group_of(batch.words.word[0]) != local_.pool_group) != 0) {
            give_back();
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

    DENIZEN_HD void run_threads(const Batch& batch)
    {
        const uint32_t n = denizen::lanes::popcount(denizen::lanes::ballot(batch.mine));
        Context<P> ctx(s_, local_, id_, group_of(batch.words.word[0]), Grain::thread, batch.tokens,
                       n);
        if (batch.mine && !dropped(ctx, true)) {
            P::template run<Grain::thread>(batch.words, ctx);
        }
        const bool alone = ended_alone(ctx, batch.mine); // on every lane
        const bool mine = batch.mine && !alone;
        run_ += denizen::lanes::popcount(denizen::lanes::ballot(batch.mine && !mine));
        settle(ctx, mine, mine ? 1 : 0);
    }

    // Waits for the other lanes' tasks; true if one takes so long that this lane's end has been
    // settled by itself. That others go on while this one waits, and the other way round, is what
    // the threads of a warp have promised since Volta: none holds up another for ever.
    DENIZEN_HD bool ended_alone([[maybe_unused]] Context<P>& ctx, [[maybe_unused]] bool mine)
    {
        bool alone = false;
#if DENIZEN_ON_DEVICE
        if (__activemask() == ~0u) { // nearly always: all have come at once
            return false;
        }
        // No lane has seen all of them, so each comes here.
        fetch_add<Scope::block>(&local_.arrived, 1u << denizen::lanes::id());
        for (uint32_t look = 0; load<Scope::block>(&local_.arrived) != ~0u; ++look) {
            if (look == detail::patient_lanes) { // ends when the longest task does
                ctx.end_alone(mine);
                alone = true;
            } else if (look > detail::patient_lanes) {
                Context<P>::share(s_, local_, id_);
            }
            __nanosleep(look < detail::patient_lanes ? 20 : 500);
        }
        denizen::lanes::sync();
        if (denizen::lanes::id() == 0) {
            store<Scope::block>(&local_.arrived, 0u);
        }
        denizen::lanes::sync();
#endif
        return alone;
    }

    DENIZEN_HD void run_warp(const Batch& batch)
    {
        Words same;
        for (uint32_t i = 0; i < 4 * Words::packets; ++i) {
            same.word[i] = denizen::lanes::shuffle(batch.words.word[i], 0);
        }
        Context<P> ctx(s_, local_, id_, group_of(same.word[0]), Grain::warp);
        const bool first = denizen::lanes::id() == 0;
        if (denizen::lanes::ballot(dropped(ctx, first)) == 0) {
            P::template run<Grain::warp>(same, ctx);
        }
        denizen::lanes::sync();
        settle(ctx, true, first ? 1 : 0);
    }

    // Whether the task's group was cancelled; `count` it then.
    DENIZEN_HD bool dropped(const Context<P>& ctx, bool count)
    {
        if (!ctx.in_cancelled_group()) {
            return false;
        }
        if (count) {
            fetch_add<Scope::gpu>(&s_.groups[ctx.group()].dropped, uint64_t{1});
        }
        return true;
    }

    // ---- a block's task

    DENIZEN_HD void run_block(const Words& words)
    {
#if DENIZEN_ON_DEVICE
        detail::Gathering& g = detail::gathering();
        uint32_t state = 0;
        if (denizen::lanes::id() == 0) {
            compare_exchange<Scope::block>(&g.state, state, detail::announced);
            if (state == 0) {
                g.announcer = id_;
                for (uint32_t i = 0; i < 4 * Words::packets; ++i) {
                    g.word[i] = words.word[i];
                }
            }
        }
        if (denizen::lanes::shuffle(state, 0) == 0) {
            meet();
            return;
        }
        // Another warp of the block was first, or they leave: this one's waits.
        Context<P> ctx(s_, local_, id_, 0, Grain::thread);
        if (denizen::lanes::id() == 0) {
            keep(ctx, words);
        }
        settle(ctx, false, 0);
        join_block();
#else
        Context<P> ctx(s_, local_, id_, group_of(words.word[0]), Grain::block);
        if (!dropped(ctx, true)) {
            P::template run<Grain::block>(words, ctx);
        }
        settle(ctx, true, 1);
#endif
    }

    DENIZEN_HD void join_block()
    {
#if DENIZEN_ON_DEVICE
        if constexpr (P::has_blocks) {
            const uint32_t state = load<Scope::block>(&detail::gathering().state);
            if (denizen::lanes::shuffle(state, 0) == detail::announced) {
                meet();
            }
        }
#endif
    }

#if DENIZEN_ON_DEVICE
    // All warps of the block come here: each looks at the state in every turn, and none leaves
    // while a task is announced.
    __device__ void meet()
    {
        detail::Gathering& g = detail::gathering();
        const auto barrier = [&] {
            __syncwarp();
            asm volatile("barrier.cta.sync 1, %0;" ::"r"(32 * s_.per_block) : "memory");
        };
        barrier();
        Words words;
        for (uint32_t i = 0; i < 4 * Words::packets; ++i) {
            words.word[i] = g.word[i];
        }
        const bool announcer = g.announcer == id_;
        if (group_of(words.word[0]) != local_.pool_group) {
            give_back();
        }
        Context<P> ctx(s_, local_, id_, group_of(words.word[0]), Grain::block);
        __shared__ uint32_t drop;
        if (threadIdx.x == 0) {
            drop = dropped(ctx, true) ? 1 : 0;
        }
        barrier();
        // Everyone is here: the next may be announced once all are through.
        if (announcer && denizen::lanes::id() == 0) {
            store<Scope::block>(&g.state, 0u);
        }
        if (drop == 0) {
            P::template run<Grain::block>(words, ctx);
        }
        __syncwarp();
        settle(ctx, false, 0); // while the task's token still stands
        barrier();
        if (announcer) {
            account_all(denizen::lanes::id() == 0, ctx.group(), 1, 0);
            ++run_;
        }
    }
#endif

    // ---- after a batch

    // Counts and publishes what the batch has spawned. All lanes: `mine` has had a task, of which
    // `ended` have ended on this lane.
    DENIZEN_HD void settle(Context<P>& ctx, bool mine, uint32_t ended)
    {
        const bool busy = denizen::lanes::ballot(ctx.busy()) != 0;
        if (busy) {
            ctx.close_crate();
            denizen::lanes::sync();
        }
        account_all(mine || ctx.spawned() != 0, ctx.group(), ended + ctx.tokens(),
                    busy ? ctx.spawned() : 0);
        run_ += denizen::lanes::popcount(denizen::lanes::ballot(ended != 0));
        batches_ += 1;
        if (busy) {
            publish();
            recycle();
        }
    }

    // Lanes say for their groups how many tokens they have got and how many they need.
    DENIZEN_HD void account_all(bool mine, uint32_t group, uint32_t got, uint32_t needed)
    {
        uint32_t left = denizen::lanes::ballot(mine);
        while (left != 0) { // ends: each turn settles one group; nearly always there is one
            const uint32_t g = denizen::lanes::shuffle(group, denizen::lanes::first(left));
            const bool same = mine && group == g;
            left &= ~denizen::lanes::ballot(same);
            const uint32_t all_got = denizen::lanes::sum(same ? got : 0);
            const uint32_t all_needed = denizen::lanes::sum(same ? needed : 0);
            if (denizen::lanes::id() == 0) {
                account(g, all_got, all_needed);
            }
        }
        denizen::lanes::sync();
    }

    // One lane.
    DENIZEN_HD void account(uint32_t group, uint32_t got, uint32_t needed)
    {
        if (local_.pool_group != group) {
            give_back_pool();
            local_.pool_group = group;
        }
        uint32_t have = local_.pool + got;
        if (have < needed) {
            // With some to spare: the next batch will need as many. Before the tasks are published.
            const uint32_t more = 2 * needed - have;
            fetch_add<Scope::gpu>(&s_.groups[group].word, uint64_t{more});
            have += more;
        }
        local_.pool = have - needed;
    }

    DENIZEN_HD void give_back_pool()
    {
        if (local_.pool != 0) {
            // Release: what the tasks have done comes before; partner: the monitor's acquire. Never
            // below 0: these tokens have been added before.
            const uint64_t before = fetch_add<Scope::gpu, Order::release>(
                &s_.groups[local_.pool_group].word, ~uint64_t{local_.pool} + 1);
            tell_monitor(static_cast<uint32_t>(before) == local_.pool);
            local_.pool = 0;
        }
    }

    DENIZEN_HD void give_back()
    {
        if (denizen::lanes::id() == 0) {
            give_back_pool();
        }
        denizen::lanes::sync();
    }

    DENIZEN_HD void publish()
    {
        for (uint32_t c = denizen::lanes::id(); c < P::classes; c += denizen::lanes::size) {
            uint64_t seen = local_.seen[c];
            const uint32_t early = local_.early[c];
            const uint32_t n = Context<P>::written_past(s_, local_, c) - early;
            if (n != 0) {
                deque::publish(&s_.deques[id_].word[c], seen, n);
            }
            local_.seen[c] = seen + (static_cast<uint64_t>(early) << 32);
            local_.fresh[c] = local_.early[c] = 0;
        }
        if (denizen::lanes::id() == 0) {
            local_.reported = 0;
        }
        denizen::lanes::sync();
        wake();
    }

    // Joins that became free are the next to be used; too many or too few are evened out, by as
    // many at once as there are lanes.
    DENIZEN_HD void recycle()
    {
        const auto signed_count = static_cast<int32_t>(local_.cached);
        uint32_t cached = signed_count < 0 ? 0 : local_.cached;
        const uint32_t freed = local_.freed < join_batch ? local_.freed : join_batch;
        uses_joins_ = uses_joins_ || signed_count < 0 || freed != 0;
        if (freed == 0 && (!uses_joins_ || signed_count >= static_cast<int32_t>(join_batch))) {
            return;
        }
        const uint32_t lane = denizen::lanes::id();
        denizen::lanes::sync();
        for (uint32_t i = 0; i < freed; i += denizen::lanes::size) {
            const uint32_t n = freed - i < denizen::lanes::size ? freed - i : denizen::lanes::size;
            const uint32_t index = lane < n ? local_.free_join[i + lane] : 0;
            if (cached + n > s_.join_cache) {
                index_queue::push_many(s_.free_joins, n, index);
            } else {
                if (lane < n) {
                    local_.cache[cached + lane] = index;
                }
                cached += n;
            }
        }
        if (cached < join_batch && s_.join_cache >= join_batch + denizen::lanes::size) {
            uint32_t index = 0;
            const uint32_t n = index_queue::pop_many(s_.free_joins, denizen::lanes::size, index);
            if (lane < n) {
                local_.cache[cached + lane] = index;
            }
            cached += n;
        }
        denizen::lanes::sync();
        if (lane == 0) {
            local_.cached = cached;
            local_.freed = 0;
        }
        denizen::lanes::sync();
    }

    // ---- leaving and waiting

    DENIZEN_HD bool leaving() const
    {
        const uint32_t command = load<Scope::gpu>(&s_.board->command);
        return denizen::lanes::shuffle(command, 0) != static_cast<uint32_t>(Command::run);
    }

    // What the worker holds goes back to memory; its tasks stay in its deques. False if the block
    // has a task to run first.
    DENIZEN_HD bool leave()
    {
#if DENIZEN_ON_DEVICE
        if constexpr (P::has_blocks) {
            uint32_t state = 0;
            if (denizen::lanes::id() == 0) {
                compare_exchange<Scope::block>(&detail::gathering().state, state, detail::leaving);
            }
            if (denizen::lanes::shuffle(state, 0) == detail::announced) {
                return false;
            }
        }
#endif
        give_back();
        const auto cached = static_cast<int32_t>(local_.cached);
        for (int32_t i = 0; i < cached; i += static_cast<int32_t>(denizen::lanes::size)) {
            const auto left = static_cast<uint32_t>(cached - i);
            const uint32_t n = left < denizen::lanes::size ? left : denizen::lanes::size;
            const uint32_t lane = denizen::lanes::id();
            index_queue::push_many(s_.free_joins, n,
                                   lane < n ? local_.cache[static_cast<uint32_t>(i) + lane] : 0);
        }
        tell();
        denizen::lanes::sync();
        if (denizen::lanes::id() == 0) {
            // Release: partner of the monitor's acquire, which says that all have left.
            fetch_add<Scope::gpu, Order::release>(&s_.board->left, 1u);
            tell_monitor(true);
        }
        return true;
    }

    // Adds to the tally what was done since the last time.
    DENIZEN_HD void tell()
    {
        if (denizen::lanes::id() == 0) {
            Tally& t = s_.tally[id_];
            const auto add = [](uint64_t& to, uint64_t n) {
                if (n != 0) {
                    store<Scope::gpu>(&to, load<Scope::gpu>(&to) + n);
                }
            };
            add(t.run, run_);
            add(t.batches, batches_);
            add(t.steals, steals_);
            add(t.stolen, stolen_);
            add(t.crates, crates_);
            add(t.letters, letters_);
            add(t.looks, looks_);
            add(t.spilled, local_.spilled);
            add(t.joins, local_.joined);
            local_.spilled = local_.joined = 0;
        }
        run_ = batches_ = steals_ = stolen_ = crates_ = letters_ = looks_ = 0;
        denizen::lanes::sync();
    }

    // CPU: workers and the monitor sleep when they find nothing for long.
    DENIZEN_HD void wake() const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&s_.board->bell, &s_.board->sleeping);
#endif
    }
    DENIZEN_HD void tell_monitor([[maybe_unused]] bool some) const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        if (some) {
            ring_bell(&s_.board->monitor_bell, &s_.board->monitor_sleeping);
        }
#endif
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
            sleep_on_bell(&s_.board->bell, &s_.board->sleeping, 2'000'000,
                          [this] { return something_anywhere(); });
        }
#endif
    }

#if DENIZEN_HOSTED
    bool something_anywhere() const
    {
        Packet first;
        bool some = leaving() || index_queue::something(s_.stranded);
        for (uint32_t slot = 0; slot < mail_slots; ++slot) {
            some = some || mailbox::arrived(s_.mailboxes[id_], slot, first);
        }
        for (uint32_t c = 0; c < P::classes; ++c) {
            some = some || index_queue::something(s_.shelf[c]);
            for (uint32_t w = 0; w < s_.workers; ++w) {
                some = some || deque::size(load<Scope::gpu>(&s_.deques[w].word[c])) != 0;
            }
        }
        return some;
    }
#endif

    const Shared& s_;
    uint32_t id_;
    Local<P>& local_;
    uint32_t random_;
    bool uses_joins_ = false;
    uint32_t run_ = 0;
    uint32_t batches_ = 0;
    uint32_t steals_ = 0;
    uint32_t stolen_ = 0;
    uint32_t crates_ = 0;
    uint32_t letters_ = 0;
    uint32_t looks_ = 0;
};

} // namespace denizen::task
