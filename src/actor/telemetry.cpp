// SPDX-License-Identifier: Apache-2.0
// Reads what the workers count (actor/detail/telemetry.hpp) while they go on, and sums it up.
#include "core.hpp"

#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/telemetry.hpp>

#include <algorithm>
#include <cmath>

namespace denizen {
namespace {

// What one node's workers hold, as copied beside them.
struct Reading {
    std::vector<uint32_t> ring_tails;
    std::vector<Inbox> inboxes;
    std::vector<Inbox> urgent_inboxes;
    std::vector<Status> statuses;
    std::vector<Counters> counters;
    std::vector<Histogram> histograms; // [workers][actor types]
    std::vector<Histogram> latencies;  // [workers][actor types]
};

// Slots between the tail and the head, of which two older readings are known.
uint32_t depth(uint32_t tail, uint32_t done, uint32_t credited)
{
    const uint32_t n = std::min(tail - done, tail - credited);
    // The tail was read before the head: a ring that has moved on since may seem to be negative.
    return static_cast<int32_t>(n) < 0 ? 0 : n;
}

// Tails before heads, or a queue would seem longer than it ever was.
template <class Core>
Reading read(Core& c, const Node& node)
{
    const auto copy = [&](auto& to, const auto* from, size_t n) {
        to.resize(n);
        if (!node.backend->read(to.data(), from, n * sizeof(*from))) {
            c.check_alive();
            throw Error(Errc::peer_dead, "the program's memory cannot be read any more");
        }
    };
    const Shared& s = node.shared;
    Reading r;
    for (Port& port : c.ports) {
        const std::lock_guard guard(port.lock);
        for (uint32_t w = 0; w < s.workers; ++w) {
            r.ring_tails.push_back(port.rings.tail(c.worker_index(Address::actor(w, 0, s.node))));
        }
    }
    copy(r.inboxes, s.inbox, s.workers);
    copy(r.urgent_inboxes, s.urgent_inbox, s.workers);
    copy(r.statuses, s.status, s.workers);
    copy(r.counters, s.counters, s.workers);
    copy(r.histograms, s.histograms, static_cast<size_t>(s.workers) * s.actor_types);
    copy(r.latencies, s.latencies, static_cast<size_t>(s.workers) * s.actor_types);
    return r;
}

// Slots that wait in the near rings to worker w, if it has told what it has handled of them since
// `observing` is in force.
uint32_t near_depth(const Node& node, const Reading& r, uint32_t w, uint32_t observing)
{
    const uint64_t told = r.counters[w].near;
    if (told >> 32 != observing) {
        return 0;
    }
    const uint32_t first = w - w % node.shared.near;
    const uint32_t last = std::min(first + node.shared.near, node.shared.workers);
    uint32_t n = 0 - static_cast<uint32_t>(told);
    for (uint32_t from = first; from < last; ++from) {
        n += r.statuses[from].near_tail[w - first];
    }
    return static_cast<int32_t>(n) < 0 ? 0 : n; // a sender has told less than has arrived
}

void add(Durations& to, const Histogram& h)
{
    to.sum_ns += h.sum;
    for (uint32_t b = 0; b < histogram_buckets; ++b) {
        to.buckets[b] += h.count[b];
        to.count += h.count[b];
    }
}

WorkerTelemetry worker(const Node& node, const Reading& r, uint32_t w, uint32_t observing)
{
    const Shared& s = node.shared;
    const Status& status = r.statuses[w];
    const Report& report = node.reports[w];
    const auto in_ring = [&](uint32_t tail, uint32_t which, const uint32_t* credit) {
        return depth(tail, load<Scope::system>(&report.host_ring_done[which]),
                     load<Scope::system>(&credit[w * credit_stride]));
    };
    WorkerTelemetry one;
    one.place = Address::actor(w, 0, s.node);
    one.mode = static_cast<Mode>(status.mode);
    one.actors = status.actors;
    one.handled = status.handled;
    one.batches = r.counters[w].batches;
    one.idle_rounds = r.counters[w].idle_rounds;
    one.dead_letters = status.dead_letters;
    one.host_ring = in_ring(r.ring_tails[w], 1, s.host_ring_credit) +
                    in_ring(r.ring_tails[s.workers + w], 0, s.urgent_host_ring_credit);
    one.inbox = depth(r.inboxes[w].tail, status.done[source_node], r.inboxes[w].credit) +
                depth(r.urgent_inboxes[w].tail, status.done[source_node_urgent],
                      r.urgent_inboxes[w].credit);
    one.near = near_depth(node, r, w, observing);
    one.outbox = status.outbox;
    std::copy_n(status.sent, routes, one.sent.begin());
    const uint64_t busy = load<Scope::system>(&report.busy_ns);
    const uint64_t running = load<Scope::system>(&report.running);
    if (busy != 0 && running != 0) {
        one.busy_ns = busy;
        one.busy_actor = {static_cast<uint32_t>(running)};
        one.busy_message = static_cast<uint32_t>(running >> 32) - 1;
    }
    return one;
}

} // namespace

double Durations::quantile(double q) const
{
    if (count == 0) {
        return 0;
    }
    const auto rank = std::max(1.0, std::ceil(q * static_cast<double>(count)));
    uint64_t below = 0;
    uint32_t bucket = 0;
    for (uint32_t b = 0; b < buckets.size(); ++b) {
        if (buckets[b] != 0) {
            bucket = b;
            below += buckets[b];
            if (static_cast<double>(below) >= rank) {
                break;
            }
        }
    }
    // The middle of the whole numbers in the bucket.
    return static_cast<double>(bucket_begin(bucket) + bucket_begin(bucket + 1) - 1) / 2;
}

void AnyRuntime::observe(bool on)
{
    Core& c = core();
    c.check_alive();
    const std::lock_guard guard(c.observing.mutex);
    const uint32_t number = (c.observing.word >> observe_bits) + 1;
    c.tell_observing(number << observe_bits | (c.observing.word & observe_messages) |
                     (on ? observe_durations : 0));
    c.wait_for_observers();
}

Telemetry AnyRuntime::telemetry()
{
    Core& c = core();
    if (c.closed) {
        throw Error(Errc::closed, "the runtime is closed");
    }
    c.refresh(100'000'000);
    Telemetry t;
    const uint32_t observing = c.observing.word;
    t.observed = (observing & observe_durations) != 0;
    t.mode = c.mode();
    t.launches = c.nodes[0].backend->launches();
    for (const std::string& name : c.image.actors) {
        ActorTypeTelemetry& type = t.actor_types.emplace_back();
        type.name = name;
        type.durations.buckets.resize(histogram_buckets);
        type.latencies.buckets.resize(histogram_buckets);
    }
    for (size_t i = 0; i < c.stopped.size(); ++i) {
        if (const uint8_t type = c.type_at(i); type != 0) {
            ++t.actor_types[type - 1u].live;
        }
    }
    for (const Node& node : c.nodes) {
        const Reading r = read(c, node);
        t.errors += load<Scope::system>(&node.control->errors);
        for (uint32_t w = 0; w < c.workers; ++w) {
            const WorkerTelemetry& one = t.workers.emplace_back(worker(node, r, w, observing));
            t.handled += one.handled;
            t.dead_letters += one.dead_letters;
            for (uint32_t route = 0; route < routes; ++route) {
                t.sent[route] += one.sent[route];
            }
            const Counters& counters = r.counters[w];
            t.spawned += counters.spawned;
            t.not_spawned += counters.not_spawned;
            t.timers += load<Scope::system>(&node.reports[w].timers);
            t.timers_fired += counters.fired;
            t.timers_refused += counters.not_armed;
            t.tasks += counters.tasks;
            t.tasks_refused += counters.tasks_refused;
            t.tasks_failed += counters.tasks_failed;
            if (c.on_gpu && node.shared.node == 0) {
                t.device_ns = std::max(t.device_ns, counters.looked_ns);
            }
            if (counters.slowest != 0) {
                const SlowHandler slow(counters.slowest);
                const Address a{slow.address};
                const uint8_t type = c.inside(a) ? c.type_at(c.index(a)) : uint8_t{0};
                t.slowest.push_back({a, type == 0 ? std::string() : c.actor_name(type - 1u),
                                     c.message_name(slow.message), slow.ns});
            }
            for (uint32_t a = 0; a < t.actor_types.size(); ++a) {
                ActorTypeTelemetry& type = t.actor_types[a];
                type.handled += counters.handled[a];
                add(type.durations, r.histograms[w * t.actor_types.size() + a]);
                add(type.latencies, r.latencies[w * t.actor_types.size() + a]);
            }
        }
    }
    t.host_ns = now_ns();
    t.device_ns = c.on_gpu ? t.device_ns : t.host_ns;
    std::sort(t.slowest.begin(), t.slowest.end(),
              [](const auto& a, const auto& b) { return a.ns > b.ns; });
    return t;
}

} // namespace denizen
