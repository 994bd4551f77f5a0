// SPDX-License-Identifier: Apache-2.0
// The third pass: round trips that end in a slice of a batch, and the alerts of all rules.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/transactions/circular.hpp>
#include <denizen/transactions/pass.hpp>

namespace denizen::transactions {

namespace detail {

// The view by value: one that a call has by reference lies in memory for the caller, too.
DENIZEN_COLD void tell(const Book& book, const View view, uint32_t i, uint32_t fired,
                       const Round& round, auto& ctx)
{
    const Transaction t = view.record(i);
    const Verdict v = view.verdicts[i];
    const uint32_t country = country_of(book, t);
    for (uint32_t rule = 1; rule <= rule_count; ++rule) {
        if ((fired >> rule & 1) != 0) {
            ctx.send(host, make_alert(static_cast<Rule>(rule), t, view.base + i, *v.customer,
                                      book.rules, country, v, round));
        }
    }
}

// The alerts of each lane's record; how many they are.
DENIZEN_HD inline uint32_t tell_all(const Book& book, const View& view, uint32_t i, uint32_t fired,
                                    const Round& round, auto& ctx)
{
    for (uint32_t firing = lanes::ballot(fired != 0); firing != 0; firing &= firing - 1) {
        const uint32_t k = lanes::first(firing);
        Round told;
        for (uint32_t hop = 0; hop < 3; ++hop) {
            told.path[hop] = lanes::shuffle(round.path[hop], k);
        }
        told.hops = lanes::shuffle(round.hops, k);
        tell(book, view, lanes::shuffle(i, k), lanes::shuffle(fired, k), told, ctx);
    }
    return lanes::popcount(fired);
}

// The second step of the search, for those of `list` that need it, a record for each lane.
DENIZEN_HD inline uint32_t search_on(const Book& book, const View& view, const uint32_t* list,
                                     uint32_t count, auto& ctx)
{
    const bool mine = ctx.lane() < count;
    const uint32_t i = mine ? list[ctx.lane()] : 0;
    uint32_t fired = 0;
    Round round{};
    if (mine) {
        const Transaction t = view.record(i);
        round = Search{view, book.rules, t, view.base + i}.in_more_hops();
        fired = view.verdicts[i].fired | (round.hops != 0 ? bit(Rule::circular) : 0);
    }
    return tell_all(book, view, i, fired, round, ctx);
}

} // namespace detail

DENIZEN_HD inline End search(Book& book, uint32_t batch, uint32_t part, auto& ctx, auto&& fails)
{
    Flight& flight = book.flight(batch);
    const View view(book, batch);
    const Rules& rules = book.rules;
    const uint32_t begin = Book::first_of(view.count, part, view.shards);
    const uint32_t end = Book::first_of(view.count, part + 1, view.shards);
    uint32_t* const list = book.order(batch) + begin; // all have been judged: it is free
    uint32_t listed = 0;
    uint32_t tally[outcomes] = {};
    uint32_t alerts = 0;
    Verdict verdict{};
    Staged staged{};
    const auto look = [&](uint32_t i) { // ahead
        if (i < end) {
            verdict = view.verdicts[i];
            staged = view.ask(i);
        }
    };
    look(begin + ctx.lane());
    for (uint32_t i0 = begin; i0 < end; i0 += ctx.lanes()) {
        if (fails(i0 - begin)) {
            return End::failed;
        }
        const uint32_t i = i0 + ctx.lane();
        const Verdict v = verdict;
        const Transaction t = record(staged);
        look(i + ctx.lanes());
        uint32_t fired = 0;
        bool goes_on = false;
        Round round{};
        if (i < end) {
            fired = v.fired;
            for (uint32_t o = 0; o < outcomes; ++o) {
                tally[o] += v.outcome == o ? 1 : 0;
            }
            if (v.outcome == static_cast<uint8_t>(Outcome::accepted) &&
                (rules.enabled & bit(Rule::circular)) != 0 && t.customer != t.dest &&
                t.amount >= rules.circular_amount) {
                Search search{view, rules, t, view.base + i};
                round = search.in_two_hops();
                fired |= round.hops != 0 ? bit(Rule::circular) : 0;
                goes_on = search.goes_on();
            }
        }
        alerts += detail::tell_all(book, view, i, goes_on ? 0 : fired, round, ctx);
        const uint32_t those = lanes::ballot(goes_on);
        if (goes_on) {
            list[listed + lanes::popcount(those & lanes::below())] = i;
        }
        listed += lanes::popcount(those);
        ctx.sync();
        if (listed >= ctx.lanes()) {
            listed -= ctx.lanes();
            alerts += detail::search_on(book, view, list + listed, ctx.lanes(), ctx);
            ctx.sync(); // all have read what will be written next
        }
    }
    if (listed != 0) {
        alerts += detail::search_on(book, view, list, listed, ctx);
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
