// SPDX-License-Identifier: Apache-2.0
// Exact quantiles of many durations without sorting them: they are counted by bucket in one pass,
// with their sum, and only the buckets that hold the wanted places are selected from.
#pragma once

#include "durations.hpp"
#include <denizen/base/interrupt.hpp>

#include <denizen/procmine/detail/text.hpp>

#include <array>

namespace denizen::procmine {

class Quantiles {
public:
    Sum sum;
    uint64_t count = 0;
    uint64_t least = ~uint64_t{0};
    uint64_t most = 0;

    // Those of one edge: `parts` have at least one value between them.
    explicit Quantiles(std::span<const Durations* const> parts) : parts_(parts)
    {
        for (const Durations* part : parts_) {
            part->each([this](std::span<const uint64_t> piece) { look(piece); });
        }
        for (size_t i = 0; i < buckets; ++i) counts_[0][i] += counts_[1][i];
    }

    // Median and 95th percentile; between two values where their place is (linear).
    std::array<double, 2> median_and_p95() const
    {
        std::array<Place, 2> places{place(500), place(950)};
        for (const Durations* part : parts_) {
            part->each([&](std::span<const uint64_t> piece) { pick(piece, places); });
        }
        return {select(places[0]), select(places[1])};
    }

private:
    // Of a quantile: the range of values of its bucket, or of two if the value after it is in
    // another, and how many values are below it.
    struct Place {
        uint64_t least, most; // both included
        uint64_t before;
        Rank rank;
        std::vector<uint64_t> picked;
    };

    void look(std::span<const uint64_t> piece)
    {
        check_interrupt();
        count += piece.size();
        Sum of_piece;
        uint64_t low = least;
        uint64_t high = most;
        for (size_t i = 0; i < piece.size(); ++i) {
            const uint64_t value = piece[i];
            of_piece.add(value);
            low = std::min(low, value);
            high = std::max(high, value);
            ++counts_[i & 1][bucket_of(value)]; // by turns: the same bucket is not waited for
        }
        sum.add(of_piece);
        least = low;
        most = high;
    }

    Place place(uint32_t per_mille) const
    {
        const Rank rank = rank_of(count, per_mille);
        uint32_t bucket = 0;
        uint64_t before = 0;
        for (; before + counts_[0][bucket] <= rank.below; ++bucket) before += counts_[0][bucket];
        uint32_t last = bucket; // both loops end: a value of that place is in some bucket
        if (rank.fraction != 0) {
            uint64_t below = before + counts_[0][bucket];
            while (below <= rank.below + 1) below += counts_[0][++last];
        }
        const uint64_t end = last + 1 == buckets ? 0 : bucket_begin(last + 1);
        return {bucket_begin(bucket), end - 1, before, rank, {}};
    }

    static void pick(std::span<const uint64_t> piece, std::array<Place, 2>& places)
    {
        check_interrupt();
        // Without a branch that is hard to foresee: a value is always written, and kept if it fits.
        for (Place& place : places) {
            const size_t had = place.picked.size();
            place.picked.resize(had + piece.size());
            uint64_t* to = place.picked.data() + had;
            const uint64_t width = place.most - place.least;
            for (const uint64_t value : piece) {
                *to = value;
                to += value - place.least <= width ? 1 : 0;
            }
            place.picked.resize(static_cast<size_t>(to - place.picked.data()));
        }
    }

    static double select(Place& place)
    {
        std::vector<uint64_t>& values = place.picked;
        const auto at =
            values.begin() + static_cast<std::ptrdiff_t>(place.rank.below - place.before);
        std::nth_element(values.begin(), at, values.end());
        if (place.rank.fraction == 0) return static_cast<double>(*at);
        return between(*at, *std::min_element(at + 1, values.end()), place.rank.fraction);
    }

    std::span<const Durations* const> parts_;
    std::array<std::array<uint64_t, buckets>, 2> counts_{};
};

} // namespace denizen::procmine
