// SPDX-License-Identifier: Apache-2.0
// The same work on several threads of the host, which end with it.
#pragma once

#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace denizen {

// Runs body(0) to body(n - 1), each on a thread of its own; throws what the first of them threw.
template <class Body>
void on_threads(uint32_t n, Body&& body)
{
    std::vector<std::exception_ptr> errors(n);
    const auto guarded = [&](uint32_t i) {
        try {
            body(i);
        } catch (...) {
            errors[i] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < n; ++i) threads.emplace_back(guarded, i);
    guarded(0);
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

} // namespace denizen
