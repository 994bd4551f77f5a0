// SPDX-License-Identifier: Apache-2.0
#include <denizen/transactions/detail/circular.hpp>
#include <denizen/transactions/round_trips.hpp>

#include <algorithm>

namespace denizen::transactions {

// Whether `left` more payments lead from accounts.back() to the payer of `closing`; their sequences
// go to found.path.
bool RoundTrips::leads_back(const Transfer& closing, const Rules& rules, uint32_t left,
                            uint64_t since, std::vector<uint64_t>& accounts, RoundTrip& found) const
{
    const auto last = last_.find(accounts.back());
    if (last == last_.end()) return false;
    uint64_t at = last->second;
    for (uint32_t k = 0; k < fanout && at > first_; ++k) {
        const auto& [p, before] = paid_[at - 1 - first_];
        if (closing.sequence - p.sequence > horizon_) break;
        at = before;
        const uint64_t apart =
            std::max(p.amount, closing.amount) - std::min(p.amount, closing.amount);
        if (p.ts < since || p.ts > closing.ts ||
            apart * 100 > closing.amount * rules.circular_percent)
            continue;
        found.path[accounts.size() - 1] = p.sequence;
        if (left == 1 && p.dest == closing.customer) return true;
        if (left > 1 && p.dest != closing.customer &&
            std::find(accounts.begin(), accounts.end(), p.dest) == accounts.end()) {
            accounts.push_back(p.dest);
            if (leads_back(closing, rules, left - 1, p.ts, accounts, found)) return true;
            accounts.pop_back();
        }
    }
    return false;
}

RoundTrip RoundTrips::find(const Transfer& closing, const Rules& rules) const
{
    RoundTrip found{};
    if (closing.amount < rules.circular_amount) return found;
    const uint64_t window = rules.circular_window_ms;
    const uint64_t since = closing.ts >= window ? closing.ts - window + 1 : 0;
    for (uint32_t hops = 2; hops <= rules.circular_hops; ++hops) {
        std::vector<uint64_t> accounts{closing.dest};
        if (!leads_back(closing, rules, hops - 1, since, accounts, found)) continue;
        found.hops = hops;
        break;
    }
    return found;
}

void RoundTrips::add(const Transfer& p)
{
    while (!paid_.empty() && p.sequence - paid_.front().payment.sequence > horizon_) {
        const auto last = last_.find(paid_.front().payment.customer);
        ++first_;
        if (last != last_.end() && last->second == first_) last_.erase(last);
        paid_.pop_front();
    }
    uint64_t& last = last_[p.customer];
    paid_.push_back({p, last});
    last = first_ + paid_.size();
}

} // namespace denizen::transactions
