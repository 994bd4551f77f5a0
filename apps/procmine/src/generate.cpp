// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>

#include <denizen/procmine/generate.hpp>

#include <algorithm>
#include <queue>

namespace denizen::procmine {
namespace {

constexpr uint32_t most_under_way = 4096;
constexpr uint64_t second = 1'000'000;

// SplitMix64: small, and the same everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next()
    {
        uint64_t x = state_ += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }

private:
    uint64_t state_;
};

struct Pending {
    int64_t time;
    uint32_t of_case;
    uint32_t activity;
    bool straight;

    bool operator>(const Pending& other) const
    {
        return time != other.time ? time > other.time : of_case > other.of_case;
    }
};

// What comes after `activity`; `activities` for the end.
uint32_t successor(uint32_t activity, uint32_t activities, bool straight, Random& random)
{
    const uint32_t dice = straight ? 0 : random.below(100);
    if (dice >= 97) return activities;
    if (dice >= 92) return activity;
    if (dice >= 87) return activity - std::min(activity, 2u);
    if (dice >= 75) return std::min(activity + 2, activities);
    return activity + 1;
}

// From seconds to days, by the activity, with a tail.
int64_t duration(uint32_t activity, Random& random)
{
    const uint64_t r = random.next();
    const uint64_t base = 30 * second << (path_term(activity, 0) % 12);
    const uint32_t tail = (r & 7) == 0 ? 3u : 0u;
    const uint64_t whole = base * (32 + (r >> 8 & 63)) / 64 + (r >> 16 & 1023) * 1000;
    return static_cast<int64_t>((whole << tail) / 1000 * 1000);
}

} // namespace

Columns generate(uint64_t events, uint32_t activities, uint64_t seed)
{
    Random random(seed);
    Columns out;
    out.activity_count = activities;
    out.cases.reserve(events);
    out.activities.reserve(events);
    out.times.reserve(events);
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> under_way;
    const auto begin_case = [&](int64_t time) {
        under_way.push({time, out.case_count++, 0, random.below(10) < 6});
    };
    const auto at_once = static_cast<uint32_t>(
        std::clamp<uint64_t>(events / (uint64_t{2} * activities), 1, most_under_way));
    for (uint32_t i = 0; i < at_once; ++i) {
        begin_case(static_cast<int64_t>(i * (600 * second) + random.below(1000) * 1000));
    }
    while (out.cases.size() < events) { // ends: every turn adds an event
        if (out.cases.size() % items_per_check == 0) check_interrupt();
        const Pending now = under_way.top();
        under_way.pop();
        out.cases.push_back(now.of_case);
        out.activities.push_back(now.activity);
        out.times.push_back(now.time);
        const uint32_t next = successor(now.activity, activities, now.straight, random);
        const int64_t time = now.time + duration(now.activity, random);
        if (next >= activities) {
            begin_case(time);
        } else {
            under_way.push({time, now.of_case, next, now.straight});
        }
    }
    return out;
}

} // namespace denizen::procmine
