// SPDX-License-Identifier: Apache-2.0
// Traced messages, on a worker's side. While messages are traced (Board::observe), post.hpp stamps
// each message that a handler sends, and writes a record of it. The worker that handles a stamped
// message moves its node's clock past the stamp and writes another record (handle.hpp). So stamps
// grow along a chain of messages, through however many nodes it goes. A message is found again by
// its stamp and its sender.
//
// A message keeps its stamp while it is stashed, and when it is forwarded to an actor that has
// moved. A stamped message needs the worker's whole warp: such messages are handled one at a time.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/near.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/detail/trace.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/hlc.hpp>

namespace denizen::detail {

// Whether this worker stamps what it sends.
DENIZEN_HD inline bool tracing(const Shared& s, uint32_t id)
{
    return stamps_wanted(own_box(s, id)) == Stamps::all;
}

// A sample: a message of a worker now and then, to an actor of its node, while durations are
// observed and nothing is traced. Its stamp is no time of the clock above, but this bit, the node,
// and when it was sent, by the node's own clock. Whoever handles it there counts how long it took.
inline constexpr uint64_t sample_bit = uint64_t{1} << 63;
inline constexpr uint32_t sample_time_bits = 60; // what is older than 36 years seems to be younger

DENIZEN_HD inline uint64_t sample_stamp(const Shared& s, uint64_t now)
{
    return sample_bit | static_cast<uint64_t>(s.node) << sample_time_bits |
           (now & ((uint64_t{1} << sample_time_bits) - 1));
}

// With Stamps::next: whether this send is the one to sample, true once. Also asked for a message
// that cannot be, and then there is no sample this time: the short ways are closed until then.
DENIZEN_HD inline bool take_sample(const Shared& s, cluster::Address b)
{
    // Other lanes may be sending too.
    if (cluster::add(box::stamps(b), 1) != static_cast<uint32_t>(Stamps::next)) {
        return false;
    }
    open_short_ways(s, b, true);
    return true;
}

// A sample has come to its handler, at `now`.
DENIZEN_COLD inline void count_sample(const Shared& s, uint32_t id, uint32_t actor_type,
                                      uint64_t stamp, uint64_t now)
{
    constexpr uint64_t mask = (uint64_t{1} << sample_time_bits) - 1;
    const uint64_t taken = (now - stamp) & mask;
    // What was sent before this worker observed, by the program that a snapshot is of, or by
    // another node is left out.
    const uint64_t since = load<Scope::gpu>(&s.counters[id].since_ns);
    if ((stamp >> sample_time_bits & 7) == s.node && since != 0 && taken <= now - since) {
        record(s.latencies[static_cast<uint64_t>(id) * s.actor_types + actor_type], taken);
    }
}

// The node's physical time for its clock; 1 as long as the host has not told how it relates to the
// device's: then the clock only counts. (A stamp of 0 would mean that there is none.)
DENIZEN_HD inline uint64_t physical_us(const Shared& s, uint64_t now)
{
    const uint64_t shift = load<Scope::gpu>(&s.board->clock_shift);
    return shift == 0 ? 1 : (now + shift) / 1000;
}

DENIZEN_COLD inline uint64_t draw_stamp(const Shared& s, uint64_t now)
{
    return hlc::tick<Scope::gpu>(&s.board->clock, physical_us(s, now)).value;
}

DENIZEN_HD inline TraceRing own_trace(const Shared& s, uint32_t id)
{
    return trace_ring(s.trace, s.trace_slots, id);
}

// One message has been sent, at `now`.
DENIZEN_COLD inline void trace_send(const Shared& s, uint32_t id, const Header& h, uint64_t stamp,
                                    uint64_t now)
{
    TraceRecord r;
    r.kind = TraceKind::send;
    r.start_ns = now;
    r.stamp = stamp;
    r.actor = h.sender;
    r.actor_type = no_type; // a guest's: the host knows it
    const Address sender{h.sender};
    if (sender.worker() == id && sender.node() == s.node && sender.local() < s.actors_per_worker) {
        r.actor_type =
            s.actors[static_cast<uint64_t>(id) * s.actors_per_worker + sender.local()].type();
    }
    r.other = h.destination;
    r.message = h.type;
    r.worker = s.node * s.workers + id;
    trace(own_trace(s, id), r);
}

// A stamp that has been received, and when.
struct Receipt {
    uint64_t stamp = 0;
    uint64_t begin_ns = 0;
};

// Before a stamped message is handled.
DENIZEN_COLD inline Receipt take_stamp(const Shared& s, const Header& h, const void* payload)
{
    Receipt r;
    copy_bytes(&r.stamp, static_cast<const unsigned char*>(payload) + payload_bytes(h),
               stamp_bytes);
    r.begin_ns = now_ns();
    if ((r.stamp & sample_bit) == 0) {
        hlc::Stamp drawn;
        hlc::update<Scope::gpu>(&s.board->clock, {r.stamp}, physical_us(s, r.begin_ns), drawn);
    }
    return r;
}

// After its handler has run. A snapshot's message may come to a program that has no trace.
DENIZEN_COLD inline void trace_handled(const Shared& s, uint32_t id, const ActorEntry& entry,
                                       const Header& h, const Receipt& receipt)
{
    if ((receipt.stamp & sample_bit) != 0) {
        count_sample(s, id, entry.type(), receipt.stamp, receipt.begin_ns);
        return;
    }
    if (s.trace_slots == 0) {
        return;
    }
    TraceRecord r;
    r.start_ns = receipt.begin_ns;
    r.duration_ns = now_ns() - receipt.begin_ns;
    r.stamp = receipt.stamp;
    r.actor = entry.self;
    r.actor_type = entry.type();
    r.other = h.sender;
    r.message = h.type;
    r.worker = s.node * s.workers + id;
    trace(own_trace(s, id), r);
}

} // namespace denizen::detail
