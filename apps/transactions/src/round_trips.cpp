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
    const auto sent = paid_.find(accounts.back());
    if (sent == paid_.end()) return false;
    const std::vector<Paid>& all = sent->second;
    const size_t first = all.size() - std::min<size_t>(all.size(), fanout);
    for (size_t k = all.size(); k-- > first;) {
        const Paid& p = all[k];
        if (closing.sequence - p.sequence > horizon_) break;
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
    if (p.sequence - cleared_ > horizon_) {
        std::erase_if(paid_, [&](const auto& payer) {
            return p.sequence - payer.second.back().sequence > horizon_;
        });
        cleared_ = p.sequence;
    }
    std::vector<Paid>& all = paid_[p.customer];
    if (all.size() == 2 * fanout) all.erase(all.begin(), all.end() - fanout);
    all.push_back({p.sequence, p.dest, p.amount, p.ts});
}

} // namespace denizen::transactions
