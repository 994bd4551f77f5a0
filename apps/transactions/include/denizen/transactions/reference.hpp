// SPDX-License-Identifier: Apache-2.0
// The rules once more, on one thread, record by record, with the standard library's containers and
// nothing of book.hpp: what a stage's alerts are compared with. Host only.
#pragma once

#include <denizen/transactions/round_trips.hpp>

#include <unordered_map>
#include <vector>

namespace denizen::transactions {

class Reference {
public:
    explicit Reference(const Rules& rules, uint32_t horizon = 1 << 20)
        : rules_(rules), round_trips_(horizon)
    {
    }

    void put(const Profile& profile) { profiles_[profile.customer] = profile; }
    void change(const Rules& rules) { rules_ = rules; }
    // The next record of the stream; its alerts go to the end of `alerts`, by rule.
    Outcome feed(const Transaction& t, std::vector<Alert>& alerts);

    const uint64_t* counts() const { return counts_; } // by Outcome

private:
    struct Seen {
        uint64_t ts, sequence, id;
    };
    Alert alert(Rule rule, const Transaction& t) const;

    Rules rules_;
    RoundTrips round_trips_;
    uint64_t next_ = 0;
    uint64_t counts_[outcomes] = {};
    std::unordered_map<uint64_t, Profile> profiles_;
    std::unordered_map<uint64_t, std::vector<Seen>> seen_; // in event order
};

} // namespace denizen::transactions
