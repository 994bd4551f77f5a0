// SPDX-License-Identifier: Apache-2.0
// The log: a ring of bytes in memory, filled by any thread (from a signal handler too), and the
// thread that writes it to the file. The ring is mapped twice in a row, so a record is never split.
//
//   tail ── written, being cleared ──┬── committed or being filled ── head ── free, all zero ──
//   tail + size
//
// A writer of a record takes [head, head + n) by compare-and-swap, fills it, and stores its length
// last; the thread goes from record to record as far as lengths are not 0, and clears what it has
// written before it gives it back, so that a length read as 0 always means "not yet".
#pragma once

#include "format.hpp"

#include <atomic>
#include <pthread.h>

namespace denizen::lens {

class Log {
public:
    // Makes the file and starts the thread; again after close(), too. nullptr, or what went wrong
    // (errno says why).
    const char* open(const char* path, const LogHeader& header, size_t ring_bytes);

    // `n` bytes, zeroed but for `bytes` and `kind` that commit() writes; nullptr if there was no
    // room for two seconds. Safe in a signal handler. The record is not seen before commit().
    void* reserve(size_t n, bool is_doorbell = false);
    static void commit(void* record, Kind kind, uint16_t flags, size_t n);

    template <class Record>
    bool write(Kind kind, const Record& record, const void* text = nullptr, size_t text_bytes = 0,
               uint16_t flags = 0);

    // Waits until all that was committed is in the file, at most a second. Safe in a signal
    // handler.
    void flush();

    // The last record, then the thread ends and the file is closed. Later records go nowhere.
    void close(EndRecord& totals);

    // In a child of fork: there is no thread, and the ring belongs to the parent.
    void abandon() { state_.store(State::off, std::memory_order_relaxed); }

    bool is_open() const { return state_.load(std::memory_order_acquire) == State::on; }
    void fill_losses(EndRecord& totals) const;

    static constexpr size_t longest = 64 * 1024; // bytes of one record

private:
    enum class State : uint32_t { off, on, closing };

    static void* run(void* self);
    void forget();
    size_t drain();
    bool write_file(const void* data, size_t bytes);
    void tell_losses();
    bool has_room(uint64_t head, size_t n) const;
    bool wait_for_room(uint64_t head, size_t n);

    alignas(64) std::atomic<uint64_t> head_{0};
    alignas(64) std::atomic<uint64_t> tail_{0};
    alignas(64) std::atomic<State> state_{State::off};
    std::atomic<bool> is_stuck_{
        false}; // a wait has run out; no more waiting until there is room again
    std::atomic<uint64_t> lost_records_{0}, lost_bytes_{0}, lost_doorbells_{0}, waits_{0};
    uint64_t told_records_ = 0, told_bytes_ = 0, told_doorbells_ = 0; // of the thread
    char* ring_ = nullptr;
    uint64_t size_ = 0;
    int file_ = -1;
    bool failed_ = false;
    pthread_t thread_{};
};

inline constexpr size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

template <class Record>
bool Log::write(Kind kind, const Record& record, const void* text, size_t text_bytes,
                uint16_t flags)
{
    const size_t n = padded(sizeof(Record) + text_bytes);
    char* at = static_cast<char*>(reserve(n, kind == Kind::doorbell));
    if (!at) {
        return false;
    }
    // Not the header: its length is what commits.
    __builtin_memcpy(at + sizeof(RecordHeader),
                     reinterpret_cast<const char*>(&record) + sizeof(RecordHeader),
                     sizeof(Record) - sizeof(RecordHeader));
    if (text_bytes) {
        __builtin_memcpy(at + sizeof(Record), text, text_bytes);
    }
    commit(at, kind, flags, n);
    return true;
}

uint64_t now_ns(); // CLOCK_MONOTONIC

extern Log the_log;

} // namespace denizen::lens
