// SPDX-License-Identifier: Apache-2.0
// The first pass: cuts slices of a batch into runs. `order` then holds its records' numbers, shard
// by shard, in order; `runs` where each shard's run ends.
#pragma once

#include <denizen/transactions/detail/pass.hpp>

namespace denizen::transactions {

// Notes what a batch is, for all passes; how many parts waited for that.
DENIZEN_HD inline uint32_t open_flight(Book& book, const Feed& m, const Transaction* records,
                                       auto& ctx)
{
    uint64_t before = 0;
    if (ctx.lane() == 0) {
        Flight& flight = book.flight(m.batch);
        flight.records = records;
        flight.base = m.base;
        flight.count = m.count;
        // Release: partner of the acquire of who is told to split, or waits. The answer is awaited,
        // so that it is there before they are told.
        const uint64_t last = load<Scope::gpu>(&flight.fed) % waiter;
        before = fetch_add<Scope::gpu, Order::acq_rel>(&flight.fed, m.batch + 1 - last);
    }
    ctx.sync();
    return static_cast<uint32_t>(lanes::shuffle(before, 0) / waiter);
}

DENIZEN_HD inline End split(Book& book, uint32_t batch, uint32_t part, auto& ctx, auto&& fails)
{
    const Flight& flight = book.flight(batch);
    const uint32_t slices = book.slices(flight.count);
    const uint32_t shards = book.geometry.shards;
    // Fewer slices than parts are spread over these: neighbours share an SM.
    const uint32_t slice = Book::first_of(slices, part, shards);
    if (slice == Book::first_of(slices, part + 1, shards)) {
        return End::done;
    }
    const uint32_t begin = Book::first_of(flight.count, slice, slices);
    const uint32_t end = Book::first_of(flight.count, slice + 1, slices);
    uint32_t* const runs = book.runs(batch, slice);
    for (uint32_t s = ctx.lane(); s < shards; s += ctx.lanes()) {
        runs[s] = 0;
    }
    ctx.sync();
    const bool staged = book.geometry.staged != 0;
    const Transaction* const records = flight.records;
    Staged* const copies = book.staged(batch);
    if (staged) { // side by side, so that whole lines cross the bus; several lines at a time
        constexpr uint32_t abreast = lanes::size > 1 ? 8 : 1;
        const auto* from = reinterpret_cast<const Unit*>(records);
        for (uint64_t u0 = 4ull * begin + ctx.lane(); u0 < 4ull * end;
             u0 += abreast * ctx.lanes()) {
            Unit some[abreast];
            for (uint32_t k = 0; k < abreast; ++k) {
                const uint64_t u = u0 + k * ctx.lanes();
                if (u < 4ull * end) {
                    some[k] = from[u / 4 * 8 + u % 4];
                }
            }
            for (uint32_t k = 0; k < abreast; ++k) {
                const uint64_t u = u0 + k * ctx.lanes();
                if (u < 4ull * end) {
                    copies[u / 4].unit[u % 4] = some[k];
                }
            }
        }
        ctx.sync();
    }
    const View view(book, batch);
    const auto customer_of = [&view](uint32_t i) {
        return reinterpret_cast<const Unit*>(view.records + uint64_t{i} * view.bytes)->word[1];
    };
    // Several are asked for together, here and below: each is far away.
    constexpr uint32_t several = lanes::size > 1 ? 8 : 1;
    for (uint32_t i0 = begin + ctx.lane(); i0 < end; i0 += several * ctx.lanes()) {
        uint64_t customers[several];
        for (uint32_t k = 0; k < several; ++k) {
            const uint32_t i = i0 + k * ctx.lanes();
            customers[k] = i < end ? customer_of(i) : 0;
        }
        for (uint32_t k = 0; k < several; ++k) {
            if (i0 + k * ctx.lanes() < end) {
                fetch_add<Scope::block>(&runs[shard_of(customers[k], shards)], 1u);
            }
        }
    }
    ctx.sync();
    uint32_t before = begin; // counts become begins
    constexpr uint32_t abreast = 4;
    for (uint32_t s0 = 0; s0 < shards; s0 += abreast * ctx.lanes()) {
        uint32_t own[abreast] = {};
        for (uint32_t k = 0; k < abreast; ++k) {
            const uint32_t s = s0 + k * ctx.lanes() + ctx.lane();
            own[k] = s < shards ? runs[s] : 0;
        }
        for (uint32_t k = 0; k < abreast; ++k) {
            const uint32_t s = s0 + k * ctx.lanes() + ctx.lane();
            const uint32_t upto = scan(own[k]);
            if (s < shards) {
                runs[s] = before + upto - own[k];
            }
            before += lanes::shuffle(upto, lanes::size - 1);
        }
    }
    ctx.sync();
    uint32_t* const order = book.order(batch);
    for (uint32_t i0 = begin; i0 < end; i0 += abreast * ctx.lanes()) { // and begins become ends
        uint64_t customers[abreast];
        for (uint32_t k = 0; k < abreast; ++k) {
            const uint32_t i = i0 + k * ctx.lanes() + ctx.lane();
            customers[k] = i < end ? customer_of(i) : 0;
        }
        for (uint32_t k = 0; k < abreast; ++k) {
            const uint32_t i = i0 + k * ctx.lanes() + ctx.lane();
            if (i - ctx.lane() >= end) {
                break;
            }
            if (fails(i - ctx.lane() - begin)) {
                return End::failed;
            }
            const uint32_t s = i < end ? shard_of(customers[k], shards) : ~0u;
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
    }
    return End::done;
}

} // namespace denizen::transactions
