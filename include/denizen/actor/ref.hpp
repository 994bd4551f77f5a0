// SPDX-License-Identifier: Apache-2.0
// Messages to actors from outside their program. Tasks, and the user's own kernels on the same
// device, send them into the inboxes of the workers; on a GPU the host has no part in it. An
// ActorsRef is a pointer. It comes from Runtime::ref() and is an argument of a kernel or of a task.
//
//   struct Tell {                                               // a task
//       uint64_t sum;
//       denizen::ActorsRef<Askers> actors;
//       denizen::Address asker;
//       DENIZEN_HD void run(auto& ctx) const
//       {
//           if (actors.send(asker, Total{sum}) != denizen::Errc::ok) ctx.spawn(*this); // later
//       }
//   };
//
// Hazards. The program's memory is gone when its runtime is: end the tasks before that. A program
// that has left the GPU by park() finds the message when the host's next one brings it back. A
// snapshot that is taken while others send may have half of a message in it. Who sends so has no
// outbox where a message could wait for its turn, so while the program is jammed by its own
// messages (docs/ runtime.md) it is told `full`, each time, until the jam ends: try again later,
// and let it end (larger rings, or fewer messages going round); a message of the host's gets
// through meanwhile.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/base/errc.hpp>
#include <denizen/wire/tickets.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

template <class P>
class ActorsRef {
public:
    ActorsRef() = default;
    DENIZEN_HD explicit ActorsRef(const Gate* gate) : gate_(gate) {}

    // Sends to an actor of the node that this is of: ok; no_actor, if the address is no such
    // actor's; or full, and then the message was not taken: there is no room in the worker's inbox,
    // or workers have messages for which they have found none (and take nothing from the host
    // either). Never waits. From one thread to one actor messages keep their order. A handler that
    // calls ctx.fence() sees what this thread has written before. What it replies goes to the host,
    // and so do the replies to messages that the host has sent.
    template <class M>
    DENIZEN_HD Errc send(Address to, const M& message) const
    {
        constexpr uint32_t type = P::template message_id<M>;
        static_assert(type != no_type, "not a message type of this program");
        static_assert(sizeof(M) <= first_payload, "a message from outside has at most 36 bytes");
        static_assert(detail::priority_of<M>() == Priority::data,
                      "urgent messages are sent by actors and the host");
        static_assert(!detail::refers<M>,
                      "messages that refer to buffers are sent by actors and the host");
        const Gate& gate = *gate_;
        const uint32_t w = to.worker();
        if (to.node() != gate.node || w >= gate.workers) {
            return Errc::no_actor;
        }
        if (load<Scope::gpu>(&gate.board->jammed) != 0) {
            return Errc::full;
        }
        Inbox& inbox = gate.inbox[w];
        const auto room = [&](uint32_t first) {
            // Acquire on the host: partner of the owner's release in give_credit().
            const uint32_t credit = load<Scope::system, detail::host_acquire>(&inbox.credit);
            return has_room(first, 1, credit, gate.inbox_mask + 1);
        };
        uint32_t ticket = 0;
        if (!draw_tickets<Scope::gpu>(&inbox.tail, 1, ticket, room)) {
            return Errc::full;
        }
#if DENIZEN_ON_DEVICE
        __threadfence(); // partner: the fence in Context::fence()
#endif
        store_message<Scope::system>(
            gate.inboxes + static_cast<uint64_t>(w) * (gate.inbox_mask + 1), gate.inbox_mask,
            ticket, {to.value, host.value, type, 0, sizeof(M)}, &message);
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&gate.bells[w].bell, &gate.bells[w].sleeping);
#endif
        return Errc::ok;
    }

private:
    const Gate* gate_ = nullptr;
};

} // namespace denizen
