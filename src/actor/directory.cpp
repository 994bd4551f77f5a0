// SPDX-License-Identifier: Apache-2.0
// Who is who in messages for people, who is stuck, and what has gone wrong in a program that has
// stopped.
#include "directory.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace denizen {

std::string Directory::worker_name(Address a) const
{
    return "worker " + std::to_string(a.worker()) +
           (nodes.size() > 1 ? " on node " + std::to_string(a.node()) : "");
}

std::string Directory::describe(Address a) const
{
    if (a.is_far()) {
        return describe_far(a);
    }
    if (a.is_host()) {
        return "the host";
    }
    std::string name = "actor";
    if (inside(a)) {
        const uint8_t type = type_at(index(a));
        if (type != 0) {
            name += ' ' + actor_name(type - 1u);
        }
    }
    return name + " #" + std::to_string(a.local()) + " of " + worker_name(a);
}

void Directory::refuse(Address to, uint32_t type) const
{
    // The most exact reason first.
    const uint8_t before = inside(to) ? stopped_type_at(index(to)) : uint8_t{0};
    if (before != 0 && type_at(index(to)) == 0) {
        throw Error(Errc::no_actor, "actor " + actor_name(before - 1u) + " #" +
                                        std::to_string(to.local()) + " of " + worker_name(to) +
                                        " has stopped; an address is not given out again, spawn "
                                        "another");
    }
    if (inside(to) && spawned_by_handler(to) && type_at(index(to)) == 0) {
        throw Error(Errc::no_actor,
                    describe(to) + " has stopped, or was never spawned by a handler");
    }
    if (!inside(to) || type_at(index(to)) == 0) {
        char text[64];
        std::snprintf(text, sizeof text, "address 0x%08x names no actor", to.value);
        throw Error(Errc::no_actor, std::string(text) + "; spawn it first and use its address");
    }
    throw Error(Errc::wrong_type, describe(to) + " has no handler for " + message_name(type));
}

void Directory::check_alive()
{
    if (closed) {
        throw Error(Errc::closed, "the runtime is closed");
    }
    for (const Node& node : nodes) {
        std::string text;
        if (const Errc code = node.backend->failure(text); code != Errc::ok) {
            throw Error(code, text);
        }
        // On the CPU straight from the workers: nobody mirrors it between two scans.
        const FirstError& fatal = on_gpu ? node.control->fatal : node.shared.board->fatal;
        if (const std::string why = text_of(node, fatal); !why.empty()) {
            throw Error(static_cast<Errc>(fatal.record.code), "the program has stopped: " + why);
        }
    }
}

std::string Directory::text_of(const Node& node, const FirstError& first) const
{
    // Acquire: partner of the release in mirror(), or in keep_first().
    if (load<Scope::system, Order::acquire>(&first.set) != 2) {
        return {};
    }
    const ErrorRecord& e = first.record;
    const std::string what = message_name(e.message);
    const std::string who = worker_name(Address::actor(e.worker, 0, node.shared.node));
    const std::string worker = " (" + who + ")";
    if (e.message == watch_table_full) {
        return "table of watches of " + who + " (" + std::to_string(node.shared.watch_slots) +
               " entries) is full and " + describe({e.sender}) + " cannot watch " +
               describe({e.actor}) + "; raise watch_slots";
    }
    if (e.message == topic_table_full) {
        return "table of subscriptions (" + std::to_string(options.subscriptions) +
               " entries) is full and " + describe({e.actor}) +
               " cannot subscribe; raise subscriptions";
    }
    if (e.message == misdirected_order) {
        return "an order from " + describe({e.sender}) + " to " + describe({e.actor}) +
               ": no such actor" + worker;
    }
    if (e.message == supervisor_gave_up) {
        return describe({e.actor}) + " has failed with code " + std::to_string(e.sender) +
               " and its supervisor, which has none itself, has stopped all of its children" +
               worker;
    }
    switch (static_cast<Errc>(e.code)) {
    case Errc::failed: return what + " to " + describe({e.actor}) + ": its handler failed" + worker;
    case Errc::no_actor: return what + " to " + describe({e.actor}) + ": no such actor" + worker;
    case Errc::wrong_type:
        return what + " to " + describe({e.actor}) + ": it has no handler for it" + worker;
    case Errc::exhausted:
        return "outbox of " + who + " (" + std::to_string(node.shared.outbox_capacity) +
               " parked messages) is full and " + what + " from " + describe({e.actor}) + " to " +
               describe({e.sender}) +
               " found no room; a handler may send its own worker at most local_slots + "
               "outbox_slots messages, and actors that flood each other need larger ones";
    case Errc::stale:
        return what + " at " + describe({e.actor}) +
               ": its buffer was freed, or never existed; keep() what outlives its message" +
               worker;
    default: return what + ": " + to_string(static_cast<Errc>(e.code)) + worker;
    }
}

bool Directory::every_node(bool (Backend::*tells)(uint64_t), uint64_t patience_ns)
{
    const uint64_t begin = now_ns();
    for (const Node& node : nodes) {
        const uint64_t used = now_ns() - begin;
        if (!(*node.backend.*tells)(patience_ns > used ? patience_ns - used : 0)) {
            return false;
        }
    }
    return true;
}

std::string Directory::stuck(uint64_t at_least_ns)
{
    refresh(50'000'000); // a monitor that does not answer leaves the reports as they were last
    uint64_t longest = 0;
    Address who;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
        for (uint32_t w = 0; w < workers; ++w) {
            const uint64_t busy = load<Scope::system>(&nodes[n].reports[w].busy_ns);
            if (busy > longest) {
                longest = busy;
                who = Address::actor(w, 0, n);
            }
        }
    }
    const uint64_t running =
        longest == 0 ? 0 : load<Scope::system>(&nodes[who.node()].reports[who.worker()].running);
    if (longest < at_least_ns || running == 0) {
        return {};
    }
    return worker_name(who) + " is stuck: " + describe({static_cast<uint32_t>(running)}) +
           " has been handling " + message_name(static_cast<uint32_t>(running >> 32) - 1) +
           " for " + seconds(longest);
}

// A breath that is about to end at both ends of a while, which is long for that: who keeps it, or
// that attempts fail (breath.hpp).
std::string Directory::unfinished_breath(uint64_t at_least_ns)
{
    struct Seen {
        uint32_t word = 0; // the command, and the bits of a breath that ends
        Breath::Gate gates[2];
        std::vector<uint32_t> acked;
    };
    const auto look = [&](const Node& node) {
        const BreathRef& b = node.shared.breath;
        Seen seen;
        seen.acked.resize(b.workers);
        const bool read =
            node.backend->read(&seen.word, b.command, sizeof seen.word) &&
            node.backend->read(seen.gates, b.state->gate, sizeof seen.gates) &&
            node.backend->read(seen.acked.data(), b.acked, b.workers * sizeof(uint32_t));
        seen.word = read ? seen.word : 0;
        return seen;
    };
    constexpr uint64_t least_ns = 100'000'000;
    constexpr uint64_t most_ns = 1'000'000'000;
    const uint64_t a_while = std::clamp(at_least_ns, least_ns, most_ns);
    for (const Node& node : nodes) {
        const Seen before = node.shared.breath.ns != 0 ? look(node) : Seen{};
        if ((before.word & breath_soon) == 0) {
            continue;
        }
        const uint64_t incarnations = node.backend->incarnations();
        Backoff wait;
        // Ends with the breath, or in time.
        for (const uint64_t begin = now_ns();
             node.backend->incarnations() == incarnations && now_ns() - begin < a_while;) {
            wait.pause();
        }
        const Seen now = look(node);
        if ((now.word & breath_soon) == 0 || node.backend->incarnations() != incarnations) {
            continue;
        }
        const uint32_t attempt = detail::attempt_of(now.word);
        if (const uint32_t first = detail::attempt_of(before.word); first != attempt) {
            return "the breath does not end: attempts " + std::to_string(first) + " to " +
                   std::to_string(attempt - 1) + " have failed";
        }
        std::string who;
        uint32_t missing = 0;
        for (uint32_t w = 0; w < now.acked.size(); ++w) {
            if (now.acked[w] != attempt && ++missing <= 8) {
                who += (who.empty() ? "" : ", ") + std::to_string(w) + " (at " +
                       std::to_string(now.acked[w]) + ")";
            }
        }
        const uint32_t come = now.gates[attempt & 1].come;
        return "the breath does not end, attempt " + std::to_string(attempt) + ": " +
               (missing != 0 ? std::to_string(missing) + " of " + std::to_string(now.acked.size()) +
                                   " workers have not acknowledged, " + who
                             : std::to_string(come & ~gate_shut) + " of " +
                                   std::to_string(now.acked.size()) + " workers at its gate" +
                                   ((come & gate_shut) != 0 ? ", which is shut" : ""));
    }
    return {};
}

} // namespace denizen
