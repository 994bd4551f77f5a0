// SPDX-License-Identifier: Apache-2.0
// Walks the stack from inside one shared library to the function by which it was entered, by the
// library's own call-frame information. Inside a signal handler: no lock, no allocation, and every
// read of the stack may fail.
#pragma once

#include <atomic>
#include <cstdint>

namespace denizen::lens {

class Unwinder {
public:
    // `table`: the library's .eh_frame_hdr; its code is [low, high). Once, before the first walk.
    void learn(uint64_t table, uint64_t low, uint64_t high);

    // The address inside the library that is furthest up the stack before the first frame outside
    // of it, or 0: the walk did not start in the library, or lost its way.
    uint64_t entry(uint64_t rip, uint64_t rsp, uint64_t rbp);

private:
    struct Rule {
        bool is_known = false;
        bool is_on_rbp = false; // the frame's end is rbp + offset, else rsp + offset
        bool has_rbp = false;   // the caller's rbp is at the frame's end + rbp_offset
        int32_t offset = 0;
        int32_t rbp_offset = 0;
    };
    struct Cached {
        std::atomic<uint64_t> address; // 0 empty, 1 being written
        std::atomic<uint64_t> rule;
    };
    static constexpr uint32_t cache_size = 1024;

    bool holds(uint64_t address) const { return address >= low_ && address < high_; }
    Rule look_up(uint64_t address);
    Rule interpret(uint64_t address) const;
    uint64_t find_description(uint64_t address) const;

    uint64_t table_ = 0, low_ = 0, high_ = 0;
    Cached cache_[cache_size] = {};
};

} // namespace denizen::lens
