// SPDX-License-Identifier: Apache-2.0
// The rules that need one customer only, and what an alert of any rule says. circular.hpp has the
// rule that crosses customers.
#pragma once

#include <denizen/transactions/detail/customer.hpp>

namespace denizen::transactions {

// A customer's own limit, or else that of the rules.
template <class T>
DENIZEN_HD constexpr T own_or(T own, T otherwise)
{
    return own != 0 ? own : otherwise;
}

DENIZEN_HD inline uint32_t fired_rules(const Transaction& t, const CustomerState& c,
                                       const Rules& rules, uint32_t country, const Verdict& v)
{
    const uint64_t limit = own_or(c.amount_limit, rules.amount_limit);
    const uint32_t velocity_limit = own_or(c.velocity_limit, rules.velocity_limit);
    uint32_t fired = 0;
    fired |= v.velocity > velocity_limit ? bit(Rule::velocity) : 0;
    fired |= t.amount > limit ? bit(Rule::amount) : 0;
    const bool just_below =
        t.amount <= limit && t.amount * 100 >= limit * rules.structuring_percent;
    fired |= just_below && v.velocity >= rules.structuring_velocity ? bit(Rule::structuring) : 0;
    const bool abroad = c.known != 0 && c.home != 0 && t.country != 0 && t.country != c.home;
    fired |= abroad && (c.allowed >> country & 1) == 0 ? bit(Rule::geography) : 0;
    fired |=
        (c.flags & exposed_person) != 0 && t.amount > own_or(c.exposed_limit, rules.exposed_limit)
            ? bit(Rule::exposed)
            : 0;
    fired |= v.gap >= own_or(c.dormant_ms, rules.dormant_ms) && t.amount >= rules.dormant_amount
                 ? bit(Rule::dormant)
                 : 0;
    return fired & rules.enabled;
}

// By how many times x is the limit. `critical`: 0 is never.
DENIZEN_HD constexpr Severity by_factor(uint64_t x, uint64_t limit, uint64_t high,
                                        uint64_t critical)
{
    return critical != 0 && x >= critical * limit ? Severity::critical
           : x >= high * limit                    ? Severity::high
                                                  : Severity::medium;
}

DENIZEN_HD constexpr uint32_t base_score(Rule rule)
{
    switch (rule) {
    case Rule::exposed: return 30;
    case Rule::structuring:
    case Rule::circular: return 25;
    case Rule::velocity: return 20;
    case Rule::amount:
    case Rule::geography:
    case Rule::dormant: return 15;
    }
    return 0;
}

// The path of a round trip: the sequences of the transactions before the one that closes it.
struct RoundTrip {
    uint64_t path[3];
    uint32_t hops; // with the closing one; 0: there is none
};

DENIZEN_HD inline Alert make_alert(Rule rule, const Transaction& t, uint64_t sequence,
                                   const Customer& c, const Rules& rules, uint32_t country,
                                   const Verdict& v, const RoundTrip& round_trip)
{
    const uint64_t limit = own_or(c.amount_limit, rules.amount_limit);
    Alert a{};
    a.sequence = sequence;
    a.transaction = t.id;
    a.customer = t.customer;
    a.dest = t.dest;
    a.amount = t.amount;
    a.ts = t.ts;
    a.rules_version = rules.version;
    a.country = t.country;
    a.rule = static_cast<uint8_t>(rule);
    Severity severity = Severity::high;
    switch (rule) {
    case Rule::velocity:
        a.value = v.velocity;
        a.limit = own_or(c.velocity_limit, rules.velocity_limit);
        severity = by_factor(a.value, a.limit, 2, 3);
        break;
    case Rule::amount:
        a.value = t.amount;
        a.limit = limit;
        severity = by_factor(a.value, a.limit, 2, 5);
        break;
    case Rule::structuring:
        a.value = v.velocity;
        a.limit = rules.structuring_velocity;
        break;
    case Rule::geography:
        a.value = t.country;
        severity = (rules.high_risk >> country & 1) != 0 ? Severity::high : Severity::medium;
        break;
    case Rule::exposed:
        a.value = t.amount;
        a.limit = own_or(c.exposed_limit, rules.exposed_limit);
        break;
    case Rule::circular:
        a.value = round_trip.hops;
        a.limit = rules.circular_hops;
        a.hops = static_cast<uint8_t>(round_trip.hops);
        for (uint32_t k = 0; k + 1 < round_trip.hops; ++k) {
            a.path[k] = round_trip.path[k];
        }
        severity = t.amount > limit ? Severity::critical : Severity::high;
        break;
    case Rule::dormant:
        a.value = v.gap;
        a.limit = own_or(c.dormant_ms, rules.dormant_ms);
        severity = by_factor(a.value, a.limit, 2, 0);
        break;
    }
    a.severity = static_cast<uint8_t>(severity);
    const uint32_t score = base_score(rule) + 10 * static_cast<uint32_t>(severity) +
                           ((c.flags & exposed_person) != 0 ? 15 : 0) +
                           ((c.flags & enhanced_diligence) != 0 ? 10 : 0);
    a.score = static_cast<uint8_t>(score < 100 ? score : 100);
    return a;
}

} // namespace denizen::transactions
