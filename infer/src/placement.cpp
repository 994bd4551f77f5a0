// SPDX-License-Identifier: Apache-2.0
#include "placement.hpp"

#include <denizen/base/error.hpp>

#include <algorithm>
#include <bit>
#include <string>

namespace denizen::infer {
namespace {

constexpr uint32_t most_in_cluster = 16;
constexpr uint32_t some_blocks[] = {64, 96, 128};

uint32_t columns_for(uint32_t streams)
{
    return streams == 1 ? 1 : std::min(detail::most_columns, std::max(4u, std::bit_ceil(streams)));
}

// With as many columns as there is room for, `least` at the least; else what one column wants.
bool try_deal(Chip& chip, const Plan& plan, const Options& options, uint32_t blocks, bool cluster,
              uint32_t least, Placement& found)
{
    for (uint32_t columns = columns_for(options.streams); columns >= least; columns /= 2) {
        if (columns == 2) continue; // four are multiplied together
        found.deal = deal(plan, options.format, blocks, cluster, columns, chip.shared_bytes());
        found.cluster = cluster;
        if (found.deal.fits(chip.shared_bytes())) {
            return !cluster ||
                   chip.clusters(options.format, blocks, found.deal.shared_bytes) >= options.copies;
        }
    }
    return false;
}

} // namespace

Placement placed(Chip& chip, const Plan& plan, const Options& options)
{
    const uint32_t most = chip.most_blocks();
    if (most == 0 || options.parts > most) {
        throw Error(Errc::bad_argument, "parts = " + std::to_string(options.parts) + "; " +
                                            chip.name() + " has " + std::to_string(most) +
                                            " SMs that no other program of this process uses");
    }
    const uint32_t each = most / options.copies; // SMs of a copy
    Placement found;
    for (uint32_t blocks = most_in_cluster; blocks >= 2; blocks /= 2) {
        const bool wanted = options.parts == 0 ? blocks >= 8 : blocks == options.parts;
        if (wanted && blocks <= each &&
            try_deal(chip, plan, options, blocks, true, columns_for(options.streams), found)) {
            return found;
        }
    }
    for (const uint32_t blocks : some_blocks) {
        if (options.parts == 0 && blocks <= each &&
            try_deal(chip, plan, options, blocks, false, columns_for(options.streams), found)) {
            return found;
        }
    }
    const uint32_t blocks = options.parts != 0 ? options.parts : each;
    if (blocks == 0 || blocks > each) {
        throw Error(Errc::bad_argument, "copies = " + std::to_string(options.copies) + " of " +
                                            std::to_string(std::max(blocks, 1u)) + " parts; " +
                                            chip.name() + " has " + std::to_string(most) +
                                            " SMs that no other program of this process uses");
    }
    if (!try_deal(chip, plan, options, blocks, false, 1, found)) {
        throw Error(Errc::bad_argument,
                    "the model does not fit in the shared memory of " + std::to_string(blocks) +
                        " SMs of " + chip.name() + ": one of them lacks " +
                        std::to_string(found.deal.wanted_bytes - chip.shared_bytes()) +
                        " bytes; use weights of 16 bits, more parts, or the CPU");
    }
    return found;
}

} // namespace denizen::infer
