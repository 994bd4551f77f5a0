// SPDX-License-Identifier: Apache-2.0
// The context that a task's run(ctx) gets: it spawns tasks, counts arrivals, answers the host and
// allocates. A context is valid only while its task runs.
//
// Each lane has a context of its own, in registers. A function that is called rarely lies out of
// line; it takes copies and returns copies, because a pointer to the context would move the whole
// context from registers into memory.
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/base/errc.hpp>
#include <denizen/base/out_of_sight.hpp>
#include <denizen/task/detail/crate.hpp>
#include <denizen/task/detail/gathering.hpp>
#include <denizen/task/detail/local.hpp>
#include <denizen/task/detail/mailbox.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen::task {

// Where a task puts a result that the host waits for. It is passed as one of the task's arguments.
template <class T>
struct Promise {
    uint32_t answer = 0;
    uint32_t sequence = 0; // never 0 in a promise that was made
};

template <class P>
class Context {
public:
    using Words = typename P::Words;

    // `tokens` came with the task: it may spawn as many tasks without fetching more. At most
    // `batch` tasks run side by side on this worker.
    DENIZEN_HD Context(const Shared& s, Local<P>& local, uint32_t worker, uint32_t group,
                       Grain grain, uint32_t tokens = 0, uint32_t batch = 1)
        : s_(s), local_(local), worker_(worker), group_(group), grain_(grain), tokens_(tokens),
          batch_(batch)
    {
    }

    // Makes a task runnable. Returns ok, or exhausted: then the deque is full, the arena has no
    // block left, and the task was not taken.
    //
    // Other workers can steal the new task when this task calls cancelled() or ends. If other tasks
    // of the same warp run on after that, the new task becomes visible soon, unless one of them has
    // spawned since it last called cancelled().
    //
    // In a warp's or block's task all lanes make the call; lane 0's task is spawned, and lane 0
    // gets the result.
    template <class X>
    DENIZEN_HD Errc spawn(const X& task)
    {
        return lane() == 0 ? spawn_by_lane(task) : Errc::ok;
    }
    // As spawn(), but each lane that calls it spawns a task of its own.
    template <class X>
    DENIZEN_HD Errc spawn_by_lane(const X& task)
    {
        return put(P::encode(task, group_));
    }
    // Spawns a task for worker `worker` modulo workers(). That worker sees the task at once, and no
    // other worker steals it. If its mailbox is full, the call does what spawn() does.
    template <class X>
    DENIZEN_HD Errc spawn_on(uint32_t worker, const X& task)
    {
        if (lane() != 0) {
            return Errc::ok;
        }
        const Words words = P::encode(task, group_);
        const uint32_t tokens = tokens_for_one();
        constexpr uint32_t used = 1 + (detail::bytes_of<X> + 3) / 4;
        const bool ordered = !detail::self_contained_of<X>() || joined_; // it may know the counter
        if (worker >= s_.workers) {
            worker %= s_.workers;
        }
        if (mailbox::send<used>(s_.mailboxes[worker], worker_, words.word, tokens, ordered)) {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
            ring_bell(&s_.board->bell, &s_.board->sleeping);
#endif
            return Errc::ok;
        }
        tokens_ += tokens;
        return put(words);
    }

    // A continuation: `task` is spawned after `arrivals` (1 to 16,777,215) calls of arrive(), by
    // the worker that makes the last of them. If `task` has a member `sum` (4 or 8 bytes, aligned
    // to 4), it becomes the sum of the arrivals' values, modulo 2^40. Returns Counter{0} if all
    // counters are in use. A continuation that still waits is no work: the host's wait() does not
    // wait for it.
    template <class X>
    DENIZEN_HD Counter when(uint32_t arrivals, const X& task);
    // As when(), for a program that knows its types only by number (src/task/functions.cpp).
    // `sum_at` is sum_place(), or 0 if the task has no member `sum`.
    template <class X>
    DENIZEN_HD Counter when_raw(uint32_t arrivals, const X& task, uint32_t sum_at);
    // Encodes at which byte a task's member `sum` lies, and how many bytes it has.
    static DENIZEN_HD constexpr uint32_t sum_place(uint32_t offset, uint32_t bytes)
    {
        return (1 + offset / 4) | bytes / 4 << 8;
    }
    // One arrival, with a value for the sum. The continuation sees everything that this task has
    // written before, unless this task's type is self_contained. Does nothing for Counter{0}.
    DENIZEN_HD void arrive(Counter counter, uint64_t value = 0)
    {
        if (counter.index == 0) {
            return;
        }
        Join& join = s_.join[counter.index];
        const uint64_t step = (value << count_bits) - 1;
        uint64_t before = 0;
        if (fences_) {
            // Partner: the same in the tasks that arrive after this.
            before = fetch_add<Scope::gpu, Order::acq_rel>(&join.count, step);
        } else {
            before = fetch_add<Scope::gpu, on_host(Order::acq_rel)>(&join.count, step);
        }
        if ((before & count_mask) == 1) {
            fire(counter.index, (before >> count_bits) + value);
        }
    }

    // Sets the result that the host waits for. At most one call for each promise.
    template <class T>
    DENIZEN_HD void set(const Promise<T>& promise, const T& value)
    {
        static_assert(sizeof(T) <= answer_payload && __is_trivially_copyable(T));
        if (promise.answer >= s_.answers || promise.sequence == 0) {
            return;
        }
        Answer& answer = s_.answer[promise.answer];
        uint32_t words[12] = {};
        copy_bytes(words, &value, sizeof(T));
#if DENIZEN_ON_DEVICE
        if (fences_) {
            __threadfence_system(); // partner: the host's acquire in Future::get
        }
#endif
        for (uint32_t k = 0; k < (sizeof(T) + 11) / 12; ++k) {
            store_packet<Scope::system>(
                &answer.packet[k],
                Packet{{words[3 * k], words[3 * k + 1], words[3 * k + 2]}, promise.sequence});
        }
    }

    // Whether this task's group has been cancelled, or is late. A long task should call this now
    // and then; each call also lets other workers steal what the task has spawned.
    DENIZEN_HD bool cancelled()
    {
        hand_out();
        return in_cancelled_group();
    }
    // Cancels this task's group: its tasks that have not begun are dropped. Group 0, which holds
    // the tasks outside groups, cannot be cancelled: there the call does nothing.
    DENIZEN_HD void cancel()
    {
        if (group_ != 0 && lane() == 0) {
            store<Scope::gpu>(&s_.groups[group_].cancelled,
                              static_cast<uint32_t>(Cancelled::asked));
        }
    }

    // The runtime's arena; tasks that find no room in a deque take their memory from it, too. A
    // block outlives its task: another task that knows the address may give it back. Each thread
    // that calls allocate() gets a block of its own.
    DENIZEN_HD ArenaRef arena() const { return s_.arena; }

    DENIZEN_HD uint32_t worker() const { return worker_; }
    DENIZEN_HD uint32_t workers() const { return s_.workers; }

    // lane(): the number of this thread among those that run the task. lanes(): how many they are.
    DENIZEN_HD uint32_t lane() const
    {
#if DENIZEN_ON_DEVICE
        return grain_ == Grain::thread ? 0
               : grain_ == Grain::warp ? denizen::lanes::id()
                                       : threadIdx.x;
#else
        return 0;
#endif
    }
    DENIZEN_HD uint32_t lanes() const
    {
        return grain_ == Grain::thread ? 1
               : grain_ == Grain::warp ? denizen::lanes::size
                                       : denizen::lanes::size * s_.per_block;
    }
    // A barrier of the task's threads. Afterwards each sees what the others wrote before it.
    DENIZEN_HD void sync() const
    {
#if DENIZEN_ON_DEVICE
        if (grain_ == Grain::warp) {
            denizen::lanes::rejoin();
        } else if (grain_ == Grain::block) {
            gathering::barrier(s_);
        }
#endif
    }

    // ---- for the worker

    template <class X>
    DENIZEN_HD void begin()
    {
        fences_ = !detail::self_contained_of<X>();
    }
    DENIZEN_HD uint32_t group() const { return group_; }
    DENIZEN_HD uint32_t spawned() const { return spawned_; }
    DENIZEN_HD uint32_t tokens() const { return tokens_; } // that are left
    DENIZEN_HD bool in_cancelled_group() const
    {
        return group_ != 0 && load<Scope::gpu>(&s_.groups[group_].cancelled) != 0;
    }
    // Settles the end of this lane's task by itself, while other tasks of the batch run on. What
    // the task has spawned becomes visible, and its group may end. `ended`: the lane had a task.
    DENIZEN_HD void end_alone(bool ended)
    {
        hand_out();
        const uint32_t back = tokens_ + (ended ? 1 : 0);
        if (back != 0) {
            // Release: what the task has done comes before; partner: the monitor's acquire.
            add_global<Order::release>(&s_.groups[group_].word, ~uint64_t{back} + 1);
            tokens_ = 0;
        }
    }
    // Publishes what the batch has spawned so far, if its lanes have reported all of it. One lane
    // at a time publishes for all. `worker` is the worker of all these lanes.
    static DENIZEN_COLD void share(const Shared& s, Local<P>& local, uint32_t worker)
    {
        uint32_t written = 0;
        do { // ends: each turn but the first means that another lane has reported something
            uint32_t nobody = 0;
            if (!compare_exchange<Scope::block, Order::acquire>(&local.sharing, nobody, 1u)) {
                return; // the lane that publishes looks again before it ends
            }
            // Acquire: partner of the release in report(). `fresh` counts every place that a lane
            // has drawn. So if it counts no more places than were reported, all are written.
            written = load<Scope::block, Order::acquire>(&local.reported);
            uint32_t meant[P::classes];
            uint32_t all = 0;
            for (uint32_t c = 0; c < P::classes; ++c) {
                meant[c] = written_past(s, local, c);
                all += meant[c];
            }
            for (uint32_t c = 0; all == written && c < P::classes; ++c) {
                const uint32_t more = meant[c] - local.early[c];
                if (more != 0) {
                    uint64_t bottom = 0;
                    deque::publish(&s.deques[worker].word[c], bottom, more);
                    local.early[c] = meant[c];
                }
            }
            // Release: partner of the acquire above, of whoever shares next.
            store<Scope::block, Order::release>(&local.sharing, 0u);
        } while (load<Scope::block>(&local.reported) != written);
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&s.board->bell, &s.board->sleeping);
#endif
    }
    // How many tasks of class c the batch has written past the bottom, or is about to write.
    static DENIZEN_HD uint32_t written_past(const Shared& s, const Local<P>& local, uint32_t c)
    {
        const uint32_t fresh = load<Scope::block>(&local.fresh[c]);
        const uint32_t room = deque::room(local.seen[c], s.deque_mask);
        return fresh < room ? fresh : room;
    }
    // Whether the worker has tasks to publish, or counters to return.
    DENIZEN_HD bool busy() const { return touched_ || crate_.number != 0; }

    // Puts aside a task that has its token already: into the worker's own deque, published with the
    // batch, or into a crate for the shelf. Returns exhausted if neither has room.
    DENIZEN_HD Errc keep(const Words& words)
    {
        if (place(words)) {
            return Errc::ok;
        }
        crate_ = out_of_sight(&pack)(s_, local_, crate_, words, true);
        return crate_.full != 0 ? Errc::exhausted : Errc::ok;
    }
    // Puts this lane's crate, if it has one, on its shelf.
    DENIZEN_HD void close_crate()
    {
        if (crate_.number != 0) {
            ship(s_, local_, crate_);
            crate_.number = 0;
        }
    }

private:
    // The crate that a lane fills with tasks that find no room in the deque.
    struct Crate {
        uint32_t number = 0; // + 1; 0: none
        uint32_t c = 0;      // class
        uint32_t tasks = 0;
        uint32_t full = 0; // 1: there was no room for the last one
    };

    // An order that only the host needs. The device has the order by other means, which a comment
    // at each use names.
    static DENIZEN_HD constexpr Order on_host(Order order)
    {
#if DENIZEN_ON_DEVICE
        return (void)order, Order::relaxed;
#else
        return order;
#endif
    }

    DENIZEN_HD bool place(const Words& words)
    {
        touched_ = true;
        const uint32_t c = class_of(words.word[0]);
        const uint64_t seen = local_.seen[c];
        const uint32_t at = fetch_add<Scope::block>(&local_.fresh[c], 1u);
        if (at >= deque::room(seen, s_.deque_mask)) {
            return false;
        }
        detail::store_slot<P::slot>(
            detail::slot_of(s_, worker_, c, deque::bottom(seen) + at, P::slot), words);
        ++placed_;
        return true;
    }

    // Lets other workers take what this lane has spawned so far, before the batch ends.
    DENIZEN_HD void hand_out()
    {
        close_crate();
        if (placed_ != 0) {
            report(s_, local_, group_, spawned_, placed_);
            spawned_ = placed_ = 0;
            share(s_, local_, worker_);
        }
    }
    // Adds the tokens of the spawned tasks before any of these tasks becomes visible.
    static DENIZEN_COLD void report(const Shared& s, Local<P>& local, uint32_t group,
                                    uint32_t spawned, uint32_t placed)
    {
        if (spawned != 0) {
            add_global(&s.groups[group].word, uint64_t{spawned});
        }
        // Release: partner of the acquire in share().
        fetch_add<Scope::block, Order::release>(&local.reported, placed);
    }

    DENIZEN_HD Errc put(const Words& words)
    {
        if (place(words)) {
            if (group_of(words.word[0]) == group_) {
                ++spawned_; // counted when the batch is published
            } else {
                count_early(s_, group_of(words.word[0]));
            }
            return Errc::ok;
        }
        crate_ = out_of_sight(&pack)(s_, local_, crate_, words, false);
        if (crate_.full != 0) {
            fetch_add<Scope::gpu>(&s_.board->refused, 1u);
            return Errc::exhausted;
        }
        count_early(s_, group_of(words.word[0])); // before the crate is shipped
        return Errc::ok;
    }

    // The token of a task that is published before this batch is counted, or of another group's.
    static DENIZEN_HD void count_early(const Shared& s, uint32_t group)
    {
        add_global(&s.groups[group].word, uint64_t{1});
    }

    static DENIZEN_COLD Crate pack(const Shared& s, Local<P>& local, Crate to, Words words,
                                   bool accepted)
    {
        const uint32_t c = class_of(words.word[0]);
        if (to.number != 0 && (to.c != c || to.tasks == crate_tasks)) {
            ship(s, local, to);
            to.number = 0;
        }
        if (to.number == 0) {
            const uint32_t number = crate::take(s, accepted);
            to.full = number == crate::none ? 1 : 0;
            if (to.full != 0) {
                return to;
            }
            to = {number + 1, c, 0, 0};
        }
        detail::store_slot<P::slot>(crate::slot_in(crate::at(s, to.number - 1), to.tasks, P::slot),
                                    words);
        ++to.tasks;
        return to;
    }

    static DENIZEN_COLD void ship(const Shared& s, Local<P>& local, Crate full)
    {
        fetch_add<Scope::block>(&local.spilled, full.tasks);
        crate::shelve(s, full.c, full.number - 1, full.tasks);
    }

    // How many tokens travel with a task to another worker: all that came with this task, or this
    // task's share of what the worker has. So a chain of tasks seldom has to fetch tokens.
    DENIZEN_HD uint32_t tokens_for_one()
    {
        if (tokens_ != 0) {
            const uint32_t all = tokens_;
            tokens_ = 0;
            return all;
        }
        return spare_tokens(s_, local_, group_, batch_);
    }
    static DENIZEN_COLD uint32_t spare_tokens(const Shared& s, Local<P>& local, uint32_t group,
                                              uint32_t batch)
    {
        if (local.pool_group == group) {
            uint32_t have = load<Scope::block>(&local.pool);
            while (have != 0) { // ends: a failure means that another lane took some
                uint32_t some = (have + batch - 1) / batch;
                some = some < mailbox::most_tokens ? some : mailbox::most_tokens;
                if (compare_exchange<Scope::block>(&local.pool, have, have - some)) {
                    return some;
                }
            }
        }
        constexpr uint32_t grant = 1u << 16;
        // The addition comes before the task, whose end takes it back: the fence that orders them
        // is the release of the next access to the word.
        add_global<Order::release>(&s.groups[group].word, uint64_t{grant});
#if DENIZEN_ON_DEVICE
        __threadfence();
#endif
        return grant;
    }

    DENIZEN_HD uint32_t take_join();
    static DENIZEN_COLD uint32_t fetch_join(const Shared& s);

    // The last arrival has come: spawns the continuation and frees its counter.
    DENIZEN_HD void fire(uint32_t index, uint64_t sum);
    static DENIZEN_COLD void return_join(const Shared& s, uint32_t index);

    // The arena is full, there is no caller to report that to, and the continuation must not be
    // lost. It stays in its counter, where the next worker without work finds it.
    static DENIZEN_COLD void strand(const Shared& s, uint32_t index, Words words);

    const Shared& s_;
    Local<P>& local_;
    uint32_t worker_;
    uint32_t group_;
    Grain grain_;
    uint32_t tokens_;
    uint32_t batch_;
    bool fences_ = true;
    bool joined_ = false;  // this task has made a counter
    bool touched_ = false; // it has used the deque or a counter
    uint32_t spawned_ = 0; // into the own deque, not counted yet
    uint32_t placed_ = 0;  // there, not reported yet
    Crate crate_;
};

} // namespace denizen::task

#include <denizen/task/detail/context_joins.hpp>
