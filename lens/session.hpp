// SPDX-License-Identifier: Apache-2.0
// One capture: from the first device file that the process opens to its end; or, where the lens
// sleeps until somebody attaches (attach.hpp), each from an attach to its detach.
#pragma once

#include "format.hpp"

#include <atomic>

namespace denizen::lens {

struct Totals {
    std::atomic<uint64_t> doorbells, entries, bytes, loads, other_stores, unknown_tokens,
        unknown_instructions, timed_doorbells, handler_ns;
    void clear();
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
    // Of a lens that sleeps: a log in `directory`, whose path goes to `path`, and doorbells that
    // trap. nullptr, or why not, and of a log that has a path errno. Of one thread alone, as
    // detach().
    const char* attach(Mode mode, const char* directory, char* path, size_t path_bytes);
    void detach();
    // In a child of fork: doorbells are forwarded, nothing is logged.
    void in_child();

    bool is_on() const { return state_.load(std::memory_order_acquire) == State::on; }
    bool is_full() const { return is_full_.load(std::memory_order_relaxed); }
    uint32_t log_number() const { return log_number_.load(std::memory_order_relaxed); }

    // False in a child of vfork, which shares this memory until it execs or leaves: nothing that it
    // closes or ends is closed or ended here.
    bool is_own_process() const;
    // Nothing was captured so far and nothing will be.
    bool is_off() const { return state_.load(std::memory_order_relaxed) == State::off; }

    // A line on stderr and in the log; before there is one, `text` is kept for it: a literal, one
    // of them.
    void note(const char* text);

    Totals totals{};
    std::atomic<uint32_t> handlers{0}; // threads inside the fault handler

private:
    bool read_version(LogHeader& header) const;
    void log_note(const char* text);
    bool make_header(LogHeader& header, Mode mode);
    const char* start_log(LogHeader& header, const char* directory, char* path, size_t path_bytes);
    void note_start(const LogHeader& header);
    void finish_log();
    void close_log();

    std::atomic<State> state_{State::idle};
    int pid_ = 0;
    std::atomic<bool> is_full_{false};
    std::atomic<uint32_t> log_number_{0}; // 1 is the first
    std::atomic<bool> is_finishing_{false};
    bool has_told_ = false;
    bool has_mps_ = false; // as of begin()
    std::atomic<const char*> early_note_{nullptr};
};

extern Session session;

} // namespace denizen::lens
