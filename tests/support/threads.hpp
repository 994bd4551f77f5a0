// SPDX-License-Identifier: Apache-2.0
// For tests of concurrent code.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

namespace denizen::test {

// Runs body(0) to body(n - 1), each on a thread of its own, and waits for all.
template <class Body>
void on_threads(uint32_t n, Body&& body)
{
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < n; ++i) {
        threads.emplace_back([&body, i] { body(i); });
    }
    for (std::thread& t : threads) {
        t.join();
    }
}

} // namespace denizen::test
