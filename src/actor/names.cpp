// SPDX-License-Identifier: Apache-2.0
// Names of actors, which the host alone knows, and the list of all actors, which the workers'
// tables tell.
#include "core.hpp"

#include <denizen/actor/detail/system.hpp>
#include <denizen/actor/supervisor.hpp>

namespace denizen {

// Whether an actor that was spawned has not stopped: by an actor or a supervisor, the host does not
// know.
bool AnyRuntime::Core::lives(Address actor, uint64_t deadline_ns)
{
    if (type_at(index(actor)) == 0) {
        return false;
    }
    const Address ticket = take_cell(deadline_ns);
    const LifeRequest request{actor.local(), 0, 0, 0};
    try {
        send_system(SystemOp::look, actor, ticket, &request, sizeof request, deadline_ns,
                    Priority::urgent);
    } catch (...) {
        cells.give_back(ticket);
        throw;
    }
    LifeReport report{};
    wait_reply(ticket, &report, sizeof report, deadline_ns,
               [&] { return "inspecting " + describe(actor); });
    if (report.life != static_cast<uint32_t>(Life::stopped)) {
        return true;
    }
    set_type(index(actor), 0);
    return false;
}

Address AnyRuntime::spawn(uint32_t actor_type, std::string_view name, nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    if (name.empty() || name.size() > max_name) {
        throw Error(Errc::bad_argument, "a name of " + std::to_string(name.size()) +
                                            " bytes; use 1 to " + std::to_string(max_name));
    }
    const std::lock_guard guard(c.names.mutex);
    const auto found = c.names.addresses.find(name);
    if (found != c.names.addresses.end() && c.lives(Address{found->second}, ns(deadline))) {
        throw Error(Errc::bad_argument, '"' + std::string(name) + "\" is the name of " +
                                            c.describe(Address{found->second}) +
                                            ", which lives; use another, or stop it first");
    }
    const Address actor = c.spawn_anywhere(actor_type, 1, ns(deadline))[0];
    c.names.addresses.insert_or_assign(std::string(name), actor.value);
    return actor;
}

Address AnyRuntime::find(std::string_view name, nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    const std::lock_guard guard(c.names.mutex);
    const auto found = c.names.addresses.find(name);
    if (found == c.names.addresses.end()) {
        throw Error(Errc::no_actor, "no actor is called \"" + std::string(name) + '"');
    }
    const Address actor{found->second};
    if (!c.lives(actor, ns(deadline))) {
        throw Error(Errc::no_actor, "the actor called \"" + std::string(name) + "\" has stopped");
    }
    return actor;
}

std::vector<ActorListing> AnyRuntime::actors()
{
    Core& c = core();
    c.check_alive();
    std::unordered_map<uint32_t, std::string> names;
    {
        const std::lock_guard guard(c.names.mutex);
        for (const auto& [name, address] : c.names.addresses) {
            names.emplace(address, name);
        }
    }
    std::vector<ActorListing> all;
    std::vector<ActorEntry> entries;
    for (uint32_t n = 0; n < c.nodes.size(); ++n) {
        const Node& node = c.nodes[n];
        for (uint32_t w = 0; w < c.workers; ++w) {
            {
                const auto guard = c.lock_places(~uint64_t{0});
                entries.resize(c.placing.next_local[c.worker_index(Address::actor(w, 0, n))]);
            }
            const size_t first = w * static_cast<size_t>(c.actors_per_worker);
            if (!entries.empty() && !node.backend->read(entries.data(), node.shared.actors + first,
                                                        sizeof(ActorEntry) * entries.size())) {
                c.check_alive();
                throw Error(Errc::peer_dead, "the program's memory cannot be read any more");
            }
            for (const ActorEntry& entry : entries) {
                const auto life = static_cast<Life>(entry.kind >> 8);
                if (entry.kind == 0 || life == Life::moved) { // it is listed where it is
                    continue;
                }
                const auto named = names.find(entry.self);
                all.push_back({Address{entry.self},
                               entry.type() < c.image.actors.size() ? c.actor_name(entry.type())
                                                                    : "supervisor",
                               named == names.end() ? std::string() : named->second, n, w, life});
            }
        }
    }
    return all;
}

} // namespace denizen
