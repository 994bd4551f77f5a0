// SPDX-License-Identifier: Apache-2.0
// What a handler can do besides changing its own state. Valid only during the handler.
//
// What is said here of a whole-warp handler and its lanes goes for a handler of a block and its
// threads. There each call that every thread must make is a barrier, too: it begins when all have
// come, and they go on when it is done (detail/context_block.hpp).
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/access.hpp>
#include <denizen/actor/detail/handover.hpp>
#include <denizen/actor/detail/pool.hpp>
#include <denizen/actor/detail/post_whole.hpp>
#include <denizen/actor/detail/spawn.hpp>
#include <denizen/actor/detail/system.hpp>
#include <denizen/actor/detail/timers.hpp>
#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/memory/arena/ref.hpp>

namespace denizen {

// What send_after() and send_every() give, for cancel(). May be kept in the actor's state.
struct Timer {
    uint32_t value = 0; // 0: none
    DENIZEN_HD explicit constexpr operator bool() const { return value != 0; }
};

template <class P>
class Context {
public:
    DENIZEN_HD Context(const Shared& shared, uint32_t worker, uint32_t self, uint32_t sender,
                       bool whole_warp, uint32_t type = no_type, void* state = nullptr,
                       bool calls = false, detail::Handover* next = nullptr)
        : shared_(shared), worker_(worker), self_(self), sender_(sender), whole_warp_(whole_warp),
          calls_(calls), type_(type), state_(state), next_(next)
    {
    }

    // Sends to an actor or to the host. Never waits: a message that finds its ring full is parked
    // with its place in the order, or, if the actor's policy is Overflow::fail, not sent: then the
    // answer is false. In a whole-warp handler the message is sent once, by lane 0; every lane must
    // make the call, and gets the answer.
    template <class M>
    DENIZEN_HD bool send(Address to, const M& message);

    // The same for lanes that each have a message of their own, of at most 36 bytes and without
    // buffers: those that say `mine` send side by side. In a whole-warp handler every lane must
    // make the call; the answer is the lane's.
    template <class M>
    DENIZEN_HD bool send_each(Address to, const M& message, bool mine = true)
    {
        static_assert(P::template message_id<M> != no_type, "not a message type of this program");
        static_assert(sizeof(M) <= first_payload && !detail::refers<M>,
                      "what lanes send side by side is at most 36 bytes, without buffers");
        if constexpr (P::has_buffers) {
            refer(message);
        }
        bool sent = true;
        if (mine) {
            sent = post(to, message);
        }
        if (whole_warp_) {
            denizen::lanes::rejoin();
        }
        return sent;
    }

    // Answers the message being handled: to the `ask` that waits for it, to the actor that sent it,
    // or, if the host sent it without asking, to the host's egress ring.
    template <class M>
    DENIZEN_HD void reply(const M& message)
    {
        if constexpr (!P::has_buffers && sizeof(M) <= compact_payload &&
                      detail::priority_of<M>() == Priority::data) {
            if (!whole_warp_ && !calls_ && answer(message)) {
                return;
            }
        }
        send(Address{sender_}, message);
    }

    // Sends to all subscribers of a topic, whichever node they are on: so many sends, each with all
    // that is promised of one. An actor gets the message once for each of its subscriptions that
    // match. Returns to how many it was sent. In a whole-warp handler every lane must make the
    // call, with a message of more than 36 bytes the same one; the lanes send side by side.
    template <class M>
    DENIZEN_HD uint32_t publish(const Topic& topic, const M& message)
    {
        return publish_by(topic.key, nullptr, message);
    }
    // The same; of a topic of more than 15 bytes the prefixes that somebody subscribes to are
    // hashed with each call. In a whole-warp handler every lane gives the same topic.
    template <class M>
    DENIZEN_HD uint32_t publish(const LongTopic& topic, const M& message)
    {
        return publish_by(topic.key, topic.text, message);
    }

    // The same for handlers that know a message's type by its number alone
    // (src/actor/handlers.cpp). `payload`: of a short message, nine words. Called by one thread,
    // not by a whole warp.
    DENIZEN_HD bool send_raw(Address to, uint32_t type, uint32_t length, Priority priority,
                             const void* payload);
    DENIZEN_HD uint32_t publish_raw(const TopicKey& key, const unsigned char* text, uint32_t type,
                                    uint32_t length, Priority priority, const void* payload);

    // From soon on this actor gets what is published to the topic, or to all that begin so: once
    // worker 0 of each publisher's node knows. Until it unsubscribes or stops; a restart changes
    // nothing. A table without room is the program's error (Errc::exhausted).
    DENIZEN_HD void subscribe(const TopicPattern& pattern)
    {
        change_topic(SystemOp::subscribe, pattern);
    }
    DENIZEN_HD void unsubscribe(const TopicPattern& pattern)
    {
        change_topic(SystemOp::unsubscribe, pattern);
    }

    // Sends a message, of at most 36 bytes and without buffers, not before so many ns from now have
    // passed, and then as soon as the worker looks (docs/context.md#later): a difference below 0,
    // as of `then - now`, is none. From this actor, which need not be its receiver; to whoever it
    // is by then. None (false), and counted, if all of the worker's timer_slots are taken. It ends
    // with this actor: when it stops or is restarted. In a whole-warp handler one lane's, lane 0's;
    // every lane must make the call.
    template <class M>
    DENIZEN_HD Timer send_after(uint64_t ns, Address to, const M& message)
    {
        return send_later(ns, 0, to, message);
    }
    // The same again and again, every so many ns (at least 1) from now on; for each period at most
    // once: what a worker that was busy, paused or off its processor has missed is not made up for.
    template <class M>
    DENIZEN_HD Timer send_every(uint64_t ns, Address to, const M& message)
    {
        return send_later(ns, static_cast<int64_t>(ns) > 0 ? ns : 1, to, message);
    }
    // Either for handlers that know a message's type by its number alone, as send_raw().
    // `every_ns`: 0: once. Called by one thread.
    DENIZEN_HD Timer send_later_raw(uint64_t ns, uint64_t every_ns, Address to, uint32_t type,
                                    uint32_t length, Priority priority, const void* payload);
    // True: it will not be sent (again). False: it has been, or was none of this actor's.
    DENIZEN_HD bool cancel(Timer timer);

    // Makes an actor of this program on this worker, at once: its state is A{arguments...}, and its
    // address may be used and given to others now. `nowhere` (where what is sent is a dead letter),
    // and counted, if all of the worker's spawn_room places are taken: an actor that stops gives
    // its place back, and its address is given out again after those of all others that are free.
    // To be told how it fares, and restart it, watch() it. In a whole-warp handler one is made,
    // with lane 0's arguments; every lane must make the call.
    template <class A, class... Arguments>
    DENIZEN_HD Address spawn(const Arguments&... arguments)
    {
        constexpr uint32_t type = P::template actor_id<A>;
        static_assert(type != no_type, "not an actor type of this program");
        static_assert(detail::spawned_of<A>(), "an actor that handlers spawn declares "
                                               "`static constexpr bool spawned = true`");
        Address made = nowhere;
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            const uint32_t local = detail::take_place(shared_, worker_);
            if (local != detail::no_place) {
                P::template begin<A>(detail::state_of_place(shared_, worker_, local), arguments...);
                detail::open_place(shared_, worker_, local, type);
                made = told(Address::actor(worker_, local, shared_.node).value);
            }
        }
        if (whole_warp_) {
            denizen::lanes::rejoin();
            made.value = denizen::lanes::shuffle(made.value, 0);
        }
        return made;
    }

    // The same for handlers that know a type by its number alone, as send_raw(). The state is
    // copied byte by byte. Called by one thread.
    DENIZEN_HD Address spawn_raw(uint32_t type, const void* state)
    {
        const uint32_t local = detail::take_place(shared_, worker_);
        if (local == detail::no_place) {
            return nowhere;
        }
        P::begin(type, detail::state_of_place(shared_, worker_, local), state);
        detail::open_place(shared_, worker_, local, type);
        return told(Address::actor(worker_, local, shared_.node).value);
    }

    // Has a task of this program run, once, by whichever worker of this node has time: see
    // actor/tasks.hpp. False, and counted, if task_slots tasks wait already: then the caller may
    // run it itself, task.run(ctx), or try again later. In a whole-warp handler one is spawned,
    // lane 0's; every lane must make the call.
    template <class T>
        requires(P::template task_id<T> != no_type)
    DENIZEN_HD bool spawn(const T& task)
    {
        bool taken = false;
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            taken = spawn_task_raw(P::template task_id<T>, sizeof(T), &task);
        }
        if (whole_warp_) {
            denizen::lanes::rejoin();
            taken = denizen::lanes::shuffle(taken, 0);
        }
        return taken;
    }
    // The same for handlers that know a task by its number alone, as send_raw(). Called by one
    // thread.
    DENIZEN_HD bool spawn_task_raw(uint32_t type, uint32_t bytes, const void* fields)
    {
        detail::TakenTask task{self_, type, {}};
        copy_bytes(task.word, fields, bytes);
        return detail::pool::put(shared_, worker_, task);
    }

    // The actor's next message is behaviour B's: see actor/behaviour.hpp. `actor` is the one that
    // handles this message.
    template <class B, class Actor>
    DENIZEN_HD void become(Actor& actor) const
    {
        constexpr uint32_t index = detail::behaviour_index<B, typename Actor::behaviours>;
        static_assert(index != no_type, "not one of this actor's `behaviours`");
        actor.behaviour.number = index;
    }

    // Says that this handler has failed. It runs on to its return; then the message is a dead
    // letter, the actor has failed with this code (not 0, nor one of the runtime's own), and its
    // supervisor decides. In a whole-warp handler one lane's call is enough.
    DENIZEN_HD void fail(uint32_t code)
    {
        static_assert(P::can_fail, "an actor that calls ctx.fail() declares "
                                   "`static constexpr bool can_fail = true`");
        failure_ = code != 0 ? code : 1;
    }
    // Keeps a copy of the state as it is now, for a restart.
    DENIZEN_HD void checkpoint()
    {
        static_assert(P::has_checkpoints, "an actor that calls ctx.checkpoint() declares "
                                          "`restart_from = RestartFrom::snapshot`");
        sync();
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            P::checkpoint(type_, state_);
        }
        sync();
    }

    // A Down comes from `watched` when it stops, fails or has been restarted; at once if it has
    // stopped already.
    DENIZEN_HD void watch(Address watched)
    {
        static_assert(P::template message_id<Down> != no_type,
                      "a program that watches lists denizen::Down among its Messages");
        order(SystemOp::watch, watched, self_);
    }
    DENIZEN_HD void unwatch(Address watched) { order(SystemOp::unwatch, watched, self_); }

    // What the host can do to an actor, see AnyRuntime. These go the urgent way, but for drain,
    // which comes after what this actor has sent before.
    DENIZEN_HD void stop(Address actor) { order(SystemOp::stop, actor, 0); }
    DENIZEN_HD void pause(Address actor) { order(SystemOp::pause, actor, 0); }
    DENIZEN_HD void resume(Address actor) { order(SystemOp::resume, actor, 0); }
    DENIZEN_HD void restart(Address actor) { order(SystemOp::restart, actor, 0); }
    DENIZEN_HD void drain(Address actor) { order(SystemOp::drain, actor, 0); }

    // What fail() was told, 0 if nothing. For the runtime.
    DENIZEN_HD uint32_t failure() const { return failure_; }

    DENIZEN_HD Address self() const { return told(self_); }
    // Of a task: the actor that it is for. Of a handler: its own.
    DENIZEN_HD Address asker() const { return told(self_); }
    // Who sent the message. May be kept in the state, to reply later; one reply to each `ask`.
    DENIZEN_HD Address sender() const { return told(sender_); }
    DENIZEN_HD uint32_t worker() const { return worker_; }
    DENIZEN_HD uint32_t node() const { return shared_.node; }
    DENIZEN_HD uint32_t workers() const { return shared_.workers; }
    DENIZEN_HD uint64_t now_ns() const { return denizen::now_ns(); }

    // In a whole-warp handler, this thread's lane and their number; in that of a block its number
    // in the block and theirs; otherwise 0 and 1.
    DENIZEN_HD uint32_t lane() const { return whole_warp_ ? denizen::lanes::id() : 0; }
    DENIZEN_HD uint32_t lanes() const { return whole_warp_ ? denizen::lanes::size : 1; }
    DENIZEN_HD void sync() const
    {
        if (whole_warp_) {
            denizen::lanes::sync();
        }
    }

    // The memory that a message's field refers to, `count` whole elements, until the handler
    // returns. Empty if the buffer was freed or never existed, which is also reported as the
    // program's error (Errc::stale). What is written there is seen by whoever gets a message that
    // this handler sends afterwards.
    template <class T>
    DENIZEN_HD BufferSpan<T> data(BufferRef ref)
    {
        static_assert(P::has_buffers, "no message of this program refers to a buffer");
        if (!touched_) {
            // Once: the turn began before it, and the message was read before it. The look at any
            // buffer's generation, and what is read in it, come after.
            detail::buffer_fence();
        }
        touched_ = true;
        const detail::Resolved found = detail::resolve(shared_, ref, alignof(T));
        if (found.code != Errc::ok && lane() == 0) {
            report_stale(found.code);
        }
        return {reinterpret_cast<T*>(found.data), found.bytes / sizeof(T)};
    }

    // Keeps a buffer that the message refers to beyond the handler, and lets go of it in a later
    // one. In a whole-warp handler it happens once; every lane must make the call. False, and
    // Errc::stale, if the buffer is gone.
    DENIZEN_HD bool keep(BufferRef ref)
    {
        bool kept = true;
        if (lane() == 0) {
            kept = detail::add_reference(shared_.buffers, shared_.buffer_count, ref);
            if (!kept) {
                report_stale(Errc::stale);
            }
        }
        return whole_warp_ ? denizen::lanes::shuffle(kept, 0) : kept;
    }
    DENIZEN_HD void release(BufferRef ref)
    {
        if (lane() == 0) {
            detail::drop_reference(shared_.buffers, shared_.buffer_count, ref);
        }
    }

    // The arena of this node, of Options::arena_bytes. A block is the program's until a handler
    // gives it back, of whichever actor on this node: its address may stay in a state or go on in a
    // message. Each thread that calls allocates its own.
    DENIZEN_HD ArenaRef arena() const
    {
        static_assert(P::allocates, "an actor that calls ctx.arena() declares "
                                    "`static constexpr bool allocates = true`");
        return ArenaRef(shared_.arena);
    }

    // For memory beyond the state, such as a block of the arena whose address goes on in a message:
    // what was written before this call is seen by the handler of a message that is sent after it,
    // which makes the same call before it reads. In a whole-warp handler every lane must make it.
    // Half a microsecond on a GPU.
    DENIZEN_HD void fence() const
    {
#if DENIZEN_ON_DEVICE
        sync();
        if (lane() == 0) {
            __threadfence(); // partner: the other handler's; lanes share a fence by way of sync()
        }
        sync();
#endif // on the host a message's packets are releases and acquires
    }

protected:
    // Before a message is written: its references are counted, and what the handler has written to
    // buffers can be seen, by whichever lane it was written.
    template <class M>
    DENIZEN_HD void refer(const M& message);

    template <class M>
    DENIZEN_HD Timer send_later(uint64_t ns, uint64_t every_ns, Address to, const M& message);

    template <class M>
    DENIZEN_HD uint32_t publish_by(const TopicKey& topic, const unsigned char* text,
                                   const M& message);

    // By the lane that makes the call.
    template <class M>
    DENIZEN_HD bool post(Address to, const M& message);

    DENIZEN_COLD void report_stale(Errc code) const
    {
        const uint32_t slot = whole_warp_ ? 0 : denizen::lanes::id();
        const uint64_t running = load<Scope::gpu>(&shared_.status[worker_].running[slot]);
        report_error(shared_, {static_cast<uint32_t>(code), worker_, self_,
                               static_cast<uint32_t>(running >> 32) - 1, sender_});
    }

    // A reply of at most 8 bytes to an ask of the host: nothing else is tried before. False if the
    // sender has not asked, or sends are to have a stamp.
    template <class M>
    DENIZEN_HD bool answer(const M& message)
    {
        const cluster::Address b = detail::own_box(shared_, worker_);
        const M copy = message; // one that lies in the state is not read byte by byte
        const Header h{sender_, self_, P::template message_id<M>, 0, sizeof(M)};
        return cluster::load(detail::box::workers(b)) != 0 &&
               detail::answer<sizeof(M)>(shared_, b, h, &copy);
    }

    template <class T>
    DENIZEN_HD static T of_first_lane(const T& value);

    DENIZEN_HD void change_topic(SystemOp op, const TopicPattern& pattern)
    {
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            // Here already: this worker may see the actor stop before the request is at its end.
            detail::mark_subscriber(shared_, self_);
            detail::post_topic(shared_, worker_, 0, op, self_, {pattern.key, self_});
        }
        sync();
    }

    DENIZEN_HD void order(SystemOp op, Address actor, uint32_t value)
    {
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            const Address to = shared_.far.to_short(actor);
            send_system(shared_, worker_, op, to, self_, {to.local(), value, 0, 0});
        }
        sync();
    }

    DENIZEN_HD Overflow policy_of(Address to) const { return P::policy_of(shared_, to); }

    // An address as handlers are told it: of a cluster the one that means the same on every host.
    DENIZEN_HD Address told(uint32_t address) const
    {
        return {shared_.far.hosts == 0 ? address : detail::far_form(shared_.far, address)};
    }

    const Shared& shared_;
    uint32_t worker_;
    uint32_t self_;
    uint32_t sender_;
    bool whole_warp_;
    bool calls_; // constant wherever a handler is expanded: where messages are handled one by one,
                 // its sends take the general way, by a call, and are not expanded with it
    uint32_t failure_ = 0;
    uint32_t type_;
    void* state_;
    detail::Handover* next_; // null: what it sends to its own worker goes by the ring
    bool touched_ = false;   // this handler has had a buffer's memory
};

} // namespace denizen

#include <denizen/actor/detail/context_block.hpp>
#include <denizen/actor/detail/context_send.hpp>
