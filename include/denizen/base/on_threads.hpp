// SPDX-License-Identifier: Apache-2.0
// The same work on several threads of the host, which end with it.
#pragma once

#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

namespace denizen {

// Runs body(0) to body(n - 1), the first on the caller's thread and each other on one of its own;
// throws what the first of them threw. All run or, where a thread cannot be created, none. When one
// has thrown, as the caller's does when it is interrupted, check_interrupt() ends the others.
template <class Body>
void on_threads(uint32_t n, Body&& body)
{
    std::vector<std::exception_ptr> errors(n);
    std::atomic<bool> leave{false};
    const auto guarded = [&](uint32_t i) {
        const std::atomic<bool>*& watched = detail::interrupt_watch.leave;
        const std::atomic<bool>* const before = std::exchange(watched, &leave);
        try {
            body(i);
        } catch (const detail::Left&) { // another's error is told
        } catch (...) {
            errors[i] = std::current_exception();
            leave.store(true, std::memory_order_relaxed);
        }
        watched = before;
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
