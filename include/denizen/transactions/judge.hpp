// SPDX-License-Identifier: Apache-2.0
// The second pass: the records of a shard's customers, from all slices of a batch, in order,
// against what is kept of them. Customers who are new get their place in the shard's ledger here.
#pragma once

#include <denizen/transactions/pass.hpp>

namespace denizen::transactions {

namespace detail {

DENIZEN_HD inline void judge_one(Book& book, const Transaction& t, uint64_t sequence, Entry& entry,
                                 Customer& c, Verdict& v)
{
    const Outcome outcome = c.admit(t, book.rules, v);
    v.outcome = static_cast<uint8_t>(outcome);
    if (outcome != Outcome::accepted) {
        return;
    }
    v.customer = &c;
    v.fired = static_cast<uint16_t>(fired_rules(t, c, book.rules, country_of(book, t), v));
    if (t.customer != t.dest) {
        c.latest = t.ts > c.latest ? t.ts : c.latest;
        book.edge(sequence) = Edge{t.dest, t.ts, t.amount, c.edge, c.latest};
        c.edge = sequence + 1;
        entry.edge = sequence + 1;
    }
}

// Places for those customers of the lanes' that have none; false if there is no room for one.
DENIZEN_COLD bool take_places(const Book& book, Ledger& ledger, uint64_t customer, bool missing,
                              const auto& ctx)
{
    for (uint32_t left = lanes::ballot(missing); left != 0; left = lanes::ballot(missing)) {
        const uint64_t one = lanes::shuffle(customer, lanes::first(left)); // ends: one less a turn
        if (ledger.take(book.regions, one, ctx) == nullptr) {
            return false;
        }
        missing = missing && customer != one;
    }
    return true;
}

// A record for each lane, ~0: none; those of one customer one after the other. False: no room, and
// none of them has been looked at.
DENIZEN_HD inline bool judge_side_by_side(Book& book, Ledger& ledger, uint32_t batch, uint32_t i,
                                          auto& ctx)
{
    Transaction t;
    bool right = false;
    Entry* entry = nullptr;
    if (i != ~0u) {
        t = record_of(book, batch, i);
        right = valid(t);
        entry = right ? ledger.find(t.customer) : nullptr;
    }
    const bool missing = right && entry == nullptr;
    if (lanes::ballot(missing) != 0) {
        if (!take_places(book, ledger, right ? t.customer : no_customer, missing, ctx)) {
            return false;
        }
        entry = right ? ledger.find(t.customer) : nullptr; // all may have moved
    }
    Verdict v{};
    v.outcome = static_cast<uint8_t>(Outcome::invalid);
    const uint32_t alike =
        lanes::match(entry != nullptr ? static_cast<uint32_t>(entry - ledger.entries) : ~0u);
    const uint32_t rank = entry == nullptr ? 0 : lanes::popcount(alike & lanes::below());
    for (uint32_t round = 0; lanes::ballot(rank >= round) != 0; ++round) {
        if (rank == round && i != ~0u) {
            const uint64_t sequence = book.flight(batch).base + i;
            if (entry == nullptr) {
                book.verdicts(batch)[i] = v;
            } else if (Customer& c = *entry->customer; c.applied <= sequence) {
                judge_one(book, t, sequence, *entry, c, v);
                book.verdicts(batch)[i] = v;
                c.applied = sequence + 1;
            } // else: this shard has been here before it failed, or found no room
        }
        ctx.sync();
    }
    return true;
}

} // namespace detail

DENIZEN_HD inline End judge(Book& book, uint32_t batch, uint32_t shard, auto& ctx, auto&& fails)
{
    const uint32_t count = book.flight(batch).count;
    const uint32_t slices = book.slices(count);
    const uint32_t* const order = book.order(batch);
    Ledger& ledger = book.ledger(shard);
    uint32_t seen = 0;
    for (uint32_t s0 = 0; s0 < slices; s0 += ctx.lanes()) {
        const uint32_t slice = s0 + ctx.lane();
        uint32_t begin = 0;
        uint32_t length = 0;
        if (slice < slices) {
            const uint32_t* const runs = book.runs(batch, slice);
            begin = shard == 0 ? Book::first_of(count, slice, slices) : runs[shard - 1];
            length = runs[shard] - begin;
        }
        const uint32_t upto = scan(length);
        const uint32_t total = lanes::shuffle(upto, lanes::size - 1);
        for (uint32_t r0 = 0; r0 < total; r0 += ctx.lanes(), seen += ctx.lanes()) {
            if (fails(seen)) {
                return End::failed;
            }
            // Record r lies in the first slice up to whose end there are more than r.
            const uint32_t r = r0 + ctx.lane();
            uint32_t k = 0;
            for (uint32_t step = lanes::size / 2; step > 0; step /= 2) {
                k += lanes::shuffle(upto, k + step - 1) <= r ? step : 0;
            }
            const uint32_t in_slice = r - (lanes::shuffle(upto, k) - lanes::shuffle(length, k));
            const uint32_t from = lanes::shuffle(begin, k);
            const uint32_t i = r < total ? order[from + in_slice] : ~0u;
            if (!detail::judge_side_by_side(book, ledger, batch, i, ctx)) {
                return End::full;
            }
        }
    }
    return End::done;
}

} // namespace denizen::transactions
