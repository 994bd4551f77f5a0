// SPDX-License-Identifier: Apache-2.0
// Which routes messages took, by the program's own counts.
#pragma once

#include <denizen/actor/runtime.hpp>

#include <array>

namespace denizen::bench {

// What went by each route while `body` ran, to the end.
template <class P, class Body>
std::array<uint64_t, routes> sent_during(Runtime<P>& runtime, Body body)
{
    runtime.drain(); // workers tell when they have nothing to do
    const Stats before = runtime.stats();
    body();
    runtime.drain();
    const Stats after = runtime.stats();
    std::array<uint64_t, routes> sent{};
    for (uint32_t r = 0; r < routes; ++r)
        sent[r] = after.sent_by_route[r] - before.sent_by_route[r];
    return sent;
}

} // namespace denizen::bench
