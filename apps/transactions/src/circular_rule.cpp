// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>
#include <denizen/transactions/circular_rule.hpp>

namespace denizen::transactions {

void CircularRule::feed(const Transfer* payments, size_t count, const Own* own, size_t own_count,
                        std::vector<Alert>& alerts)
{
    size_t next = 0;
    for (size_t k = 0; k < count; ++k) {
        if (k % 4096 == 0) check_interrupt();
        const Transfer& p = payments[k];
        const bool mine = next < own_count && own[next].sequence == p.sequence;
        if (mine && (rules_.enabled & bit(Rule::circular)) != 0) {
            const RoundTrip found = round_trips_.find(p, rules_);
            if (found.hops != 0) {
                Customer customer{};
                const auto known = profiles_.find(p.customer);
                if (known != profiles_.end()) customer.set(known->second);
                alerts.push_back(make_alert(Rule::circular, own[next].record, p.sequence, customer,
                                            rules_, 0, Verdict{}, found));
            }
        }
        next += mine ? 1 : 0;
        round_trips_.add(p);
    }
}

} // namespace denizen::transactions
