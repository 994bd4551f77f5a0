// SPDX-License-Identifier: Apache-2.0
// What of a program and of its layout a snapshot depends on, and the comparison with the program
// that is to take the snapshot over. States and rings are saved as bytes, so both must be equal; an
// error names the first difference.
#include "fingerprint.hpp"

#include <bit>
#include <map>

namespace denizen {

// ---- what the program is

SnapshotSection program_section(const Image& image)
{
    SnapshotSection s("program");
    const ProgramTable& t = image.table;
    s.put(t.actors);
    for (uint32_t a = 0; a < t.actors; ++a) {
        s.put_text(image.actors[a]);
        s.put(t.actor[a]);
        s.put(t.handles[a]);
    }
    s.put(t.messages);
    for (uint32_t m = 0; m < t.messages; ++m) {
        s.put_text(image.messages[m]);
        s.put(t.message[m]);
    }
    s.put(t.tasks);
    for (uint32_t n = 0; n < t.tasks; ++n) {
        s.put_text(image.tasks[n]);
        s.put(t.task[n]);
    }
    return s;
}

namespace {

struct KeptType {
    std::string name;
    uint32_t size;
    uint32_t align;
};

void compare(const SnapshotFile& file, const char* kind, size_t number, const KeptType& was,
             const KeptType& is)
{
    const std::string what = std::string("is of another program: its ") + kind + ' ';
    if (was.name != is.name) {
        file.refuse(what + "type " + std::to_string(number) + " is " + was.name +
                    ", this program's is " + is.name);
    }
    if (was.size != is.size || was.align != is.align) {
        const auto text = [](const KeptType& k) {
            return std::to_string(k.size) + " bytes, aligned to " + std::to_string(k.align);
        };
        file.refuse(what + was.name + " has " + text(was) + "; this program's has " + text(is));
    }
}

} // namespace

void compare_program(const SnapshotFile& file, const Image& image)
{
    SnapshotBytes s = file.section("program");
    const ProgramTable& t = image.table;
    const auto count = [&](const char* kind, uint32_t is) {
        const auto was = s.take<uint32_t>();
        if (was != is) {
            file.refuse("is of another program: it has " + std::to_string(was) + ' ' + kind +
                        " types, this program has " + std::to_string(is));
        }
    };
    count("actor", t.actors);
    uint64_t handles[max_actor_types][max_message_types / 64] = {};
    for (uint32_t a = 0; a < t.actors; ++a) {
        const std::string name = s.take_text();
        const auto info = s.take<ActorInfo>();
        compare(file, "actor", a, {name, info.size, info.align},
                {image.actors[a], t.actor[a].size, t.actor[a].align});
        if (info.grain != t.actor[a].grain || info.overflow != t.actor[a].overflow ||
            info.restart != t.actor[a].restart || info.spawned != t.actor[a].spawned) {
            file.refuse("is of another program: its actor " + name +
                        " has another grain, overflow, restart_from or spawned");
        }
        std::memcpy(handles[a], s.take(sizeof handles[a]).data(), sizeof handles[a]);
    }
    count("message", t.messages);
    for (uint32_t m = 0; m < t.messages; ++m) {
        const std::string name = s.take_text();
        const auto info = s.take<MessageInfo>();
        compare(file, "message", m, {name, info.size, info.align},
                {image.messages[m], t.message[m].size, t.message[m].align});
        if (info.priority != t.message[m].priority) {
            file.refuse("is of another program: its message " + name + " has another priority");
        }
        for (uint32_t a = 0; a < t.actors; ++a) {
            const bool was = (handles[a][m / 64] >> m % 64 & 1) != 0;
            if (was != t.can_handle(a, m)) {
                file.refuse("is of another program: its actor " + image.actors[a] +
                            (was ? " handles " : " does not handle ") + name +
                            (was ? ", this program's does not" : ", this program's does"));
            }
        }
    }
    count("task", t.tasks);
    for (uint32_t n = 0; n < t.tasks; ++n) {
        const std::string name = s.take_text();
        const auto info = s.take<TaskInfo>();
        compare(file, "task", n, {name, info.size, info.align},
                {image.tasks[n], t.task[n].size, t.task[n].align});
        if (info.grain != t.task[n].grain) {
            file.refuse("is of another program: its task " + name + " has another grain");
        }
    }
}

// ---- how it is laid out

namespace {

struct Number {
    const char* name; // of the option that it comes from
    uint64_t value;
};

std::vector<Number> geometry_of(const AnyRuntime::Core& c)
{
    const Shared& s = c.nodes[0].shared;
    return {{"nodes", s.nodes},
            {"workers", s.workers},
            {"spawn_room", s.spawn_room},
            {"max_actors", uint64_t{s.actors_per_worker} * s.workers * s.nodes},
            {"state_bytes", c.options.state_bytes},
            {"host_ring_slots", s.host_ring_mask + 1},
            {"inbox_slots", s.inbox_mask + 1},
            {"urgent_slots", s.urgent_mask + 1},
            {"outbox_slots", s.outbox_capacity},
            {"egress_slots", s.egress_mask + 1},
            {"dead_letter_slots", s.dead_mask + 1},
            {"stash_slots", s.stash_slots},
            {"watch_slots", s.watch_slots},
            {"timer_slots", s.timer_slots},
            {"task_slots", s.pool == nullptr ? uint64_t{0} : s.task_mask + uint64_t{1}},
            {"subscriptions", (s.subscription_mask + uint64_t{1}) / 2},
            {"asks", s.cell_count},
            {"cluster", s.near},
            {"workers of an SM", s.per_sm},
            {"near_slots", s.near_mask + 1},
            {"local_slots", s.local_mask + 1}};
}

} // namespace

SnapshotSection geometry_section(const AnyRuntime::Core& c)
{
    SnapshotSection s("geometry");
    for (const Number& n : geometry_of(c)) {
        s.put_text(n.name);
        s.put(n.value);
    }
    return s;
}

void adopt_geometry(const SnapshotFile& file, Options& options, bool on_gpu)
{
    SnapshotBytes s = file.section("geometry");
    std::map<std::string, uint64_t> was;
    while (s.left() != 0) { // ends: each turn takes some, or refuses
        const std::string name = s.take_text();
        was[name] = s.take<uint64_t>();
    }
    // The file may be damaged: here values that no program can have are left out, not refused.
    // compare_geometry() refuses them, with a text that names both numbers.
    const uint64_t inbox_slots = was["inbox_slots"];
    if (options.inbox_slots == 0 && std::has_single_bit(inbox_slots) && inbox_slots <= 1u << 16) {
        options.inbox_slots = static_cast<uint32_t>(inbox_slots);
    }
    const uint64_t outbox_slots = was["outbox_slots"];
    constexpr uint64_t most = 1u << 20; // a longer one was asked for
    if (options.outbox_slots == 0 && outbox_slots <= most) {
        options.outbox_slots = static_cast<uint32_t>(outbox_slots);
    }
    const uint64_t workers = was["workers"];
    const uint64_t per_sm = was["workers of an SM"];
    const uint64_t near = was["cluster"];
    if (options.workers != 0 || workers - 1 >= max_workers || per_sm - 1 >= max_workers ||
        near > max_near) {
        return;
    }
    options.workers = static_cast<uint32_t>(workers);
    if (!on_gpu) {
        return;
    }
    const auto cluster = static_cast<uint32_t>(std::bit_ceil((near + per_sm - 1) / per_sm));
    if (options.cluster == 0) {
        options.cluster = cluster;
    }
    if (options.sms == 0) { // of whole clusters: the last one's may have no worker
        const auto with_workers = static_cast<uint32_t>((workers + per_sm - 1) / per_sm);
        options.sms = (with_workers + cluster - 1) / cluster * cluster;
    }
}

void compare_geometry(const SnapshotFile& file, const AnyRuntime::Core& c)
{
    SnapshotBytes s = file.section("geometry");
    for (const Number& n : geometry_of(c)) {
        const std::string name = s.take_text();
        const auto was = s.take<uint64_t>();
        if (name != n.name) { // the file is of a version with other options, not of another program
            s.refuse("names " + name + " where this version has " + n.name);
        }
        if (was != n.value) {
            file.refuse("is of another geometry: " + name + " is " + std::to_string(was) +
                        " in it, " + std::to_string(n.value) +
                        " here; restore it with the options it was saved with");
        }
    }
}

} // namespace denizen
