// SPDX-License-Identifier: Apache-2.0
// Rule 6 for the customers of one host among several: the payments of all hosts go in, the alerts
// of its own come out. A stage on each host has the other rules. Host only.
#pragma once

#include <denizen/transactions/round_trips.hpp>

namespace denizen::transactions {

class CircularRule {
public:
    // A record of an own customer, and its place in the stream of all.
    struct Own {
        uint64_t sequence;
        Transaction record;
    };

    CircularRule(const Rules& rules, uint32_t horizon) : rules_(rules), round_trips_(horizon) {}

    void put(const Profile& profile) { profiles_[profile.customer] = profile; }
    void change(const Rules& rules) { rules_ = rules; }
    // The next payments of the stream, and those records of own customers that are among them: both
    // by sequence.
    void feed(const Transfer* payments, size_t count, const Own* own, size_t own_count,
              std::vector<Alert>& alerts);

private:
    Rules rules_;
    RoundTrips round_trips_;
    std::unordered_map<uint64_t, Profile> profiles_;
};

} // namespace denizen::transactions
