// SPDX-License-Identifier: Apache-2.0
// Which process an object was made in. A forked child has its memory and none of its threads: what
// the child waits for never comes, and what it sends is read by nobody. Host only.
#pragma once

#include <denizen/base/error.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <unistd.h>

namespace denizen {

namespace detail {

// Forks between the process that loaded this library and this one: no system call to compare.
extern std::atomic<uint32_t> forks;

} // namespace detail

class Process {
public:
    bool here() const { return forks_ == detail::forks.load(std::memory_order_relaxed); }

    // Throws closed in a forked child. `what`: "the runtime".
    void check(const char* what) const
    {
        if (!here()) {
            refuse(what);
        }
    }

private:
    [[noreturn]] void refuse(const char* what) const
    {
        throw Error(Errc::closed, std::string(what) + " belongs to another process (" +
                                      std::to_string(pid_) +
                                      "), which has its threads; make a new one after the fork");
    }

    uint32_t forks_ = detail::forks.load(std::memory_order_relaxed);
    pid_t pid_ = getpid();
};

} // namespace denizen
