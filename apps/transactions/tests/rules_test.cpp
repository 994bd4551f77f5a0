// SPDX-License-Identifier: Apache-2.0
// Each rule by hand, at its bounds; late and duplicate transactions; and what a made stream holds.
#include <denizen/base/error.hpp>
#include <denizen/transactions/country.hpp>
#include <denizen/transactions/generate.hpp>
#include <denizen/transactions/reference.hpp>

#include <cstring>
#include <gtest/gtest.h>
#include <set>

namespace {

using namespace denizen::transactions;

constexpr uint64_t noon = 1'700'000'000'000;
constexpr uint64_t minute = 60'000;
constexpr uint64_t day = 86'400'000;

// A stream written down record by record.
struct Bench {
    Reference reference{Rules{}};
    uint64_t next_id = 1;
    Outcome outcome{};

    std::vector<Alert> pay(uint64_t who, uint64_t to, uint64_t cents, uint64_t when,
                           uint16_t country = 840, uint64_t id = 0)
    {
        Transaction t{};
        t.id = id != 0 ? id : next_id++;
        t.customer = who;
        t.dest = to;
        t.amount = cents;
        t.ts = when;
        t.country = country;
        std::vector<Alert> alerts;
        outcome = reference.feed(t, alerts);
        return alerts;
    }
};

void expect_one(const std::vector<Alert>& alerts, Rule rule, Severity severity, uint32_t score,
                uint64_t value, uint64_t limit)
{
    ASSERT_EQ(alerts.size(), 1u);
    EXPECT_EQ(alerts[0].rule, static_cast<uint8_t>(rule));
    EXPECT_EQ(alerts[0].severity, static_cast<uint8_t>(severity));
    EXPECT_EQ(alerts[0].score, score);
    EXPECT_EQ(alerts[0].value, value);
    EXPECT_EQ(alerts[0].limit, limit);
}

TEST(transactions_rules, amount_is_over_the_limit_not_at_it)
{
    Bench b;
    EXPECT_TRUE(b.pay(1, 2, 1'000'000, noon).empty());
    expect_one(b.pay(1, 2, 1'000'001, noon + 1), Rule::amount, Severity::medium, 25, 1'000'001,
               1'000'000);
    expect_one(b.pay(3, 2, 2'000'000, noon), Rule::amount, Severity::high, 35, 2'000'000,
               1'000'000);
    expect_one(b.pay(4, 2, 5'000'000, noon), Rule::amount, Severity::critical, 45, 5'000'000,
               1'000'000);
}

TEST(transactions_rules, velocity_counts_a_sliding_window)
{
    Bench b;
    for (uint64_t k = 0; k < 10; ++k) EXPECT_TRUE(b.pay(1, 2, 100, noon + k).empty());
    // The first is an hour old, to the millisecond: out of the window.
    EXPECT_TRUE(b.pay(1, 2, 100, noon + 60 * minute).empty());
    expect_one(b.pay(1, 2, 100, noon + 60 * minute), Rule::velocity, Severity::medium, 30, 11, 10);
    for (uint64_t k = 0; k < 8; ++k) b.pay(1, 2, 100, noon + 60 * minute);
    EXPECT_EQ(b.pay(1, 2, 100, noon + 60 * minute)[0].severity,
              static_cast<uint8_t>(Severity::high)); // the 20th of the window
    for (uint64_t k = 0; k < 20; ++k) b.pay(1, 2, 100, noon + 60 * minute + 8);
    const auto saturated = b.pay(1, 2, 100, noon + 60 * minute + 8);
    expect_one(saturated, Rule::velocity, Severity::critical, 50, history, 10);
}

TEST(transactions_rules, structuring_needs_the_third_just_below_the_limit)
{
    Bench b;
    EXPECT_TRUE(b.pay(1, 2, 950'000, noon).empty());
    EXPECT_TRUE(b.pay(1, 3, 900'000, noon + minute).empty());
    EXPECT_TRUE(b.pay(1, 5, 899'999, noon + minute).empty());
    expect_one(b.pay(1, 4, 900'000, noon + 2 * minute), Rule::structuring, Severity::high, 45, 4,
               3);
    expect_one(b.pay(1, 4, 1'000'000, noon + 2 * minute), Rule::structuring, Severity::high, 45, 5,
               3);
}

TEST(transactions_rules, geography_asks_home_and_mask)
{
    Bench b;
    Profile p{};
    p.customer = 1;
    p.home = 840;
    p.allowed = 1ull << country_bit(276);
    p.flags = enhanced_diligence;
    b.reference.put(p);
    EXPECT_TRUE(b.pay(1, 2, 100, noon, 840).empty());
    EXPECT_TRUE(b.pay(1, 2, 100, noon + 1, 276).empty());
    EXPECT_TRUE(b.pay(1, 2, 100, noon + 2, 0).empty());
    expect_one(b.pay(1, 2, 100, noon + 3, 250), Rule::geography, Severity::medium, 35, 250, 0);
    expect_one(b.pay(1, 2, 100, noon + 4, 408), Rule::geography, Severity::high, 45, 408, 0);
    expect_one(b.pay(1, 2, 100, noon + 5, 999), Rule::geography, Severity::medium, 35, 999, 0);
    EXPECT_TRUE(b.pay(7, 2, 100, noon, 408).empty()); // nothing is known of 7
}

TEST(transactions_rules, countries_have_a_bit_each_or_share_the_last)
{
    std::set<uint32_t> bits;
    uint32_t listed = 0;
    for (uint32_t code = 0; code < 1000; ++code) {
        const uint32_t at = country_bit(code);
        ASSERT_LT(at, 64u);
        if (at != other_countries) {
            ++listed;
            bits.insert(at);
        }
    }
    EXPECT_EQ(listed, 63u); // no code is listed twice
    EXPECT_EQ(bits.size(), 63u);
    EXPECT_EQ(country_bit(0), other_countries);
    EXPECT_EQ(country_bit(65535), other_countries);
}

TEST(transactions_rules, exposed_persons_have_a_limit_of_their_own)
{
    Bench b;
    Profile p{};
    p.customer = 1;
    p.flags = exposed_person | enhanced_diligence;
    b.reference.put(p);
    EXPECT_TRUE(b.pay(1, 2, 500'000, noon).empty());
    expect_one(b.pay(1, 2, 500'001, noon + 1), Rule::exposed, Severity::high, 75, 500'001, 500'000);
    p.exposed_limit = 900'000;
    b.reference.put(p);
    EXPECT_TRUE(b.pay(1, 2, 500'001, noon + 2).empty());
}

TEST(transactions_rules, limits_of_a_customer_come_before_the_rules)
{
    Bench b;
    Profile p{};
    p.customer = 1;
    p.amount_limit = 20'000;
    p.velocity_limit = 2;
    p.dormant_ms = day;
    b.reference.put(p);
    expect_one(b.pay(1, 2, 20'001, noon), Rule::amount, Severity::medium, 25, 20'001, 20'000);
    EXPECT_TRUE(b.pay(1, 2, 100, noon + 1).empty());
    expect_one(b.pay(1, 2, 100, noon + 2), Rule::velocity, Severity::medium, 30, 3, 2);
    const auto woken = b.pay(1, 2, 100'000, noon + 2 + day);
    ASSERT_EQ(woken.size(), 2u);
    EXPECT_EQ(woken[1].rule, static_cast<uint8_t>(Rule::dormant));
}

TEST(transactions_rules, dormant_accounts_wake_up)
{
    Bench b;
    EXPECT_TRUE(b.pay(1, 2, 100'000, noon).empty()); // the first ever is no wake-up
    EXPECT_TRUE(b.pay(1, 2, 100'000, noon + 180 * day - 1).empty());
    expect_one(b.pay(1, 2, 100'000, noon + 360 * day - 1), Rule::dormant, Severity::medium, 25,
               180 * day, 180 * day);
    EXPECT_TRUE(b.pay(1, 2, 99'999, noon + 600 * day).empty());
    expect_one(b.pay(1, 2, 100'000, noon + 960 * day), Rule::dormant, Severity::high, 35, 360 * day,
               180 * day);
}

TEST(transactions_rules, round_trips_of_two_three_and_four_hops)
{
    Bench b;
    EXPECT_TRUE(b.pay(1, 2, 50'000, noon).empty());
    const auto two = b.pay(2, 1, 50'000, noon + 1);
    expect_one(two, Rule::circular, Severity::high, 45, 2, 4);
    EXPECT_EQ(two[0].path[0], 0u);

    EXPECT_TRUE(b.pay(11, 12, 50'000, noon).empty()); // record 2
    EXPECT_TRUE(b.pay(12, 13, 41'000, noon + 1).empty());
    const auto three = b.pay(13, 11, 45'000, noon + 2);
    expect_one(three, Rule::circular, Severity::high, 45, 3, 4);
    EXPECT_EQ(three[0].path[0], 2u);
    EXPECT_EQ(three[0].path[1], 3u);

    EXPECT_TRUE(b.pay(21, 22, 1'000'000, noon).empty()); // record 5
    EXPECT_TRUE(b.pay(22, 23, 1'000'000, noon).empty());
    EXPECT_TRUE(b.pay(23, 24, 1'000'000, noon).empty());
    const auto four = b.pay(24, 21, 1'000'001, noon);
    ASSERT_EQ(four.size(), 2u); // the amount, too
    EXPECT_EQ(four[1].hops, 4);
    EXPECT_EQ(four[1].severity, static_cast<uint8_t>(Severity::critical));
    EXPECT_EQ(four[1].path[0], 5u);
    EXPECT_EQ(four[1].path[2], 7u);

    // Five are too many.
    for (uint64_t k = 0; k < 4; ++k) EXPECT_TRUE(b.pay(31 + k, 32 + k, 50'000, noon + k).empty());
    EXPECT_TRUE(b.pay(35, 31, 50'000, noon + 4).empty());
}

TEST(transactions_rules, no_round_trip_backwards_in_time_out_of_the_window_or_of_other_money)
{
    Bench b;
    b.pay(1, 2, 50'000, noon + 2); // 1 -> 2 after 2 -> 3: no way for the money
    b.pay(2, 3, 50'000, noon + 1);
    EXPECT_TRUE(b.pay(3, 1, 50'000, noon + 3).empty());
    b.pay(11, 12, 50'000, noon);
    EXPECT_TRUE(b.pay(12, 11, 50'000, noon + day).empty()); // 24 hours are over
    EXPECT_FALSE(b.pay(11, 12, 50'000, noon + 2 * day - 1).empty());
    b.pay(21, 22, 50'000, noon);
    EXPECT_TRUE(b.pay(22, 21, 80'000, noon + 1).empty()); // 37 % apart
    b.pay(31, 32, 9'999, noon);
    EXPECT_TRUE(b.pay(32, 31, 9'999, noon + 1).empty()); // too little to look
    EXPECT_TRUE(b.pay(41, 41, 50'000, noon).empty());    // to oneself
    EXPECT_TRUE(b.pay(41, 41, 50'000, noon + 1).empty());
}

TEST(transactions_rules, late_and_duplicate_transactions)
{
    Bench b;
    b.pay(1, 2, 100, noon);
    EXPECT_EQ(b.outcome, Outcome::accepted);
    b.pay(1, 2, 100, noon - minute); // as late as is allowed
    EXPECT_EQ(b.outcome, Outcome::accepted);
    b.pay(1, 2, 100, noon - minute - 1);
    EXPECT_EQ(b.outcome, Outcome::late);
    b.pay(3, 2, 100, noon - 5 * minute); // the watermark is the customer's own
    EXPECT_EQ(b.outcome, Outcome::accepted);
    b.pay(1, 2, 9'999'999, noon + 1, 840, 1); // an id of the same customer, whatever else it says
    EXPECT_EQ(b.outcome, Outcome::duplicate);
    b.pay(3, 2, 100, noon, 840, 1); // another's
    EXPECT_EQ(b.outcome, Outcome::accepted);
    // What is forgotten is too late, so nothing is accepted twice.
    for (uint64_t k = 0; k < history; ++k) b.pay(5, 2, 100, noon + k, 840, 1000 + k);
    b.pay(5, 2, 100, noon + 50, 840, 2000);
    b.pay(5, 2, 100, noon, 840, 1000);
    EXPECT_EQ(b.outcome, Outcome::late);
    EXPECT_EQ(b.reference.counts()[static_cast<uint32_t>(Outcome::duplicate)], 1u);
}

TEST(transactions_rules, a_made_stream_holds_every_case)
{
    MakeOptions o;
    o.seed = 3;
    const Made made = make(20'000, o);
    ASSERT_EQ(made.records.size(), 20'000u);
    Reference reference{Rules{}};
    for (const Profile& p : made.profiles) reference.put(p);
    uint32_t of_case[cases] = {};
    uint32_t fitting[cases] = {};
    std::vector<Alert> alerts;
    for (const Transaction& t : made.records) {
        const size_t before = alerts.size();
        const Outcome outcome = reference.feed(t, alerts);
        const auto told = [&](Rule rule) {
            for (size_t k = before; k < alerts.size(); ++k) {
                if (alerts[k].rule == static_cast<uint8_t>(rule)) return true;
            }
            return false;
        };
        ASSERT_LT(t.flags, cases);
        of_case[t.flags] += 1;
        const bool fits[cases] = {
            alerts.size() == before,  told(Rule::structuring),      told(Rule::velocity),
            told(Rule::amount),       told(Rule::geography),        told(Rule::exposed),
            told(Rule::circular),     told(Rule::dormant),          outcome == Outcome::accepted,
            outcome == Outcome::late, outcome == Outcome::duplicate};
        fitting[t.flags] += fits[t.flags] ? 1 : 0;
    }
    for (uint32_t k = 0; k < cases; ++k) {
        EXPECT_GT(of_case[k], 0u) << "case " << k;
        // Not the first of a burst, of smurfing or of a round trip, nor a second awakening.
        EXPECT_GE(fitting[k] * 5, of_case[k]) << "case " << k;
    }
    EXPECT_GE(fitting[0] * 100, of_case[0] * 95);
    const Made again = make(20'000, o);
    EXPECT_EQ(std::memcmp(again.records.data(), made.records.data(), 20'000 * 128), 0);
    o.seed = 4;
    EXPECT_NE(std::memcmp(make(20'000, o).records.data(), made.records.data(), 20'000 * 128), 0);
    EXPECT_THROW(make(999), denizen::Error);
    o.days = 299;
    EXPECT_THROW(make(1000, o), denizen::Error);
}

} // namespace
