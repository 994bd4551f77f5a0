// SPDX-License-Identifier: Apache-2.0
// The kernels of device.cuh and what they read: events sorted by case and time, and steps sorted by
// edge and duration, each in two forms. Packed: both parts of the key in one word, so that one
// radix sort does it; Plain: as columns, for what does not fit. Every loop is over a piece of the
// log and ends with it.
#pragma once

#include <denizen/procmine/detail/text.hpp>

#include <cub/block/block_reduce.cuh>
#include <cuda_runtime_api.h>

namespace denizen::procmine::device {

inline constexpr uint32_t block = 256;
inline constexpr uint32_t none = ~0u;
// Activities whose starts and ends a block counts in its shared memory: 24 KiB.
inline constexpr uint32_t most_shared = 3072;

// What must be known of a log before it is sorted.
struct Survey {
    unsigned long long bad; // the first event whose case or activity is out of range, or ~0
    long long least;        // times
    long long most;
    uint32_t not_in_order;     // an event is earlier than the one before it
    uint32_t not_milliseconds; // times do not differ by whole milliseconds,
    uint32_t not_seconds;      // by whole seconds
};

struct Columns {
    const uint32_t* cases;
    const uint32_t* activities;
    const int64_t* times;
    uint32_t count;
    uint32_t case_count;
    uint32_t activity_count;
};

template <uint32_t Threads>
__global__ void survey(Columns log, Survey* out)
{
    using Reduce = cub::BlockReduce<long long, Threads>;
    __shared__ typename Reduce::TempStorage temp;
    const int64_t origin = log.times[0];
    long long least = 0x7fffffffffffffff;
    long long most = -least - 1;
    uint32_t disorder = 0;
    uint32_t not_milliseconds = 0;
    uint32_t not_seconds = 0;
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < log.count; i += stride) {
        const int64_t time = log.times[i];
        least = time < least ? time : least;
        most = time > most ? time : most;
        if (i != 0) disorder |= time < log.times[i - 1];
        const uint64_t far = time < origin
                                 ? static_cast<uint64_t>(origin) - static_cast<uint64_t>(time)
                                 : static_cast<uint64_t>(time) - static_cast<uint64_t>(origin);
        not_milliseconds |= far % 1000 != 0;
        not_seconds |= far % 1000000 != 0;
        if (log.cases[i] >= log.case_count || log.activities[i] >= log.activity_count) {
            atomicMin(&out->bad, static_cast<unsigned long long>(i));
        }
    }
    least = Reduce(temp).Reduce(least, [](long long a, long long b) { return a < b ? a : b; });
    __syncthreads();
    most = Reduce(temp).Reduce(most, [](long long a, long long b) { return a > b ? a : b; });
    if (threadIdx.x == 0) {
        atomicMin(&out->least, least);
        atomicMax(&out->most, most);
    }
    if (disorder != 0) atomicOr(&out->not_in_order, 1u);
    if (not_milliseconds != 0) atomicOr(&out->not_milliseconds, 1u);
    if (not_seconds != 0) atomicOr(&out->not_seconds, 1u);
}

// Events sorted by case and time. Packed: the keys hold the case and the time, in `unit`
// microseconds since `first`. Plain, where both do not fit: the keys are the cases, and order[i] is
// the number of the i-th event in the log.
struct SortedEvents {
    const uint64_t* keys;
    const uint32_t* activities; // in order; nullptr if plain
    const uint32_t* order;
    uint32_t time_bits; // 0 if plain
    uint64_t unit;
    int64_t first;
    Columns log;

    __device__ uint32_t case_of(uint64_t i) const
    {
        return static_cast<uint32_t>(keys[i] >> time_bits);
    }
    __device__ int64_t time(uint64_t i) const
    {
        if (activities == nullptr) return log.times[order[i]];
        const uint64_t ticks = keys[i] & ((uint64_t{1} << time_bits) - 1);
        return static_cast<int64_t>(static_cast<uint64_t>(first) + ticks * unit);
    }
    __device__ uint32_t activity(uint64_t i) const
    {
        return activities == nullptr ? log.activities[order[i]] : activities[i];
    }
};

template <uint32_t Threads>
__global__ void pack(Columns log, uint32_t time_bits, uint64_t unit, int64_t first, uint64_t* keys,
                     uint32_t* activities)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < log.count; i += stride) {
        const uint64_t far = static_cast<uint64_t>(log.times[i]) - static_cast<uint64_t>(first);
        keys[i] = uint64_t{log.cases[i]} << time_bits | far / unit;
        activities[i] = log.activities[i];
    }
}

// Times as words that sort alike, beside the numbers of the events.
template <uint32_t Threads>
__global__ void number(Columns log, uint64_t* times, uint32_t* order)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < log.count; i += stride) {
        times[i] = static_cast<uint64_t>(log.times[i]) ^ uint64_t { 1 } << 63;
        order[i] = static_cast<uint32_t>(i);
    }
}

template <uint32_t Threads>
__global__ void cases_in_order(Columns log, const uint32_t* order, uint64_t* cases)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < log.count; i += stride) {
        cases[i] = log.cases[order[i]];
    }
}

// Steps: an edge is from * activity_count + to; activity_count squared, the last of all, stands for
// the first event of a case, which is no step. Packed: the keys hold edge and duration, in `unit`
// microseconds. Plain: the keys are the edges, and of durations the order[i]-th is the i-th step's.
struct Steps {
    uint64_t* keys;
    uint64_t* durations;    // nullptr if packed
    uint32_t* order;        // nullptr before they are sorted
    uint32_t duration_bits; // 0 if plain
    uint64_t unit;

    __device__ void put(uint64_t i, uint64_t edge, uint64_t duration) const
    {
        if (durations == nullptr) {
            keys[i] = edge << duration_bits | duration / unit;
        } else {
            keys[i] = edge;
            durations[i] = duration;
            order[i] = static_cast<uint32_t>(i);
        }
    }
    __device__ uint64_t edge(uint64_t i) const { return keys[i] >> duration_bits; }
    __device__ uint64_t duration(uint64_t i) const
    {
        if (durations != nullptr) return durations[order[i]];
        return (keys[i] & ((uint64_t{1} << duration_bits) - 1)) * unit;
    }
};

template <uint32_t Threads>
__global__ void edges_in_order(const uint64_t* edges, const uint32_t* order, uint32_t count,
                               uint64_t* sorted)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < count; i += stride) {
        sorted[i] = edges[order[i]];
    }
}

// By case: the place of its first and last event, `none` without any, and their times.
struct CaseFigures {
    uint32_t* first;
    uint32_t* last;
    int64_t* begins;
    int64_t* ends;
};

// Each event finds its step; the first and the last of a case note where it begins and ends.
template <uint32_t Threads>
__global__ void walk(SortedEvents events, Columns log, Steps steps, CaseFigures cases,
                     unsigned long long* starts, unsigned long long* ends)
{
    extern __shared__ uint32_t counted[];
    const bool near = log.activity_count <= most_shared;
    uint32_t* near_ends = counted + log.activity_count;
    if (near) {
        for (uint32_t a = threadIdx.x; a < 2 * log.activity_count; a += Threads) counted[a] = 0;
        __syncthreads();
    }
    const uint64_t activities = log.activity_count;
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t at = uint64_t{blockIdx.x} * Threads + threadIdx.x; at < log.count; at += stride) {
        const auto i = static_cast<uint32_t>(at);
        const uint32_t one = events.case_of(i);
        const uint32_t activity = events.activity(i);
        const int64_t time = events.time(i);
        if (i == 0 || events.case_of(i - 1) != one) {
            cases.first[one] = i;
            cases.begins[one] = time;
            if (near) {
                atomicAdd(&counted[activity], 1u);
            } else {
                atomicAdd(&starts[activity], 1ull);
            }
            steps.put(i, activities * activities, 0);
        } else {
            const uint64_t before = static_cast<uint64_t>(events.time(i - 1));
            steps.put(i, events.activity(i - 1) * activities + activity,
                      static_cast<uint64_t>(time) - before);
        }
        if (at + 1 == log.count || events.case_of(i + 1) != one) {
            cases.last[one] = i;
            cases.ends[one] = time;
            if (near) {
                atomicAdd(&near_ends[activity], 1u);
            } else {
                atomicAdd(&ends[activity], 1ull);
            }
        }
    }
    if (!near) return;
    __syncthreads();
    for (uint32_t a = threadIdx.x; a < log.activity_count; a += Threads) {
        if (counted[a] != 0) atomicAdd(&starts[a], static_cast<unsigned long long>(counted[a]));
        if (near_ends[a] != 0) atomicAdd(&ends[a], static_cast<unsigned long long>(near_ends[a]));
    }
}

// What is added up for each edge.
struct Tally {
    Sum sum;
    uint64_t count;
};
struct Together {
    DENIZEN_HD Tally operator()(const Tally& a, const Tally& b) const
    {
        Tally both = a;
        both.sum.add(b.sum);
        both.count += b.count;
        return both;
    }
};
struct EdgeOf {
    Steps steps;
    __device__ uint64_t operator()(uint64_t i) const { return steps.edge(i); }
};
struct TallyOf {
    Steps steps;
    __device__ Tally operator()(uint64_t i) const
    {
        Tally tally{};
        tally.sum.add(steps.duration(i));
        tally.count = 1;
        return tally;
    }
};
// The order statistics of an edge: its shortest and longest step, and the two at each quantile.
struct Places {
    uint64_t least, most, median[2], p95[2];
};
template <uint32_t Threads>
__global__ void look_up(Steps steps, const Tally* tallies, const uint64_t* offsets, uint32_t edges,
                        Places* out)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t e = uint64_t{blockIdx.x} * Threads + threadIdx.x; e < edges; e += stride) {
        const uint64_t begin = offsets[e];
        const uint64_t n = tallies[e].count;
        const auto at = [&](uint64_t place) {
            return steps.duration(begin + (place < n ? place : n - 1));
        };
        const uint64_t half = rank_of(n, 500).below;
        const uint64_t most = rank_of(n, 950).below;
        out[e] = {at(0), at(n - 1), {at(half), at(half + 1)}, {at(most), at(most + 1)}};
    }
}

// Terms of the paths' hashes, for a reduction by case.
struct CaseOf {
    SortedEvents events;
    __device__ uint32_t operator()(uint64_t i) const { return events.case_of(i); }
};
struct TermOf {
    SortedEvents events;
    const uint32_t* first; // by case
    __device__ uint64_t operator()(uint64_t at) const
    {
        const auto i = static_cast<uint32_t>(at);
        return path_term(events.activity(i), i - first[events.case_of(i)]);
    }
};

// `hashes` and `cases` are sorted by hash: the first of each run is marked.
template <uint32_t Threads>
__global__ void mark_runs(const uint64_t* hashes, uint32_t count, uint32_t* marks)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < count; i += stride) {
        marks[i] = i == 0 || hashes[i] != hashes[i - 1] ? 1 : 0;
    }
}

struct VariantFigures {
    uint64_t* hash;
    uint32_t* begin; // of its run
    uint32_t* example;
    uint32_t* length;
};

// `runs`: the number of marks up to each place: the variant there is one less.
template <uint32_t Threads>
__global__ void name_variants(const uint64_t* hashes, const uint32_t* cases, const uint32_t* runs,
                              uint32_t count, CaseFigures figures, VariantFigures variants,
                              uint32_t* case_variants)
{
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < count; i += stride) {
        const uint32_t variant = runs[i] - 1;
        const uint32_t one = cases[i];
        case_variants[one] = variant;
        if (i == 0 || hashes[i] != hashes[i - 1]) {
            variants.hash[variant] = hashes[i];
            variants.begin[variant] = static_cast<uint32_t>(i);
            variants.example[variant] = one; // the lowest: the sort is stable
            variants.length[variant] = figures.last[one] - figures.first[one] + 1;
        }
    }
}

// Counts the events that differ from what the example of their variant did: two paths of one hash.
template <uint32_t Threads>
__global__ void compare(SortedEvents events, uint32_t count, CaseFigures figures,
                        const uint32_t* case_variants, VariantFigures variants, uint32_t* wrong)
{
    uint32_t differ = 0;
    const uint64_t stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t at = uint64_t{blockIdx.x} * Threads + threadIdx.x; at < count; at += stride) {
        const auto i = static_cast<uint32_t>(at);
        const uint32_t one = events.case_of(i);
        const uint32_t variant = case_variants[one];
        const uint32_t length = figures.last[one] - figures.first[one] + 1;
        const uint32_t place = i - figures.first[one];
        differ += length != variants.length[variant];
        if (place < variants.length[variant]) {
            const uint32_t there = figures.first[variants.example[variant]] + place;
            differ += events.activity(i) != events.activity(there);
        }
    }
    if (differ != 0) atomicAdd(wrong, differ);
}

// A block copies the path of one variant after the other.
template <uint32_t Threads>
__global__ void copy_paths(SortedEvents events, CaseFigures figures, VariantFigures variants,
                           const uint64_t* offsets, uint32_t count, uint32_t* paths)
{
    for (uint32_t v = blockIdx.x; v < count; v += gridDim.x) {
        const uint32_t first = figures.first[variants.example[v]];
        for (uint32_t k = threadIdx.x; k < variants.length[v]; k += Threads) {
            paths[offsets[v] + k] = events.activity(first + k);
        }
    }
}

} // namespace denizen::procmine::device
