// SPDX-License-Identifier: Apache-2.0
// Round trips once more, on one thread, payment by payment, with the standard library's containers:
// for the reference, and for the search over the payments of several hosts (circular_rule.hpp).
// Host only.
#pragma once

#include <denizen/transactions/rules.hpp>

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

// The payments of the last `horizon` records of a stream. Those of a payer lie side by side: along
// one list of all payments, which is 50 MB, each step would be a miss of the cache.
class RoundTrips {
public:
    explicit RoundTrips(uint32_t horizon) : horizon_(horizon) {}

    // That which `closing` closes; hops of 0: none. It is looked for among the payments so far.
    RoundTrip find(const Transfer& closing, const Rules& rules) const;
    // The next; sequences rise.
    void add(const Transfer& p);

private:
    struct Paid {
        uint64_t sequence, dest, amount, ts;
    };

    bool leads_back(const Transfer& closing, const Rules& rules, uint32_t left, uint64_t since,
                    std::vector<uint64_t>& accounts, RoundTrip& found) const;

    uint64_t horizon_;
    uint64_t cleared_ = 0; // payers whose last payment was out of reach then are gone
    std::unordered_map<uint64_t, std::vector<Paid>> paid_; // by payer, the latest last
};

} // namespace denizen::transactions
