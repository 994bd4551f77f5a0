// SPDX-License-Identifier: Apache-2.0
#include <denizen/transactions/country.hpp>
#include <denizen/transactions/reference.hpp>

#include <algorithm>

namespace denizen::transactions {

// All that is in an alert of any rule; its value, limit and severity are the caller's.
Alert Reference::alert(Rule rule, const Transaction& t) const
{
    Alert a{};
    a.sequence = next_;
    a.transaction = t.id;
    a.customer = t.customer;
    a.dest = t.dest;
    a.amount = t.amount;
    a.ts = t.ts;
    a.country = t.country;
    a.rules_version = rules_.version;
    a.rule = static_cast<uint8_t>(rule);
    return a;
}

Outcome Reference::feed(const Transaction& t, std::vector<Alert>& alerts)
{
    const auto outcome = [&] {
        if (!valid(t)) return Outcome::invalid;
        std::vector<Seen>& seen = seen_[t.customer];
        for (const Seen& s : seen) {
            if (s.id == t.id) return Outcome::duplicate;
        }
        if (!seen.empty() && t.ts + rules_.lateness_ms < seen.back().ts) return Outcome::late;
        if (seen.size() == history && t.ts <= seen.front().ts) return Outcome::late;
        return Outcome::accepted;
    }();
    counts_[static_cast<uint32_t>(outcome)] += 1;
    if (outcome != Outcome::accepted) {
        ++next_;
        return outcome;
    }

    std::vector<Seen>& seen = seen_[t.customer];
    const auto place = std::upper_bound(seen.begin(), seen.end(), t.ts,
                                        [](uint64_t ts, const Seen& s) { return ts < s.ts; });
    const uint64_t gap = place == seen.begin() ? 0 : t.ts - (place - 1)->ts;
    seen.insert(place, {t.ts, next_, t.id});
    if (seen.size() > history) seen.erase(seen.begin());
    const auto velocity =
        static_cast<uint64_t>(std::count_if(seen.begin(), seen.end(), [&](const Seen& s) {
            return s.ts <= t.ts && s.ts + rules_.velocity_window_ms > t.ts;
        }));

    const auto known = profiles_.find(t.customer);
    const Profile p = known == profiles_.end() ? Profile{} : known->second;
    const uint64_t limit = p.amount_limit != 0 ? p.amount_limit : rules_.amount_limit;
    const auto add = [&](Rule rule, bool fires, uint64_t value, uint64_t against,
                         Severity severity) {
        if (!fires || (rules_.enabled >> static_cast<uint32_t>(rule) & 1) == 0) return;
        Alert a = alert(rule, t);
        a.value = value;
        a.limit = against;
        a.severity = static_cast<uint8_t>(severity);
        static constexpr uint32_t base[] = {0, 20, 15, 25, 15, 30, 25, 15};
        const uint32_t score =
            base[a.rule] + 10u * a.severity + (p.flags & 1 ? 15 : 0) + (p.flags & 2 ? 10 : 0);
        a.score = static_cast<uint8_t>(std::min(score, 100u));
        alerts.push_back(a);
    };
    const auto level = [](uint64_t value, uint64_t against, uint64_t high, uint64_t critical) {
        if (value >= against * critical) return Severity::critical;
        return value >= against * high ? Severity::high : Severity::medium;
    };

    const uint64_t most_often = p.velocity_limit != 0 ? p.velocity_limit : rules_.velocity_limit;
    add(Rule::velocity, velocity > most_often, velocity, most_often,
        level(velocity, most_often, 2, 3));
    add(Rule::amount, t.amount > limit, t.amount, limit, level(t.amount, limit, 2, 5));
    add(Rule::structuring,
        t.amount <= limit && t.amount * 100 >= limit * rules_.structuring_percent &&
            velocity >= rules_.structuring_velocity,
        velocity, rules_.structuring_velocity, Severity::high);
    const uint32_t country = country_bit(t.country);
    add(Rule::geography,
        p.home != 0 && t.country != 0 && t.country != p.home && (p.allowed >> country & 1) == 0,
        t.country, 0, (rules_.high_risk >> country & 1) != 0 ? Severity::high : Severity::medium);
    const uint64_t exposed_limit = p.exposed_limit != 0 ? p.exposed_limit : rules_.exposed_limit;
    add(Rule::exposed, (p.flags & 1) != 0 && t.amount > exposed_limit, t.amount, exposed_limit,
        Severity::high);

    if (t.customer != t.dest) {
        const Transfer payment{next_, t.customer, t.dest, t.amount, t.ts};
        const RoundTrip found = round_trips_.find(payment, rules_);
        const size_t before = alerts.size();
        add(Rule::circular, found.hops != 0, found.hops, rules_.circular_hops,
            t.amount > limit ? Severity::critical : Severity::high);
        if (alerts.size() != before) {
            alerts.back().hops = static_cast<uint8_t>(found.hops);
            std::copy_n(found.path, found.hops - 1, alerts.back().path);
        }
        round_trips_.add(payment);
    }
    const uint64_t asleep = p.dormant_ms != 0 ? p.dormant_ms : rules_.dormant_ms;
    add(Rule::dormant, gap >= asleep && t.amount >= rules_.dormant_amount, gap, asleep,
        gap >= 2 * asleep ? Severity::high : Severity::medium);
    ++next_;
    return outcome;
}

} // namespace denizen::transactions
