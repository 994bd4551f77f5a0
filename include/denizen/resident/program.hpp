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
//   using Counting = denizen::Program<denizen::Actors<Counter>, denizen::Messages<Tick, Ask,
//   Total>>;
//
// An actor handles a message type iff it has an `on` for it. Its state is constructed by default,
// is owned by one worker and needs no lock. A handler runs on one thread; an actor that declares
// `static constexpr auto grain = denizen::Grain::warp` has its handlers run by all 32 lanes of a
// warp (by the one thread of a worker on the CPU), with ctx.lane() and ctx.lanes().
#pragma once

#include <denizen/resident/layout.hpp>

#if DENIZEN_HOSTED
#include <new>
#endif

namespace denizen {

template <class... A>
struct Actors {};

template <class... M>
struct Messages {};

template <class P>
class Context;

namespace detail {

template <class A, class M, class C>
concept handles = requires(A& actor, const M& message, C& context) { actor.on(message, context); };

template <class, class>
inline constexpr bool same = false;
template <class T>
inline constexpr bool same<T, T> = true;

template <class T, class... Ts>
DENIZEN_HD constexpr uint32_t index_of()
{
    uint32_t index = 0;
    uint32_t found = no_type;
    ((same<T, Ts> ? void(found = index) : void(), ++index), ...);
    return found;
}

template <class A>
DENIZEN_HD constexpr Grain grain_of()
{
    if constexpr (requires { A::grain; }) {
        return A::grain;
    } else {
        return Grain::thread;
    }
}

template <class A>
DENIZEN_HD constexpr Overflow overflow_of()
{
    if constexpr (requires { A::overflow; }) {
        return A::overflow;
    } else {
        return Overflow::wait;
    }
}

template <class M>
DENIZEN_HD constexpr Priority priority_of()
{
    if constexpr (requires { M::priority; }) {
        return M::priority;
    } else {
        return Priority::data;
    }
}

} // namespace detail

template <class ActorList, class MessageList>
struct Program;

template <class... A, class... M>
struct Program<Actors<A...>, Messages<M...>> {
    static_assert(sizeof...(A) >= 1 && sizeof...(A) <= max_actor_types, "1 to 64 actor types");
    static_assert(sizeof...(M) <= max_message_types, "at most 128 message types");
    static_assert((__is_trivially_copyable(M) && ...), "messages are copied byte by byte");
    static_assert(((sizeof(M) <= max_length) && ...), "a message has at most 65,536 bytes");

    template <class T>
    static constexpr uint32_t message_id = detail::index_of<T, M...>();
    template <class T>
    static constexpr uint32_t actor_id = detail::index_of<T, A...>();

    static constexpr uint32_t max_message()
    {
        uint32_t most = 0;
        ((most = sizeof(M) > most ? static_cast<uint32_t>(sizeof(M)) : most), ...);
        return most;
    }
    static constexpr bool has_long_messages = ((sizeof(M) > first_payload) || ...);
    static constexpr bool has_urgent = ((detail::priority_of<M>() == Priority::urgent) || ...);
    static constexpr bool has_warp_actors = ((detail::grain_of<A>() == Grain::warp) || ...);

    static constexpr bool has_refusing_actors =
        ((detail::overflow_of<A>() == Overflow::fail) || ...);

    DENIZEN_HD static Overflow overflow(uint32_t actor)
    {
        uint32_t index = 0;
        Overflow o = Overflow::wait;
        ((index++ == actor ? void(o = detail::overflow_of<A>()) : void()), ...);
        return o;
    }

    DENIZEN_HD static Grain grain(uint32_t actor)
    {
        if constexpr (has_warp_actors) {
            uint32_t index = 0;
            Grain g = Grain::thread;
            ((index++ == actor ? void(g = detail::grain_of<A>()) : void()), ...);
            return g;
        } else {
            return Grain::thread;
        }
    }

    // Default-constructs the state of an actor.
    DENIZEN_HD static void construct(uint32_t actor, void* state)
    {
        uint32_t index = 0;
        ((index++ == actor ? void(new (state) A()) : void()), ...);
    }

    // Runs the handler; false if the actor has none for this message type.
    DENIZEN_HD static bool dispatch(uint32_t actor, uint32_t message, void* state,
                                    const void* payload, Context<Program>& context)
    {
        uint32_t index = 0;
        bool handled = false;
        ((index++ == actor
              ? void(handled = to_actor(*static_cast<A*>(state), message, payload, context))
              : void()),
         ...);
        return handled;
    }

    static constexpr ProgramTable table()
    {
        ProgramTable t{};
        t.abi = layout_abi;
        t.actors = sizeof...(A);
        t.messages = sizeof...(M);
        t.max_message = max_message();
        uint32_t a = 0;
        ((t.actor[a++] = {sizeof(A), alignof(A), static_cast<uint32_t>(detail::grain_of<A>()),
                          static_cast<uint32_t>(detail::overflow_of<A>())}),
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
    template <class Actor>
    DENIZEN_HD static bool to_actor(Actor& actor, uint32_t message, const void* payload,
                                    Context<Program>& context)
    {
        uint32_t index = 0;
        bool handled = false;
        ((index++ == message ? void(handled = to_handler<Actor, M>(actor, payload, context))
                             : void()),
         ...);
        return handled;
    }

    template <class Actor, class Message>
    DENIZEN_HD static bool to_handler(Actor& actor, const void* payload, Context<Program>& context)
    {
        if constexpr (detail::handles<Actor, Message, Context<Program>>) {
            if constexpr (sizeof(Message) <= first_payload) {
                Message message; // a copy: the packets' words may not be aligned for it
                copy_bytes(&message, payload, sizeof(Message));
                actor.on(message, context);
            } else {
                actor.on(*static_cast<const Message*>(payload), context);
            }
            return true;
        } else {
            return false;
        }
    }

    template <class Actor>
    static constexpr void mark(ProgramTable& t, uint32_t a)
    {
        uint32_t m = 0;
        ((detail::handles<Actor, M, Context<Program>>
              ? void(t.handles[a][m / 64] |= uint64_t{1} << m % 64)
              : void(),
          ++m),
         ...);
    }
};

} // namespace denizen
