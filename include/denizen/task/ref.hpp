// SPDX-License-Identifier: Apache-2.0
// Spawning tasks from outside their program: from handlers of actors, and from the user's own
// kernels. They write into a ring in the memory of the tasks' device, and the monitor empties it.
// On a GPU the host takes no part in that. A TasksRef is a pointer and a number, so it can travel
// in a message and be kept in an actor's state.
//
//   struct Begin { denizen::task::TasksRef<Fibs> tasks; };       // a message from the host
//   struct Asker {
//       DENIZEN_HD void on(const Begin& m, auto& ctx)
//       {
//           if (m.tasks.spawn(Fib{30, ctx.self()}) != denizen::Errc::ok) ctx.reply(TryLater{});
//       }
//       DENIZEN_HD void on(const Answer& m, auto&);               // from a task, by an ActorsRef
//   };
//
// actor/ref.hpp has the way back: ActorsRef, by which a task sends to actors.
#pragma once

#include <denizen/base/errc.hpp>
#include <denizen/task/program.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen::task {

template <class P>
class TasksRef {
public:
    TasksRef() = default;
    DENIZEN_HD TasksRef(Ingress* ingress, uint32_t group) : ingress_(ingress), group_(group) {}

    // Hands a task in. Returns ok, or full: then the ring has no room, and the task was not taken.
    // Never waits. The task sees what this thread wrote before, and belongs to its group at once.
    template <class X>
    DENIZEN_HD Errc spawn(const X& task) const
    {
        static_assert(P::template id<X>() < P::types, "not a task type of this program");
        const typename P::Words words = P::encode(task, group_);
        Ingress& in = *ingress_;
        uint32_t ticket = load<Scope::gpu>(&in.tail);
        do { // ends: a failure means that another thread has handed in a task
            // Acquire: partner of the monitor's release, before which it has read this slot. If
            // other threads have drawn this ticket meanwhile, it may lie behind the head: then the
            // exchange fails.
            const uint32_t head = load<Scope::gpu, Order::acquire>(&in.head);
            if (static_cast<int32_t>(ticket - head) > static_cast<int32_t>(in.mask)) {
                return Errc::full;
            }
        } while (!compare_exchange<Scope::gpu>(&in.tail, ticket, ticket + 1));
        // The task's token is added before the task can be seen. The task's end takes it off.
        fetch_add<Scope::gpu, Order::release>(&in.groups[group_].word, uint64_t{1});
#if DENIZEN_ON_DEVICE
        __threadfence(); // partner: the monitor's fence
#endif
        constexpr uint32_t used = 1 + (detail::bytes_of<X> + 3) / 4;
        Letter& letter = in.slots[ticket & in.mask];
        for (uint32_t k = 0; k < 4; ++k) {
            Packet p{{0, 0, 0}, ticket + 1};
            for (uint32_t i = 0; i < 3; ++i) {
                p.word[i] = 3 * k + i < used ? words.word[3 * k + i] : 0;
            }
            store_packet<Scope::gpu>(&letter.packet[k], p);
        }
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&in.board->monitor_bell, &in.board->monitor_sleeping);
#endif
        return Errc::ok;
    }

private:
    Ingress* ingress_ = nullptr;
    uint32_t group_ = 0;
    uint32_t reserved_ = 0;
};

} // namespace denizen::task
