// SPDX-License-Identifier: Apache-2.0
// The graph of a stream while it grows: counters in memory that all cases of a program share, which
// they add to and nobody locks. Every sum is an integer, so that no result depends on which worker
// was faster. All zero is the empty graph.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/procmine/detail/text.hpp>

namespace denizen::procmine {

// Where it lies, in words of 64 bits: a head, then for each shard, by workers, so that fewer meet
//   starts, ends    by activity
//   keys            by slot: (from << 32 | to) + 1, 0 where it is free; none if each pair has a
//   slot figures         by slot: count, lower and upper half of the sum, ~least, most
//   (microseconds) histogram       by slot and bucket of duration
struct CountsLayout {
    uint64_t activities = 0;
    uint64_t slots = 0; // each pair of activities its own, or a power of two
    uint64_t shards = 0;

    static constexpr uint64_t head = 8; // activities, slots, shards, lost; the rest stays 0
    static constexpr uint64_t lost = 3; // word: steps of edges there was no slot for
    static constexpr uint64_t figures_of_edge = 5;

    DENIZEN_HD bool dense() const
    {
        return activities <= 0xffffffffu && activities * activities == slots;
    }
    // Offsets within a shard.
    DENIZEN_HD uint64_t ends() const { return activities; }
    DENIZEN_HD uint64_t keys() const { return 2 * activities; }
    DENIZEN_HD uint64_t figures() const { return keys() + (dense() ? 0 : slots); }
    DENIZEN_HD uint64_t histograms() const { return figures() + figures_of_edge * slots; }
    DENIZEN_HD uint64_t shard_words() const { return histograms() + buckets * slots; }
    DENIZEN_HD uint64_t words() const { return head + shards * shard_words(); }
};

// The part of a graph that one worker adds to. The words must have been filled before.
class Counts {
public:
    Counts() = default;
    DENIZEN_HD Counts(uint64_t* words, uint32_t worker)
        : layout_{words[0], words[1], words[2]}, head_(words),
          shard_(words + CountsLayout::head + worker % words[2] * layout_.shard_words())
    {
    }

    DENIZEN_HD void start(uint32_t activity) { add(shard_ + activity, 1); }
    DENIZEN_HD void end(uint32_t activity) { add(shard_ + layout_.ends() + activity, 1); }

    DENIZEN_HD void step(uint32_t from, uint32_t to, uint64_t duration)
    {
        const uint64_t slot = slot_of(from, to);
        if (slot == layout_.slots) {
            add(head_ + CountsLayout::lost, 1);
            return;
        }
        uint64_t* figures = shard_ + layout_.figures() + CountsLayout::figures_of_edge * slot;
        add(figures, 1);
        add(figures + 1, duration & 0xffffffffu);
        if (duration >> 32 != 0) add(figures + 2, duration >> 32);
        raise(figures + 3, ~duration);
        raise(figures + 4, duration);
        add(shard_ + layout_.histograms() + slot * buckets + bucket_of(duration), 1);
    }

private:
    // Relaxed: they are sums; who reads them all comes after a drain, or reads a moment.
    DENIZEN_HD static void add(uint64_t* to, uint64_t value) { fetch_add<Scope::gpu>(to, value); }
    DENIZEN_HD static void raise(uint64_t* to, uint64_t value)
    {
        if (load<Scope::gpu>(to) < value) fetch_max<Scope::gpu>(to, value);
    }

    // The edge's slot, taken if it is new; the number of slots if there is none left.
    DENIZEN_HD uint64_t slot_of(uint32_t from, uint32_t to)
    {
        if (layout_.dense()) return from * layout_.activities + to;
        const uint64_t key = (uint64_t{from} << 32 | to) + 1;
        uint64_t at = path_term(to, from) & (layout_.slots - 1);
        for (uint64_t tried = 0; tried < layout_.slots; ++tried) {
            uint64_t* place = shard_ + layout_.keys() + at;
            uint64_t there = load<Scope::gpu>(place);
            if (there == key) return at;
            if (there == 0 && (compare_exchange<Scope::gpu>(place, there, key) || there == key)) {
                return at;
            }
            at = (at + 1) & (layout_.slots - 1);
        }
        return layout_.slots;
    }

    CountsLayout layout_;
    uint64_t* head_ = nullptr;
    uint64_t* shard_ = nullptr;
};

} // namespace denizen::procmine
