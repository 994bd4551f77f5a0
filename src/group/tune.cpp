// SPDX-License-Identifier: Apache-2.0
// Times every collective by every algorithm at every size on these ranks, and makes of it the
// tables by which calls choose.
#include <denizen/base/on_threads.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/group/tune.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace denizen::group {
namespace {

// Memory of each rank for a call's data.
class Data {
public:
    Data(std::vector<Group>& groups, uint64_t bytes)
    {
        for (Group& g : groups) {
            at_.push_back(g.allocate(bytes)); // zero: sums stay zero
            to_.push_back(g.allocate(bytes));
        }
    }
    void* in(uint32_t rank) const { return at_[rank]; }
    void* out(uint32_t rank) const { return to_[rank]; }

private:
    std::vector<void*> at_, to_;
};

// Seconds of one call, of `calls` that follow one another.
double time_batch(std::vector<Group>& groups, const Data& data, Call call, uint32_t calls)
{
    std::vector<double> seconds(groups.size());
    on_threads(static_cast<uint32_t>(groups.size()), [&](uint32_t r) {
        Call mine = call;
        mine.in = data.in(r);
        mine.out = data.out(r);
        groups[r].barrier(); // none begins much before the others
        groups[r].wait();
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; i < calls; ++i) groups[r].run(mine);
        groups[r].wait();
        seconds[r] = static_cast<double>(now_ns() - begin) * 1e-9 / calls;
    });
    return *std::max_element(seconds.begin(), seconds.end());
}

// One call of a kind, by an algorithm, of a size: with each number of channels that makes sense.
void measure_call(std::vector<Group>& groups, const Data& data, Call call, bool quick,
                  std::vector<Timing>& timings)
{
    const bool on_gpu = groups[0].on_gpu();
    const uint32_t all = groups[0].ref().layout.channels;
    const uint64_t bytes = call.count * size_of(call.type);
    std::vector<uint32_t> channels{1};
    if (on_gpu) channels = {1, 4, 12, 24, 44, 64, 96, 128};
    for (const uint32_t c : channels) {
        check_interrupt();
        // Not fewer than 4 KB, and not more than 4 MB, for a channel.
        if (c > all || (c > 1 && bytes / c < 4096) || bytes / c > 4u << 20) continue;
        call.channels = c;
        const uint32_t many = bytes <= 1u << 18 ? 100 : bytes <= 16u << 20 ? 30 : 5;
        const uint32_t calls = on_gpu ? many : bytes <= 1u << 20 ? 10 : 3;
        std::vector<double> batches;
        time_batch(groups, data, call, 2); // a warm-up
        for (int i = 0; i < (quick ? 3 : 9); ++i) {
            batches.push_back(time_batch(groups, data, call, calls));
        }
        std::nth_element(batches.begin(), batches.begin() + batches.size() / 2, batches.end());
        timings.push_back({bytes, call.algorithm, c, batches[batches.size() / 2], call.kind});
    }
}

// Of one kind.
void add_rows(const std::map<uint64_t, std::vector<Timing>>& by_size, Kind kind, uint32_t threads,
              std::vector<Choice>& table)
{
    std::vector<Choice> rows;
    std::vector<uint64_t> last; // size of each row
    for (const auto& [bytes, of] : by_size) {
        const auto best = std::min_element(of.begin(), of.end(), [](const auto& a, const auto& b) {
            return a.seconds < b.seconds;
        });
        const Timing* chosen = &*best;
        for (const Timing& t : of) { // no change that means nothing
            if (!rows.empty() && t.algorithm == rows.back().algorithm &&
                t.channels == rows.back().channels && t.seconds <= 1.03 * best->seconds) {
                chosen = &t;
            }
        }
        if (!rows.empty() && rows.back().algorithm == chosen->algorithm &&
            rows.back().channels == chosen->channels) {
            last.back() = bytes;
            continue;
        }
        if (!rows.empty()) {
            Choice& row = rows.back();
            // Nothing was timed between the two sizes: half-way, as sizes grow by a factor.
            row.up_to = static_cast<uint64_t>(
                std::sqrt(static_cast<double>(last.back()) * static_cast<double>(bytes)));
            const uint64_t one_each = uint64_t{row.channels} * threads * sizeof(Packet::word);
            // one_shot is at its best up to a packet for each thread (persistent.hpp): no further.
            if (row.algorithm == Algorithm::one_shot && one_each != 0) {
                row.up_to = std::max(last.back(), std::min(row.up_to, one_each));
            }
        }
        rows.push_back({0, chosen->algorithm, chosen->channels, kind});
        last.push_back(bytes);
    }
    while (rows.size() > max_choices) rows.erase(rows.begin()); // many small sizes become one
    table.insert(table.end(), rows.begin(), rows.end());
}

} // namespace

std::vector<Timing> measure(std::vector<Group>& groups, uint64_t most, bool quick)
{
    if (groups.empty()) throw Error(Errc::bad_argument, "no ranks to tune");
    const Data data(groups, most);
    std::vector<Timing> timings;
    for (const Kind kind : every_collective) {
        const uint64_t parts = scatters(kind) || gathers(kind) ? groups.size() : 1;
        for (uint64_t bytes = 1024; bytes * parts <= most; bytes *= 4) {
            for (const Algorithm algorithm : every_algorithm) {
                if (only_for(kind, Type::f32, algorithm) != algorithm) continue;
                Call call;
                call.kind = kind;
                call.algorithm = algorithm;
                call.count = bytes / size_of(call.type);
                measure_call(groups, data, call, quick, timings);
            }
        }
    }
    return timings;
}

std::vector<Choice> table_of(const std::vector<Timing>& timings, uint32_t threads)
{
    std::map<Kind, std::map<uint64_t, std::vector<Timing>>> by_kind;
    for (const Timing& t : timings) by_kind[t.kind][t.bytes].push_back(t);
    std::vector<Choice> table;
    for (const auto& [kind, by_size] : by_kind) add_rows(by_size, kind, threads, table);
    return table;
}

} // namespace denizen::group
