// SPDX-License-Identifier: Apache-2.0
// How a wait of the host is ended from outside, as by Ctrl-C. Who calls something that may wait
// sets a check for its thread; the wait calls it every 50 ms, and the check throws to end the wait,
// which then leaves what a passed deadline would leave. Loops over many items do the same every few
// thousand of them. Host only.
#pragma once

#include <denizen/base/clock.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace denizen {

using InterruptCheck = void (*)();

namespace detail {

struct InterruptWatch {
    InterruptCheck check = nullptr;
    uint64_t looked_ns = 0;
    std::exception_ptr thrown;                // by the check, in code that cannot let it pass
    const std::atomic<bool>* leave = nullptr; // of on_threads(): one of its threads has thrown
};

inline thread_local InterruptWatch interrupt_watch;

// Ends a thread of on_threads() because another has thrown, whose error is the one that is told.
struct Left {};

inline void look_for_interrupt()
{
    constexpr uint64_t slice_ns = 50'000'000;
    InterruptWatch& watch = interrupt_watch;
    if (watch.check == nullptr) {
        return;
    }
    const uint64_t now = now_ns();
    if (now - watch.looked_ns > slice_ns) {
        watch.looked_ns = now;
        watch.check();
    }
}

} // namespace detail

// For its scope and thread: waits call `check`, or with nullptr nothing, as destructors need.
class Interruptible {
public:
    explicit Interruptible(InterruptCheck check)
        : before_(std::exchange(detail::interrupt_watch.check, check))
    {
    }
    ~Interruptible() { detail::interrupt_watch.check = before_; }
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;

private:
    InterruptCheck before_;
};

// For the loop of a wait that has lasted: without locks that the check's code may need. In a thread
// of on_threads() it also ends what the body does once another of them has thrown.
inline void check_interrupt()
{
    const std::atomic<bool>* const leave = detail::interrupt_watch.leave;
    // Relaxed: it says only that there is no use in going on.
    if (leave != nullptr && leave->load(std::memory_order_relaxed)) {
        throw detail::Left{};
    }
    detail::look_for_interrupt();
}

// Items between two checks of a loop: microseconds, where an item is a few memory accesses.
inline constexpr size_t items_per_check = 4096;

// Calls body(i) for each i from `begin` to below `end`, and check_interrupt() every so many.
template <class Index, class Body>
void interruptibly(Index begin, Index end, Body&& body)
{
    for (Index i = begin; i < end;) {
        check_interrupt();
        const auto left = static_cast<size_t>(end - i);
        const Index stop = i + static_cast<Index>(std::min(items_per_check, left));
        for (; i < stop; ++i) body(i);
    }
}

// As values.assign(n, value), for sizes at which the memory alone takes long. When it is
// interrupted there are fewer.
template <class T>
void assign_interruptibly(std::vector<T>& values, size_t n, const T& value)
{
    const size_t piece = std::max<size_t>((size_t{1} << 22) / sizeof(T), 1); // 4 MiB
    values.clear();
    values.reserve(n);
    while (values.size() < n) { // ends: each turn adds a piece
        check_interrupt();
        values.resize(std::min(n, values.size() + piece), value);
    }
}

// As values.resize(n), likewise.
template <class T>
void resize_interruptibly(std::vector<T>& values, size_t n)
{
    const size_t piece = std::max<size_t>((size_t{1} << 22) / sizeof(T), 1); // 4 MiB
    values.reserve(n);
    while (values.size() < n) { // ends: each turn adds a piece
        check_interrupt();
        values.resize(std::min(n, values.size() + piece));
    }
    values.resize(n);
}

namespace detail {

// As check_interrupt(), where several threads have to leave together: once it is true their caller
// calls throw_interrupt().
inline bool interrupted() noexcept
{
    InterruptWatch& watch = interrupt_watch;
    if (watch.check == nullptr) {
        return false;
    }
    try {
        look_for_interrupt();
    } catch (...) {
        watch.thrown = std::current_exception();
    }
    return watch.thrown != nullptr;
}

// Whether interrupted() has been true and throw_interrupt() not been called since.
inline bool interrupt_pending() noexcept { return interrupt_watch.thrown != nullptr; }

inline void throw_interrupt()
{
    if (interrupt_watch.thrown) {
        std::rethrow_exception(std::exchange(interrupt_watch.thrown, nullptr));
    }
}

} // namespace detail

} // namespace denizen
