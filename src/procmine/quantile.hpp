// SPDX-License-Identifier: Apache-2.0
// Exact quantiles of many durations without sorting them: they are counted by bucket in one pass,
// and only the bucket that holds a wanted place is selected from.
#pragma once

#include <denizen/procmine/text.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace denizen::procmine {

class Quantiles {
public:
    // `values` are reordered if they are few. Not empty. The quantile between two is linear.
    double at(std::vector<uint64_t>& values, uint32_t per_mille)
    {
        const Rank rank = rank_of(values.size(), per_mille);
        const uint64_t low = nth(values, rank.below);
        if (rank.fraction == 0) return static_cast<double>(low);
        return between(low, nth(values, rank.below + 1), rank.fraction);
    }

    // Before the first at() of other values.
    void count(const std::vector<uint64_t>& values)
    {
        if (values.size() <= few) return;
        counts_.fill(0);
        for (const uint64_t value : values) ++counts_[bucket_of(value)];
        held_ = buckets;
    }

private:
    static constexpr size_t few = 4096;

    uint64_t nth(std::vector<uint64_t>& values, uint64_t n)
    {
        if (values.size() <= few) return select(values, n);
        uint32_t bucket = 0;
        for (; n >= counts_[bucket]; ++bucket) n -= counts_[bucket]; // ends: n is below their sum
        if (held_ != bucket) {
            picked_.clear();
            for (const uint64_t value : values) {
                if (bucket_of(value) == bucket) picked_.push_back(value);
            }
            held_ = bucket;
        }
        return select(picked_, n);
    }

    static uint64_t select(std::vector<uint64_t>& values, uint64_t n)
    {
        const auto place = values.begin() + static_cast<std::ptrdiff_t>(n);
        std::nth_element(values.begin(), place, values.end());
        return *place;
    }

    std::array<uint64_t, buckets> counts_{};
    std::vector<uint64_t> picked_; // the values of bucket held_
    uint32_t held_ = buckets;
};

} // namespace denizen::procmine
