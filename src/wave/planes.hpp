// SPDX-License-Identifier: Apache-2.0
// What the host does to every cell of a grid between runs, by as many threads as that is worth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace denizen::wave {

// Calls body(first, end) for planes that together are all `planes`, of `cells` cells each. The body
// must not throw.
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
    std::vector<std::jthread> threads;
    for (uint32_t part = 1; part < parts; ++part) {
        threads.emplace_back([&, part] { body(begin_of(part), begin_of(part + 1)); });
    }
    body(0, begin_of(1));
}

} // namespace denizen::wave
