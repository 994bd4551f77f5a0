// SPDX-License-Identifier: Apache-2.0
// Where a thread gets blocks, for itself or for the lanes of its warp that want the same class:
// from the word that its SM's magazine holds for its warp (one atomic), else from a listed word,
// else from a fresh page, and when there is none, from whatever any magazine still holds. Called by
// ArenaRef, by one lane of each group. Never waits for long: every loop here has a bound.
#pragma once

#include <denizen/memory/detail/coalesced.hpp>
#include <denizen/memory/detail/slab.hpp>

namespace denizen::arena {

// Blocks of one word, or all blocks of some pages of one leaf.
struct Grant {
    uint32_t at = 0; // word, or leaf
    uint32_t whole = 0;
    uint64_t bits = 0; // which blocks, or pages; 0: no room
};

// Where a magazine has a word for this warp; vacant: it had none just now.
struct Slot {
    uint32_t* at;
    bool vacant;
};

// Pages from the free set. Magazines go through the leaves with as long steps as there are
// magazines, each from its own: they do not meet before pages are few, and stay together at the
// beginning of the arena.
DENIZEN_COLD inline Leaf take_pages(const Map& a, Magazine& magazine, uint32_t index, uint32_t want,
                                    uint32_t spread)
{
    const PageSet set = a.free_set();
    const uint32_t home = load<Scope::gpu>(&magazine.home);
    uint32_t hint = (home != 0 ? home - 1 : index) % a.shape.leaves;
    constexpr uint32_t steps = 8;
    for (uint32_t n = 0; n < steps && set.leaf(hint) == 0; ++n) {
        hint = (hint + a.magazines) % a.shape.leaves;
    }
    const Leaf leaf = set.take(hint, want, spread * want % 64);
    if (leaf.pages != 0) {
        fetch_add<Scope::gpu>(&a.tally->free_pages, 0u - bits::count(leaf.pages));
        if (leaf.index + 1 != home) {
            store<Scope::gpu>(&magazine.home, leaf.index + 1);
        }
    }
    return leaf;
}

// Word x is what this warp uses from now on; whatever was there before, no more.
DENIZEN_COLD inline void install(const Map& a, uint32_t* slot, uint32_t x)
{
    const uint32_t before = exchange<Scope::gpu, deciding>(slot, x + 1);
    if (before != 0) {
        let_go(a, before - 1);
    }
}

// Blocks of word x, which the caller has taken from the list; into the slot with it if that is
// worth it: the slot is empty, or blocks of the word are left.
DENIZEN_HD inline Grant hold_of(const Map& a, uint32_t x, uint32_t c, uint32_t n, Slot slot)
{
    bool holds = slot.vacant;
    const uint32_t got = claim_and_hold(a, x, c, n, holds);
    if (holds) {
        install(a, slot.at, x);
    }
    return {x, 0, got};
}

// Of one of page's listed words.
DENIZEN_COLD inline Grant from_page(const Map& a, uint32_t page, uint32_t c, uint32_t n, Slot slot,
                                    uint32_t spread)
{
    const uint32_t x = take_listed(a, page, c, spread);
    return x != nothing ? hold_of(a, x, c, n, slot) : Grant{};
}

// A fresh page, whose other words are listed.
DENIZEN_COLD inline Grant from_fresh(const Map& a, Magazine& magazine, uint32_t index, uint32_t c,
                                     uint32_t n, Slot slot, uint32_t spread)
{
    const Leaf leaf = take_pages(a, magazine, index, 1, spread);
    if (leaf.pages == 0) {
        return {};
    }
    const uint32_t page = leaf.index * 64 + bits::first(leaf.pages);
    const uint32_t all = bits::count(all_free(c));
    const uint32_t used = n < all ? n : all;
    const bool hold = used < all || slot.vacant;
    open(a, page, c, used, hold);
    store<Scope::gpu>(&magazine.recent[c], page + 1);
    if (hold) {
        publish(); // whoever finds the word in the slot finds it as it is now
        install(a, slot.at, page * page_words);
    }
    return {page * page_words, 0, (uint64_t{1} << used) - 1};
}

// A listed word of a page near the one that this magazine used last; with `far`, of any page, in as
// many places as SMs search. `empty`: no page of the class was seen.
DENIZEN_COLD inline Grant from_list(const Map& a, Magazine& magazine, uint32_t c, uint32_t n,
                                    Slot slot, uint32_t spread, bool far, bool& empty)
{
    const PageSet set = a.listed_set(c);
    const uint32_t recent = load<Scope::gpu>(&magazine.recent[c]);
    uint32_t hint = (recent != 0 ? (recent - 1) / 64 : spread) % a.shape.leaves;
    const uint32_t tries = far ? 16 : 2;
    empty = false;
    for (uint32_t i = 0; i < tries; ++i) {
        const uint32_t leaf = far ? set.find(hint) : hint;
        if (leaf == nothing) {
            empty = true;
            break;
        }
        const uint64_t pages = set.leaf(leaf);
        if (pages != 0) {
            const uint32_t page = leaf * 64 + bits::first_from(pages, (spread + i * 7) % 64);
            const Grant grant = from_page(a, page, c, n, slot, spread);
            if (grant.bits != 0) {
                store<Scope::gpu>(&magazine.recent[c], page + 1);
                return grant;
            }
        }
        if (far) {
            hint = (spread * 2654435761u + i * 40503u) % a.shape.leaves;
        }
    }
    return {};
}

// What magazines hold of the class.
DENIZEN_COLD inline Grant from_others(const Map& a, uint32_t c, uint32_t n, uint32_t start)
{
    const uint32_t mask = a.slot_mask(c);
    for (uint32_t i = 0; i < a.magazines; ++i) {
        const uint32_t* slots = a.slots_of((start + i) % a.magazines, c);
        for (uint32_t k = 0; k <= mask; ++k) {
            const uint32_t x = load<Scope::gpu>(&slots[k]);
            const uint32_t got =
                x != 0 ? claim(a, x - 1, load<Scope::gpu>(&a.words[x - 1]), c, n) : 0;
            if (got != 0) {
                return {x - 1, 0, got};
            }
        }
    }
    return {};
}

// Empty pages that magazines hold, of any class, become free pages; true if there was one. Stops at
// the first, so that those who come at the same time do not all do all of it.
DENIZEN_COLD inline bool reclaim(const Map& a, uint32_t start)
{
    for (uint32_t i = 0; i < a.magazines; ++i) {
        for (uint32_t c = 0; c < size_classes; ++c) {
            uint32_t* slots = a.slots_of((start + i) % a.magazines, c);
            const uint32_t mask = a.slot_mask(c);
            for (uint32_t k = 0; k <= mask; ++k) {
                uint32_t x = load<Scope::gpu>(&slots[k]);
                if (x == 0 || free_of(load<Scope::gpu>(&a.words[x - 1])) != all_free(c)) {
                    continue;
                }
                const uint32_t page = (x - 1) / page_words;
                if (compare_exchange<Scope::gpu, deciding>(&slots[k], x, 0u)) {
                    let_go(a, x - 1);
                    if (load<Scope::gpu>(&a.kinds[page]) == 0) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

// Whole pages for lanes that need as many: all with one atomic, and no magazine has to know.
DENIZEN_COLD inline Grant from_whole(const Map& a, Magazine& magazine, uint32_t index, uint32_t c,
                                     uint32_t n, uint32_t spread)
{
    const Leaf leaf = take_pages(a, magazine, index, n >> blocks_shift(c), spread);
    for (uint64_t rest = leaf.pages; rest != 0; rest &= rest - 1) { // a page in each turn
        open(a, leaf.index * 64 + bits::first(rest), c, blocks_of(c), false);
    }
    return {leaf.index, 1, leaf.pages};
}

// Where there is no free page: what is listed anywhere, what magazines hold, and pages that they
// hold of other classes.
DENIZEN_COLD inline Grant from_anywhere(const Map& a, Magazine& magazine, uint32_t index,
                                        uint32_t c, uint32_t n, Slot slot, uint32_t spread)
{
    bool empty = false;
    Grant grant = from_list(a, magazine, c, n, slot, spread, true, empty);
    if (grant.bits == 0) {
        grant = from_others(a, c, n, index);
    }
    if (grant.bits == 0) {
        reclaim(a, index);
        grant = from_fresh(a, magazine, index, c, n, slot, spread);
    }
    return grant;
}

// Up to n blocks of class c, fewer if that is what is at hand; none if there is no room.
//
// While pages are plenty, an SM keeps to its own, and several of its warps may bring a fresh one at
// the same time: enough words for all of them. When half of them are in use, what is listed
// anywhere comes first, one thread of an SM at a time brings a fresh page for a class, and none
// while the class has listed pages that others are just taking words from. These are limits of
// haste, for as dense a use as can be; that a request fails only if it must does not depend on
// them.
DENIZEN_COLD inline Grant refill(const Map& a, uint32_t c, uint32_t n, uint32_t index, Slot slot,
                                 uint32_t spread)
{
    Magazine& magazine = a.magazine[index];
    constexpr uint32_t rounds = 64;
    constexpr uint32_t patience = 16; // rounds without a fresh page, though there are some
    constexpr uint32_t enough = 4;    // a search may miss what another thread is just moving
    uint32_t searches = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint32_t pages = load<Scope::gpu>(&a.tally->free_pages);
        const bool plenty = pages > a.pages / 2;
        const bool whole = n >= blocks_of(c);
        Grant grant;
        if (whole && plenty) {
            grant = from_whole(a, magazine, index, c, n, spread);
        }
        const uint32_t recent = load<Scope::gpu>(&magazine.recent[c]);
        if (grant.bits == 0 && recent != 0) {
            grant = from_page(a, recent - 1, c, n, slot, spread);
        }
        if (grant.bits != 0) {
            return grant;
        }
        bool empty = false;
        grant = from_list(a, magazine, c, n, slot, spread + round, !plenty, empty);
        if (grant.bits != 0) {
            return grant;
        }
        if (pages == 0) {
            grant = from_anywhere(a, magazine, index, c, n, slot, spread + round);
            if (grant.bits != 0 || ++searches == enough) {
                return grant;
            }
        } else if (plenty || empty || round >= patience) {
            const uint32_t at_once = plenty ? 1 + page_words / words_of(c) : 1;
            if (fetch_add<Scope::gpu>(&magazine.refilling[c], 1u) < at_once) {
                grant = whole ? from_whole(a, magazine, index, c, n, spread)
                              : from_fresh(a, magazine, index, c, n, slot, spread);
            }
            fetch_add<Scope::gpu>(&magazine.refilling[c], ~0u);
            if (grant.bits != 0) {
                return grant;
            }
        }
        let_others();
    }
    return from_anywhere(a, magazine, index, c, n, slot, spread);
}

// Blocks of class c for n lanes: up to n, fewer if that is what is at hand; none if there is no
// room.
//
// A full warp uses a whole word, so whoever only allocates finds nothing in its slot: the way past
// it, to a listed word of the SM's recent page, is as common. Its two loads are on their way with
// those of the slot: four accesses one after the other for a whole word, and none to what all SMs
// share. (1 Mi threads take 32,768 words: two atomics each, on as many addresses, are a microsecond
// for the L2, and the 8 MB of addresses that they store are three. What counts is how many accesses
// wait for each other, and that none is to one address for all: 32,768 loads of one are 20 us.)
DENIZEN_HD inline Grant grant(const Map& a, uint32_t c, uint32_t n)
{
    const Spot spot = Spot::here();
    const uint32_t index = spot.sm % a.magazines;
    const uint32_t spread = spot.sm * 7 + spot.warp;
    uint32_t* const slot = a.slots_of(index, c) + (spot.warp & a.slot_mask(c));
    const uint32_t x = load<Scope::gpu>(slot);
    const uint32_t recent = load<Scope::gpu>(&a.magazine[index].recent[c]);
    const Word now = x != 0 ? load<Scope::gpu>(&a.words[x - 1]) : 0;
    const uint64_t listed = recent != 0 ? load<Scope::gpu>(&a.listed[recent - 1]) : 0;
    if (x != 0) {
        const uint32_t got = claim(a, x - 1, now, c, n);
        if (got != 0) {
            return {x - 1, 0, got};
        }
    }
    if (n < blocks_of(c) && (listed & words_mask(c)) != 0) {
        const uint32_t y = take_of(a, recent - 1, listed, c, spread);
        const Grant grant = y != nothing ? hold_of(a, y, c, n, {slot, x == 0}) : Grant{};
        if (grant.bits != 0) {
            return grant;
        }
    }
    return refill(a, c, n, index, {slot, x == 0}, spread);
}

} // namespace denizen::arena
