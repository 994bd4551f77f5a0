// SPDX-License-Identifier: Apache-2.0
// Snapshots of a whole program. Its workers are taken off between two messages; then all there is
// of it lies in memory: what actors know, what waits for them in rings, outboxes and stores, and
// the positions that say so. That is written as it lies, with addresses made relative, and put back
// into the same places of a program of the same types and geometry. docs/snapshots.md says what
// a restored program is. And snapshots of single actors.
#include "core.hpp"
#include "fingerprint.hpp"
#include "snapshot_check.hpp"
#include "snapshot_far.hpp"
#include "snapshot_host.hpp"
#include "snapshot_memory.hpp"

#include <optional>

namespace denizen {
namespace {

// While it lives, no worker of the program runs.
class Away {
public:
    Away(AnyRuntime::Core& core, uint64_t deadline_ns) : core_(core)
    {
        const uint64_t begin = now_ns();
        try {
            while (!all_leave(begin, deadline_ns)) { // ends when they have, or by the deadline
                core.check_alive();
                if (now_ns() - begin > deadline_ns) {
                    const std::string who = core.stuck(deadline_ns / 2);
                    throw Error(Errc::timeout, "the workers were not to be had for a snapshot "
                                               "within " +
                                                   seconds(deadline_ns) +
                                                   (who.empty() ? "" : ": " + who));
                }
            }
        } catch (...) {
            let_go();
            throw;
        }
    }
    ~Away() { let_go(); }
    Away(const Away&) = delete;
    Away& operator=(const Away&) = delete;

private:
    // A handler whose worker has an outbox that is full waits for room that a worker which has left
    // does not make: those come back after a moment, and all try again.
    bool all_leave(uint64_t begin, uint64_t deadline_ns)
    {
        for (const Node& node : core_.nodes) {
            node.backend->hold();
        }
        const uint64_t tried = now_ns();
        Backoff wait;
        while (now_ns() - tried < 500'000'000 && now_ns() - begin <= deadline_ns) {
            if (std::all_of(core_.nodes.begin(), core_.nodes.end(),
                            [](const Node& node) { return node.backend->held(); })) {
                return true;
            }
            core_.drain_egress_if_full();
            core_.check_alive();
            check_interrupt();
            wait.pause();
        }
        let_go();
        return false;
    }

    void let_go()
    {
        for (const Node& node : core_.nodes) {
            node.backend->let_go();
        }
    }

    AnyRuntime::Core& core_;
};

uint64_t left(uint64_t begin, uint64_t deadline_ns)
{
    const uint64_t used = now_ns() - begin;
    return deadline_ns > used ? deadline_ns - used : 0;
}

} // namespace

void AnyRuntime::Core::save(const std::string& path, uint64_t deadline_ns)
{
    const uint64_t begin = now_ns();
    lock_within(deadline_ns, save_mutex, names.mutex, placing.mutex, moving.mutex);
    const std::scoped_lock guards(std::adopt_lock, save_mutex, names.mutex, placing.mutex,
                                  moving.mutex);
    check_alive();
    if (options.hosts != 0 && held == nullptr) {
        throw Error(Errc::bad_argument, path + ": what is on its way between the hosts of a "
                                               "cluster would not be in a snapshot of one; use the "
                                               "cluster's save()");
    }
    std::vector<SnapshotSection> sections{program_section(image), geometry_section(*this)};
    {
        std::optional<Away> away;
        if (held == nullptr) {
            away.emplace(*this, deadline_ns);
        }
        check_alive();
        save_host(*this, sections, deadline_ns);
        save_memory(*this, sections);
    }
    write_snapshot(path, SnapshotKind::program, layout_abi, sections, left(begin, deadline_ns));
}

void AnyRuntime::Core::hold_workers(uint64_t deadline_ns)
{
    const std::lock_guard guard(save_mutex);
    if (options.hosts == 0) {
        throw Error(Errc::bad_argument, "the program is of no cluster; save() it as it runs");
    }
    if (held == nullptr) {
        far.held = true; // before the workers: what a thread sends afterwards is of after the cut
        try {
            held = std::make_shared<Away>(*this, deadline_ns);
        } catch (...) {
            far.held = false;
            throw;
        }
    }
}

void AnyRuntime::Core::let_workers_go()
{
    const std::lock_guard guard(save_mutex);
    held = nullptr;
    far.held = false;
}

void AnyRuntime::Core::restore(const SnapshotFile& file)
{
    compare_far(file, *this);
    compare_geometry(file, *this);
    restore_host(file, *this);
    const std::vector<MemoryImage> memory = restore_memory(file, *this);
    SnapshotCheck check(file, *this, memory);
    check.check_boards();
    check.check_actors();
    check.check_topics();
    check.check_messages();
    check.check_tasks();
    check.check_heaps();
}

// ---- one actor

namespace {

// An actor's entry and its state's bytes. No worker is on.
ActorEntry entry_of(const AnyRuntime::Core& c, Address actor)
{
    const Node& node = c.nodes[actor.node()];
    ActorEntry entry;
    read_memory(node, &entry,
                node.shared.actors + actor.worker() * static_cast<size_t>(c.actors_per_worker) +
                    actor.local(),
                sizeof entry);
    return entry;
}

} // namespace

void AnyRuntime::Core::save_actor(Address actor, const std::string& path, uint64_t deadline_ns)
{
    const std::scoped_lock guards(save_mutex, moving.mutex);
    check_alive();
    check_actor(actor);
    const uint64_t begin = now_ns();
    const Address place = moving.place_of(actor);
    SnapshotSection s("actor");
    {
        const Away away(*this, deadline_ns);
        const ActorEntry entry = entry_of(*this, place);
        if (entry.type() >= image.table.actors) {
            refuse(actor, 0); // it has stopped itself
        }
        const ActorInfo& info = image.table.actor[entry.type()];
        s.put_text(actor_name(entry.type()));
        s.put(info.size);
        s.put(info.align);
        std::vector<unsigned char> state(info.size);
        read_memory(nodes[place.node()], state.data(), entry.state, state.size());
        s.put(state.data(), state.size());
    }
    write_snapshot(path, SnapshotKind::actor, layout_abi, {s}, left(begin, deadline_ns));
}

void AnyRuntime::Core::load_actor(Address actor, const std::string& path, uint64_t deadline_ns)
{
    const SnapshotFile file(path, SnapshotKind::actor, layout_abi);
    SnapshotBytes s = file.section("actor");
    const std::string name = s.take_text();
    const auto size = s.take<uint32_t>();
    const auto align = s.take<uint32_t>();
    const auto state = s.take(size);
    const std::scoped_lock guards(save_mutex, moving.mutex);
    check_alive();
    check_actor(actor);
    const Address place = moving.place_of(actor);
    const Away away(*this, deadline_ns);
    const ActorEntry entry = entry_of(*this, place);
    if (entry.type() >= image.table.actors) {
        refuse(actor, 0);
    }
    const ActorInfo& info = image.table.actor[entry.type()];
    if (name != actor_name(entry.type())) {
        file.refuse("is of an actor " + name + ", " + describe(actor) + " is an actor " +
                    actor_name(entry.type()));
    }
    if (size != info.size || align != info.align) {
        file.refuse("is of an actor " + name + " of " + std::to_string(size) +
                    " bytes, aligned to " + std::to_string(align) + "; this program's has " +
                    std::to_string(info.size) + ", aligned to " + std::to_string(info.align));
    }
    write_memory(nodes[place.node()], entry.state, state.data(), state.size());
}

} // namespace denizen
