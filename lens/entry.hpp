// SPDX-License-Identifier: Apache-2.0
// A GPFIFO entry: where a pushbuffer segment is and how long, or a control word (dev_ram.ref.txt).
#pragma once

#include <cstdint>

namespace denizen::lens {

struct Entry {
    uint64_t raw;

    uint32_t low() const { return static_cast<uint32_t>(raw); }
    uint32_t high() const { return static_cast<uint32_t>(raw >> 32); }
    uint32_t words() const { return high() >> 10 & most_words; } // 0: a control entry
    uint32_t bytes() const { return words() * 4; }
    uint64_t address() const { return (low() & ~3u) | uint64_t{high() & 0xff} << 32; }
    bool is_base() const { return bytes() == 0 && (high() & 0xff) == 4; }
    uint64_t base() const { return uint64_t{low() >> 8 & 0x1ffff} << 40; }

    // The same kind of entry (fetch, level, wait) for another segment.
    Entry with(uint64_t address, uint32_t words) const
    {
        const uint64_t kept = raw & (uint64_t{1} << 63 | uint64_t{3} << 40 | 3);
        return {kept | (address & (address_limit - 4)) | uint64_t{words} << 42};
    }

    static constexpr uint32_t most_words = 0x1fffff;
    static constexpr uint64_t address_limit = uint64_t{1} << 40; // beyond it a base is needed
};

} // namespace denizen::lens
