// SPDX-License-Identifier: Apache-2.0
// Mining on threads of the CPU. Events are first brought together by ranges of cases; then each
// thread takes one range after the other, puts its cases in order within the cache, walks along
// them and notes what it sees in tables of its own.
#include "partition.hpp"
#include "quantile.hpp"
#include "tables.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>

#include <atomic>
#include <numeric>

namespace denizen::procmine {
namespace {

struct Step {
    int64_t time;
    uint32_t activity;
};

// What is known of an edge before its quantiles.
struct Seen {
    Sum sum;
    uint64_t count = 0;
    uint64_t least = ~uint64_t{0};
    uint64_t most = 0;
    Durations durations; // all of them, if quantiles are wanted: then the rest comes later

    void note(uint64_t duration)
    {
        sum.add(duration);
        ++count;
        least = std::min(least, duration);
        most = std::max(most, duration);
    }
};

void put_in_order_of_time(Step* begin, Step* end)
{
    const auto earlier = [](const Step& a, const Step& b) { return a.time < b.time; };
    if (end - begin > 64) {
        if (std::is_sorted(begin, end, earlier)) return;
        size_t compared = 0; // one case may be the whole log
        std::stable_sort(begin, end, [&](const Step& a, const Step& b) {
            if (++compared % items_per_check == 0) check_interrupt();
            return earlier(a, b);
        });
        return;
    }
    for (Step* at = begin + 1; at < end; ++at) {
        if (at[-1].time <= at->time) continue;
        const Step step = *at;
        Step* to = at;
        for (; to != begin && step.time < to[-1].time; --to) *to = to[-1];
        *to = step;
    }
}

class Walker {
public:
    Walker(const Events& events, const MineOptions& options, Mined& out)
        : numbers_(events.activity_count), starts_(events.activity_count),
          ends_(events.activity_count), case_count_(events.case_count), options_(options), out_(out)
    {
    }

    void walk(const Partitions& all, uint32_t p)
    {
        const uint32_t first_case = p << all.shift;
        const uint32_t cases = std::min<uint32_t>(1u << all.shift, case_count_ - first_case);
        const uint64_t begin = all.begins[p];
        const uint64_t end = all.begins[p + 1];
        places_.assign(size_t{cases} + 1, 0);
        interruptibly(begin, end,
                      [&](uint64_t i) { ++places_[all.stamp(i).of_case - first_case + 1]; });
        std::partial_sum(places_.begin(), places_.end(), places_.begin());
        if (steps_.size() < end - begin) resize_interruptibly(steps_, end - begin);
        interruptibly(begin, end, [&](uint64_t i) {
            const Stamp stamp = all.stamp(i);
            steps_[places_[stamp.of_case - first_case]++] = {stamp.time, stamp.activity};
        });
        blocks_.give(all.memory(p)); // the durations go where the stamps were, which is at hand
        uint32_t from = 0;           // places_[c] is now where case c ends
        for (uint32_t c = 0; c < cases; ++c) {
            if (c % 256 == 0) check_interrupt();
            const uint32_t to = places_[c];
            if (from != to) walk_case(first_case + c, steps_.data() + from, steps_.data() + to);
            from = to;
        }
    }

    EdgeNumbers numbers_;
    std::vector<Seen> edges_;
    VariantTable variants_;
    std::vector<uint64_t> starts_, ends_;

private:
    void walk_case(uint32_t number, Step* begin, Step* end)
    {
        put_in_order_of_time(begin, end);
        const auto length = static_cast<uint32_t>(end - begin);
        ++starts_[begin->activity];
        ++ends_[end[-1].activity];
        out_.case_events[number] = length;
        out_.case_begins[number] = begin->time;
        out_.case_ends[number] = end[-1].time;
        for (const Step* s = begin + 1; s != end; ++s) {
            if ((s - begin) % items_per_check == 0) check_interrupt(); // of one long case
            const uint32_t edge = numbers_(s[-1].activity, s->activity);
            if (edge == edges_.size()) edges_.emplace_back();
            Seen& seen = edges_[edge];
            const uint64_t duration =
                static_cast<uint64_t>(s->time) - static_cast<uint64_t>(s[-1].time);
            if (options_.quantiles) {
                seen.durations.add(duration, blocks_);
            } else {
                seen.note(duration);
            }
        }
        if (!options_.variants) return;
        uint64_t hash = 0;
        for (uint32_t i = 0; i < length; ++i) hash += path_term(begin[i].activity, i);
        const uint32_t variant = variants_.number(
            hash, length, [begin](uint32_t i) { return begin[i].activity; }, number);
        ++variants_.variants[variant].count;
        out_.case_variants[number] = variant; // this thread's number for now
    }

    Blocks blocks_;
    std::vector<Step> steps_;
    std::vector<uint32_t> places_;
    uint32_t case_count_;
    const MineOptions& options_;
    Mined& out_;
};

// One edge out of what all threads saw of it.
Edge finished(uint32_t from, uint32_t to, const std::vector<const Seen*>& parts, bool quantiles)
{
    if (quantiles) {
        std::vector<const Durations*> durations;
        for (const Seen* part : parts) durations.push_back(&part->durations);
        const Quantiles all(durations);
        const auto [median, p95] = all.median_and_p95();
        return {from, to, all.count, all.least, all.most, all.sum.over(all.count), median, p95};
    }
    Seen all;
    for (const Seen* part : parts) {
        all.sum.add(part->sum);
        all.count += part->count;
        all.least = std::min(all.least, part->least);
        all.most = std::max(all.most, part->most);
    }
    return {from, to, all.count, all.least, all.most, all.sum.over(all.count), 0, 0};
}

void finish_edges(const std::vector<Walker>& walkers, const Events& events, bool quantiles,
                  Mined& out)
{
    EdgeNumbers numbers(events.activity_count);
    std::vector<std::vector<const Seen*>> parts;
    for (const Walker& walker : walkers) {
        for (uint32_t i = 0; i < walker.numbers_.size(); ++i) {
            const uint32_t edge = numbers(walker.numbers_.from(i), walker.numbers_.to(i));
            if (edge == parts.size()) parts.emplace_back();
            parts[edge].push_back(&walker.edges_[i]);
        }
    }
    out.edges.resize(parts.size());
    std::atomic<uint32_t> next{0};
    on_threads(static_cast<uint32_t>(walkers.size()), [&](uint32_t) {
        while (true) { // ends: each turn takes an edge
            const uint32_t i = next.fetch_add(1, std::memory_order_relaxed);
            if (i >= parts.size()) return;
            check_interrupt();
            out.edges[i] = finished(numbers.from(i), numbers.to(i), parts[i], quantiles);
        }
    });
    std::sort(out.edges.begin(), out.edges.end(), [](const Edge& a, const Edge& b) {
        return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
}

// `walked_by[p]`: the thread that walked partition p, whose numbers its cases have.
void finish_variants(std::vector<Walker>& walkers, const Partitions& all,
                     const std::vector<uint32_t>& walked_by, Mined& out)
{
    VariantTable table = std::move(walkers[0].variants_);
    std::vector<std::vector<uint32_t>> place(walkers.size());
    place[0].resize(table.variants.size());
    std::iota(place[0].begin(), place[0].end(), 0u);
    for (size_t w = 1; w < walkers.size(); ++w) {
        const VariantTable& other = walkers[w].variants_;
        for (const Variant& v : other.variants) {
            if (place[w].size() % items_per_check == 0) check_interrupt();
            const uint32_t* path = other.paths.data() + v.offset;
            const uint32_t number =
                table.number(v.hash, v.length, [path](uint32_t i) { return path[i]; }, v.example);
            table.variants[number].count += v.count;
            place[w].push_back(number);
        }
    }
    out.variants = std::move(table.variants);
    out.paths = std::move(table.paths);
    const std::vector<uint32_t> order = put_in_order(out.variants, out.paths);
    std::atomic<uint32_t> next{0};
    on_threads(static_cast<uint32_t>(walkers.size()), [&](uint32_t) {
        while (true) { // ends: each turn takes a partition
            const uint32_t p = next.fetch_add(1, std::memory_order_relaxed);
            if (p >= all.count()) return;
            check_interrupt();
            const std::vector<uint32_t>& numbers = place[walked_by[p]];
            const uint64_t begin = uint64_t{p} << all.shift;
            const uint64_t end =
                std::min<uint64_t>(begin + (uint64_t{1} << all.shift), out.case_variants.size());
            for (uint64_t c = begin; c < end; ++c) {
                uint32_t& variant = out.case_variants[c];
                if (variant != no_variant) variant = order[numbers[variant]];
            }
        }
    });
}

} // namespace

std::vector<uint32_t> put_in_order(std::vector<Variant>& variants, std::vector<uint32_t>& paths)
{
    std::vector<uint32_t> order(variants.size());
    std::iota(order.begin(), order.end(), 0u);
    size_t compared = 0;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        if (++compared % items_per_check == 0) check_interrupt();
        const Variant& x = variants[a];
        const Variant& y = variants[b];
        if (x.count != y.count) return x.count > y.count;
        const uint32_t* p = paths.data() + x.offset;
        const uint32_t* q = paths.data() + y.offset;
        return std::lexicographical_compare(p, p + x.length, q, q + y.length);
    });
    std::vector<Variant> sorted;
    std::vector<uint32_t> steps;
    sorted.reserve(variants.size());
    steps.reserve(paths.size());
    std::vector<uint32_t> new_place(variants.size());
    for (const uint32_t old : order) {
        if (sorted.size() % items_per_check == 0) check_interrupt();
        new_place[old] = static_cast<uint32_t>(sorted.size());
        Variant variant = variants[old];
        const auto begin = paths.begin() + static_cast<std::ptrdiff_t>(variant.offset);
        variant.offset = steps.size();
        steps.insert(steps.end(), begin, begin + variant.length);
        sorted.push_back(variant);
    }
    variants = std::move(sorted);
    paths = std::move(steps);
    return new_place;
}

Mined mine(const Events& events, const MineOptions& options)
{
    check_columns(events);
    const uint64_t begin = now_ns();
    Mined out;
    out.activity_counts.resize(events.activity_count);
    out.starts.resize(events.activity_count);
    out.ends.resize(events.activity_count);
    out.case_events.resize(events.case_count);
    out.case_begins.resize(events.case_count);
    out.case_ends.resize(events.case_count);
    if (options.variants) out.case_variants.resize(events.case_count, no_variant);
    if (events.cases.empty()) return out;

    const uint32_t threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    const Partitions all = partition(events, threads);
    std::vector<Walker> walkers;
    walkers.reserve(threads);
    for (uint32_t t = 0; t < threads; ++t) walkers.emplace_back(events, options, out);
    std::vector<uint32_t> walked_by(all.count());
    std::atomic<uint32_t> next{0};
    on_threads(threads, [&](uint32_t t) {
        while (true) { // ends: each turn takes a partition
            const uint32_t p = next.fetch_add(1, std::memory_order_relaxed);
            if (p >= all.count()) return;
            walked_by[p] = t;
            walkers[t].walk(all, p);
        }
    });
    for (const Walker& walker : walkers) {
        for (uint32_t a = 0; a < events.activity_count; ++a) {
            out.starts[a] += walker.starts_[a];
            out.ends[a] += walker.ends_[a];
        }
    }
    finish_edges(walkers, events, options.quantiles, out);
    out.activity_counts = out.ends; // an event is the last of its case or has a step away
    for (const Edge& edge : out.edges) out.activity_counts[edge.from] += edge.count;
    if (options.variants) finish_variants(walkers, all, walked_by, out);
    out.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    return out;
}

} // namespace denizen::procmine
