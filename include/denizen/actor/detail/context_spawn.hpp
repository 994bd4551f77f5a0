// SPDX-License-Identifier: Apache-2.0
// How a context makes actors and tasks. The declarations in actor/context.hpp, which includes this
// file, say what each member promises.
#pragma once

#include <denizen/actor/context.hpp>

namespace denizen {

template <class P>
template <class A, class... Arguments>
DENIZEN_HD inline Address Context<P>::spawn(const Arguments&... arguments)
{
    constexpr uint32_t type = P::template actor_id<A>;
    static_assert(type != no_type, "not an actor type of this program");
    static_assert(detail::spawned_of<A>(), "an actor that handlers spawn declares "
                                           "`static constexpr bool spawned = true`");
    return once([&] {
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
    });
}

template <class P>
template <class T>
    requires(P::template task_id<T> != no_type)
DENIZEN_HD inline bool Context<P>::spawn(const T& task)
{
    return once([&] {
        bool taken = false;
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            taken = spawn_task_raw(P::template task_id<T>, sizeof(T), &task);
        }
        if (whole_warp_) {
            denizen::lanes::rejoin();
            taken = denizen::lanes::shuffle(taken, 0);
        }
        return taken;
    });
}

} // namespace denizen
