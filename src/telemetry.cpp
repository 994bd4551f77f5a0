// SPDX-License-Identifier: Apache-2.0
// Reads what the workers count (resident/telemetry.hpp) while they go on, and sums it up.
#include "core.hpp"

#include <denizen/resident/telemetry.hpp>
#include <denizen/telemetry.hpp>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace denizen {
namespace {

// Slots between the tail and the head, of which two readings are known, neither beyond it.
uint32_t depth(uint32_t tail, uint32_t done, uint32_t credited)
{
    const uint32_t n = std::min(tail - done, tail - credited);
    // The tail was read before the head: a ring that has moved on since may seem to be negative.
    return static_cast<int32_t>(n) < 0 ? 0 : n;
}

template <class Core>
void read(Core& c, void* to, const void* device, size_t bytes)
{
    if (!c.backend->read(to, device, bytes)) {
        c.check_alive();
        throw Error(Errc::peer_dead, "the program's memory cannot be read any more");
    }
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
    Core& c = *core_;
    c.check_alive();
    const std::lock_guard guard(c.observe_mutex);
    const uint32_t word = ((c.observing >> 1) + 1) << 1 | (on ? observe_durations : 0);
    c.observing = word;
    store<Scope::system>(c.on_gpu ? &c.control->observe : &c.shared.board->observe, word);
    // Most workers agree within 0.2 ms; one that is in a long handler does so after it.
    const uint64_t begin = now_ns();
    for (uint32_t w = 0; w < c.workers && now_ns() - begin < 100'000'000;) { // ends: the time
        uint64_t found = 0; // `tick_ns` and `seen` share an aligned word
        read(c, &found, &c.shared.counters[w].tick_ns, sizeof found);
        if (found >> 32 == word) {
            ++w;
            continue;
        }
        if (c.backend->parked()) {
            return; // they agree when the program is back
        }
        c.backend->wake(w);
        const timespec nap{0, 20'000};
        nanosleep(&nap, nullptr);
    }
}

Telemetry AnyRuntime::telemetry()
{
    Core& c = *core_;
    if (c.closed) {
        throw Error(Errc::closed, "the runtime is closed");
    }
    c.backend->refresh(100'000'000);
    const auto copy = [&](const auto* device, size_t n) {
        std::vector<std::remove_cvref_t<decltype(*device)>> host(n);
        read(c, host.data(), device, n * sizeof(*device));
        return host;
    };
    const uint32_t types = c.shared.actor_types;
    // Tails before heads, or a queue would seem longer than it ever was.
    std::vector<uint32_t> lane_tails(c.workers);
    {
        const std::lock_guard guard(c.port.lock);
        for (uint32_t w = 0; w < c.workers; ++w) {
            lane_tails[w] = c.port.lanes.tail(w);
        }
    }
    const auto inboxes = copy(c.shared.inbox, c.workers);
    const auto urgent = copy(c.shared.urgent_inbox, c.workers);
    const auto statuses = copy(c.shared.status, c.workers);
    const auto counters = copy(c.shared.counters, c.workers);
    const auto histograms = copy(c.shared.histograms, static_cast<size_t>(c.workers) * types);

    Telemetry t;
    t.host_ns = now_ns();
    t.device_ns = c.on_gpu ? 0 : t.host_ns;
    t.observed = (c.observing & observe_durations) != 0;
    t.mode = static_cast<Mode>(load<Scope::system>(&c.control->mode));
    t.errors = load<Scope::system>(&c.control->errors);
    t.launches = c.backend->launches();
    for (uint32_t a = 0; a < types; ++a) {
        t.actor_types.push_back({c.actor_name(a), 0, 0, {}});
        t.actor_types.back().durations.buckets.resize(histogram_buckets);
    }
    for (size_t i = 0; i < c.types.size(); ++i) {
        if (const uint8_t type = c.type_at(i); type != 0) {
            ++t.actor_types[type - 1u].live;
        }
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        const Status& status = statuses[w];
        const Report& report = c.reports[w];
        WorkerTelemetry one;
        one.mode = static_cast<Mode>(status.mode);
        one.actors = status.actors;
        one.handled = status.handled;
        one.batches = counters[w].batches;
        one.idle_rounds = counters[w].idle_rounds;
        one.dead_letters = status.dead_letters;
        one.lane = depth(lane_tails[w], load<Scope::system>(&report.lane_done[1]),
                         load<Scope::system>(&c.shared.lane_credit[w * credit_stride]));
        one.inbox = depth(inboxes[w].tail, status.done[source_node], inboxes[w].credit) +
                    depth(urgent[w].tail, status.done[source_node_urgent], urgent[w].credit);
        one.outbox = status.outbox;
        std::copy_n(status.sent, routes, one.sent.begin());
        if (const uint64_t busy = load<Scope::system>(&report.busy_ns),
            running = load<Scope::system>(&report.running);
            busy != 0 && running != 0) {
            one.busy_ns = busy;
            one.busy_actor = {static_cast<uint32_t>(running)};
            one.busy_message = static_cast<uint32_t>(running >> 32) - 1;
        }
        t.handled += one.handled;
        t.dead_letters += one.dead_letters;
        for (uint32_t r = 0; r < routes; ++r) {
            t.sent[r] += one.sent[r];
        }
        if (c.on_gpu) {
            t.device_ns = std::max(t.device_ns, counters[w].looked_ns);
        }
        if (counters[w].slowest != 0) {
            const SlowHandler slow(counters[w].slowest);
            const Address a{slow.address};
            const uint8_t type = a.worker() < c.workers && a.local() < c.shared.actors_per_worker
                                     ? c.type_at(c.index(a))
                                     : uint8_t{0};
            t.slowest.push_back({a, type == 0 ? std::string() : c.actor_name(type - 1u),
                                 c.message_name(slow.message), slow.ns});
        }
        for (uint32_t a = 0; a < types; ++a) {
            const Histogram& h = histograms[static_cast<size_t>(w) * types + a];
            ActorTypeTelemetry& type = t.actor_types[a];
            type.handled += counters[w].handled[a];
            type.durations.sum_ns += h.sum;
            for (uint32_t b = 0; b < histogram_buckets; ++b) {
                type.durations.buckets[b] += h.count[b];
                type.durations.count += h.count[b];
            }
        }
        t.workers.push_back(one);
    }
    std::sort(t.slowest.begin(), t.slowest.end(),
              [](const auto& a, const auto& b) { return a.ns > b.ns; });
    return t;
}

} // namespace denizen
