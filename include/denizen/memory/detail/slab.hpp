// SPDX-License-Identifier: Apache-2.0
// Pages that are cut into blocks of one class. Claiming and giving back blocks is one atomic on a
// word of the page's bitmap; the rest here is about finding words that have free blocks, and about
// pages that have become empty, which go back to the free pages for any class. Called by the
// magazines and by ArenaRef.
//
// A word with free blocks is either held by a magazine or listed: its bit in `listed`, and its
// page in the class's set. Who lists it follows from the order of the changes of the word itself:
// whoever makes it not empty while it is not held, and whoever lets go of it while it is not
// empty. A listing may be out of date (all blocks are taken meanwhile, or the page serves another
// class): the word itself tells.
#pragma once

#include <denizen/memory/detail/map.hpp>

namespace denizen::arena {

// Makes word x of class c findable. Each of the two is unconditional: to look whether it is there
// would race with whoever is taking it away.
DENIZEN_COLD inline void list(const Map& a, uint32_t x, uint32_t c)
{
    const uint32_t page = x / page_words;
    fetch_or<Scope::gpu, deciding>(&a.listed[page], uint64_t{1} << x % page_words);
    a.listed_set(c).insert(page / 64, uint64_t{1} << page % 64);
}

// Takes page out of the class's set, since it has no listed word; and back if it has one now.
DENIZEN_COLD inline void unlist(const Map& a, uint32_t page, uint32_t c)
{
    const uint64_t bit = uint64_t{1} << page % 64;
    a.listed_set(c).remove(page / 64, bit);
    if ((load<Scope::gpu>(&a.listed[page]) & words_mask(c)) != 0) {
        a.listed_set(c).insert(page / 64, bit);
    }
}

// Takes one of page's words that were listed when the caller looked, `here`; `nothing` if others
// are always first. `spread` says which of those that are there: threads that look at the same time
// and have consecutive ones want different words, also when the first half of the page is gone.
// (The first from a place on would be the same word for all whose places are taken.)
DENIZEN_HD inline uint32_t take_of(const Map& a, uint32_t page, uint64_t here, uint32_t c,
                                   uint32_t spread)
{
    here &= words_mask(c);
    constexpr uint32_t tries = 4;
    for (uint32_t n = 0; n < tries && here != 0; ++n) {
        const uint32_t w = bits::select(here, spread % bits::count(here));
        const uint64_t bit = uint64_t{1} << w;
        const uint64_t before = fetch_and<Scope::gpu, deciding>(&a.listed[page], ~bit);
        here = before & ~bit & words_mask(c);
        if (here == 0) {
            unlist(a, page, c);
        }
        if ((before & bit) != 0) {
            return page * page_words + w;
        }
    }
    return nothing;
}

// Takes one of page's listed words; `nothing` if it has none.
DENIZEN_COLD inline uint32_t take_listed(const Map& a, uint32_t page, uint32_t c, uint32_t spread)
{
    const uint64_t here = load<Scope::gpu>(&a.listed[page]);
    if ((here & words_mask(c)) != 0) {
        return take_of(a, page, here, c, spread);
    }
    if (a.listed_set(c).has(page)) { // many come here at once: to look is cheaper
        unlist(a, page, c);
    }
    return nothing;
}

namespace detail {

constexpr uint32_t in_flight = 8; // accesses that do not wait for each other

// Takes all blocks of the page, word by word, if all are free and no magazine holds any. Else none:
// returns false, and whether it is worth another try. Of several who try at once the one that gets
// the first word goes on: if each took some words, none would get the page.
DENIZEN_HD inline bool take_all(Word* bitmap, uint32_t words, Word empty, const Map& a, uint32_t x,
                                bool& again)
{
    again = false;
    for (uint32_t w = 0; w < words; w += in_flight) {
        bool all = true;
        for (uint32_t k = 0; k < in_flight; ++k) {
            all &= w + k >= words || load<Scope::gpu>(&bitmap[w + k]) == empty;
        }
        if (!all) {
            return false;
        }
    }
    const uint32_t c = class_in(empty);
    again = true;
    Word first = empty;
    if (!compare_exchange<Scope::gpu, deciding>(&bitmap[0], first, word_of(c, 0))) {
        return false;
    }
    uint64_t taken = 1;
    bool all = true;
    for (uint32_t w = 1; w < words && all; w += in_flight) {
        for (uint32_t k = 0; k < in_flight; ++k) {
            Word expected = empty;
            if (w + k < words &&
                compare_exchange<Scope::gpu, deciding>(&bitmap[w + k], expected, word_of(c, 0))) {
                taken |= uint64_t{1} << (w + k);
            } else {
                all &= w + k >= words;
            }
        }
    }
    if (all) {
        return true;
    }
    for (; taken != 0; taken &= taken - 1) { // whoever came by has seen it empty: list it again
        const uint32_t w = bits::first(taken);
        fetch_or<Scope::gpu, deciding>(&bitmap[w], Word{all_free(c)});
        list(a, x + w, c);
    }
    return false;
}

} // namespace detail

// If all blocks of the page are free and no magazine holds any, it goes back to the free pages.
// Once all blocks are taken nobody else has one, or can get one.
DENIZEN_COLD inline bool retire(const Map& a, uint32_t page, uint32_t c)
{
    Word* const bitmap = a.words + uint64_t{page} * page_words;
    bool again = true; // a word that was in the way may be free by then, and its freer gone
    constexpr uint32_t tries = 16;
    for (uint32_t n = 0; n < tries && again; ++n) {
        if (detail::take_all(bitmap, words_of(c), word_of(c, all_free(c)), a, page * page_words,
                             again)) {
            const uint64_t bit = uint64_t{1} << page % 64;
            if (load<Scope::gpu>(&a.listed[page]) != 0) {
                store<Scope::gpu>(&a.listed[page], uint64_t{0});
                a.listed_set(c).remove(page / 64, bit);
            }
            store<Scope::gpu>(&a.kinds[page], 0u);
            publish();
            a.free_set().insert(page / 64, bit);
            fetch_add<Scope::gpu>(&a.tally->free_pages, 1u);
            fetch_add<Scope::gpu>(&a.tally->moved, uint64_t{1});
            return true;
        }
    }
    return false;
}

// After a free that made word x not empty, or full: it is to be found, or its page may be empty.
DENIZEN_COLD inline void after_release(const Map& a, uint32_t x, Word before, uint32_t blocks)
{
    const uint32_t c = class_in(before);
    const uint32_t free = free_of(before) | blocks;
    const bool retired =
        free == all_free(c) && free != free_of(before) && retire(a, x / page_words, c);
    if (!retired && free_of(before) == 0) {
        list(a, x, c);
    }
}

// Blocks of word x are free again. Returns those of them that were free before, which is an error
// of the caller's. Release on the host, and a fence on the device: what their users did to them
// comes before what the next ones do (partner: claim()).
DENIZEN_HD inline uint32_t release(const Map& a, uint32_t x, uint32_t blocks)
{
    const Word before = fetch_or<Scope::gpu, Order::release>(&a.words[x], Word{blocks});
    if ((before & held) == 0 &&
        (free_of(before) == 0 || (free_of(before) | blocks) == all_free(class_in(before)))) {
        after_release(a, x, before, blocks);
    }
    return free_of(before) & blocks;
}

// Takes up to n blocks of word x that are free in `now`, as it was seen; 0 if there are none.
// Acquire on the host. On the device whoever uses a block depends on the result through its
// address, so that nothing comes earlier.
DENIZEN_HD inline uint32_t claim(const Map& a, uint32_t x, Word now, uint32_t c, uint32_t n)
{
    constexpr Order order = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;
    const uint32_t wanted = static_cast<uint32_t>(bits::lowest(free_of(now), n));
    if (wanted == 0 || class_in(now) != c) {
        return 0;
    }
    const Word before = fetch_and<Scope::gpu, order>(&a.words[x], ~Word{wanted});
    const uint32_t got = free_of(before) & wanted;
    if (got != 0 && class_in(before) != c) { // the page has changed its class in between
        release(a, x, got);
        return 0;
    }
    return got;
}

// As claim(), for a word that the caller has taken from the list. The caller holds it then,
// `holds`, if free blocks are left, or if it wants to in any case.
DENIZEN_COLD inline uint32_t claim_and_hold(const Map& a, uint32_t x, uint32_t c, uint32_t n,
                                            bool& holds)
{
    Word now = word_of(c, all_free(c)); // a guess; what is not so, the first failure tells
    constexpr uint32_t tries = 8;       // another: somebody has freed or claimed blocks of it
    for (uint32_t i = 0; i < tries; ++i) {
        const uint32_t wanted = static_cast<uint32_t>(bits::lowest(free_of(now), n));
        if (wanted == 0 || class_in(now) != c || (now & held) != 0) {
            break;
        }
        const bool hold = holds || wanted != free_of(now);
        const Word desired = (now & ~Word{wanted}) | (hold ? held : 0);
        if (compare_exchange<Scope::gpu, deciding>(&a.words[x], now, desired)) {
            holds = hold;
            return wanted;
        }
    }
    holds = false;
    // Its listing is gone, by us: it needs another if it has free blocks, whosever they are.
    if (free_of(now) != 0 && (now & held) == 0) {
        list(a, x, class_in(now));
    }
    return 0;
}

// The caller holds word x no more.
DENIZEN_COLD inline void let_go(const Map& a, uint32_t x)
{
    const Word before = fetch_and<Scope::gpu, deciding>(&a.words[x], ~held);
    const uint32_t c = class_in(before);
    if (free_of(before) == 0 || (free_of(before) == all_free(c) && retire(a, x / page_words, c))) {
        return;
    }
    list(a, x, c);
}

// A free page that the caller has taken becomes one of class c, of whose first `used` blocks (at
// most a word's) the caller disposes. Its first word is held if `hold`, all others are listed.
DENIZEN_COLD inline void open(const Map& a, uint32_t page, uint32_t c, uint32_t used, bool hold)
{
    Word* const bitmap = a.words + uint64_t{page} * page_words;
    const uint32_t words = words_of(c);
    const uint32_t left = all_free(c) & ~static_cast<uint32_t>((uint64_t{1} << used) - 1);
    // Release on the host: who claims a block finds done what its owners in the page's earlier life
    // did to it. On the device those have fenced before they freed it.
    constexpr Order order = DENIZEN_ON_DEVICE ? Order::relaxed : Order::release;
    store<Scope::gpu, order>(&bitmap[0], word_of(c, left) | (hold ? held : 0));
    for (uint32_t w = 1; w < words; ++w) {
        store<Scope::gpu, order>(&bitmap[w], word_of(c, all_free(c)));
    }
    store<Scope::gpu>(&a.kinds[page], c + 1);
    if (words > 1) {
        publish();
        fetch_or<Scope::gpu, deciding>(&a.listed[page], words_mask(c) & ~uint64_t{1});
        a.listed_set(c).insert(page / 64, uint64_t{1} << page % 64);
    }
}

} // namespace denizen::arena
