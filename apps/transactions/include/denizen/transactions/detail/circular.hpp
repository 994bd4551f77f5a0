// SPDX-License-Identifier: Apache-2.0
// Round trips: whether the money of a transaction comes back to the account it left, through
// earlier transactions. Reads edges only; each account's are a list, the latest first.
#pragma once

#include <denizen/transactions/detail/payment_history.hpp>

namespace denizen::transactions {

inline constexpr uint32_t fanout = 16; // edges of an account that are followed, the latest

// One search: from the payee of `closing`, by transactions before it, back to its payer.
struct Search {
    const View& view;
    const Rules& rules;
    const Transaction& closing;
    uint64_t sequence; // of the closing transaction
    uint64_t visited[3] = {};
    bool followed = false; // a transaction of the payee's that may be part of a round trip
    RoundTrip round_trip{};

    DENIZEN_HD bool alike(uint64_t amount) const
    {
        const uint64_t apart =
            amount > closing.amount ? amount - closing.amount : closing.amount - amount;
        return apart * 100 <= closing.amount * rules.circular_percent;
    }

    // Whether `Left` more transactions lead from `account` to the payer, the first of them not
    // before `since`. `Step`: how many came before.
    template <uint32_t Left, uint32_t Step>
    DENIZEN_HD bool leads(uint64_t account, uint64_t since)
    {
        const Entry* const entry = view.find(account);
        if (entry == nullptr) {
            return false;
        }
        visited[Step] = account;
        PaymentsBefore earlier(view, entry->edge, sequence);
        uint64_t here = 0;
        DENIZEN_ROLLED
        for (uint32_t k = 0; k < fanout && earlier.next(here); ++k) {
            const Payment p = view.payment(here);
            if (p.latest < since) {
                break; // and so are all before it
            }
            if (p.ts < since || p.ts > closing.ts || !alike(p.amount)) {
                continue;
            }
            followed = followed || Step == 0;
            round_trip.path[Step] = here;
            if constexpr (Left == 1) {
                if (p.dest == closing.customer) {
                    return true;
                }
            } else {
                bool seen = p.dest == closing.customer;
                for (uint32_t hop = 0; hop <= Step; ++hop) {
                    seen |= p.dest == visited[hop];
                }
                if (!seen && leads<Left - 1, Step + 1>(p.dest, p.ts)) {
                    return true;
                }
            }
        }
        return false;
    }

    // The round trip of the fewest hops; of those the one whose transactions are the latest, the
    // first decides first. In two steps: most searches end with the first, so who makes many of
    // them side by side makes the second of those alone that need it.
    DENIZEN_HD RoundTrip in_two_hops()
    {
        round_trip.hops = leads<1, 0>(closing.dest, since()) ? 2 : 0;
        return round_trip;
    }
    // After that: whether there may be one of more.
    DENIZEN_HD bool goes_on() const
    {
        return round_trip.hops == 0 && followed && rules.circular_hops > 2;
    }
    DENIZEN_HD RoundTrip in_more_hops()
    {
        if (leads<2, 0>(closing.dest, since())) {
            round_trip.hops = 3;
        } else if (rules.circular_hops >= 4 && leads<3, 0>(closing.dest, since())) {
            round_trip.hops = 4;
        }
        return round_trip;
    }

private:
    DENIZEN_HD uint64_t since() const
    {
        const uint64_t window = rules.circular_window_ms;
        return closing.ts >= window ? closing.ts - window + 1 : 0;
    }
};

} // namespace denizen::transactions
