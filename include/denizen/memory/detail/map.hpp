// SPDX-License-Identifier: Apache-2.0
// Where the parts of an arena lie. All words of it are shared and changed atomically; zero is the
// state of a new arena except for the set of free pages, which the owner fills (memory/arena.hpp).
#pragma once

#include <denizen/base/target.hpp>
#include <denizen/memory/detail/page_set.hpp>
#include <denizen/memory/detail/size_class.hpp>

namespace denizen::arena {

// A word of a page's bitmap: 32 blocks, and whose they are. One read-modify-write answers for both,
// so that a thread that comes late (the page has been given back and serves another class) sees
// what it really got.
//   bits 0..31   blocks that are free
//   bits 32..39  class + 1 of the page, or of its last life
//   bit 40       held: a magazine has it, so nobody needs to list it
using Word = uint64_t;
inline constexpr Word held = Word{1} << 40;

DENIZEN_HD constexpr uint32_t free_of(Word w) { return static_cast<uint32_t>(w); }
DENIZEN_HD constexpr uint32_t class_in(Word w)
{
    return (static_cast<uint32_t>(w >> 32) & 0xff) - 1;
}
DENIZEN_HD constexpr Word word_of(uint32_t c, uint32_t free) { return Word{c + 1} << 32 | free; }

// What a page is: 0 free or inside of a run, class + 1, or the first of a run with its length.
inline constexpr uint32_t run_kind = 1u << 31;

inline constexpr uint32_t magazine_words = 64; // most words of one class that a magazine holds

// A magazine belongs to an SM (or to several, or to a thread of the host), which finds here what it
// used last.
struct alignas(line) Magazine {
    uint32_t recent[size_classes];    // page + 1 whose words were taken last
    uint32_t refilling[size_classes]; // threads that are about to bring a fresh page
    uint32_t home;                    // leaf + 1 of the free pages that were taken last
};

enum class FaultKind : uint32_t { double_free = 1, foreign, overrun };

struct Fault {
    FaultKind kind;
    uint32_t tag;     // of the allocation, where that is known
    uint64_t address; // that was given to deallocate()
};

inline constexpr uint32_t faults_kept = 64;

struct Tally {
    alignas(line) uint32_t free_pages; // about: it is changed after the set
    alignas(line) uint64_t failed;     // requests that found no room
    uint64_t refused;                  // calls of deallocate() with what is no live block
    uint64_t moved;                    // pages that were given back by a class
    uint32_t faults;                   // guarded arenas: more may have been than are kept
    Fault fault[faults_kept];
};

struct Map {
    unsigned char* base = nullptr; // aligned to a page
    uint32_t pages = 0;
    uint32_t magazines = 0;
    uint32_t quota_shift = 0; // log2 of the bytes of one class that a magazine may hold
    uint32_t guarded = 0;     // blocks have canaries
    PageSetShape shape;
    Word* words = nullptr;      // [pages][page_words]
    uint64_t* listed = nullptr; // [pages] words that can be taken into a magazine
    uint32_t* kinds = nullptr;  // [pages]
    uint64_t* sets = nullptr;   // [1 + size_classes][shape.words()]: free pages, listed pages
    Magazine* magazine = nullptr;
    uint32_t* slots = nullptr; // [magazines][size_classes][magazine_words]: word + 1
    Tally* tally = nullptr;

    DENIZEN_HD PageSet free_set() const { return {sets, shape}; }
    // Pages of the class that have listed words.
    DENIZEN_HD PageSet listed_set(uint32_t c) const
    {
        return {sets + uint64_t{c + 1} * shape.words(), shape};
    }
    DENIZEN_HD uint64_t bytes() const { return uint64_t{pages} * page_bytes; }

    // Words of the class that a magazine may hold, as a mask.
    DENIZEN_HD uint32_t slot_mask(uint32_t c) const
    {
        const uint32_t shift =
            bits::log2(class_bytes(c) * (blocks_of(c) < word_blocks ? blocks_of(c) : word_blocks));
        if (quota_shift <= shift) {
            return 0;
        }
        const uint32_t n = quota_shift - shift;
        return (1u << (n < 6 ? n : 6)) - 1;
    }
    DENIZEN_HD uint32_t* slots_of(uint32_t magazine_index, uint32_t c) const
    {
        return slots + (magazine_index * size_classes + c) * magazine_words;
    }
};

} // namespace denizen::arena
