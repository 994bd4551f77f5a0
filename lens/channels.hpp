// SPDX-License-Identifier: Apache-2.0
// The channels of the process: added by the hooks, looked up by the fault handler, which reads
// their GPFIFO at each doorbell. Tables of fixed size; numbers are not used twice.
#pragma once

#include "format.hpp"

#include <atomic>

namespace denizen::lens {

struct Channel {
    enum class State : uint32_t { empty, live, closed };

    std::atomic<State> state{State::empty};
    std::atomic<uint64_t> known_token{0}; // 0, or bit 32 and the token: all of a new table is 0
    std::atomic<uint64_t> userd{0};
    std::atomic<bool> is_inferred{false};
    std::atomic<bool> lock{false};
    uint32_t last_put = 0; // under the lock, as the next
    uint64_t base = 0;     // bits 56:40 of addresses, from the last SET_PB_SEGMENT_EXTENDED_BASE
    uint32_t gpu = 0;
    uint32_t class_id = 0;
    uint32_t client = 0;
    uint32_t handle = 0;
    uint32_t parent = 0;
    uint32_t engine = 0;
    uint32_t entries = 0;
    uint64_t gpfifo = 0;
    uint32_t userd_memory = 0;
    uint64_t userd_offset = 0;
    static constexpr uint32_t most_engines = 8;
    uint32_t engine_class[most_engines] = {}; // of the objects made on it: 0 beyond the last
    uint32_t engine_handle[most_engines] = {};
    std::atomic<uint64_t> semaphore{0};    // what its last submission releases with a time stamp
    std::atomic<uint32_t> told_release{0}; // the payload that was logged last

    bool has_token() const { return known_token.load(std::memory_order_relaxed) != 0; }
    uint32_t token() const
    {
        return has_token() ? static_cast<uint32_t>(known_token.load(std::memory_order_relaxed))
                           : none;
    }
};

// Held for a bounded time by code that no signal interrupts for long, so a waiter yields until it
// is free.
class SpinLock {
public:
    explicit SpinLock(std::atomic<bool>& held);
    ~SpinLock() { held_.store(false, std::memory_order_release); }
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

private:
    std::atomic<bool>& held_;
};

class Channels {
public:
    static constexpr uint32_t capacity = 8192;

    // --- for the hooks, one at a time (Objects holds its mutex) ---
    // Its number, or `none`: the table is full.
    uint32_t add(uint32_t gpu, uint32_t class_id, uint32_t client, uint32_t handle, uint32_t parent,
                 uint32_t engine, uint64_t gpfifo, uint32_t entries, uint32_t userd_memory,
                 uint64_t userd_offset);
    void set_userd(uint32_t number, uint64_t address);
    void add_engine(uint32_t number, uint32_t class_id, uint32_t handle);
    void close(uint32_t number);
    uint32_t find(uint32_t client, uint32_t handle) const;
    uint32_t count() const { return count_.load(std::memory_order_acquire); }
    Channel& at(uint32_t number) { return table_[number]; }
    void log(uint32_t number) const; // a ChannelRecord
    // For a log that begins late: the channels that live are logged, with what was made on them,
    // and what their rings hold already is not new.
    void begin_late();

    // --- for both ---
    void set_token(uint32_t number, uint32_t token, bool is_inferred);
    // The live channel with this token, or `none`.
    uint32_t find_token(uint32_t gpu, uint32_t token) const;
    // The first live channel whose GP_PUT has moved, or `none`; among all, or those without a
    // token.
    uint32_t find_moved(uint32_t gpu, bool among_all);

private:
    static constexpr uint32_t tokens = 32768;
    static constexpr uint64_t used = uint64_t{1} << 63;
    static uint64_t key(uint32_t gpu, uint32_t token) { return used | uint64_t{gpu} << 32 | token; }

    std::atomic<uint32_t> count_{0};
    std::atomic<bool> token_lock_{false};
    Channel table_[capacity];
    // Open addressing; a key once there stays there, and its channel is replaced.
    std::atomic<uint64_t> token_key_[tokens];
    std::atomic<uint32_t> token_channel_[tokens];
};

extern Channels channels;

} // namespace denizen::lens
