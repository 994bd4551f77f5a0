// SPDX-License-Identifier: Apache-2.0
// A log mined in the plainest way, to compare with: maps, sorting, no threads.
#pragma once

#include <denizen/procmine/mine.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace denizen::procmine {

inline double plain_quantile(std::vector<uint64_t> values, uint64_t per_mille)
{
    std::sort(values.begin(), values.end());
    const uint64_t place = (values.size() - 1) * per_mille;
    const auto low = static_cast<double>(values[place / 1000]);
    if (place % 1000 == 0) return low;
    const auto high = static_cast<double>(values[place / 1000 + 1]);
    return low + (high - low) * static_cast<double>(place % 1000) / 1000.0;
}

inline Mined plain_mine(const Events& events)
{
    Mined out;
    out.activity_counts.resize(events.activity_count);
    out.starts.resize(events.activity_count);
    out.ends.resize(events.activity_count);
    out.case_variants.resize(events.case_count, no_variant);
    out.case_events.resize(events.case_count);
    out.case_begins.resize(events.case_count);
    out.case_ends.resize(events.case_count);
    std::vector<uint32_t> order(events.cases.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return std::pair(events.cases[a], events.times[a]) <
               std::pair(events.cases[b], events.times[b]);
    });
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> edges;
    std::map<std::vector<uint32_t>, std::vector<uint32_t>> variants; // the cases of each path
    for (size_t i = 0; i < order.size();) {
        const uint32_t one = events.cases[order[i]];
        std::vector<uint32_t> path;
        out.case_begins[one] = events.times[order[i]];
        for (; i < order.size() && events.cases[order[i]] == one; ++i) {
            const uint32_t activity = events.activities[order[i]];
            const int64_t time = events.times[order[i]];
            if (!path.empty()) {
                edges[{path.back(), activity}].push_back(static_cast<uint64_t>(time) -
                                                         static_cast<uint64_t>(out.case_ends[one]));
            }
            path.push_back(activity);
            ++out.activity_counts[activity];
            out.case_ends[one] = time;
        }
        ++out.starts[path.front()];
        ++out.ends[path.back()];
        out.case_events[one] = static_cast<uint32_t>(path.size());
        variants[path].push_back(one);
    }
    for (const auto& [ends, durations] : edges) {
        long double sum = 0;
        for (const uint64_t d : durations) sum += static_cast<long double>(d);
        out.edges.push_back({ends.first, ends.second, durations.size(),
                             *std::min_element(durations.begin(), durations.end()),
                             *std::max_element(durations.begin(), durations.end()),
                             static_cast<double>(sum / static_cast<long double>(durations.size())),
                             plain_quantile(durations, 500), plain_quantile(durations, 950)});
    }
    std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> sorted(variants.begin(),
                                                                                variants.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
        return a.second.size() > b.second.size();
    });
    for (const auto& [path, cases] : sorted) {
        Variant variant{0, cases.size(), out.paths.size(), static_cast<uint32_t>(path.size()),
                        cases.front()};
        for (uint32_t i = 0; i < path.size(); ++i) variant.hash += path_term(path[i], i);
        for (const uint32_t c : cases) {
            out.case_variants[c] = static_cast<uint32_t>(out.variants.size());
        }
        out.variants.push_back(variant);
        out.paths.insert(out.paths.end(), path.begin(), path.end());
    }
    return out;
}

// The first thing in which they differ; empty if nothing.
inline std::string difference(const Mined& a, const Mined& b)
{
    const auto close = [](double x, double y) {
        return x == y || std::abs(x - y) <= 1e-12 * std::max(std::abs(x), std::abs(y));
    };
    if (a.edges.size() != b.edges.size()) {
        return std::to_string(a.edges.size()) + " edges, not " + std::to_string(b.edges.size());
    }
    for (size_t i = 0; i < a.edges.size(); ++i) {
        const Edge& x = a.edges[i];
        const Edge& y = b.edges[i];
        if (x.from != y.from || x.to != y.to || x.count != y.count || x.least != y.least ||
            x.most != y.most || !close(x.mean, y.mean) || !close(x.median, y.median) ||
            !close(x.p95, y.p95)) {
            return "edge " + std::to_string(i);
        }
    }
    if (a.variants.size() != b.variants.size()) {
        return std::to_string(a.variants.size()) + " variants, not " +
               std::to_string(b.variants.size());
    }
    for (size_t i = 0; i < a.variants.size(); ++i) {
        const Variant& x = a.variants[i];
        const Variant& y = b.variants[i];
        if (x.hash != y.hash || x.count != y.count || x.offset != y.offset ||
            x.length != y.length || x.example != y.example) {
            return "variant " + std::to_string(i);
        }
    }
    if (a.paths != b.paths) return "paths";
    if (a.case_variants != b.case_variants) return "variants of cases";
    if (a.activity_counts != b.activity_counts) return "activities";
    if (a.starts != b.starts) return "starts";
    if (a.ends != b.ends) return "ends";
    if (a.case_events != b.case_events) return "events of cases";
    if (a.case_begins != b.case_begins) return "begins of cases";
    if (a.case_ends != b.case_ends) return "ends of cases";
    return "";
}

} // namespace denizen::procmine
