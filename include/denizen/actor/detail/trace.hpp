// SPDX-License-Identifier: Apache-2.0
// Trace records: what a worker did and when. Each worker has a bounded ring of them; its lanes
// write, one after the other or side by side, and wait for nobody; the host reads now and then. A
// full ring is written over from its oldest record on, and the reader counts what it missed.
//
//   one ring      [ tail, 128 B ][ capacity slots of 64 B ]; the rings of all workers in a row
//   one slot      four packets of 12 bytes of the record and the sequence, ticket + 1
//
// Ticket t owns slot t mod capacity. As each packet carries the sequence, a record is taken only if
// all of it is of one ticket: one that was being written, or written over, shows as such, also in a
// copy made while the workers run.
#pragma once

#include <denizen/base/packet.hpp>
#include <denizen/wire/slot.hpp>

namespace denizen {

enum class TraceKind : uint32_t {
    handler = 1, // a message was handled, from start_ns on
    send = 2,    // a message was sent, at start_ns
};

inline constexpr uint32_t trace_host = ~0u; // TraceRecord::worker of what the host does

// python/denizen/trace.py has the same layout as TRACE_RECORD.
struct TraceRecord {
    uint64_t start_ns = 0;    // the worker's clock: now_ns()
    uint64_t duration_ns = 0; // 0 of a send
    uint64_t stamp = 0;       // hlc::Stamp of the message; 0: it carries none
    uint32_t actor = 0;       // address of the one that handles, or sends
    uint32_t actor_type = 0;  // its type, or no_type
    uint32_t other = 0;       // address of the sender, or of the destination
    uint32_t message = 0;     // message type
    uint32_t worker = 0;      // counted over all nodes, or trace_host
    TraceKind kind = TraceKind::handler;
};

static_assert(sizeof(TraceRecord) == 4 * packet_payload);

struct TraceRing {
    uint64_t* tail = nullptr; // records ever begun
    Slot* slots = nullptr;
    uint32_t mask = 0;
};

// Bytes of one worker's ring. capacity: a power of two, at least 2.
DENIZEN_HD constexpr uint64_t trace_ring_bytes(uint32_t capacity)
{
    return line + uint64_t{capacity} * sizeof(Slot);
}

// A worker's ring in a block of `workers * trace_ring_bytes(capacity)` bytes, aligned to 128.
// Zeroed memory is an empty ring.
DENIZEN_HD inline TraceRing trace_ring(void* block, uint32_t capacity, uint32_t worker)
{
    auto* at = static_cast<unsigned char*>(block) + worker * trace_ring_bytes(capacity);
    return {reinterpret_cast<uint64_t*>(at), reinterpret_cast<Slot*>(at + line), capacity - 1};
}

// Adds one record; called by one lane. Wait-free, and never refused.
DENIZEN_HD inline void trace(const TraceRing& ring, const TraceRecord& record)
{
    uint32_t word[12];
    copy_bytes(word, &record, sizeof word);
    const uint64_t ticket = fetch_add<Scope::gpu>(ring.tail, uint64_t{1});
    Slot& slot = ring.slots[ticket & ring.mask];
    const uint32_t sequence = static_cast<uint32_t>(ticket) + 1;
    for (uint32_t k = 0; k < 4; ++k) {
        store_packet<Scope::gpu>(&slot.packet[k],
                                 {{word[3 * k], word[3 * k + 1], word[3 * k + 2]}, sequence});
    }
}

} // namespace denizen
