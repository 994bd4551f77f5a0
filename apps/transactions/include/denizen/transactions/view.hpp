// SPDX-License-Identifier: Apache-2.0
// Where the things of one batch lie, found once by each pass over it: found for every record again
// it would be loads and divisions, for what is written meanwhile could be the book's head, for all
// a compiler knows.
#pragma once

#include <denizen/transactions/country.hpp>
#include <denizen/transactions/detail/book.hpp>

namespace denizen::transactions {

// The half of a record that is looked at; the rest is not set.
DENIZEN_HD inline Transaction record(const Staged& staged)
{
    Transaction t;
    copy_bytes(&t, &staged, sizeof staged);
    return t;
}

struct View {
    const unsigned char* records;
    uint32_t bytes; // from one of them to the next
    uint32_t count; // of them
    uint64_t base;  // sequence of the first
    Verdict* verdicts;
    Ledger* ledgers;
    Edge* edges;
    uint64_t places; // of edges, less one
    uint32_t horizon;
    uint32_t shards;

    DENIZEN_HD View(Book& book, uint32_t batch)
    {
        const Flight& flight = book.flight(batch);
        const Geometry& g = book.geometry;
        records = g.staged != 0 ? reinterpret_cast<const unsigned char*>(book.staged(batch))
                                : reinterpret_cast<const unsigned char*>(flight.records);
        bytes = g.staged != 0 ? sizeof(Staged) : sizeof(Transaction);
        count = flight.count;
        base = flight.base;
        verdicts = book.verdicts(batch);
        ledgers = book.part<Ledger>(book.at.ledgers);
        edges = book.part<Edge>(book.at.edges);
        places = g.edges - 1;
        horizon = g.horizon;
        shards = g.shards;
    }

    // A record that has been asked for: what comes is looked at by record() only.
    DENIZEN_HD Staged fetch(uint32_t i) const
    {
        Staged staged;
        const auto* const from = reinterpret_cast<const Unit*>(records + uint64_t{i} * bytes);
        for (uint32_t k = 0; k < 4; ++k) {
            staged.unit[k] = from[k];
        }
        return staged;
    }
    DENIZEN_HD Transaction record(uint32_t i) const { return transactions::record(fetch(i)); }
    DENIZEN_HD Edge& edge(uint64_t sequence) const { return edges[sequence & places]; }
    DENIZEN_HD Payment payment(uint64_t sequence) const { return edge(sequence).payment; }
    // Of a customer, whosever it is; null if nothing of it is known.
    DENIZEN_HD Entry* find(uint64_t customer) const
    {
        return ledgers[shard_of(customer, shards)].find(customer);
    }
};

DENIZEN_HD inline uint32_t country_of(const Book& book, const Transaction& t)
{
    return t.country < country_codes ? book.bits[t.country] : other_countries;
}

} // namespace denizen::transactions
