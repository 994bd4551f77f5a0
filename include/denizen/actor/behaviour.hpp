// SPDX-License-Identifier: Apache-2.0
// Behaviours: sets of handlers of one actor, of which one is in force. A behaviour is a struct of
// static functions that get the actor; a handler puts another one in force, which takes the next
// message, by ctx.become(). Messages
// that the behaviour has no function for go to the actor's own `on`, if it has one for them.
//
//   struct Door {
//       struct Closed {
//           DENIZEN_HD static void on(Door& door, const Push&, auto& ctx)
//           {
//               ctx.template become<Open>(door);
//           }
//       };
//       struct Open { ... };
//       using behaviours = denizen::Behaviours<Closed, Open>; // a new actor has the first
//       denizen::Behaviour behaviour;
//   };
//
// Which one is in force is part of the state: a snapshot has it, a move takes it along, and a
// restart begins with the first one.
#pragma once

#include <denizen/actor/detail/type_list.hpp>

namespace denizen {

template <class... B>
struct Behaviours {};

namespace detail {

template <class B, class List>
inline constexpr uint32_t behaviour_index = no_type;
template <class B, class... Bs>
inline constexpr uint32_t behaviour_index<B, Behaviours<Bs...>> = index_of<B, Bs...>();

} // namespace detail

// Which of its behaviours an actor has: a field of its state, with the name `behaviour`.
struct Behaviour {
    uint32_t number = 0;
};

namespace detail {

template <class A, class M, class C>
concept handles_with_context =
    requires(A& actor, const M& message, C& context) { actor.on(message, context); };
template <class A, class M, class C>
concept handles =
    handles_with_context<A, M, C> || requires(A& actor, const M& message) { actor.on(message); };

template <class B, class A, class M, class C>
concept behaves_with_context =
    requires(A& actor, const M& message, C& context) { B::on(actor, message, context); };
template <class B, class A, class M, class C>
concept behaves = behaves_with_context<B, A, M, C> ||
                  requires(A& actor, const M& message) { B::on(actor, message); };

// Whether a behaviour of the list has a function for it.
template <class A, class M, class C, class List>
inline constexpr bool some_behaves = false;
template <class A, class M, class C, class... B>
inline constexpr bool some_behaves<A, M, C, Behaviours<B...>> = (behaves<B, A, M, C> || ...);

template <class A>
struct BehavioursOf {
    using type = Behaviours<>;
};
template <class A>
    requires requires { typename A::behaviours; }
struct BehavioursOf<A> {
    using type = typename A::behaviours;
};

// Whether the actor has a handler for it, if not always.
template <class A, class M, class C>
inline constexpr bool takes =
    handles<A, M, C> || some_behaves<A, M, C, typename BehavioursOf<A>::type>;

template <class A, class M, class C>
DENIZEN_HD inline bool hand_to_actor(A& actor, const M& message, [[maybe_unused]] C& context)
{
    if constexpr (handles_with_context<A, M, C>) {
        actor.on(message, context);
    } else if constexpr (handles<A, M, C>) {
        actor.on(message);
    }
    return handles<A, M, C>;
}

template <class A, class M, class C, class... B>
DENIZEN_HD inline bool hand_to_behaviour(A& actor, const M& message, C& context, Behaviours<B...>)
{
    bool handled = false;
    Select<B...>::at(actor.behaviour.number, [&]<class X>() {
        if constexpr (behaves_with_context<X, A, M, C>) {
            X::on(actor, message, context);
            handled = true;
        } else if constexpr (behaves<X, A, M, C>) {
            X::on(actor, message);
            handled = true;
        } else {
            handled = hand_to_actor(actor, message, context);
        }
    });
    return handled;
}

// Runs the handler that is in force. False: there is none for this message.
template <class A, class M, class C>
DENIZEN_HD inline bool hand_to(A& actor, const M& message, C& context)
{
    using List = typename BehavioursOf<A>::type;
    if constexpr (some_behaves<A, M, C, List>) {
        return hand_to_behaviour(actor, message, context, List{});
    } else {
        return hand_to_actor(actor, message, context);
    }
}

} // namespace detail

} // namespace denizen
