// SPDX-License-Identifier: Apache-2.0
// The third pass: round trips that end in a slice of a batch, and the alerts of all rules.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/transactions/circular.hpp>
#include <denizen/transactions/pass.hpp>

namespace denizen::transactions {

namespace detail {

DENIZEN_COLD void tell(Book& book, uint32_t batch, uint32_t i, uint32_t fired, const Round& round,
                       auto& ctx)
{
    const Transaction t = record_of(book, batch, i);
    const Verdict v = book.verdicts(batch)[i];
    const uint32_t country = country_of(book, t);
    for (uint32_t rule = 1; rule <= rule_count; ++rule) {
        if ((fired >> rule & 1) != 0) {
            ctx.send(host, make_alert(static_cast<Rule>(rule), t, book.flight(batch).base + i,
                                      *v.customer, book.rules, country, v, round));
        }
    }
}

} // namespace detail

DENIZEN_HD inline End search(Book& book, uint32_t batch, uint32_t part, auto& ctx, auto&& fails)
{
    Flight& flight = book.flight(batch);
    const Rules& rules = book.rules;
    const uint32_t begin = book.first_of(flight.count, part);
    const uint32_t end = book.first_of(flight.count, part + 1);
    uint32_t tally[outcomes] = {};
    uint32_t alerts = 0;
    for (uint32_t i0 = begin; i0 < end; i0 += ctx.lanes()) {
        if (fails(i0 - begin)) {
            return End::failed;
        }
        const uint32_t i = i0 + ctx.lane();
        uint32_t fired = 0;
        Round round{};
        if (i < end) {
            const Verdict v = book.verdicts(batch)[i];
            fired = v.fired;
            for (uint32_t o = 0; o < outcomes; ++o) {
                tally[o] += v.outcome == o ? 1 : 0;
            }
            if (v.outcome == static_cast<uint8_t>(Outcome::accepted) &&
                (rules.enabled & bit(Rule::circular)) != 0) {
                const Transaction t = record_of(book, batch, i);
                if (t.customer != t.dest && t.amount >= rules.circular_amount) {
                    round = Search{book, t, flight.base + i}.find();
                    fired |= round.hops != 0 ? bit(Rule::circular) : 0;
                }
            }
        }
        alerts += lanes::popcount(fired);
        for (uint32_t firing = lanes::ballot(fired != 0); firing != 0; firing &= firing - 1) {
            const uint32_t k = lanes::first(firing);
            Round told;
            for (uint32_t hop = 0; hop < 3; ++hop) {
                told.path[hop] = lanes::shuffle(round.path[hop], k);
            }
            told.hops = lanes::shuffle(round.hops, k);
            detail::tell(book, batch, lanes::shuffle(i, k), lanes::shuffle(fired, k), told, ctx);
        }
    }
    for (uint32_t o = 0; o < outcomes; ++o) {
        const uint32_t all = lanes::sum(tally[o]);
        if (ctx.lane() == 0 && all != 0) {
            fetch_add<Scope::gpu>(&flight.tally[o], uint64_t{all});
        }
    }
    const uint32_t all = lanes::sum(alerts);
    if (ctx.lane() == 0 && all != 0) {
        fetch_add<Scope::gpu>(&flight.alerts, uint64_t{all});
    }
    return End::done;
}

} // namespace denizen::transactions
