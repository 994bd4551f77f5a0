// SPDX-License-Identifier: Apache-2.0
// The same work on several threads of the host, which end with it.
#pragma once

#include <denizen/base/threads.hpp>

#include <cstdint>
#include <exception>
#include <vector>

namespace denizen {

// Runs body(0) to body(n - 1), the first on the caller's thread and each other on one of its own;
// throws what the first of them threw. All run or, where a thread cannot be created, none.
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
    Threads others;
    others.start(n > 0 ? n - 1 : 0, "worker", [&](uint32_t i) { guarded(i + 1); });
    guarded(0);
    others.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

} // namespace denizen
