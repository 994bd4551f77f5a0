// SPDX-License-Identifier: Apache-2.0
// The memory that all shards of a stage share, one buffer: each shard's ledger (ledger.hpp: its
// customers, who lie in arenas), the transactions of the last `edges` places of the stream as edges
// between accounts, and for each batch under way what its three passes hand on.
//
//   split   as many parts as there are slices of the batch cut one each into runs, one for each
//           shard, in order
//   judge   shard s takes its run of every slice, in order: its customers' rules, their edges
//   search  part p looks for round trips that end in every so-many-th row of records, and tells all
//           alerts of those
//
// judge(b) begins when all of split(b) and search(b - 1) are done, search(b) when judge(b) is:
// whoever comes last through a gate starts what is behind it. Within a pass nobody writes what
// another reads, so gates are all there is of synchronisation; and while it judges, a shard may do
// with its ledger what it likes, even rebuild it.
//
// Counters of gates only grow, and a part notes the number of the batch that it has done. A part
// that is told twice to do its work, because it may have failed the first time, does it once.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/transactions/detail/ledger.hpp>
#include <denizen/transactions/rules.hpp>

namespace denizen::transactions {

inline constexpr uint32_t max_shards = 2048;
inline constexpr uint32_t record_bits = 21; // of a record's number in its batch
inline constexpr uint32_t max_batch = (1u << record_bits) - 1;
inline constexpr uint32_t max_depth = 8;
inline constexpr uint32_t max_horizon = 1u << 28;

struct Geometry {
    uint32_t shards;  // actors, and parts of each pass: at most max_shards
    uint32_t edges;   // a power of two, greater than horizon + depth * batch
    uint32_t batch;   // most records of one, at most max_batch
    uint32_t depth;   // batches under way, at most max_depth
    uint32_t horizon; // places of the stream back to which round trips are followed
    uint32_t staged;  // 1: records are copied to the book by `split`, once, across the bus
};

// A transaction as the search for round trips sees it, a sector of memory each half.
struct alignas(32) Payment {
    uint64_t dest;
    uint64_t ts;
    uint64_t amount;
    uint64_t latest; // event time of the payer's payments up to this one, the greatest
};
inline constexpr uint32_t edges_before = 8;
struct alignas(32)
    EarlierPayments { // the payer's edges before it, the latest first (payment_history.hpp)
    uint32_t by[edges_before]; // how many places; 0: none that can be part of a round trip
};
struct Edge {
    Payment payment;
    EarlierPayments before;
};

// What lies of a record in the book: the half that anything looks at.
struct Staged {
    Unit unit[4];
};

// Of a chain of one customer's records (judge.hpp).
struct alignas(32) Head {
    Customer* customer;
    uint64_t edge;   // Customer::edge
    uint32_t entry;  // the customer's, in the ledger
    uint32_t record; // the first
    uint32_t length; // records
    uint32_t reserved;
};
inline constexpr uint32_t chain_bits = 8;
inline constexpr uint32_t most_chains = 1u << chain_bits; // of a shard at a time
inline constexpr uint32_t no_record = ~0u;
inline constexpr uint32_t row_size = 32; // records that a warp looks at together

// Of a record whose alerts are still to be told (search.hpp).
struct Finding {
    uint64_t path[3];
    uint32_t record;
    uint16_t fired; // bits of rules
    uint16_t hops;
};

// What a shard needs for itself within a pass.
struct Scratch {
    Head heads[most_chains];
    Head in_turn[most_chains]; // the same, in the order in which they are judged
    Finding findings[2 * row_size];
    uint32_t further[2 * row_size];
    Alert alerts[row_size];
};

enum class Pass : uint32_t { split = 0, judge, search };
inline constexpr uint32_t passes = 3;

// A batch under way.
struct alignas(128) Flight {
    const Transaction* records;
    uint64_t base;                // sequence of its first record
    uint32_t count;               // records
    uint32_t reserved;            //
    uint64_t tally[outcomes + 1]; // records by outcome; alerts
    // Gates; and in each, in units of waiter, how many parts wait there.
    alignas(128) uint64_t fed;      // 1 + batch that the fields above are of
    alignas(128) uint64_t to_judge; // how often it has been passed
    alignas(128) uint64_t to_search;
    alignas(128) uint64_t to_finish;
};
inline constexpr uint64_t waiter = 1ull << 48;

struct Offsets {
    uint64_t ledgers, edges, verdicts, staged, order, runs, links, scratch, done, end;

    DENIZEN_HD static constexpr uint64_t up(uint64_t n) { return (n + 127) / 128 * 128; }
    DENIZEN_HD static Offsets of(const Geometry& g, uint64_t header)
    {
        Offsets o{};
        const uint64_t records = uint64_t{g.depth} * g.batch;
        o.ledgers = up(header);
        o.edges = o.ledgers + up(uint64_t{g.shards} * sizeof(Ledger));
        o.verdicts = o.edges + up(uint64_t{g.edges} * sizeof(Edge));
        o.staged = o.verdicts + up(records * sizeof(Verdict));
        o.order = o.staged + (g.staged != 0 ? up(records * sizeof(Staged)) : 0);
        o.runs = o.order + up(records * sizeof(uint32_t));
        o.links = o.runs + up(uint64_t{g.depth} * g.shards * g.shards * sizeof(uint32_t));
        o.scratch = o.links + up(uint64_t{g.batch} * sizeof(uint32_t));
        o.done = o.scratch + up(uint64_t{g.shards} * sizeof(Scratch));
        o.end = o.done + up(uint64_t{passes} * g.depth * g.shards * sizeof(uint32_t));
        return o;
    }
};

DENIZEN_HD constexpr uint32_t shard_of(uint64_t customer, uint32_t shards)
{
    return static_cast<uint32_t>((mix(customer) >> 32) * shards >> 32);
}

struct Book {
    Geometry geometry;
    Offsets at;
    Rules rules;
    Regions regions;              // where customers lie
    uint32_t address[max_shards]; // of the actors
    uint8_t bits[1024];           // by country, country_bit()
    Flight flights[max_depth];

    template <class T>
    DENIZEN_HD T* part(uint64_t offset)
    {
        return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(this) + offset);
    }
    DENIZEN_HD Ledger& ledger(uint32_t shard) { return part<Ledger>(at.ledgers)[shard]; }
    DENIZEN_HD Flight& flight(uint32_t batch) { return flights[batch % geometry.depth]; }
    // Of the slot of a batch.
    DENIZEN_HD uint64_t slot_of(uint32_t batch) const
    {
        return uint64_t{batch % geometry.depth} * geometry.batch;
    }
    DENIZEN_HD Verdict* verdicts(uint32_t batch)
    {
        return part<Verdict>(at.verdicts) + slot_of(batch);
    }
    DENIZEN_HD Staged* staged(uint32_t batch) { return part<Staged>(at.staged) + slot_of(batch); }
    DENIZEN_HD uint32_t* order(uint32_t batch) { return part<uint32_t>(at.order) + slot_of(batch); }
    // Ends of the runs of a slice, by shard.
    DENIZEN_HD uint32_t* runs(uint32_t batch, uint32_t slice)
    {
        return part<uint32_t>(at.runs) +
               (uint64_t{batch % geometry.depth} * geometry.shards + slice) * geometry.shards;
    }
    // By record: the one that its customer has next. One batch at a time is judged.
    DENIZEN_HD uint32_t* links() { return part<uint32_t>(at.links); }
    DENIZEN_HD Scratch& scratch(uint32_t shard) { return part<Scratch>(at.scratch)[shard]; }
    DENIZEN_HD uint32_t& done(Pass pass, uint32_t batch, uint32_t of)
    {
        const uint64_t row = static_cast<uint64_t>(pass) * geometry.depth + batch % geometry.depth;
        return part<uint32_t>(at.done)[row * geometry.shards + of];
    }
    // Whether a part has done this pass over this batch; then it never does it again, not even when
    // it is told so late that the slot is another batch's.
    DENIZEN_HD bool has_done(Pass pass, uint32_t batch, uint32_t of)
    {
        return static_cast<int32_t>(done(pass, batch, of) - (batch + 1)) >= 0;
    }
    // What a gate shows when it opens for a batch to which `each` times all parts contribute.
    DENIZEN_HD uint64_t opens_at(uint32_t batch, uint32_t each) const
    {
        return uint64_t{batch / geometry.depth + 1} * each * geometry.shards;
    }

    // Where a part of `parts` begins.
    DENIZEN_HD static uint32_t first_of(uint32_t count, uint32_t part, uint32_t parts)
    {
        return static_cast<uint32_t>(uint64_t{count} * part / parts);
    }
    // Into how many slices a batch is cut: a shard takes its runs of 32 of them at a time, so that
    // runs of less than two records leave its lanes idle.
    DENIZEN_HD uint32_t slices(uint32_t count) const
    {
        const uint32_t filled = count / (2 * geometry.shards);
        const uint32_t some = filled < 32 ? 32 : filled;
        return some < geometry.shards ? some : geometry.shards;
    }
};

DENIZEN_HD inline Offsets offsets(const Geometry& g) { return Offsets::of(g, sizeof(Book)); }

} // namespace denizen::transactions
