// SPDX-License-Identifier: Apache-2.0
// A stage's alerts are the reference's: for any number of shards and workers, however the stream is
// cut, when rules change, over a snapshot, and when shards fail in the middle.
#include <actor/places.hpp>
#include <denizen/transactions/generate.hpp>
#include <denizen/transactions/reference.hpp>
#include <denizen/transactions/stage.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <unistd.h>

namespace {

using namespace denizen;
using namespace denizen::test;
using namespace denizen::transactions;
using Rt = Runtime<Monitoring>;

constexpr uint32_t records_made = 6000;

const Made& stream()
{
    static const Made made = [] {
        MakeOptions o;
        o.seed = 7;
        o.share = 0.6;
        o.customers = 150;
        return make(scaled(5 * records_made) >= records_made ? records_made : 2000, o);
    }();
    return made;
}

// Few records back, small rings: what wraps around does so here.
StageOptions small()
{
    StageOptions o;
    o.batch = 512;
    o.depth = 3;
    o.horizon = 2000;
    return o;
}

std::vector<Alert> expected(const std::vector<Transaction>& records,
                            const std::vector<Profile>& profiles, uint32_t horizon,
                            const Rules& rules = {}, uint64_t change_at = ~0ull,
                            const Rules& later = {})
{
    Reference reference(rules, horizon);
    for (const Profile& p : profiles) reference.put(p);
    std::vector<Alert> alerts;
    for (uint64_t k = 0; k < records.size(); ++k) {
        if (k == change_at) reference.change(later);
        reference.feed(records[k], alerts);
    }
    return alerts;
}

void expect_same(const std::vector<Alert>& found, const std::vector<Alert>& wanted)
{
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t k = 0; k < found.size(); ++k) {
        ASSERT_EQ(std::memcmp(&found[k], &wanted[k], sizeof(Alert)), 0)
            << "alert " << k << ", of record " << found[k].sequence << " by rule "
            << int(found[k].rule) << "; expected " << wanted[k].sequence << " by rule "
            << int(wanted[k].rule);
    }
}

void append(std::vector<Alert>& to, const std::vector<Alert>& more)
{
    to.insert(to.end(), more.begin(), more.end());
}

class transactions_stage : public AtEveryPlace {
protected:
    static Options roomy()
    {
        Options o = options();
        if (on_gpu()) o.pool_bytes = 256u << 20;
        return o;
    }
};

TEST_P(transactions_stage, alerts_are_the_references_for_any_shards_and_cuts)
{
    const Made& made = stream();
    const std::vector<Alert> wanted = expected(made.records, made.profiles, small().horizon);
    uint64_t by_rule[rule_count + 1] = {};
    for (const Alert& a : wanted) by_rule[a.rule] += 1;
    for (uint32_t rule = 1; rule <= rule_count; ++rule) EXPECT_GT(by_rule[rule], 0u) << rule;

    std::mt19937 random(1);
    Rt rt(device(), roomy());
    for (const uint32_t shards : {1u, 2u, 5u, 40u}) {
        StageOptions o = small();
        o.shards = shards;
        o.depth = 1 + shards % 3;
        o.copy_records = shards % 2 == 0 ? CopyRecords::always : CopyRecords::never;
        Stage stage(rt.untyped(), o);
        stage.put(made.profiles.data(), made.profiles.size());
        std::vector<Alert> found;
        std::vector<Alert> some(1); // what it holds is not kept
        for (size_t at = 0; at < made.records.size();) {
            const size_t n = std::min<size_t>(made.records.size() - at, 1 + random() % 700);
            stage.feed(made.records.data() + at, n);
            stage.take(some);
            append(found, some);
            at += n;
        }
        append(found, stage.drain());
        expect_same(found, wanted);
        const Counts counts = stage.counts();
        EXPECT_EQ(counts.records, made.records.size());
        EXPECT_EQ(counts.alerts, wanted.size());
        uint64_t all = 0;
        for (const uint64_t n : counts.of) all += n;
        EXPECT_EQ(all, made.records.size());
        EXPECT_GT(counts.of[static_cast<uint32_t>(Outcome::late)], 0u);
        EXPECT_GT(counts.of[static_cast<uint32_t>(Outcome::duplicate)], 0u);
        EXPECT_EQ(stage.customers(), made.profiles.size());
    }
}

TEST_P(transactions_stage, memory_for_alerts_stays_the_callers_when_there_are_none)
{
    Rt rt(device(), roomy());
    Stage stage(rt.untyped(), small());
    std::vector<Alert> some(100);
    const Alert* const memory = some.data();
    stage.take(some);
    EXPECT_TRUE(some.empty());
    EXPECT_GE(some.capacity(), 100u);
    EXPECT_EQ(some.data(), memory);
}

// Long bursts of few customers, out of order by up to what is not late, so that the window slides,
// goes back and loses its first to the ring; every velocity is told, as an alert's value.
TEST_P(transactions_stage, windows_slide_and_go_back)
{
    std::mt19937 random(3);
    std::vector<Transaction> records(scaled(6000));
    uint64_t now = 1'000'000;
    for (size_t k = 0; k < records.size(); ++k) {
        now += random() % 1500;
        records[k].id = k;
        records[k].customer = 1 + random() % 3;
        records[k].dest = 9;
        records[k].amount = 100;
        records[k].ts = random() % 6 != 0 ? now : now - random() % 50'000;
    }
    Rules rules;
    rules.velocity_limit = 1;
    rules.enabled = bit(Rule::velocity);
    Rt rt(device(), roomy());
    for (const uint64_t window : {7'000u, 20'000u, 60'000u, 200'000u}) {
        rules.velocity_window_ms = window;
        const std::vector<Alert> wanted = expected(records, {}, small().horizon, rules);
        EXPECT_GT(wanted.size(), records.size() / 4);
        StageOptions o = small();
        o.shards = 2;
        o.rules = rules;
        Stage stage(rt.untyped(), o);
        stage.feed(records.data(), records.size());
        expect_same(stage.drain(), wanted);
    }
}

// A payee's list is entered at its end, and the last payments of the batch may all lie behind the
// one that is looked at; sixteen before it are followed, eight of which an edge knows.
TEST_P(transactions_stage, payments_are_passed_that_a_batch_holds_behind_one)
{
    std::vector<Transaction> records;
    const auto pay = [&records](uint64_t who, uint64_t to, uint64_t cents) {
        Transaction t{};
        t.id = records.size() + 1;
        t.customer = who;
        t.dest = to;
        t.amount = cents;
        t.ts = 1'700'000'000'000 + records.size();
        records.push_back(t);
    };
    uint64_t account = 0;
    uint64_t closed = 0;
    for (const uint32_t between : {0u, 1u, 6u, 7u, 8u, 9u, 14u, 15u, 16u, 24u}) {
        for (const uint32_t behind : {0u, 1u, 7u, 8u, 9u, 17u, 40u}) {
            const uint64_t payee = ++account;
            const uint64_t payer = ++account;
            pay(payee, payer, 50'000);
            for (uint32_t k = 0; k < between; ++k) pay(payee, 9999, 1'000);
            pay(payer, payee, 50'000);
            for (uint32_t k = 0; k < behind; ++k) pay(payee, 9999, 1'000);
            closed += between < fanout ? 1 : 0;
        }
    }
    Rules rules;
    rules.enabled = bit(Rule::circular);
    const auto wanted = expected(records, {}, small().horizon, rules);
    EXPECT_EQ(wanted.size(), closed);
    Rt rt(device(), roomy());
    for (const uint32_t batch : {4096u, 64u, 16u}) {
        StageOptions o = small();
        o.batch = batch;
        o.shards = 7;
        o.rules = rules;
        Stage stage(rt.untyped(), o);
        stage.feed(records.data(), records.size());
        expect_same(stage.drain(), wanted);
    }
}

TEST_P(transactions_stage, records_that_lie_in_a_buffer_are_not_copied)
{
    const Made& made = stream();
    Rt rt(device(), roomy());
    Stage stage(rt.untyped(), small());
    const Buffer records = rt.buffer(made.records.size() * sizeof(Transaction), BufferKind::pinned);
    std::memcpy(records.cpu(), made.records.data(), records.bytes());
    const auto count = static_cast<uint32_t>(made.records.size());
    for (uint32_t at = 0; at < count; at += 500) {
        stage.feed(records, at, std::min(500u, count - at));
    }
    expect_same(stage.drain(), expected(made.records, {}, small().horizon));
    EXPECT_EQ(error_of([&] { stage.feed(records, 0, 513); }).code(), Errc::bad_argument);
    EXPECT_EQ(error_of([&] { stage.feed(records, count, 1); }).code(), Errc::bad_argument);
}

TEST_P(transactions_stage, rules_change_between_two_records)
{
    const Made& made = stream();
    Rules later;
    later.version = 2;
    later.amount_limit = 300'000;
    later.velocity_limit = 4;
    later.circular_hops = 3;
    later.enabled = all_rules & ~bit(Rule::geography);
    const size_t at = made.records.size() / 3;
    Rt rt(device(), roomy());
    Stage stage(rt.untyped(), small());
    stage.put(made.profiles.data(), made.profiles.size());
    stage.feed(made.records.data(), at);
    stage.change(later);
    stage.feed(made.records.data() + at, made.records.size() - at);
    const std::vector<Alert> found = stage.drain();
    expect_same(found, expected(made.records, made.profiles, small().horizon, Rules{}, at, later));
    EXPECT_EQ(found.front().rules_version, 1u);
    EXPECT_EQ(found.back().rules_version, 2u);
}

TEST_P(transactions_stage, goes_on_from_a_snapshot_with_other_shards)
{
    const Made& made = stream();
    const std::vector<Alert> wanted = expected(made.records, made.profiles, small().horizon);
    const size_t cut = made.records.size() / 2 + 13;
    std::vector<Alert> found;
    Snapshot saved;
    {
        Rt rt(device(), roomy());
        StageOptions o = small();
        o.shards = 3;
        Stage stage(rt.untyped(), o);
        stage.put(made.profiles.data(), made.profiles.size());
        stage.feed(made.records.data(), cut);
        saved = stage.snapshot();
        found = stage.take();
        EXPECT_EQ(saved.next, cut);
        EXPECT_EQ(saved.customers.size(), made.profiles.size());
        EXPECT_EQ(saved.edges.size(), std::min<size_t>(cut, small().horizon));
    }
    Rt rt(device(), roomy());
    StageOptions o = small();
    o.shards = 4;
    o.batch = 77;
    Stage stage(rt.untyped(), o, &saved);
    stage.feed(made.records.data() + cut, made.records.size() - cut);
    append(found, stage.drain());
    expect_same(found, wanted);
    o.horizon = 99;
    EXPECT_EQ(error_of([&] { Stage other(rt.untyped(), o, &saved); }).code(), Errc::bad_snapshot);
}

// Every record of another customer: ledgers are widened again and again, by shards that fail, too,
// and one arena is not enough.
std::vector<Transaction> strangers(uint32_t count)
{
    std::vector<Transaction> records(count);
    for (uint32_t k = 0; k < count; ++k) {
        records[k].id = k;
        records[k].customer = k + 1;
        records[k].dest = count - k;
        records[k].amount = 2'000'000;
        records[k].ts = 1000 + k;
    }
    return records;
}

TEST_P(transactions_stage, customers_are_as_many_as_come)
{
    const uint32_t count = scaled(20'000);
    const std::vector<Transaction> records = strangers(count);
    Rt rt(device(), roomy());
    StageOptions o = small();
    o.shards = 4;
    Stage stage(rt.untyped(), o);
    stage.drill(2, Pass::judge, count / 40);
    stage.feed(records.data(), records.size());
    expect_same(stage.drain(), expected(records, {}, small().horizon));
    EXPECT_EQ(stage.customers(), count);
    const Snapshot saved = stage.snapshot();
    ASSERT_EQ(saved.customers.size(), count);
    for (uint32_t k = 0; k < count; ++k) ASSERT_EQ(saved.customers[k].key, k + 2);
}

TEST_P(transactions_stage, memory_that_is_full_loses_nothing)
{
    const uint32_t count = 4000; // in 3 MB
    const std::vector<Transaction> records = strangers(count);
    const std::vector<Alert> wanted = expected(records, {}, small().horizon);
    Rt rt(device(), roomy());
    StageOptions o = small();
    o.shards = 3;
    o.memory = 1 << 20;
    std::vector<Alert> found;
    Snapshot saved;
    {
        Stage stage(rt.untyped(), o);
        while (stage.done() < 512) { // ends: two batches find room
            stage.feed(records.data() + stage.done(), 512);
            append(found, stage.drain());
        }
        saved = stage.snapshot();
        const Error full = error_of([&] {
            stage.feed(records.data() + 512, records.size() - 512);
            stage.drain();
        });
        EXPECT_EQ(full.code(), Errc::exhausted);
        EXPECT_NE(std::string(full.what()).find("nothing is lost"), std::string::npos)
            << full.what();
        EXPECT_NE(std::string(full.what()).find("memory=1048576 is reached"), std::string::npos)
            << full.what();
        EXPECT_EQ(stage.memory(), 1u << 20);
        // What was done before has its alerts, and the next call says it again.
        append(found, stage.take());
        ASSERT_EQ(found.size(), stage.done());
        expect_same(found, {wanted.begin(), wanted.begin() + static_cast<int64_t>(found.size())});
        EXPECT_EQ(error_of([&] { stage.drain(); }).code(), Errc::exhausted);
    }
    o.memory = 0;
    Stage stage(rt.untyped(), o, &saved);
    found.resize(saved.next);
    stage.feed(records.data() + saved.next, records.size() - saved.next);
    append(found, stage.drain());
    expect_same(found, wanted);
    EXPECT_EQ(stage.customers(), count);
}

TEST_P(transactions_stage, arenas_are_added_as_they_fill)
{
    const std::vector<Transaction> records = strangers(6000); // in 4 MB
    Rt rt(device(), roomy());
    StageOptions o = small();
    o.first_memory = 1 << 20;
    Stage stage(rt.untyped(), o);
    stage.feed(records.data(), records.size());
    expect_same(stage.drain(), expected(records, {}, small().horizon));
    EXPECT_GE(stage.memory(), 4u << 20);
}

TEST_P(transactions_stage, a_snapshot_is_a_file_that_says_what_is_wrong_with_it)
{
    const std::string path =
        testing::TempDir() + "/transactions_" + std::to_string(getpid()) + ".dzs";
    Snapshot saved;
    saved.next = 7;
    saved.horizon = 3;
    saved.customers.resize(2);
    saved.customers[1].key = 9;
    saved.edges.resize(3);
    write_snapshot(path, saved);
    const Snapshot read = read_snapshot(path);
    EXPECT_EQ(read.next, 7u);
    EXPECT_EQ(read.customers.size(), 2u);
    EXPECT_EQ(read.customers[1].key, 9u);
    EXPECT_EQ(read.edges.size(), 3u);
    saved.edges.resize(4);
    write_snapshot(path, saved);
    EXPECT_NE(std::string(error_of([&] { read_snapshot(path); }).what()).find("makes no sense"),
              std::string::npos);
    Options o = roomy();
    o.restore = path;
    const Error other = error_of([&] { Rt rt(device(), o); });
    EXPECT_EQ(other.code(), Errc::bad_snapshot);
    EXPECT_NE(std::string(other.what()).find("holds a stage of transactions"), std::string::npos)
        << other.what();
    std::remove(path.c_str());
}

TEST_P(transactions_stage, shards_that_fail_anywhere_change_nothing)
{
    const Made& made = stream();
    const std::vector<Alert> wanted = expected(made.records, made.profiles, small().horizon);
    Rt rt(device(), roomy());
    StageOptions o = small();
    o.shards = 4;
    Stage stage(rt.untyped(), o);
    stage.put(made.profiles.data(), made.profiles.size());
    std::mt19937 random(3);
    std::vector<Alert> found;
    uint32_t drills = 0;
    for (size_t at = 0; at < made.records.size();) {
        const size_t n = std::min<size_t>(made.records.size() - at, 300 + random() % 300);
        stage.drill(drills % 4, static_cast<Pass>(drills % 3), drills * 7 % 60);
        ++drills;
        stage.feed(made.records.data() + at, n);
        append(found, stage.take());
        at += n;
    }
    append(found, stage.drain());
    expect_same(found, wanted);
    EXPECT_GT(stage.counts().restarts, drills / 2); // a few ask for more records than a part has
    EXPECT_EQ(stage.counts().alerts, wanted.size());
}

TEST_P(transactions_stage, refuses_what_cannot_be)
{
    Rt rt(device(), roomy());
    Made made = stream();
    StageOptions o = small();
    o.memory = 1000;
    EXPECT_EQ(error_of([&] { Stage stage(rt.untyped(), o); }).code(), Errc::bad_argument);
    Stage stage(rt.untyped(), small());
    Rules rules;
    rules.velocity_limit = 32;
    expect_error(Errc::bad_argument, "velocity_limit = 32; use 1 to 31",
                 [&] { stage.change(rules); });
    const Profile twice[2] = {made.profiles[0], made.profiles[0]};
    EXPECT_EQ(error_of([&] { stage.put(twice, 2); }).code(), Errc::bad_argument);

    // Records that are none are counted, and nothing else.
    made.records.resize(4);
    made.records[1].customer = no_customer;
    made.records[2].amount = most + 1;
    stage.feed(made.records.data(), 4);
    stage.drain();
    EXPECT_EQ(stage.counts().of[static_cast<uint32_t>(Outcome::invalid)], 2u);
    EXPECT_EQ(stage.counts().of[static_cast<uint32_t>(Outcome::accepted)], 2u);
}

DENIZEN_AT_EVERY_PLACE(transactions_stage);

} // namespace
