// SPDX-License-Identifier: Apache-2.0
// A program: the actor types and message types it is made of, known at compile time.
//
//   struct Tick { uint32_t n; };
//   struct Total { uint64_t sum; };
//   struct Ask {};
//   struct Counter {
//       uint64_t sum = 0;
//       DENIZEN_HD void on(const Tick& m, auto&) { sum += m.n; }
//       DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Total{sum}); }
//   };
//   using Counting = denizen::Program<denizen::Actors<Counter>,
//                                     denizen::Messages<Tick, Ask, Total>>;
//
// An actor handles a message type iff it has an `on` for it, with the context or without. Its state
// is constructed by default, is owned by one worker and needs no lock. A handler runs on one
// thread; an actor that declares `static constexpr auto grain = denizen::Grain::warp` has its
// handlers run by all 32 lanes of a warp (by the one thread of a worker on the CPU), with
// ctx.lane() and ctx.lanes(). With `Grain::block` it is all threads of a block: 256, or as many as
// the actor says with `static constexpr uint32_t block_threads = 128`, a multiple of 32 from 64 to
// 512. A program has one number of them, the largest that any of its actors and tasks says; those
// that say nothing take it.
//
// An actor whose handlers can fail says so by any of
//   static constexpr bool can_fail = true;            // it calls ctx.fail(code)
//   static constexpr uint64_t deadline_ns = 50'000;   // a handler that took longer has failed
//   bool invariant() const { return ...; }            // false after a handler: it has failed
// and may say with `static constexpr auto restart_from = denizen::RestartFrom::snapshot` that a
// restart takes it back to its last checkpoint, instead of to its initial state. An actor whose
// handlers allocate from ctx.arena() says `static constexpr bool allocates = true`; one that
// handlers spawn, by ctx.spawn(), says `static constexpr bool spawned = true`.
//
// A third list names tasks, which handlers have others do: actor/tasks.hpp. An actor with several
// sets of handlers lists them as its `behaviours`: actor/behaviour.hpp.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/behaviour.hpp>
#include <denizen/actor/detail/access.hpp>
#include <denizen/actor/detail/grain.hpp>
#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/life.hpp>

#if DENIZEN_HOSTED
#include <new>
#endif

namespace denizen {

template <class... A>
struct Actors {};

template <class... M>
struct Messages {};

// Structs with `void run(Context&) const`, of at most 40 bytes: what handlers spawn as tasks.
template <class... T>
struct Tasks {};

template <class P>
class Context;
template <class P>
class TaskContext;
struct TaskFailed; // actor/tasks.hpp, as the one before

namespace detail {

template <class A>
DENIZEN_HD constexpr Overflow overflow_of()
{
    if constexpr (requires { A::overflow; }) {
        return A::overflow;
    } else {
        return Overflow::wait;
    }
}

template <class A>
DENIZEN_HD constexpr RestartFrom restart_of()
{
    if constexpr (requires { A::restart_from; }) {
        static_assert(__is_trivially_copyable(A), "a checkpoint is a copy byte by byte");
        return A::restart_from;
    } else {
        return RestartFrom::initial;
    }
}

template <class A>
DENIZEN_HD constexpr uint64_t deadline_of() // 0: none
{
    if constexpr (requires { A::deadline_ns; }) {
        return A::deadline_ns;
    } else {
        return 0;
    }
}

template <class A>
inline constexpr bool has_invariant = requires(const A& actor) { bool(actor.invariant()); };

template <class A>
DENIZEN_HD constexpr bool can_fail_of()
{
    if constexpr (requires { A::can_fail; }) {
        return A::can_fail || deadline_of<A>() != 0 || has_invariant<A>;
    } else {
        return deadline_of<A>() != 0 || has_invariant<A>;
    }
}

template <class A>
DENIZEN_HD constexpr bool allocates_of()
{
    if constexpr (requires { A::allocates; }) {
        return A::allocates;
    } else {
        return false;
    }
}

template <class A>
DENIZEN_HD constexpr bool spawned_of()
{
    if constexpr (requires { *&A::spawned; }) {
        return A::spawned;
    } else {
        return false;
    }
}

// A field of that name is none: the address of one is no pointer.
template <class M>
DENIZEN_HD constexpr Priority priority_of()
{
    if constexpr (requires { *&M::priority; }) {
        return M::priority;
    } else {
        return Priority::data;
    }
}

} // namespace detail

template <class ActorList, class MessageList, class TaskList = Tasks<>>
struct Program;

template <class... A, class... M, class... T>
struct Program<Actors<A...>, Messages<M...>, Tasks<T...>> {
    static_assert(sizeof...(A) >= 1 && sizeof...(A) <= max_actor_types, "1 to 64 actor types");
    static_assert(sizeof...(M) <= max_message_types, "at most 128 message types");
    static_assert((__is_trivially_copyable(M) && ...), "messages are copied byte by byte");
    static_assert(((sizeof(M) <= max_length) && ...), "a message has at most 65,536 bytes");
    static_assert(sizeof...(T) <= max_task_types, "at most 64 task types");
    static_assert((__is_trivially_copyable(T) && ...), "tasks are copied byte by byte");
    static_assert(((sizeof(T) <= max_task_bytes) && ...), "a task has at most 40 bytes");
    static_assert(!(detail::refers<T> || ...), "a task refers to no buffers");

    template <class X>
    static constexpr uint32_t message_id = detail::index_of<X, M...>();
    template <class X>
    static constexpr uint32_t actor_id = detail::index_of<X, A...>();
    template <class X>
    static constexpr uint32_t task_id = detail::index_of<X, T...>();

    static constexpr uint32_t max_message()
    {
        uint32_t most = 0;
        ((most = sizeof(M) > most ? static_cast<uint32_t>(sizeof(M)) : most), ...);
        return most;
    }
    static constexpr bool has_buffers = (detail::refers<M> || ...);
    static constexpr bool has_long_messages = ((sizeof(M) > first_payload) || ...);
    static constexpr bool has_urgent = ((detail::priority_of<M>() == Priority::urgent) || ...);
    static constexpr bool has_warp_actors = ((detail::grain_of<A>() == Grain::warp) || ...);
    // Of a warp or of a block.
    static constexpr bool has_whole_actors = ((detail::grain_of<A>() != Grain::thread) || ...);
    static constexpr bool all_whole_actors = ((detail::grain_of<A>() != Grain::thread) && ...);

    static constexpr bool has_tasks = sizeof...(T) != 0;
    static constexpr bool has_whole_tasks = ((detail::grain_of<T>() != Grain::thread) || ...);

    static constexpr bool has_blocks = ((detail::grain_of<A>() == Grain::block) || ...) ||
                                       ((detail::grain_of<T>() == Grain::block) || ...);
    // Of a worker's block; 0: no actor and no task takes a whole one.
    static constexpr uint32_t block_threads =
        has_blocks ? detail::threads_of_block<detail::block_threads_of<A>()...,
                                              detail::block_threads_of<T>()...>()
                   : 0;
    // For __launch_bounds__: threads of a block, the monitor's warp among them, and blocks of an
    // SM. 0: it depends on how many workers there are. Without the second, ptxas spares registers
    // so that several such blocks find room.
    static constexpr uint32_t most_threads = has_blocks ? block_threads + 32 : 0;
    static constexpr uint32_t least_blocks = has_blocks ? 1 : 0;

    static constexpr bool can_fail =
        (detail::can_fail_of<A>() || ...) || (detail::can_fail_of<T>() || ...);
    static constexpr bool has_deadlines = ((detail::deadline_of<A>() != 0) || ...);
    static constexpr bool has_checkpoints =
        ((detail::restart_of<A>() == RestartFrom::snapshot) || ...);
    static constexpr bool drops_oldest =
        ((detail::overflow_of<A>() == Overflow::drop_oldest) || ...);

    static constexpr bool allocates =
        (detail::allocates_of<A>() || ...) || (detail::allocates_of<T>() || ...);
    static constexpr bool has_overflow_policies =
        ((detail::overflow_of<A>() != Overflow::wait) || ...);

    DENIZEN_HD static Overflow overflow(uint32_t actor)
    {
        Overflow o = Overflow::wait;
        if constexpr (has_overflow_policies) {
            OfActors::at(actor, [&]<class X>() { o = detail::overflow_of<X>(); });
        }
        return o;
    }

    DENIZEN_HD static Grain grain(uint32_t actor)
    {
        Grain g = Grain::thread;
        if constexpr (has_whole_actors) {
            OfActors::at(actor, [&]<class X>() { g = detail::grain_of<X>(); });
        }
        return g;
    }

    DENIZEN_HD static Grain task_grain(uint32_t task)
    {
        Grain g = Grain::thread;
        if constexpr (has_whole_tasks) {
            detail::Select<T...>::at(task, [&]<class X>() { g = detail::grain_of<X>(); });
        }
        return g;
    }
    DENIZEN_HD static uint32_t task_failed() { return message_id<TaskFailed>; }

    // Runs a task, whose fields are these words. `of_block` as for dispatch().
    template <bool of_block = false>
    DENIZEN_HD static void run_task(uint32_t task, const uint32_t* words,
                                    TaskContext<Program>& context)
    {
        detail::Select<T...>::at(task, [&]<class X>() {
            if constexpr (runs_there<X, of_block>) {
                from_words<X>(words).run(context);
            }
        });
    }

    // Default-constructs the state of an actor.
    DENIZEN_HD static void construct(uint32_t actor, void* state)
    {
        OfActors::at(actor, [&]<class X>() { new (state) X(); });
    }

    // The state of an actor that a handler spawns, where another's may have been.
    template <class Actor, class... Arguments>
    DENIZEN_HD static void begin(void* state, const Arguments&... arguments)
    {
        new (state) Actor{arguments...};
        if constexpr (detail::restart_of<Actor>() == RestartFrom::snapshot) {
            *checkpoint_word<Actor>(state) = 0;
        }
    }

    // 0, or why the actor has failed now that its handler has returned.
    DENIZEN_HD static uint32_t failure(uint32_t actor, const void* state, uint64_t taken_ns)
    {
        uint32_t code = 0;
        OfActors::at(
            actor, [&]<class X>() { code = failure_of(*static_cast<const X*>(state), taken_ns); });
        return code;
    }

    // Copies the state to its checkpoint behind it, or back. Called by one lane. False if this type
    // keeps none, or if there is none to go back to.
    DENIZEN_HD static bool checkpoint(uint32_t actor, void* state)
    {
        bool done = false;
        OfActors::at(actor, [&]<class X>() { done = copy_state<X>(state, true); });
        return done;
    }
    DENIZEN_HD static bool restore(uint32_t actor, void* state)
    {
        bool done = false;
        OfActors::at(actor, [&]<class X>() { done = copy_state<X>(state, false); });
        return done;
    }

    // Runs the handler; false if the actor has none for this message type. On a GPU those of whole
    // blocks are expanded at one place, that with `of_block`, and the others elsewhere.
    template <bool of_block = false>
    DENIZEN_HD static bool dispatch(uint32_t actor, uint32_t message, void* state,
                                    const void* payload, Context<Program>& context)
    {
        bool handled = false;
        OfActors::at(actor, [&]<class X>() {
            if constexpr (runs_there<X, of_block>) {
                OfMessages::at(message, [&]<class U>() {
                    handled = to_handler<X, U>(*static_cast<X*>(state), payload, context);
                });
            }
        });
        return handled;
    }

    // One lane: a message that is set aside refers to its buffers once more.
    DENIZEN_HD static void keep_buffers([[maybe_unused]] const Shared& s,
                                        [[maybe_unused]] uint32_t message,
                                        [[maybe_unused]] const void* payload)
    {
        if constexpr (has_buffers) {
            OfMessages::at(message, [&]<class X>() { detail::keep_payload<X>(s, payload); });
        }
    }

    // After a message has been handled, by one lane: gives back the buffers it referred to.
    DENIZEN_HD static void drop_buffers([[maybe_unused]] const Shared& s,
                                        [[maybe_unused]] uint32_t message,
                                        [[maybe_unused]] const void* payload)
    {
        if constexpr (has_buffers) {
            OfMessages::at(message, [&]<class X>() { detail::drop_payload<X>(s, payload); });
        }
    }

    // What becomes of a message that finds no room on its way there. What a peer knows of its
    // actors is far away: it is asked when there is no room.
    DENIZEN_HD static Overflow policy_of([[maybe_unused]] const Shared& s,
                                         [[maybe_unused]] Address to)
    {
        if constexpr (has_overflow_policies) {
            if (to.node() != s.node) {
                return to.node() < s.nodes ? Overflow::of_peer : Overflow::wait;
            }
            if (to.worker() < s.workers && to.local() < s.actors_per_worker) {
                const ActorEntry* entry = s.actors +
                                          static_cast<uint64_t>(to.worker()) * s.actors_per_worker +
                                          to.local();
                const uint32_t kind = load<Scope::gpu>(&entry->kind);
                return kind != 0 ? overflow((kind & 0xff) - 1) : Overflow::wait;
            }
        }
        return Overflow::wait;
    }

    static constexpr ProgramTable table()
    {
        ProgramTable t{};
        t.abi = layout_abi;
        t.actors = sizeof...(A);
        t.messages = sizeof...(M);
        t.max_message = max_message();
        t.down = message_id<Down>;
        t.allocates = allocates ? 1 : 0;
        t.tasks = sizeof...(T);
        t.task_failed = message_id<TaskFailed>;
        t.block_threads = block_threads;
        uint32_t n = 0;
        ((t.task[n++] = {sizeof(T), alignof(T), static_cast<uint32_t>(detail::grain_of<T>()), 0}),
         ...);
        uint32_t a = 0;
        ((t.actor[a++] = {sizeof(A), alignof(A), static_cast<uint32_t>(detail::grain_of<A>()),
                          static_cast<uint32_t>(detail::overflow_of<A>()),
                          static_cast<uint32_t>(detail::restart_of<A>()),
                          detail::spawned_of<A>() ? 1u : 0u}),
         ...);
        uint32_t m = 0;
        ((t.message[m++] = {sizeof(M), alignof(M), static_cast<uint32_t>(detail::priority_of<M>()),
                            0}),
         ...);
        a = 0;
        (mark<A>(t, a++), ...);
        return t;
    }

private:
    using OfActors = detail::Select<A...>;
    using OfMessages = detail::Select<M...>;

    template <class X, bool of_block>
    static constexpr bool runs_there =
        DENIZEN_ON_DEVICE == 0 || (detail::grain_of<X>() == Grain::block) == of_block;

    template <class Actor>
    DENIZEN_HD static uint32_t failure_of(const Actor& actor, uint64_t taken_ns)
    {
        if constexpr (detail::deadline_of<Actor>() != 0) {
            if (taken_ns > detail::deadline_of<Actor>()) {
                return failed_deadline;
            }
        }
        if constexpr (detail::has_invariant<Actor>) {
            if (!actor.invariant()) {
                return failed_invariant;
            }
        }
        return 0;
    }

    // The checkpoint lies behind the state, and behind it a word that says it is there.
    template <class Actor>
    DENIZEN_HD static uint32_t* checkpoint_word(void* state)
    {
        return reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(state) +
                                           2 * checkpoint_offset(sizeof(Actor)));
    }

    template <class Actor>
    DENIZEN_HD static bool copy_state(void* state, bool out)
    {
        if constexpr (detail::restart_of<Actor>() == RestartFrom::snapshot) {
            auto* kept = static_cast<unsigned char*>(state) + checkpoint_offset(sizeof(Actor));
            auto* there = checkpoint_word<Actor>(state);
            if (!out && *there == 0) {
                return false;
            }
            copy_bytes(out ? kept : state, out ? state : kept, sizeof(Actor));
            *there = 1;
            return true;
        } else {
            return false;
        }
    }

    template <class Actor, class Message>
    DENIZEN_HD static bool to_handler(Actor& actor, const void* payload, Context<Program>& context)
    {
        if constexpr (detail::takes<Actor, Message, Context<Program>>) {
            if constexpr (sizeof(Message) <= first_payload) {
                // A copy: the packets' words may not be aligned for it.
                const auto message = from_words<Message>(static_cast<const uint32_t*>(payload));
                return detail::hand_to(actor, message, context);
            } else {
                return detail::hand_to(actor, *static_cast<const Message*>(payload), context);
            }
        } else {
            return false;
        }
    }

    template <class Actor>
    static constexpr void mark(ProgramTable& t, uint32_t a)
    {
        uint32_t m = 0;
        ((detail::takes<Actor, M, Context<Program>>
              ? void(t.handles[a][m / 64] |= uint64_t{1} << m % 64)
              : void(),
          ++m),
         ...);
    }
};

} // namespace denizen
