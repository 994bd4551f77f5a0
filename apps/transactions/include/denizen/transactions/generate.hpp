// SPDX-License-Identifier: Apache-2.0
// Made streams of transactions that contain every case that the rules are about. The same seed
// makes the same stream on every machine. Host only.
#pragma once

#include <denizen/transactions/record.hpp>

#include <vector>

namespace denizen::transactions {

// What a made record is, in Transaction::flags.
enum class Case : uint32_t {
    ordinary = 0,
    smurfing,     // several just below the limit within half an hour
    burst,        // many within half an hour
    large,        // above the limit
    blocked,      // in a country that the customer may not pay from
    exposed,      // a politically exposed person pays much
    round_trip,   // money that comes back in two to four transactions
    sleeping,     // an account wakes up after more than 200 days
    out_of_order, // comes seconds late
    late,         // comes minutes late
    duplicate     // the same record once more
};
inline constexpr uint32_t cases = 11;

struct MakeOptions {
    uint32_t customers = 0; // 0: one for every hundred records, at least 100
    uint64_t seed = 1;
    double share = 0.05; // of records that belong to a case
    uint32_t days = 365; // from the first to the last
};

struct Made {
    std::vector<Transaction> records; // in the order in which they arrive
    std::vector<Profile> profiles;    // of customers 1, 2, ...
};

inline constexpr uint64_t least_made = 1000;

// Errc::bad_argument for fewer than least_made records, less than 100 customers or less than 300
// days, in which nobody can be asleep for long enough.
Made make(uint64_t count, const MakeOptions& options = {});

} // namespace denizen::transactions
