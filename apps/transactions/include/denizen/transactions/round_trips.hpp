// SPDX-License-Identifier: Apache-2.0
// Round trips once more, on one thread, payment by payment, with the standard library's containers:
// for the reference, and for the search over the payments of several hosts (circular_rule.hpp).
// Host only.
#pragma once

#include <denizen/transactions/rules.hpp>

#include <deque>
#include <unordered_map>
#include <vector>

namespace denizen::transactions {

// An accepted transaction, as much of it as a round trip needs. Not to its own payer.
struct Transfer {
    uint64_t sequence;
    uint64_t customer;
    uint64_t dest;
    uint64_t amount;
    uint64_t ts;
};

// The payments of the last `horizon` records of a stream.
class RoundTrips {
public:
    explicit RoundTrips(uint32_t horizon) : horizon_(horizon) {}

    // That which `closing` closes; hops of 0: none. It is looked for among the payments so far.
    RoundTrip find(const Transfer& closing, const Rules& rules) const;
    // The next; sequences rise.
    void add(const Transfer& p);

private:
    struct Paid {
        Transfer payment;
        uint64_t before; // 1 + number of its payer's payment before; 0: there is none
    };

    bool leads_back(const Transfer& closing, const Rules& rules, uint32_t left, uint64_t since,
                    std::vector<uint64_t>& accounts, RoundTrip& found) const;

    uint64_t horizon_;
    std::deque<Paid> paid_;
    uint64_t first_ = 0;                          // number of paid_'s first
    std::unordered_map<uint64_t, uint64_t> last_; // by payer: 1 + number of its last
};

} // namespace denizen::transactions
