// SPDX-License-Identifier: Apache-2.0
// What the host does with the rings of trace records (trace.hpp): it drains them now and then.
#pragma once

#include <denizen/actor/detail/trace.hpp>

#include <vector>

namespace denizen {

// Reads the rings of all workers: on the CPU backend where they are, on a GPU from a copy in host
// memory, aligned to 128 as the rings are. Each drain goes on where the last one ended. One thread
// at a time.
class TraceReader {
public:
    TraceReader(uint32_t workers, uint32_t capacity) : capacity_(capacity), next_(workers, 0) {}

    // Appends what has been written since the last drain: worker after worker, each in the order in
    // which its records were begun. It stops at one that is still being written; if the program has
    // `stopped`, nobody writes any more, and such a one is counted as lost.
    void drain(const void* block, std::vector<TraceRecord>& records, bool stopped)
    {
        for (uint32_t w = 0; w < next_.size(); ++w) {
            drain(trace_ring(const_cast<void*>(block), capacity_, w), next_[w], records, stopped);
        }
    }

    // Records that no drain got: written over before one came by, or never finished.
    uint64_t overwritten() const { return overwritten_; }

private:
    enum class Found { whole, being_written, overwritten };

    static Found find(const Slot& slot, uint32_t sequence, TraceRecord& record)
    {
        uint32_t word[12];
        bool whole = true;
        for (uint32_t k = 0; k < 4; ++k) {
            const Packet p = load_packet<Scope::system>(&slot.packet[k]);
            if (static_cast<int32_t>(p.sequence - sequence) > 0) {
                return Found::overwritten; // a later ticket has been here
            }
            whole &= p.sequence == sequence;
            copy_bytes(word + 3 * k, p.word, sizeof p.word);
        }
        copy_bytes(&record, word, sizeof record);
        return whole ? Found::whole : Found::being_written;
    }

    void drain(const TraceRing& ring, uint64_t& next, std::vector<TraceRecord>& records,
               bool stopped)
    {
        const uint64_t tail = load<Scope::system>(ring.tail);
        if (tail > next && tail - next > capacity_) {
            overwritten_ += tail - next - capacity_;
            next = tail - capacity_;
        }
        for (; next < tail; ++next) {
            TraceRecord record;
            const Found found =
                find(ring.slots[next & ring.mask], static_cast<uint32_t>(next) + 1, record);
            if (found == Found::being_written && !stopped) {
                return; // whole at a later drain, or overwritten by then
            }
            if (found == Found::whole) {
                records.push_back(record);
            } else {
                ++overwritten_;
            }
        }
    }

    uint32_t capacity_;
    std::vector<uint64_t> next_; // [workers]: ticket to read next
    uint64_t overwritten_ = 0;
};

} // namespace denizen
