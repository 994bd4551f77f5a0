// SPDX-License-Identifier: Apache-2.0
// How fast a rank reads a peer's memory, and whether the link is to blame if that is slow. Other
// programs of this GPU take turns with us, of some milliseconds each, and a reading that waits for
// its turn says nothing of the link. So the best of many counts, short ones fit into a turn, and
// readings of the rank's own memory tell whether the GPU had time for them.
#pragma once

#include <denizen/base/clock.hpp>

#include <algorithm>
#include <cstdint>

namespace denizen::group {

struct LinkRate {
    double gbs = 0;      // 10^9 bytes a second, the best
    bool broken = false; // below the limit, though the rank's own memory is not
};

// `read(rank, bytes)` reads that rank's memory and returns 10^9 bytes a second by the GPU's clock;
// `bytes` it has to read.
template <class Read>
LinkRate rate_of(uint32_t own, uint32_t peer, uint64_t bytes, double least_gbs, const Read& read)
{
    constexpr uint64_t patience_ns = 1'000'000'000;
    constexpr int most = 256; // readings: milliseconds of a GPU that nobody else uses
    LinkRate rate;
    for (int i = 0; i < 3; ++i) rate.gbs = std::max(rate.gbs, read(peer, bytes));
    const uint64_t few = std::min(bytes, uint64_t{1} << 20);
    double near = 0;
    const uint64_t began = now_ns();
    for (int i = 0; i < most && rate.gbs < least_gbs && now_ns() - began < patience_ns; ++i) {
        rate.gbs = std::max(rate.gbs, read(peer, few));
        near = std::max(near, read(own, few));
    }
    rate.broken = rate.gbs < least_gbs && near >= least_gbs;
    return rate;
}

} // namespace denizen::group
