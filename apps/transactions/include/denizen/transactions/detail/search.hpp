// SPDX-License-Identifier: Apache-2.0
// The third pass: round trips that end in a part of a batch, and the alerts of all rules.
//
// A part is every so-many-th row of the batch: a burst is spread over many. What only a few records
// need is put off until there are enough of them for all lanes, or no more records.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/transactions/detail/circular.hpp>
#include <denizen/transactions/detail/pass.hpp>

namespace denizen::transactions {

namespace detail {

// The alerts of `count` records; how many they are. They are made side by side, and sent one after
// the other. The view by value: one that a call has by reference lies in memory for the caller,
// too.
DENIZEN_COLD uint32_t send_alerts(const Book& book, const View view, const Finding* findings,
                                  uint32_t count, Alert* alerts, auto& ctx)
{
    const uint32_t lane = ctx.lane();
    const Finding f = findings[lane < count ? lane : 0];
    const Transaction t = view.record(f.record);
    const Verdict v = view.verdicts[f.record];
    const Customer& customer = *view.find(t.customer)->customer;
    const uint32_t country = country_of(book, t);
    uint32_t left = lane < count ? f.fired : 0;
    uint32_t all = 0;
    uint32_t sending = lanes::ballot(left != 0);
    while (sending != 0) { // ends: each turn takes one of each lane's
        if (left != 0) {
            const auto rule = static_cast<Rule>(lanes::first(left));
            alerts[lane] = make_alert(rule, t, view.base + f.record, customer, book.rules, country,
                                      v, RoundTrip{{f.path[0], f.path[1], f.path[2]}, f.hops});
            left &= left - 1;
        }
        ctx.sync();
        all += lanes::popcount(sending);
        for (; sending != 0; sending &= sending - 1) {
            ctx.send(host, alerts[lanes::first(sending)]);
        }
        sending = lanes::ballot(left != 0);
    }
    return all;
}

// What a part of the pass has found, and has to do yet.
template <class C>
class Findings {
public:
    DENIZEN_HD Findings(const Book& book, const View& view, Scratch& scratch, C& ctx)
        : book_(book), view_(view), scratch_(scratch), ctx_(ctx)
    {
    }

    DENIZEN_HD uint32_t alerts() const { return alerts_; }

    // A record for each lane: the rules that it fires, or, to be found out, whether a longer round
    // trip ends with it.
    DENIZEN_HD void add(uint32_t i, uint32_t fired, const RoundTrip& round_trip, bool goes_on)
    {
        const uint32_t those = lanes::ballot(goes_on);
        if (goes_on) {
            scratch_.further[further_ + lanes::popcount(those & lanes::below())] = i;
        }
        further_ += lanes::popcount(those);
        find(i, goes_on ? 0 : fired, round_trip);
        if (further_ >= lanes::size) {
            search_on(lanes::size);
        }
    }
    // What is left, of both less than a row.
    DENIZEN_HD void finish()
    {
        if (further_ != 0) {
            search_on(further_);
        }
        if (found_ != 0) {
            send_last(found_);
        }
    }

private:
    DENIZEN_HD void find(uint32_t i, uint32_t fired, const RoundTrip& round_trip)
    {
        const uint32_t those = lanes::ballot(fired != 0);
        if (fired != 0) {
            scratch_.findings[found_ + lanes::popcount(those & lanes::below())] = {
                {round_trip.path[0], round_trip.path[1], round_trip.path[2]},
                i,
                static_cast<uint16_t>(fired),
                static_cast<uint16_t>(round_trip.hops)};
        }
        found_ += lanes::popcount(those);
        ctx_.sync();
        if (found_ >= lanes::size) {
            send_last(lanes::size);
        }
    }
    DENIZEN_HD void send_last(uint32_t count)
    {
        found_ -= count;
        alerts_ +=
            send_alerts(book_, view_, scratch_.findings + found_, count, scratch_.alerts, ctx_);
    }

    // The second step of the search, for the last `count` of those that need it.
    DENIZEN_HD void search_on(uint32_t count)
    {
        further_ -= count;
        const uint32_t i = ctx_.lane() < count ? scratch_.further[further_ + ctx_.lane()] : 0;
        ctx_.sync(); // all have read what will be written next
        uint32_t fired = 0;
        RoundTrip round_trip{};
        if (ctx_.lane() < count) {
            const Transaction t = view_.record(i);
            round_trip = Search{view_, book_.rules, t, view_.base + i}.in_more_hops();
            fired = view_.verdicts[i].fired | (round_trip.hops != 0 ? bit(Rule::circular) : 0);
        }
        find(i, fired, round_trip);
    }

    const Book& book_;
    const View& view_;
    Scratch& scratch_;
    C& ctx_;
    uint32_t further_ = 0; // records to be searched on
    uint32_t found_ = 0;   // records to be told
    uint32_t alerts_ = 0;
};

} // namespace detail

DENIZEN_HD inline End search(Book& book, uint32_t batch, uint32_t part, auto& ctx, auto&& fails)
{
    Flight& flight = book.flight(batch);
    const View view(book, batch);
    const Rules rules = book.rules;
    detail::Findings findings(book, view, book.scratch(part), ctx);
    uint32_t tally[outcomes] = {};
    Verdict verdict{};
    Staged staged{};
    const auto look = [&](uint32_t i) { // ahead
        if (i < view.count) {
            verdict = view.verdicts[i];
            staged = view.fetch(i);
        }
    };
    uint32_t i = part * row_size + ctx.lane();
    look(i);
    uint32_t done = 0;
    while (i - ctx.lane() < view.count) { // ends: by count
        if (fails(done)) {
            return End::failed;
        }
        const Verdict v = verdict;
        const Transaction t = record(staged);
        const uint32_t here = i;
        done += ctx.lanes();
        i += done % row_size != 0 ? ctx.lanes() : ctx.lanes() + (view.shards - 1) * row_size;
        look(i);
        uint32_t fired = 0;
        bool goes_on = false;
        RoundTrip round_trip{};
        if (here < view.count) {
            fired = v.fired;
            for (uint32_t o = 0; o < outcomes; ++o) {
                tally[o] += v.outcome == o ? 1 : 0;
            }
            if (v.outcome == static_cast<uint8_t>(Outcome::accepted) &&
                (rules.enabled & bit(Rule::circular)) != 0 && t.customer != t.dest &&
                t.amount >= rules.circular_amount) {
                Search search{view, rules, t, view.base + here};
                round_trip = search.in_two_hops();
                fired |= round_trip.hops != 0 ? bit(Rule::circular) : 0;
                goes_on = search.goes_on();
            }
        }
        findings.add(here, fired, round_trip, goes_on);
    }
    findings.finish();
    for (uint32_t o = 0; o < outcomes; ++o) {
        const uint32_t all = lanes::sum(tally[o]);
        if (ctx.lane() == 0 && all != 0) {
            fetch_add<Scope::gpu>(&flight.tally[o], uint64_t{all});
        }
    }
    if (ctx.lane() == 0 && findings.alerts() != 0) {
        fetch_add<Scope::gpu>(&flight.tally[outcomes], uint64_t{findings.alerts()});
    }
    return End::done;
}

} // namespace denizen::transactions
