// SPDX-License-Identifier: Apache-2.0
// What the host does to every cell of a grid between runs, by as many threads as that is worth.
#pragma once

#include <denizen/base/interrupt.hpp>
#include <denizen/base/on_threads.hpp>

#include <algorithm>

namespace denizen::wave {

// Calls body(first, end) for planes that together are all `planes`, of `cells` cells each.
template <class Body>
void by_planes(uint32_t planes, uint64_t cells, const Body& body)
{
    constexpr uint64_t worth_a_thread = 1 << 19; // cells: a millisecond or so
    const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
    const auto parts = static_cast<uint32_t>(
        std::clamp<uint64_t>(planes * cells / worth_a_thread, 1, std::min(cores, planes)));
    const auto begin_of = [&](uint32_t part) {
        return static_cast<uint32_t>(uint64_t{planes} * part / parts);
    };
    on_threads(parts, [&](uint32_t part) { body(begin_of(part), begin_of(part + 1)); });
}

// Calls use(y, z, i) for every row along x of a grid of n cells; its first cell is cell i.
template <class Use>
void by_rows(const uint32_t (&n)[3], const Use& use)
{
    const uint64_t plane = uint64_t{n[0]} * n[1];
    by_planes(n[2], plane, [&](uint32_t first, uint32_t end) {
        for (uint32_t z = first; z < end; ++z) {
            check_interrupt();
            for (uint32_t y = 0; y < n[1]; ++y) use(y, z, z * plane + uint64_t{y} * n[0]);
        }
    });
}

} // namespace denizen::wave
