// SPDX-License-Identifier: Apache-2.0
// One capture: from the first device file that the process opens to its end.
#pragma once

#include "format.hpp"

#include <atomic>

namespace denizen::lens {

struct Totals {
    std::atomic<uint64_t> doorbells, entries, bytes, loads, other_stores, unknown_tokens,
        unknown_instructions, timed_doorbells, handler_ns;
};

class Session {
public:
    enum class State : uint32_t { idle, starting, on, off };

    // At the first device file. Reads the driver's version, refuses one that is not in the table.
    void begin();
    // There is no driver, says errno: told once.
    void no_driver(const char* path, int error);
    // At exit. Later doorbells are forwarded and not logged.
    void end();
    // In a child of fork: doorbells are forwarded, nothing is logged.
    void in_child();

    bool is_on() const { return state_.load(std::memory_order_acquire) == State::on; }
    bool is_full() const { return is_full_; }

    // False in a child of vfork, which shares this memory until it execs or leaves: nothing that it
    // closes or ends is closed or ended here.
    bool is_own_process() const;
    // Nothing was captured so far and nothing will be.
    bool is_off() const { return state_.load(std::memory_order_relaxed) == State::off; }

    // A line on stderr and in the log; before there is one, `text` is kept for it: a literal, one
    // of them.
    void note(const char* text);

    Totals totals{};

private:
    bool read_version(LogHeader& header) const;
    void log_note(const char* text);
    bool start_log(LogHeader& header);

    std::atomic<State> state_{State::idle};
    int pid_ = 0;
    bool is_full_ = false;
    bool has_told_ = false;
    const char* early_note_ = nullptr;
};

extern Session session;

} // namespace denizen::lens
