// SPDX-License-Identifier: Apache-2.0
// Teams of several threads without a GPU: threads of the host that meet at barriers take the places
// of a warp's lanes, or of two warps'. Each collective must be exact for them, and without a race
// (ThreadSanitizer). What it cannot show: what the lanes of a warp do in step.
#include "group/calls.hpp"
#include "support/scaled.hpp"
#include "support/threads.hpp"

#include <denizen/group/group.hpp>
#include <denizen/group/inside.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace {

using namespace denizen;
using namespace denizen::group;
using denizen::test::few_under_tsan;
using denizen::test::on_threads;

// Threads that do the same together.
class Crew {
public:
    explicit Crew(uint32_t size) : size_(size) {}

    // Ends when all have come, which each does after what it waited for before.
    void sync()
    {
        std::unique_lock lock(mutex_);
        const uint32_t turn = turn_;
        if (++come_ == size_) {
            come_ = 0;
            ++turn_;
            met_.notify_all();
        } else {
            met_.wait(lock, [&] { return turn_ != turn; });
        }
    }
    bool all(bool good, bool first)
    {
        if (!good) bad_.store(true, std::memory_order_relaxed);
        sync();
        const bool none = !bad_.load(std::memory_order_relaxed);
        sync(); // all have looked
        if (first) bad_.store(false, std::memory_order_relaxed);
        sync();
        return none;
    }

private:
    const uint32_t size_;
    uint32_t come_ = 0;
    uint32_t turn_ = 0;
    std::mutex mutex_;
    std::condition_variable met_;
    std::atomic<bool> bad_{false};
};

constexpr uint32_t lanes = 3;
constexpr uint32_t warps = 2;

// Which of the threads this one is.
struct Self {
    Crew* team;
    Crew* warp;
    uint32_t rank;
    uint32_t size;
};
thread_local Self self;

struct WholeTeam {
    static uint32_t rank() { return self.rank; }
    static uint32_t size() { return self.size; }
    static void sync() { self.team->sync(); }
    static bool all(bool good) { return self.team->all(good, rank() == 0); }
};
struct PartOfIt {
    static uint32_t rank() { return self.rank % lanes; }
    static uint32_t size() { return lanes; }
    static void sync() { self.warp->sync(); }
    static bool all(bool good) { return self.warp->all(good, rank() == 0); }
    static uint32_t index() { return self.rank / lanes; }
    static uint32_t count() { return self.size / lanes; }
};
struct ByThreads : Direct {
    using Team = WholeTeam;
    using Warp = PartOfIt;
};

// `body(rank, channel)` by the `size` threads of each rank's team of each channel.
template <class Body>
void by_crews(uint32_t ranks, uint32_t channels, uint32_t size, const Body& body)
{
    std::deque<Crew> teams, parts;
    for (uint32_t i = 0; i < ranks * channels; ++i) {
        teams.emplace_back(size);
        for (uint32_t w = 0; w < size / lanes; ++w) parts.emplace_back(lanes);
    }
    on_threads(ranks * channels * size, [&](uint32_t i) {
        const uint32_t team = i / size;
        self = {&teams[team], &parts[i / lanes], i % size, size};
        body(team / channels, team % channels);
    });
}

class Crews : public testing::TestWithParam<uint32_t> {}; // threads of a team

TEST_P(Crews, EveryCollectiveIsExact)
{
    constexpr uint32_t n = 2, channels = 2;
    GroupOptions o;
    o.channels = channels;
    o.slots = 32;
    o.stage_bytes = 1024;
    o.renew = 20;
    o.timeout = std::chrono::seconds(60);
    auto groups = Group::local(n, Device::cpu(), o);
    Random random(5);
    std::vector<Call> calls;
    std::vector<std::vector<Bytes>> in, out;
    for (uint32_t turn = 0; turn < few_under_tsan(1, 3); ++turn) {
        for (Call call : all_calls()) {
            call.type = static_cast<Type>(random() % types);
            call.op = static_cast<Op>(random() % ops);
            call.root = random() % n;
            call.channels = 1 + random() % channels;
            call.count = random() % 700;
            in.emplace_back();
            out.emplace_back();
            for (uint32_t r = 0; r < n; ++r) {
                in.back().push_back(
                    input(call.type, r, in_elements(call.kind, call.count, n), random()));
                out.back().emplace_back(out_elements(call.kind, call.count, n) *
                                        size_of(call.type));
            }
            calls.push_back(call);
        }
    }
    by_crews(n, channels, GetParam(), [&](uint32_t rank, uint32_t index) {
        Channel<ByThreads> channel(groups[rank].ref(), index);
        for (size_t c = 0; c < calls.size(); ++c) {
            Call call = calls[c];
            call.in = in[c][rank].data();
            call.out = out[c][rank].data();
            for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(perform(channel, call));
        }
        channel.close();
    });
    for (size_t c = 0; c < calls.size(); ++c) {
        for (uint32_t r = 0; r < n; ++r) {
            EXPECT_EQ(out[c][r], expected(calls[c], in[c], r)) << describe(calls[c], n);
        }
    }
}

// As handlers call: one object for a few calls, then another; each lane writes a part of what all
// of them send.
TEST_P(Crews, InsideKeepsTheTurnAndSeesItsOwnThreadsWrites)
{
    constexpr uint32_t n = 2, count = 60;
    const auto rounds = static_cast<int32_t>(few_under_tsan(25, 60));
    GroupOptions o;
    o.channels = 1;
    o.renew = 20;
    o.timeout = std::chrono::seconds(60);
    for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::pull, Algorithm::push}) {
        o.table = {{0, algorithm, 1}};
        auto groups = Group::local(n, Device::cpu(), o);
        std::vector<std::vector<int32_t>> in(n, std::vector<int32_t>(count));
        std::vector<std::vector<int32_t>> out(n, std::vector<int32_t>(count));
        std::atomic<uint32_t> wrong{0};
        by_crews(n, 1, GetParam(), [&](uint32_t rank, uint32_t) {
            for (int32_t round = 0; round < rounds; ++round) {
                Inside<0, ByThreads> inside(groups[rank].ref());
                for (uint32_t i = self.rank; i < count; i += self.size) {
                    in[rank][i] = round * static_cast<int32_t>(rank + 1) + static_cast<int32_t>(i);
                }
                EXPECT_TRUE(inside.all_reduce(in[rank].data(), out[rank].data(), count));
                for (uint32_t i = (self.rank + 1) % self.size; i < count; i += self.size) {
                    const auto wanted = 3 * round + 2 * static_cast<int32_t>(i);
                    wrong += out[rank][i] != wanted ? 1 : 0; // mostly another's
                }
            }
        });
        EXPECT_EQ(wrong, 0u) << to_string(algorithm);
    }
}

INSTANTIATE_TEST_SUITE_P(, Crews, testing::Values(lanes, lanes* warps));

} // namespace
