// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods that tell what a program is and does: its description, counts,
// telemetry, actors. python/denizen/telemetry.py gives them their types.
#include "bind.hpp"

#include <denizen/actor/telemetry.hpp>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

nb::dict describe(const Description& d)
{
    nb::dict out;
    out["device"] = d.device;
    out["on_gpu"] = d.on_gpu;
    out["nodes"] = d.nodes;
    out["workers"] = d.workers;
    out["cluster"] = d.cluster;
    out["per_sm"] = d.per_sm;
    out["worker_threads"] = d.worker_threads;
    out["partition"] = d.partition;
    out["geometry"] = d.geometry;
    out["shared_bytes"] = d.shared_bytes;
    out["host_ring_memory"] = d.host_ring_memory;
    out["why_not_mapped"] = d.why_not_mapped;
    out["device_bytes"] = d.device_bytes;
    out["host_bytes"] = d.host_bytes;
    out["start_ms"] = d.start_ms;
    return out;
}

// As python/denizen/telemetry.py has it, in seconds.
nb::dict to_dict(const Durations& d)
{
    nb::dict out;
    out["count"] = d.count;
    out["sum"] = static_cast<double>(d.sum_ns) * 1e-9;
    out["p50"] = d.quantile(0.5) * 1e-9;
    out["p90"] = d.quantile(0.9) * 1e-9;
    out["p99"] = d.quantile(0.99) * 1e-9;
    out["p999"] = d.quantile(0.999) * 1e-9;
    out["max"] = d.quantile(1) * 1e-9;
    out["buckets"] = d.buckets;
    return out;
}

nb::dict to_dict(const WorkerTelemetry& w, const Image& image)
{
    nb::dict out;
    out["node"] = w.place.node();
    out["number"] = w.place.worker();
    out["mode"] = to_string(w.mode);
    out["actors"] = w.actors;
    out["handled"] = w.handled;
    out["batches"] = w.batches;
    out["idle_rounds"] = w.idle_rounds;
    out["dead_letters"] = w.dead_letters;
    out["host_ring"] = w.host_ring;
    out["inbox"] = w.inbox;
    out["near"] = w.near;
    out["outbox"] = w.outbox;
    out["sent"] = std::vector<uint64_t>(w.sent.begin(), w.sent.end());
    out["busy"] = static_cast<double>(w.busy_ns) * 1e-9;
    out["busy_actor"] = w.busy_actor.value;
    out["busy_message"] =
        w.busy_message < image.messages.size() ? image.messages[w.busy_message] : std::string();
    return out;
}

nb::dict telemetry(AnyRuntime& rt)
{
    Telemetry t;
    {
        const Unlocked unlocked;
        t = rt.telemetry();
    }
    nb::dict out;
    out["time"] = static_cast<double>(t.host_ns) * 1e-9;
    out["device_time"] = static_cast<double>(t.device_ns) * 1e-9;
    out["observed"] = t.observed;
    out["mode"] = to_string(t.mode);
    out["handled"] = t.handled;
    out["dead_letters"] = t.dead_letters;
    out["errors"] = t.errors;
    out["launches"] = t.launches;
    out["spawned"] = t.spawned;
    out["not_spawned"] = t.not_spawned;
    out["timers"] = t.timers;
    out["timers_fired"] = t.timers_fired;
    out["timers_refused"] = t.timers_refused;
    out["tasks"] = t.tasks;
    out["tasks_refused"] = t.tasks_refused;
    out["tasks_failed"] = t.tasks_failed;
    out["sent"] = std::vector<uint64_t>(t.sent.begin(), t.sent.end());
    nb::list workers;
    for (const WorkerTelemetry& w : t.workers) {
        workers.append(to_dict(w, rt.image()));
    }
    out["workers"] = workers;
    nb::list types;
    for (const ActorTypeTelemetry& a : t.actor_types) {
        nb::dict type;
        type["name"] = a.name;
        type["live"] = a.live;
        type["handled"] = a.handled;
        type["durations"] = to_dict(a.durations);
        type["latencies"] = to_dict(a.latencies);
        types.append(type);
    }
    out["actor_types"] = types;
    nb::list slowest;
    for (const SlowHandlerTelemetry& s : t.slowest) {
        nb::dict one;
        one["actor"] = s.actor.value;
        one["type"] = s.type;
        one["message"] = s.message;
        one["seconds"] = static_cast<double>(s.ns) * 1e-9;
        slowest.append(one);
    }
    out["slowest"] = slowest;
    return out;
}

// [(address, type, name, node, worker, life)]
nb::list actors(AnyRuntime& rt)
{
    std::vector<ActorListing> all;
    {
        const Unlocked unlocked;
        all = rt.actors();
    }
    nb::list out;
    for (const ActorListing& a : all) {
        out.append(
            nb::make_tuple(a.address.value, a.type, a.name, a.node, a.worker, to_string(a.life)));
    }
    return out;
}

nb::dict stats(AnyRuntime& rt)
{
    Stats s;
    {
        const Unlocked unlocked;
        s = rt.stats();
    }
    nb::dict out;
    out["handled"] = s.handled;
    out["dead_letters"] = s.dead_letters;
    nb::dict by_reason;
    for (uint32_t r = 0; r < reasons; ++r) {
        by_reason[to_string(static_cast<Reason>(r))] = s.dead_letters_by_reason[r];
    }
    out["dead_letters_by_reason"] = by_reason;
    out["stashed"] = s.stashed;
    out["errors"] = s.errors;
    out["first_error"] = s.first_error;
    out["mode"] = to_string(s.mode);
    out["launches"] = s.launches;
    out["incarnations"] = s.incarnations;
    nb::dict handover;
    const auto mean = [](uint64_t sum, uint64_t count) {
        return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
    };
    const Handovers& h = s.handovers;
    handover["count"] = h.count;
    handover["min"] = h.min_ns;
    handover["mean"] = mean(h.sum_ns, h.count);
    handover["max"] = h.max_ns;
    handover["attempts"] = h.attempts;
    handover["mean_asking"] = mean(h.asking_ns, h.attempts);
    handover["mean_leaving"] = mean(h.leaving_ns, h.count);
    handover["mean_carrying"] = mean(h.carrying_ns, h.count);
    out["handover_ns"] = handover;
    out["handled_by_worker"] = s.handled_by_worker;
    static constexpr const char* names[routes] = {"worker", "sm", "cluster", "gpu", "peer", "host"};
    nb::dict by_route;
    for (uint32_t r = 0; r < routes; ++r) {
        by_route[names[r]] = s.sent_by_route[r];
    }
    out["sent_by_route"] = by_route;
    return out;
}

} // namespace

void observing(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def_prop_ro("description", [](const AnyRuntime& rt) { return describe(rt.description()); })
        .def("actors", &actors)
        .def("stats", &stats)
        .def("observe",
             [](AnyRuntime& rt, bool on) {
                 const Unlocked unlocked;
                 rt.observe(on);
             })
        .def("telemetry", &telemetry)
        .def("stuck", [](AnyRuntime& rt, double at_least) {
            const Unlocked unlocked;
            return rt.stuck(seconds(at_least));
        });
}

} // namespace denizen::bind
