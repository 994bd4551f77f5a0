// SPDX-License-Identifier: Apache-2.0
// The host's calls about the life of actors: each is a request to the actor's worker, which answers
// into a reply cell. And the reading of dead letters.
#include "core.hpp"

#include <denizen/actor/detail/system.hpp>
#include <denizen/actor/supervisor.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

// What ends an actor or copies it comes behind what the caller has sent it before; the rest must
// get through however full the host rings are.
Priority priority_of(SystemOp op)
{
    const bool behind = op == SystemOp::stop || op == SystemOp::drain || op == SystemOp::checkpoint;
    return behind ? Priority::data : Priority::urgent;
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

// The next dead letter of a node's ring; false if it is not there yet.
bool next_dead(Node& node, DeadWords& words)
{
    const uint32_t mask = node.shared.dead_mask;
    for (;;) { // ends: a second turn only after letters that have been overwritten
        uint32_t newest = node.dead_head;
        bool whole = true;
        for (uint32_t k = 0; k < 4; ++k) {
            const Packet p =
                load_packet<Scope::system>(&node.shared.dead[node.dead_head & mask].packet[k]);
            whole &= p.sequence == node.dead_head + 1;
            newest = static_cast<int32_t>(p.sequence - newest) > 0 ? p.sequence : newest;
            for (uint32_t i = 0; i < 3; ++i) {
                words.word[3 * k + i] = p.word[i];
            }
        }
        if (whole) {
            ++node.dead_head;
            return true;
        }
        if (static_cast<int32_t>(newest - node.dead_head) <= 1) {
            return false;
        }
        // Overwritten. The oldest that may be left lies one lap behind the newest.
        const uint32_t oldest = newest - (mask + 1);
        node.dead_lost += oldest - node.dead_head;
        node.dead_head = oldest;
    }
}

DeadLetter letter_of(const DeadWords& words)
{
    const uint32_t* w = words.word;
    const uint64_t place = w[4] | static_cast<uint64_t>(w[5]) << 32;
    DeadLetter d;
    d.reason = static_cast<Reason>(w[0] >> 10 & 0xf);
    d.type = w[0] & 0x3ff;
    d.length = w[0] >> 14;
    d.sender = {w[1]};
    d.destination = {w[2]};
    d.code = w[3];
    d.worker = static_cast<uint32_t>(place >> dead_time_bits);
    d.time_ns = place & ((uint64_t{1} << dead_time_bits) - 1);
    std::memcpy(d.payload.data(), w + 6, std::min(d.length, dead_payload));
    return d;
}

std::string why(Reason reason)
{
    switch (reason) {
    case Reason::no_actor: return "no such actor";
    case Reason::stopped: return "it has stopped";
    case Reason::wrong_type: return "it has no handler for it";
    case Reason::dropped: return "dropped for want of room";
    case Reason::oversize: return "longer than any message of the program";
    case Reason::lost: return "its host was lost";
    case Reason::failed: break;
    }
    return "it failed";
}

} // namespace

// One request about one actor, and its answer: of one that has been done, Errc::ok and no more,
// unless it was to look.
LifeReport AnyRuntime::order(SystemOp op, Address actor, uint32_t value, uint32_t rank,
                             nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    if (!c.inside(actor)) {
        c.refuse(actor, 0);
    }
    const std::shared_lock stays(c.moving.orders);
    const Address ticket = c.take_cell(ns(deadline));
    const LifeRequest request{actor.local(), value, rank, 0};
    try {
        c.send_system(op, actor, ticket, &request, sizeof request, ns(deadline), priority_of(op));
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
    const auto error = static_cast<Errc>(r.error);
    if (error == Errc::ok) {
        return;
    }
    const std::string who = core().describe(actor);
    switch (error) {
    case Errc::no_actor:
        if (core().type_at(core().index(actor)) == 0) {
            core().refuse(actor, 0);
        }
        core().set_type(core().index(actor), 0); // by an actor or a supervisor: news to the host
        throw Error(Errc::no_actor, who + " has stopped");
    case Errc::failed:
        throw Error(Errc::failed, who + " has failed with code " + std::to_string(r.failure) +
                                      "; restart or resume it");
    case Errc::exhausted:
        throw Error(Errc::exhausted, "table of watches of " + core().worker_name(actor) + " (" +
                                         std::to_string(core().options.watch_slots) +
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
        core().refuse(actor, 0);
    }
    return {static_cast<Life>(r.life), r.incarnation, r.failure, r.stashed, Address{r.supervisor}};
}

void AnyRuntime::stop(Address actor, nanoseconds deadline)
{
    demand(SystemOp::stop, actor, 0, deadline);
    core().set_type(core().index(actor), 0);
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
    core().set_type(core().index(actor), 0);
}

void AnyRuntime::checkpoint(Address actor, nanoseconds deadline)
{
    demand(SystemOp::checkpoint, actor, 0, deadline);
}

void AnyRuntime::watch(Address watcher, Address watched, nanoseconds deadline)
{
    Core& c = core();
    const uint32_t down = c.image.table.down;
    if (down == no_type) {
        throw Error(Errc::wrong_type, "the program has no message denizen::Down; a program that "
                                      "watches lists it among its messages");
    }
    if (!watcher.is_host()) {
        if (!c.inside(watcher) || c.type_at(c.index(watcher)) == 0 ||
            !c.image.table.can_handle(c.type_at(c.index(watcher)) - 1u, down)) {
            c.refuse(watcher, down);
        }
    }
    if (!c.watch_far(SystemOp::watch, watcher, watched)) {
        demand(SystemOp::watch, watched, watcher.value, deadline);
    }
}

void AnyRuntime::unwatch(Address watcher, Address watched, nanoseconds deadline)
{
    if (!core().watch_far(SystemOp::unwatch, watcher, watched)) {
        demand(SystemOp::unwatch, watched, watcher.value, deadline);
    }
}

Address AnyRuntime::supervise(const Address* children, size_t count, Strategy strategy,
                              const RestartBudget& budget, nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    if (count == 0 || count >= 1u << 28) {
        throw Error(Errc::bad_argument, std::to_string(count) + " children; give 1 to 268,435,455");
    }
    if (budget.max_restarts > max_restart_budget &&
        budget.max_restarts != RestartBudget::unlimited) {
        throw Error(Errc::bad_argument, "max_restarts = " + std::to_string(budget.max_restarts) +
                                            "; use 0 to " + std::to_string(max_restart_budget) +
                                            ", or unlimited");
    }
    for (size_t i = 0; i < count; ++i) {
        if (!c.inside(children[i])) {
            c.refuse(children[i], 0);
        }
    }
    const uint32_t n = static_cast<uint32_t>(count);
    Address self;
    const auto tell = [&](SystemOp op, const auto& request) {
        const Address ticket = c.take_cell(ns(deadline));
        c.send_system(op, self, ticket, &request, sizeof request, ns(deadline));
        return ticket;
    };
    const auto wait = [&](Address ticket) {
        c.wait_reply(ticket, nullptr, 0, ns(deadline),
                     [] { return std::string("making a supervisor"); });
    };
    {
        const auto guard = c.lock_places(ns(deadline));
        // Beside its first child.
        Node& node = c.nodes[children[0].node()];
        uint32_t& local = c.placing.next_local[c.worker_index(children[0])];
        const uint64_t heap = round_up(node.heap_used, 256);
        const uint64_t bytes = detail::supervisor_bytes(n, budget.max_restarts);
        if (heap + bytes > c.options.state_bytes) {
            throw Error(Errc::exhausted, "a supervisor of " + std::to_string(count) + " needs " +
                                             std::to_string(bytes) + " bytes of state, " +
                                             std::to_string(c.options.state_bytes -
                                                            std::min(heap, c.options.state_bytes)) +
                                             " are left; raise state_bytes");
        }
        if (local >= c.actors_per_worker) {
            throw Error(Errc::exhausted, "a supervisor exceeds max_actors = " +
                                             std::to_string(c.options.max_actors) + "; raise it");
        }
        self = Address::actor(children[0].worker(), local, children[0].node());
        wait(tell(SystemOp::supervise,
                  SuperviseRequest{self.local(), n, heap, ns(budget.window),
                                   static_cast<uint32_t>(strategy), budget.max_restarts}));
        ++local;
        node.heap_used = heap + bytes;
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
        for (uint32_t k = 0; k < i; ++k) { // these are free again
            order(SystemOp::attach, children[k], nobody, 0, deadline);
        }
        const Address child = children[i];
        throw Error(static_cast<Errc>(r.error),
                    c.describe(child) + (r.incarnation == 0       ? " was never spawned"
                                         : r.supervisor != nobody ? " has a supervisor already: " +
                                                                        c.describe({r.supervisor})
                                                                  : " has stopped"));
    }
    return self;
}

DeadLetters AnyRuntime::dead_letters()
{
    Core& c = core();
    const std::lock_guard guard(c.dead_mutex);
    DeadLetters out;
    for (Node& node : c.nodes) {
        DeadWords words;
        while (next_dead(node, words)) { // ends in front of a letter that is not there yet
            out.letters.push_back(letter_of(words));
            DeadLetter& d = out.letters.back();
            d.text = c.message_name(d.type) + " to " + c.describe(d.destination) + ": " +
                     (d.reason == Reason::failed ? "it failed with code " + std::to_string(d.code)
                                                 : why(d.reason));
        }
        out.lost += node.dead_lost;
    }
    const std::lock_guard far_guard(c.far.letters_lock);
    out.letters.insert(out.letters.end(), c.far.letters.begin(), c.far.letters.end());
    c.far.letters.clear();
    out.lost += c.far.letters_lost;
    return out;
}

} // namespace denizen
