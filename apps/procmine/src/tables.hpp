// SPDX-License-Identifier: Apache-2.0
// What one thread gathers: edges by their two activities, variants by their paths. Tables of one
// thread each, brought together at the end (mine.cpp).
#pragma once

#include <denizen/procmine/mine.hpp>

#include <algorithm>
#include <vector>

namespace denizen::procmine {

// Numbers of edges, in the order in which they were first met.
class EdgeNumbers {
public:
    explicit EdgeNumbers(uint32_t activities) : activities_(activities)
    {
        const uint64_t pairs = uint64_t{activities} * activities;
        dense_ = pairs <= most_dense;
        slots_.assign(dense_ ? pairs : 1024, none);
    }

    uint32_t operator()(uint32_t from, uint32_t to)
    {
        if (!dense_) return hashed(uint64_t{from} << 32 | to);
        uint32_t& slot = slots_[size_t{from} * activities_ + to];
        if (slot == none) slot = add(uint64_t{from} << 32 | to);
        return slot;
    }

    uint32_t size() const { return static_cast<uint32_t>(keys_.size()); }
    uint32_t from(uint32_t number) const { return static_cast<uint32_t>(keys_[number] >> 32); }
    uint32_t to(uint32_t number) const { return static_cast<uint32_t>(keys_[number]); }

private:
    static constexpr uint64_t most_dense = 1 << 22; // 16 MiB for each thread
    static constexpr uint32_t none = ~0u;

    uint32_t add(uint64_t key)
    {
        keys_.push_back(key);
        return size() - 1;
    }

    uint32_t hashed(uint64_t key)
    {
        if (2 * keys_.size() >= slots_.size()) {
            slots_.assign(2 * slots_.size(), none);
            for (uint32_t i = 0; i < size(); ++i) slots_[place(keys_[i])] = i;
        }
        uint32_t& slot = slots_[place(key)];
        if (slot == none) slot = add(key);
        return slot;
    }

    // Where it is or belongs; ends: at most half of the slots are taken.
    size_t place(uint64_t key) const
    {
        const size_t mask = slots_.size() - 1;
        size_t at = path_term(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)) & mask;
        while (slots_[at] != none && keys_[slots_[at]] != key) at = (at + 1) & mask;
        return at;
    }

    uint32_t activities_;
    bool dense_ = false;
    std::vector<uint32_t> slots_;
    std::vector<uint64_t> keys_;
};

// Paths by hash and, where hashes agree, by comparison.
class VariantTable {
public:
    VariantTable() : slots_(1024, no_variant) {}

    std::vector<Variant> variants;
    std::vector<uint32_t> paths;

    // The number of the path of `length` activities, activity(i) being the i-th; it is entered with
    // a count of 0 if it is new.
    template <class Activity>
    uint32_t number(uint64_t hash, uint32_t length, Activity&& activity, uint32_t example)
    {
        if (2 * variants.size() >= slots_.size()) grow();
        const size_t mask = slots_.size() - 1;
        size_t at = hash & mask;
        for (; slots_[at] != no_variant; at = (at + 1) & mask) { // ends: half of the slots are free
            Variant& known = variants[slots_[at]];
            if (known.hash != hash || known.length != length) continue;
            const uint32_t* path = paths.data() + known.offset;
            uint32_t same = 0;
            while (same < length && path[same] == activity(same)) ++same;
            if (same != length) continue;
            known.example = std::min(known.example, example);
            return slots_[at];
        }
        slots_[at] = static_cast<uint32_t>(variants.size());
        variants.push_back({hash, 0, paths.size(), length, example});
        for (uint32_t i = 0; i < length; ++i) paths.push_back(activity(i));
        return slots_[at];
    }

private:
    void grow()
    {
        slots_.assign(2 * slots_.size(), no_variant);
        const size_t mask = slots_.size() - 1;
        for (uint32_t i = 0; i < variants.size(); ++i) {
            size_t at = variants[i].hash & mask;
            while (slots_[at] != no_variant) at = (at + 1) & mask; // ends: see number()
            slots_[at] = i;
        }
    }

    std::vector<uint32_t> slots_;
};

} // namespace denizen::procmine
