// SPDX-License-Identifier: Apache-2.0
// What every place that mines a log must compute alike, CPU threads, kernels and actors: the hash
// of a case's path, exact sums, and the buckets that durations are first counted in.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::procmine {

// What one event adds to the hash of its case. The terms are summed, so that the events of a case
// can be hashed in any order and by many threads; the position makes the order of the path count.
// The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
DENIZEN_HD inline uint64_t path_term(uint32_t activity, uint32_t position)
{
    uint64_t x = (uint64_t{position} << 32 | activity) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// A sum of up to 2^32 durations that cannot overflow: the upper and lower halves apart.
struct Sum {
    uint64_t high = 0;
    uint64_t low = 0;

    DENIZEN_HD void add(uint64_t value)
    {
        high += value >> 32;
        low += value & 0xffffffffu;
    }
    DENIZEN_HD void add(const Sum& other)
    {
        high += other.high;
        low += other.low;
    }
    DENIZEN_HD double over(uint64_t count) const
    {
        if (count == 0) return 0;
        const uint64_t n = count; // whole part and rest apart: a double holds 53 bits
        const uint64_t rest = high % n;
        return static_cast<double>(high / n) * 4294967296.0 +
               (static_cast<double>(rest) * 4294967296.0 + static_cast<double>(low)) /
                   static_cast<double>(n);
    }
};

// Buckets of durations whose width grows with them: exact below 16, then 16 to each power of two,
// so that a bucket is at most 1/16 of its values wide. They only ascend.
inline constexpr uint32_t bucket_bits = 4;
inline constexpr uint32_t buckets = (64 - bucket_bits + 1) << bucket_bits;

DENIZEN_HD inline uint32_t leading_zeros(uint64_t value) // of a value that is not 0
{
#if DENIZEN_ON_DEVICE
    return static_cast<uint32_t>(__clzll(static_cast<long long>(value)));
#else
    return static_cast<uint32_t>(__builtin_clzll(value));
#endif
}

DENIZEN_HD inline uint32_t bucket_of(uint64_t value)
{
    if (value < (1u << bucket_bits)) return static_cast<uint32_t>(value);
    const uint32_t top = 63 - leading_zeros(value);
    const auto rest =
        static_cast<uint32_t>(value >> (top - bucket_bits)) & ((1u << bucket_bits) - 1);
    return ((top - bucket_bits + 1) << bucket_bits) + rest;
}

// The least value of a bucket.
DENIZEN_HD inline uint64_t bucket_begin(uint32_t bucket)
{
    if (bucket < (1u << bucket_bits)) return bucket;
    const uint32_t top = (bucket >> bucket_bits) + bucket_bits - 1;
    const uint64_t rest = bucket & ((1u << bucket_bits) - 1);
    return (rest | 1u << bucket_bits) << (top - bucket_bits);
}

// Where the quantile `per_mille` of n values lies in their order, as NumPy and pandas count by
// default: at `below + fraction`, which is between two of them.
struct Rank {
    uint64_t below;
    double fraction;
};
DENIZEN_HD inline Rank rank_of(uint64_t n, uint32_t per_mille)
{
    const uint64_t position = (n - 1) * per_mille;
    return {position / 1000, static_cast<double>(position % 1000) / 1000.0};
}

DENIZEN_HD inline double between(uint64_t low, uint64_t high, double fraction)
{
    return static_cast<double>(low) + static_cast<double>(high - low) * fraction;
}

} // namespace denizen::procmine
