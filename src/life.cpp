// SPDX-License-Identifier: Apache-2.0
// The host's calls about the life of actors: each is a request to the actor's worker, which answers
// into a reply cell. And the reading of dead letters.
#include "core.hpp"

#include <denizen/actor/supervisor.hpp>
#include <denizen/resident/system.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

uint64_t ns(nanoseconds deadline)
{
    return deadline.count() < 0 ? 0 : static_cast<uint64_t>(deadline.count());
}

const char* name_of(SystemOp op)
{
    switch (op) {
    case SystemOp::stop: return "stopping";
    case SystemOp::pause: return "pausing";
    case SystemOp::resume: return "resuming";
    case SystemOp::restart: return "restarting";
    case SystemOp::drain: return "draining";
    case SystemOp::checkpoint: return "copying the state of";
    case SystemOp::look: return "inspecting";
    case SystemOp::watch: return "watching";
    case SystemOp::unwatch: return "no longer watching";
    case SystemOp::attach: return "supervising";
    default: return "ordering";
    }
}

bool within(const Shared& s, Address a)
{
    return a.node() == 0 && a.worker() < s.workers && a.local() < s.actors_per_worker;
}

} // namespace

// One request about one actor, and its answer. Everything but a drain goes the urgent way.
LifeReport AnyRuntime::order(SystemOp op, Address actor, uint32_t value, uint32_t rank,
                             nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (!within(c.shared, actor)) {
        c.refuse(actor, 0);
    }
    const Address ticket = c.take_cell(ns(deadline));
    const LifeRequest request{actor.local(), value, rank, 0};
    try {
        c.send_header(actor.worker(),
                      {actor.value, ticket.value, static_cast<uint32_t>(op), flag_system,
                       sizeof request},
                      &request, ns(deadline));
    } catch (...) {
        c.cells.give_back(ticket);
        throw;
    }
    LifeReport report{};
    c.wait_reply(ticket, &report, sizeof report, ns(deadline),
                 [&] { return std::string(name_of(op)) + ' ' + c.describe(actor); });
    return report;
}

// As order(), and anything but Errc::ok is thrown.
void AnyRuntime::demand(SystemOp op, Address actor, uint32_t value, nanoseconds deadline)
{
    const LifeReport r = order(op, actor, value, 0, deadline);
    const std::string who = core_->describe(actor);
    switch (static_cast<Errc>(r.error)) {
    case Errc::ok: return;
    case Errc::no_actor:
        if (r.incarnation == 0) {
            core_->refuse(actor, 0);
        }
        throw Error(Errc::no_actor, who + " has stopped");
    case Errc::failed:
        throw Error(Errc::failed, who + " has failed with code " + std::to_string(r.failure) +
                                      "; restart or resume it");
    case Errc::exhausted:
        throw Error(Errc::exhausted, "table of watches of worker " +
                                         std::to_string(actor.worker()) + " (" +
                                         std::to_string(core_->shared.watch_slots) +
                                         " entries) is full; raise watch_slots");
    default:
        throw Error(Errc::bad_argument,
                    op == SystemOp::checkpoint
                        ? who + " keeps no checkpoint; its type declares `static constexpr auto "
                                "restart_from = denizen::RestartFrom::snapshot`"
                    : op == SystemOp::drain && r.life == static_cast<uint32_t>(Life::running)
                        ? who + " is a supervisor; stop it instead"
                        : who + " is " + to_string(static_cast<Life>(r.life)) +
                              (op == SystemOp::drain ? "; resume or stop it"
                                                     : "; it stops when it has drained"));
    }
}

ActorStatus AnyRuntime::inspect(Address actor, nanoseconds deadline)
{
    const LifeReport r = order(SystemOp::look, actor, 0, 0, deadline);
    if (r.incarnation == 0) {
        core_->refuse(actor, 0);
    }
    return {static_cast<Life>(r.life), r.incarnation, r.failure, r.held, Address{r.supervisor}};
}

void AnyRuntime::stop(Address actor, nanoseconds deadline)
{
    demand(SystemOp::stop, actor, 0, deadline);
    core_->set_type(core_->index(actor), 0);
}

void AnyRuntime::pause(Address actor, nanoseconds deadline)
{
    demand(SystemOp::pause, actor, 0, deadline);
}

void AnyRuntime::resume(Address actor, nanoseconds deadline)
{
    demand(SystemOp::resume, actor, 0, deadline);
}

void AnyRuntime::restart(Address actor, nanoseconds deadline)
{
    demand(SystemOp::restart, actor, 0, deadline);
}

void AnyRuntime::drain(Address actor, nanoseconds deadline)
{
    demand(SystemOp::drain, actor, 0, deadline);
    core_->set_type(core_->index(actor), 0);
}

void AnyRuntime::checkpoint(Address actor, nanoseconds deadline)
{
    demand(SystemOp::checkpoint, actor, 0, deadline);
}

void AnyRuntime::watch(Address watcher, Address watched, nanoseconds deadline)
{
    Core& c = *core_;
    const uint32_t down = c.image.table.down;
    if (down == no_type) {
        throw Error(Errc::wrong_type, "the program has no message denizen::Down; a program that "
                                      "watches lists it among its messages");
    }
    if (!watcher.is_host()) {
        if (!within(c.shared, watcher) || c.type_at(c.index(watcher)) == 0 ||
            !c.image.table.can_handle(c.type_at(c.index(watcher)) - 1u, down)) {
            c.refuse(watcher, down);
        }
    }
    demand(SystemOp::watch, watched, watcher.value, deadline);
}

void AnyRuntime::unwatch(Address watcher, Address watched, nanoseconds deadline)
{
    demand(SystemOp::unwatch, watched, watcher.value, deadline);
}

Address AnyRuntime::supervise(const Address* children, size_t count, Strategy strategy,
                              const RestartBudget& budget, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (count == 0 || count >= 1u << 28) {
        throw Error(Errc::bad_argument,
                    std::to_string(count) + " children; give 1 to 268,435,455");
    }
    if (budget.max_restarts > max_restart_budget &&
        budget.max_restarts != RestartBudget::unlimited) {
        throw Error(Errc::bad_argument,
                    "max_restarts = " + std::to_string(budget.max_restarts) + "; use 0 to " +
                        std::to_string(max_restart_budget) + ", or unlimited");
    }
    for (size_t i = 0; i < count; ++i) {
        if (!within(c.shared, children[i])) {
            c.refuse(children[i], 0);
        }
    }
    const uint32_t n = static_cast<uint32_t>(count);
    const uint32_t w = children[0].worker();
    Address self;
    const auto tell = [&](SystemOp op, const auto& request) {
        const Address ticket = c.take_cell(ns(deadline));
        c.send_header(w,
                      {self.value, ticket.value, static_cast<uint32_t>(op), flag_system,
                       sizeof request},
                      &request, ns(deadline));
        return ticket;
    };
    const auto wait = [&](Address ticket) {
        c.wait_reply(ticket, nullptr, 0, ns(deadline),
                     [] { return std::string("making a supervisor"); });
    };
    {
        const std::lock_guard guard(c.spawn_mutex);
        const uint64_t heap = round_up(c.heap_used, 256);
        const uint64_t bytes = supervisor_bytes(n, budget.max_restarts);
        if (heap + bytes > c.options.state_bytes) {
            throw Error(Errc::exhausted,
                        "a supervisor of " + std::to_string(count) + " needs " +
                            std::to_string(bytes) + " bytes of state, " +
                            std::to_string(c.options.state_bytes -
                                           std::min(heap, c.options.state_bytes)) +
                            " are left; raise state_bytes");
        }
        if (c.next_local[w] >= c.shared.actors_per_worker) {
            throw Error(Errc::exhausted, "a supervisor exceeds max_actors = " +
                                             std::to_string(c.options.max_actors) + "; raise it");
        }
        self = Address::actor(w, c.next_local[w]);
        wait(tell(SystemOp::supervise,
                  SuperviseRequest{self.local(), n, heap, ns(budget.window),
                                   static_cast<uint32_t>(strategy), budget.max_restarts}));
        ++c.next_local[w];
        c.heap_used = heap + bytes;
    }
    // Some requests at a time; half of the cells at the most, other threads ask too.
    std::deque<Address> open;
    const size_t most = std::max<size_t>(1, c.cells.count() / 2);
    for (uint32_t i = 0; i < n; i += 7) {
        AdoptRequest r{self.local(), 0, {}};
        const uint32_t part = std::min(n - i, 7u);
        r.rank_and_count = i | part << 28;
        for (uint32_t k = 0; k < part; ++k) {
            r.child[k] = children[i + k].value;
        }
        if (open.size() == most) {
            wait(open.front());
            open.pop_front();
        }
        open.push_back(tell(SystemOp::adopt, r));
    }
    for (const Address ticket : open) {
        wait(ticket);
    }
    for (uint32_t i = 0; i < n; ++i) {
        const LifeReport r = order(SystemOp::attach, children[i], self.value, i, deadline);
        if (r.error == static_cast<uint32_t>(Errc::ok)) {
            continue;
        }
        while (i-- > 0) { // ends at the first
            order(SystemOp::attach, children[i], nobody, 0, deadline);
        }
        const Address child = children[i + 1];
        throw Error(static_cast<Errc>(r.error),
                    c.describe(child) +
                        (r.incarnation == 0 ? " was never spawned"
                         : r.supervisor != nobody
                             ? " has a supervisor already: " + c.describe({r.supervisor})
                             : " has stopped"));
    }
    return self;
}

DeadLetters AnyRuntime::dead_letters()
{
    Core& c = *core_;
    const std::lock_guard guard(c.dead_mutex);
    const uint32_t capacity = c.shared.dead_mask + 1;
    DeadLetters out;
    for (;;) { // ends in front of a letter that is not there yet
        const Slot& slot = c.shared.dead[c.dead_head & c.shared.dead_mask];
        Packet p[4];
        uint32_t newest = c.dead_head; // the sequence of the newest packet, if it is new
        bool whole = true;
        for (int k = 0; k < 4; ++k) {
            p[k] = load_packet<Scope::system>(&slot.packet[k]);
            whole &= p[k].sequence == c.dead_head + 1;
            if (static_cast<int32_t>(p[k].sequence - newest) > 0) {
                newest = p[k].sequence;
            }
        }
        if (newest != c.dead_head && newest != c.dead_head + 1) {
            // Overwritten. The oldest that may be left is the one behind the newest's own lap.
            const uint32_t oldest = newest - capacity;
            c.dead_lost += oldest - c.dead_head;
            c.dead_head = oldest;
            continue;
        }
        if (!whole) {
            break;
        }
        uint32_t word[12];
        for (uint32_t k = 0; k < 12; ++k) {
            word[k] = p[k / 3].word[k % 3];
        }
        const uint64_t place = word[4] | static_cast<uint64_t>(word[5]) << 32;
        DeadLetter d;
        d.reason = static_cast<Reason>(word[0] >> 10 & 0xf);
        d.type = word[0] & 0x3ff;
        d.length = word[0] >> 14;
        d.sender = {word[1]};
        d.destination = {word[2]};
        d.code = word[3];
        d.worker = static_cast<uint32_t>(place >> dead_time_bits);
        d.time_ns = place & ((uint64_t{1} << dead_time_bits) - 1);
        std::memcpy(d.payload.data(), word + 6, dead_payload);
        d.text = c.message_name(d.type) + " to " + c.describe(d.destination) + ": ";
        switch (d.reason) {
        case Reason::no_actor: d.text += "no such actor"; break;
        case Reason::stopped: d.text += "it has stopped"; break;
        case Reason::wrong_type: d.text += "it has no handler for it"; break;
        case Reason::failed: d.text += "it failed with code " + std::to_string(d.code); break;
        case Reason::dropped: d.text += "dropped for want of room"; break;
        case Reason::oversize: d.text += "longer than any message of the program"; break;
        }
        out.letters.push_back(std::move(d));
        ++c.dead_head;
    }
    out.lost = c.dead_lost;
    return out;
}

} // namespace denizen
