// SPDX-License-Identifier: Apache-2.0
// The first pass: cuts a slice of a batch into runs. `order` then holds its records' numbers, shard
// by shard, in order; `runs` where each shard's run ends.
#pragma once

#include <denizen/transactions/pass.hpp>

namespace denizen::transactions {

DENIZEN_HD inline End split(Book& book, const Feed& m, const Transaction* records, auto& ctx,
                            auto&& fails)
{
    const uint32_t slices = book.slices(m.count);
    if (m.part >= slices) {
        return End::done;
    }
    const uint32_t begin = Book::first_of(m.count, m.part, slices);
    const uint32_t end = Book::first_of(m.count, m.part + 1, slices);
    const uint32_t shards = book.geometry.shards;
    if (m.part == 0 && ctx.lane() == 0) {
        Flight& flight = book.flight(m.batch);
        flight.records = records;
        flight.base = m.base;
        flight.count = m.count;
    }
    uint32_t* const runs = book.runs(m.batch, m.part);
    for (uint32_t s = ctx.lane(); s < shards; s += ctx.lanes()) {
        runs[s] = 0;
    }
    ctx.sync();
    const bool staged = book.geometry.staged != 0;
    Staged* const copies = book.staged(m.batch);
    if (staged) { // side by side, so that whole lines cross the bus
        const auto* from = reinterpret_cast<const Unit*>(records);
        for (uint64_t u = 4ull * begin + ctx.lane(); u < 4ull * end; u += ctx.lanes()) {
            copies[u / 4].unit[u % 4] = from[u / 4 * 8 + u % 4];
        }
        ctx.sync();
    }
    const auto shard_of = [&](uint32_t i) {
        return book.shard_of(staged ? copies[i].unit[0].word[1] : records[i].customer);
    };
    for (uint32_t i = begin + ctx.lane(); i < end; i += ctx.lanes()) {
        fetch_add<Scope::block>(&runs[shard_of(i)], 1u);
    }
    ctx.sync();
    uint32_t before = begin; // counts become begins
    for (uint32_t s0 = 0; s0 < shards; s0 += ctx.lanes()) {
        const uint32_t s = s0 + ctx.lane();
        const uint32_t own = s < shards ? runs[s] : 0;
        const uint32_t upto = scan(own);
        if (s < shards) {
            runs[s] = before + upto - own;
        }
        before += lanes::shuffle(upto, lanes::size - 1);
    }
    ctx.sync();
    uint32_t* const order = book.order(m.batch);
    for (uint32_t i0 = begin; i0 < end; i0 += ctx.lanes()) { // and begins become ends
        if (fails(i0 - begin)) {
            return End::failed;
        }
        const uint32_t i = i0 + ctx.lane();
        const uint32_t s = i < end ? shard_of(i) : ~0u;
        const uint32_t alike = lanes::match(s);
        const uint32_t rank = lanes::popcount(alike & lanes::below());
        const uint32_t at = i < end ? runs[s] + rank : 0;
        ctx.sync(); // all have read it
        if (i < end) {
            order[at] = i;
            if (rank == 0) {
                runs[s] += lanes::popcount(alike);
            }
        }
        ctx.sync();
    }
    return End::done;
}

} // namespace denizen::transactions
