// SPDX-License-Identifier: Apache-2.0
// The arena's sizes: blocks of 16 bytes to 32 KiB by powers of two, cut from pages of 32 KiB, and
// runs of whole pages for whatever is larger. A request is rounded up to its class.
#pragma once

#include <denizen/base/bits.hpp>

namespace denizen::arena {

inline constexpr uint32_t page_shift = 15;
inline constexpr uint64_t page_bytes = uint64_t{1} << page_shift;
inline constexpr uint32_t least_shift = 4;
inline constexpr uint32_t size_classes = page_shift - least_shift + 1;
inline constexpr uint32_t word_blocks = 32; // blocks that one word of a page's bitmap stands for
inline constexpr uint32_t page_words = 64;  // words of a page of the smallest blocks

// Of 1 to page_bytes bytes.
DENIZEN_HD inline uint32_t class_of(uint64_t bytes)
{
    return bytes <= 16 ? 0 : bits::log2(bytes - 1) + 1 - least_shift;
}
DENIZEN_HD constexpr uint64_t class_bytes(uint32_t c) { return uint64_t{1} << (c + least_shift); }
DENIZEN_HD constexpr uint32_t blocks_shift(uint32_t c) { return page_shift - least_shift - c; }
// Blocks of a page.
DENIZEN_HD constexpr uint32_t blocks_of(uint32_t c) { return 1u << blocks_shift(c); }
// Words of its bitmap that are used.
DENIZEN_HD constexpr uint32_t words_of(uint32_t c)
{
    return blocks_of(c) > word_blocks ? blocks_of(c) / word_blocks : 1;
}
// Those words, as bits.
DENIZEN_HD constexpr uint64_t words_mask(uint32_t c) { return ~uint64_t{0} >> (64 - words_of(c)); }
// A word all of whose blocks are free.
DENIZEN_HD constexpr uint32_t all_free(uint32_t c)
{
    return ~0u >> (word_blocks - (blocks_of(c) < word_blocks ? blocks_of(c) : word_blocks));
}

DENIZEN_HD constexpr uint64_t pages_for(uint64_t bytes)
{
    return bytes / page_bytes + (bytes % page_bytes != 0 ? 1 : 0);
}

// What a request takes of the arena.
DENIZEN_HD inline uint64_t rounded(uint64_t bytes)
{
    return bytes <= page_bytes ? class_bytes(class_of(bytes)) : pages_for(bytes) * page_bytes;
}

} // namespace denizen::arena
