// SPDX-License-Identifier: Apache-2.0
// How a wait of the host is ended from outside, as by Ctrl-C. Who calls something that may wait
// sets a check for its thread; the wait calls it every 50 ms, and the check throws to end the wait,
// which then leaves what a passed deadline would leave. Host only.
#pragma once

#include <denizen/base/clock.hpp>

#include <cstdint>
#include <exception>
#include <utility>

namespace denizen {

using InterruptCheck = void (*)();

namespace detail {

struct InterruptWatch {
    InterruptCheck check = nullptr;
    uint64_t looked_ns = 0;
    std::exception_ptr thrown; // by the check, in code that cannot let it pass
};

inline thread_local InterruptWatch interrupt_watch;

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

// For the loop of a wait that has lasted: without locks that the check's code may need.
inline void check_interrupt()
{
    constexpr uint64_t slice_ns = 50'000'000;
    detail::InterruptWatch& watch = detail::interrupt_watch;
    if (watch.check == nullptr) {
        return;
    }
    const uint64_t now = now_ns();
    if (now - watch.looked_ns > slice_ns) {
        watch.looked_ns = now;
        watch.check();
    }
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
        check_interrupt();
    } catch (...) {
        watch.thrown = std::current_exception();
    }
    return watch.thrown != nullptr;
}

inline void throw_interrupt()
{
    if (interrupt_watch.thrown) {
        std::rethrow_exception(std::exchange(interrupt_watch.thrown, nullptr));
    }
}

} // namespace detail

} // namespace denizen
