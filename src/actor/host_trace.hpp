// SPDX-License-Identifier: Apache-2.0
// The host's own part of a trace: its hybrid logical clock, and records of what it sent and
// received. Any thread; a bounded store, whose oldest record is overwritten.
#pragma once

#include "port.hpp"

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/trace.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/hlc.hpp>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace denizen {

// Behind a message's payload: HostTrace::take_stamp() takes it from there.
inline void put_stamp(Header& h, std::vector<unsigned char>& payload, uint64_t stamp)
{
    payload.resize(h.length + stamp_bytes);
    std::memcpy(payload.data() + h.length, &stamp, stamp_bytes);
    h.length += stamp_bytes;
    h.flags |= flag_traced;
}

class HostTrace {
public:
    // Whether what the host sends gets a stamp.
    bool on() const { return on_.load(std::memory_order_relaxed); }
    void set(bool on) { on_.store(on, std::memory_order_relaxed); }
    void open(size_t capacity) { capacity_ = capacity; }

    uint64_t draw() { return hlc::tick<Scope::system>(&clock_, hlc::now_us()).value; }

    void sent(const Header& h, uint64_t stamp, uint64_t begin_ns)
    {
        keep({begin_ns, 0, stamp, h.sender, no_type, h.destination, h.type, trace_host,
              TraceKind::send});
    }

    // `h`: as it came, with `stamp` behind the payload.
    void received(const Header& h, uint64_t stamp)
    {
        hlc::Stamp drawn;
        hlc::update<Scope::system>(&clock_, {stamp}, hlc::now_us(), drawn);
        keep({now_ns(), 0, stamp, h.destination, no_type, h.sender, h.type, trace_host,
              TraceKind::handler});
    }

    // Takes a message's stamp from behind its payload; nothing if it has none.
    void take_stamp(Header& h, const unsigned char* payload)
    {
        if ((h.flags & flag_traced) != 0) {
            uint64_t stamp = 0;
            std::memcpy(&stamp, payload + payload_bytes(h), sizeof stamp);
            received(h, stamp);
            h = without_stamp(h);
        }
    }

    // Moves the records to `records`; returns how many were overwritten since the last call.
    uint64_t take(std::vector<TraceRecord>& records)
    {
        const std::lock_guard guard(lock_);
        records.insert(records.end(), kept_.begin(), kept_.end());
        kept_.clear();
        return std::exchange(overwritten_, 0);
    }

private:
    void keep(const TraceRecord& record)
    {
        const std::lock_guard guard(lock_);
        if (capacity_ == 0) { // a snapshot's message came to a program that has no trace
            return;
        }
        if (kept_.size() == capacity_) {
            kept_.pop_front();
            ++overwritten_;
        }
        kept_.push_back(record);
    }

    std::atomic<bool> on_{false};
    uint64_t clock_ = 0;
    SpinLock lock_;
    size_t capacity_ = 0;
    std::deque<TraceRecord> kept_;
    uint64_t overwritten_ = 0;
};

} // namespace denizen
