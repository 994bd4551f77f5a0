// SPDX-License-Identifier: Apache-2.0
// Before and after narrow.hpp, by the whole GPU: results are cleared, and its journal becomes
// arrays by vertex.
#pragma once

#include <denizen/graph/detail/team.hpp>
#include <denizen/graph/detail/view.hpp>

namespace denizen::graph {

// What a search answers, by vertex; -1 where it did not come. The source is its own parent.
struct Found {
    int32_t* distance;
    int32_t* parent;
};

// `source` is found already, unless it is no_vertex.
template <class Team>
DENIZEN_HD void clear(const Team& team, const Found& found, uint32_t* seen, uint32_t vertices,
                      uint32_t source)
{
    for (uint32_t v = team.rank(); v < vertices && !leaves(team, v); v += team.size()) {
        found.distance[v] = v == source ? 0 : -1;
        found.parent[v] = v == source ? static_cast<int32_t>(v) : -1;
        if (v % 32 == 0) seen[v / 32] = source / 32 == v / 32 ? 1u << source % 32 : 0;
    }
}

// The level of position `i` of the journal, which has `levels` of them.
DENIZEN_HD inline uint32_t level_of(const Journal& journal, uint32_t levels, uint32_t i)
{
    uint32_t low = 0;
    uint32_t high = levels; // start[low] <= i < start[high]
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (journal.start[middle] <= i ? low : high) = middle;
    }
    return low;
}

// `seen` gets a bit for each vertex reached, unless the search is done.
template <class Team>
DENIZEN_HD void spread(const Team& team, const Journal& journal, const Progress& progress,
                       const Found& found, uint32_t* seen, uint32_t vertices)
{
    uint32_t level = 0;
    uint32_t end = 0; // of that level; one thread alone looks for it once a level
    for (uint32_t i = team.rank(); i < progress.reached && !leaves(team, i); i += team.size()) {
        if (i >= end) {
            level = level_of(journal, progress.levels, i);
            end = journal.start[level + 1];
        }
        const Step step = journal.steps[i];
        const uint32_t v = step.vertex;
        if (v >= vertices) continue;
        found.distance[v] = static_cast<int32_t>(level);
        found.parent[v] = static_cast<int32_t>(step.from);
        if (progress.done == 0) fetch_or<Scope::gpu>(&seen[v / 32], 1u << v % 32);
    }
}

} // namespace denizen::graph
