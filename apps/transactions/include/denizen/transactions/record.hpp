// SPDX-License-Identifier: Apache-2.0
// What transaction monitoring reads and writes: transactions, profiles of customers, rules and
// alerts, each 128 bytes, little-endian, the same in a file, in a NumPy array and on the device.
// docs/transactions.md says what each rule means.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::transactions {

// Money is in cents, time in milliseconds since 1970. Both, and customer and dest plus one, are
// below 2^56 and 2^64: other records are invalid, and counted as such.
inline constexpr uint64_t most = (1ull << 56) - 1;
inline constexpr uint64_t no_customer = ~0ull;

struct Transaction {
    uint64_t id;       // the idempotency key, of one customer
    uint64_t customer; // who pays
    uint64_t dest;     // who is paid; may be a customer, too
    uint64_t amount;
    uint16_t country; // ISO 3166-1 numeric; 0: unknown
    uint8_t type;     // Kind
    uint8_t currency; // not looked at
    uint32_t flags;   // not looked at
    uint64_t ts;
    uint32_t device_hash;  // not looked at
    uint32_t address_hash; // not looked at
    uint64_t reference;    // not looked at
    uint8_t reserved[64];
};

enum class Kind : uint8_t { wire = 0, ach, check, card, cash, internal };

inline constexpr uint16_t exposed_person = 1;     // Profile::flags: politically exposed
inline constexpr uint16_t enhanced_diligence = 2; // examined more closely

// What is known of a customer. A limit of 0 is that of the rules.
struct Profile {
    uint64_t customer;
    uint64_t allowed; // countries, by country_bit()
    uint64_t amount_limit;
    uint64_t exposed_limit;
    uint64_t dormant_ms;
    uint32_t velocity_limit;
    uint16_t home; // ISO 3166-1 numeric; 0: unknown, and then geography does not apply
    uint16_t flags;
    uint8_t reserved[80];
};

enum class Rule : uint8_t {
    velocity = 1,
    amount,
    structuring,
    geography,
    exposed,
    circular,
    dormant
};
inline constexpr uint32_t rule_count = 7;
inline constexpr uint32_t all_rules = 0xfe; // bit r is rule r

DENIZEN_HD constexpr uint32_t bit(Rule rule) { return 1u << static_cast<uint32_t>(rule); }

enum class Severity : uint8_t { low = 0, medium, high, critical };

// Countries that make an alert about geography high: North Korea, Iran, Myanmar (the FATF's list
// of high-risk jurisdictions subject to a call for action), see country.hpp.
inline constexpr uint64_t default_high_risk = 7;

struct Rules {
    uint64_t amount_limit = 1'000'000;
    uint64_t exposed_limit = 500'000;
    uint64_t dormant_amount = 100'000; // from which on a wake-up is an alert
    uint64_t dormant_ms = 180ull * 86'400'000;
    uint64_t velocity_window_ms = 3'600'000;
    uint64_t circular_window_ms = 86'400'000;
    uint64_t circular_amount = 10'000; // from which on a round trip is looked for
    uint64_t lateness_ms = 60'000;
    uint64_t high_risk = default_high_risk;
    uint32_t velocity_limit = 10;
    uint32_t structuring_percent = 90;
    uint32_t structuring_velocity = 3;
    uint32_t circular_hops = 4;     // transactions of a round trip, 2 to 4
    uint32_t circular_percent = 20; // by which amounts on the way may differ
    uint32_t enabled = all_rules;
    uint32_t version = 1;
    uint8_t reserved[28] = {};
};

struct Alert {
    uint64_t sequence;    // place of the transaction in the stream
    uint64_t transaction; // its id
    uint64_t customer;
    uint64_t dest;
    uint64_t amount;
    uint64_t ts;
    uint64_t value;         // what was measured: transactions, cents, ms of sleep, hops, country
    uint64_t limit;         // what it was held against; 0: nothing
    uint64_t path[3];       // circular: sequences of the earlier transactions of the round trip
    uint32_t rules_version; // of the rules in force
    uint16_t country;
    uint8_t rule; // Rule
    uint8_t severity;
    uint8_t score; // 0 to 100
    uint8_t hops;  // circular: transactions of the round trip
    uint8_t reserved[30];
};

static_assert(sizeof(Transaction) == 128 && sizeof(Profile) == 128 && sizeof(Rules) == 128 &&
              sizeof(Alert) == 128);
#if DENIZEN_HOSTED
static_assert(offsetof(Transaction, customer) == 8 && offsetof(Transaction, dest) == 16 &&
              offsetof(Transaction, amount) == 24 && offsetof(Transaction, country) == 32 &&
              offsetof(Transaction, type) == 34 && offsetof(Transaction, currency) == 35 &&
              offsetof(Transaction, flags) == 36 && offsetof(Transaction, ts) == 40 &&
              offsetof(Transaction, device_hash) == 48 &&
              offsetof(Transaction, address_hash) == 52 && offsetof(Transaction, reference) == 56);
static_assert(offsetof(Profile, velocity_limit) == 40 && offsetof(Profile, home) == 44 &&
              offsetof(Profile, flags) == 46);
static_assert(offsetof(Rules, velocity_limit) == 72 && offsetof(Rules, version) == 96);
static_assert(offsetof(Alert, path) == 64 && offsetof(Alert, rules_version) == 88 &&
              offsetof(Alert, country) == 92 && offsetof(Alert, score) == 96);
#endif

DENIZEN_HD inline bool valid(const Transaction& t)
{
    return t.customer != no_customer && t.dest != no_customer && t.amount <= most && t.ts <= most;
}

} // namespace denizen::transactions
