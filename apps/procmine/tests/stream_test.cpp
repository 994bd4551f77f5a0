// SPDX-License-Identifier: Apache-2.0
// What a stream's messages hold is what was fed, and several threads count in one graph.
#include <denizen/base/error.hpp>
#include <denizen/procmine/counts.hpp>
#include <denizen/procmine/packer.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

using namespace denizen;
using namespace denizen::procmine;

namespace {

struct Fed {
    std::vector<uint32_t> cases;
    std::vector<uint32_t> activities;
    std::vector<int64_t> times;
};

using Sent = Packer::Batch;

// All batches one behind the other.
Sent packed_by(Packer& packer, const Fed& fed)
{
    Sent sent;
    std::mutex one_by_one;
    packer.pack(fed.cases, fed.activities, fed.times, [&](const Packer::Batch& batch) {
        const std::lock_guard guard(one_by_one);
        sent.messages.insert(sent.messages.end(), batch.messages.begin(), batch.messages.end());
        sent.targets.insert(sent.targets.end(), batch.targets.begin(), batch.targets.end());
    });
    return sent;
}

using Path = std::vector<std::pair<int64_t, uint32_t>>;

std::map<uint32_t, Path> paths(const Sent& sent)
{
    std::map<uint32_t, Path> out;
    for (size_t m = 0; m < sent.messages.size(); ++m) {
        const uint32_t* words = sent.messages[m].words.data();
        for (uint32_t i = 0; i < packed::count(words); ++i) {
            const Moment moment = packed::event(words, i);
            out[sent.targets[m]].emplace_back(moment.time, moment.activity);
        }
    }
    return out;
}

Fed random_events(uint32_t seed, size_t n, uint32_t cases, uint32_t activities, int64_t step,
                  int64_t jitter)
{
    std::mt19937_64 random(seed);
    Fed fed;
    int64_t time = -step * 100;
    for (size_t i = 0; i < n; ++i) {
        time += static_cast<int64_t>(random() % static_cast<uint64_t>(step));
        fed.cases.push_back(static_cast<uint32_t>(random() % cases));
        fed.activities.push_back(static_cast<uint32_t>(random() % activities));
        fed.times.push_back(time - static_cast<int64_t>(random() % static_cast<uint64_t>(jitter)));
    }
    return fed;
}

std::vector<uint32_t> addresses(uint32_t cases)
{
    std::vector<uint32_t> out;
    for (uint32_t c = 0; c < cases; ++c) out.push_back(1000 + 3 * c);
    return out;
}

void expect_all_there(const Sent& sent, const Fed& fed)
{
    std::map<uint32_t, Path> expected;
    for (size_t i = 0; i < fed.cases.size(); ++i) {
        expected[1000 + 3 * fed.cases[i]].emplace_back(fed.times[i], fed.activities[i]);
    }
    EXPECT_EQ(paths(sent), expected);
}

} // namespace

TEST(Packer, KeepsEveryCasesEventsInTheirOrder)
{
    const Fed fed = random_events(1, 5'000, 50, 60'000, 1'000'000, 500'000);
    for (const int64_t late : {int64_t{0}, int64_t{1}, int64_t{400'000}, int64_t{1} << 46}) {
        Packer packer(addresses(50), 60'000, late);
        const Sent sent = packed_by(packer, fed);
        expect_all_there(sent, fed);
        EXPECT_LE(sent.messages.size(), late > 500'000 || late == 0 ? 1'800u : 5'000u);
    }
}

// By several threads: of each case the same messages in the same order.
TEST(Packer, OfThreads)
{
    const Fed fed = random_events(4, 60'000, 500, 9, 1'000, 3'000);
    for (const int64_t late : {int64_t{0}, int64_t{2'000}}) {
        Packer one(addresses(500), 9, late);
        Packer three(addresses(500), 9, late, 3);
        std::set<std::thread::id> senders;
        std::mutex one_by_one;
        three.pack(fed.cases, fed.activities, fed.times, [&](const Packer::Batch&) {
            const std::lock_guard guard(one_by_one);
            senders.insert(std::this_thread::get_id());
        });
        EXPECT_EQ(senders.size(), 3u);
        (void)packed_by(one, fed);
        for (int again = 0; again < 2; ++again) { // what was newest is known to all of them
            const Sent expected = packed_by(one, fed);
            const Sent found = packed_by(three, fed);
            std::map<uint32_t, std::vector<std::array<uint32_t, packed::words>>> by_case[2];
            for (size_t i = 0; i < expected.targets.size(); ++i) {
                by_case[0][expected.targets[i]].push_back(expected.messages[i].words);
            }
            for (size_t i = 0; i < found.targets.size(); ++i) {
                by_case[1][found.targets[i]].push_back(found.messages[i].words);
            }
            EXPECT_TRUE(by_case[0] == by_case[1]);
        }
    }
}

// More events than are under way at once: none is lost between, and the bound goes on.
TEST(Packer, OfManyEvents)
{
    const Fed fed = random_events(5, 450'000, 900, 9, 1'000, 3'000);
    for (const uint32_t threads : {1u, 2u, 3u}) {
        for (const int64_t late : {int64_t{0}, int64_t{2'000}}) {
            Packer packer(addresses(900), 9, late, threads);
            const Sent sent = packed_by(packer, fed);
            expect_all_there(sent, fed);
            if (late == 0) continue;
            std::map<uint32_t, int64_t> expected; // the bound of each case's last event
            int64_t newest = fed.times[0];
            for (size_t i = 0; i < fed.cases.size(); ++i) {
                newest = std::max(newest, fed.times[i]);
                expected[1000 + 3 * fed.cases[i]] = newest - late;
            }
            std::map<uint32_t, int64_t> found;
            for (size_t m = 0; m < sent.messages.size(); ++m) {
                found[sent.targets[m]] = packed::base(sent.messages[m].words.data());
            }
            EXPECT_EQ(found, expected);
        }
    }
}

// What a sender throws ends the call, by however many threads, and the next one is as ever.
TEST(Packer, TellsWhatASenderThrows)
{
    const Fed fed = random_events(6, 200'000, 300, 9, 1'000, 10);
    for (const uint32_t threads : {1u, 3u}) {
        Packer packer(addresses(300), 9, 0, threads);
        EXPECT_THROW(
            packer.pack(fed.cases, fed.activities, fed.times,
                        [](const Packer::Batch&) { throw Error(Errc::timeout, "no room"); }),
            Error);
        expect_all_there(packed_by(packer, fed), fed);
    }
}

// Activities beyond 16 bits, and times of one case from end to end of what 64 bits hold.
TEST(Packer, SendsAloneWhatDoesNotFit)
{
    Fed fed = random_events(2, 400, 7, 100'000, 1'000, 10);
    for (size_t i = 0; i < fed.times.size(); i += 9) {
        fed.times[i] = i % 2 == 0 ? std::numeric_limits<int64_t>::max() / 2 - 5
                                  : std::numeric_limits<int64_t>::min() / 2 + 5;
    }
    for (const int64_t late : {int64_t{0}, int64_t{1000}}) {
        Packer packer(addresses(7), 100'000, late);
        expect_all_there(packed_by(packer, fed), fed);
    }
}

// A message's bound is that of its last event; none of its events is earlier than a bound before.
TEST(Packer, DoesNotMakeALateEventAnEarlyOne)
{
    const int64_t late = 100;
    const Fed fed = random_events(3, 3'000, 5, 9, 40, 400);
    Packer packer(addresses(5), 9, late);
    std::map<uint32_t, std::vector<int64_t>> bounds; // before each event of a case
    int64_t newest = std::numeric_limits<int64_t>::min() / 2;
    for (size_t i = 0; i < fed.cases.size(); ++i) {
        newest = std::max(newest, fed.times[i]);
        bounds[1000 + 3 * fed.cases[i]].push_back(newest - late);
    }
    std::map<uint32_t, size_t> place;
    bool shared = false;
    const Sent sent = packed_by(packer, fed);
    for (size_t m = 0; m < sent.messages.size(); ++m) {
        const uint32_t* words = sent.messages[m].words.data();
        const std::vector<int64_t>& of_case = bounds[sent.targets[m]];
        size_t& at = place[sent.targets[m]];
        for (uint32_t i = 0; i < packed::count(words); ++i, ++at) {
            if (i != 0) {
                EXPECT_GE(packed::event(words, i).time, of_case[at - 1]);
            }
            shared |= i != 0;
        }
        EXPECT_EQ(packed::base(words), of_case[at - 1]);
    }
    EXPECT_TRUE(shared);
}

TEST(Packer, RefusesAndThenGoesOn)
{
    Packer packer(addresses(3), 4, 0);
    EXPECT_THROW(packed_by(packer, {{0, 3}, {1, 1}, {5, 6}}), Error);
    EXPECT_THROW(packed_by(packer, {{0, 1}, {1, 4}, {5, 6}}), Error);
    EXPECT_THROW(packed_by(packer, {{0, 1}, {1}, {5, 6}}), Error);
    EXPECT_THROW(Packer({}, 1, -1), Error);
    const Fed fed{{0, 0, 2}, {1, 3, 0}, {5, 6, 4}};
    expect_all_there(packed_by(packer, fed), fed);
    EXPECT_TRUE(packed_by(packer, {}).messages.empty());
}

namespace {

// Threads count steps of random edges; the sums over all shards must be theirs.
void count_by_threads(uint64_t activities, uint64_t slots, uint64_t shards, uint32_t edges)
{
    const CountsLayout layout{activities, slots, shards};
    std::vector<uint64_t> words(layout.words());
    words[0] = activities;
    words[1] = slots;
    words[2] = shards;
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937_64 random(t);
            Counts counts(words.data(), t);
            for (int i = 0; i < 3'000; ++i) {
                const auto edge = static_cast<uint32_t>(random() % edges);
                counts.step(edge % 7, static_cast<uint32_t>((edge * 37) % activities), edge);
                counts.start(edge % 7);
                counts.end(edge % 7);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    uint64_t steps = 0;
    uint64_t sum = 0;
    uint64_t in_histograms = 0;
    uint64_t starts = 0;
    uint64_t ends = 0;
    for (uint64_t s = 0; s < shards; ++s) {
        const uint64_t* shard = words.data() + CountsLayout::head + s * layout.shard_words();
        for (uint64_t a = 0; a < activities; ++a) {
            starts += shard[a];
            ends += shard[layout.ends() + a];
        }
        for (uint64_t e = 0; e < slots; ++e) {
            const uint64_t* figures = shard + layout.figures() + 5 * e;
            steps += figures[0];
            sum += figures[1];
            if (figures[0] != 0) {
                EXPECT_EQ(~figures[3], edges <= activities ? figures[4] : ~figures[3]);
                EXPECT_LT(figures[4], edges);
            }
            for (uint64_t b = 0; b < buckets; ++b) {
                in_histograms += shard[layout.histograms() + e * buckets + b];
            }
        }
    }
    uint64_t expected = 0;
    for (uint32_t t = 0; t < 3; ++t) {
        std::mt19937_64 random(t);
        for (int i = 0; i < 3'000; ++i) expected += random() % edges;
    }
    const uint64_t lost = words[CountsLayout::lost];
    EXPECT_EQ(starts, 9'000u);
    EXPECT_EQ(ends, 9'000u);
    EXPECT_EQ(steps + lost, 9'000u);
    EXPECT_EQ(in_histograms, steps);
    if (edges <= slots) {
        EXPECT_EQ(lost, 0u);
        EXPECT_EQ(sum, expected);
    } else {
        EXPECT_GT(lost, 0u);
    }
}

} // namespace

TEST(Counts, OfThreadsInOneGraph)
{
    count_by_threads(20, 400, 1, 100);
    count_by_threads(20, 400, 2, 100);
    count_by_threads(1'000'000, 128, 1, 128); // by key
    count_by_threads(1'000'000, 32, 2, 200);  // more than there is room for
}
