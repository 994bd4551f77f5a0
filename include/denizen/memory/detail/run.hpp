// SPDX-License-Identifier: Apache-2.0
// Runs of whole pages, for requests above the largest class. They come from the end of the arena,
// so that the pages of small blocks, which come from its beginning, do not lie between them.
// Called by ArenaRef.
#pragma once

#include <denizen/memory/detail/magazine.hpp>

namespace denizen::arena {

namespace detail {

// The pages of leaf i that lie in [first, first + n).
DENIZEN_HD inline uint64_t pages_in(uint32_t i, uint32_t first, uint32_t n)
{
    const uint32_t begin = first > i * 64 ? first - i * 64 : 0;
    const uint32_t end = first + n < i * 64 + 64 ? first + n - i * 64 : 64;
    return (~uint64_t{0} >> (64 - (end - begin))) << begin;
}

DENIZEN_HD inline void give_pages(const Map& a, uint32_t first, uint32_t n)
{
    for (uint32_t i = first / 64; i <= (first + n - 1) / 64; ++i) {
        a.free_set().insert(i, pages_in(i, first, n));
    }
    fetch_add<Scope::gpu>(&a.tally->free_pages, n);
}

// All of [first, first + n), or none.
DENIZEN_HD inline bool take_exactly(const Map& a, uint32_t first, uint32_t n)
{
    for (uint32_t i = first / 64; i <= (first + n - 1) / 64; ++i) {
        const uint64_t wanted = pages_in(i, first, n);
        const uint64_t got = a.free_set().remove(i, wanted);
        if (got != wanted) {
            a.free_set().insert(i, got);
            for (uint32_t k = first / 64; k < i; ++k) {
                a.free_set().insert(k, pages_in(k, first, n));
            }
            return false;
        }
    }
    fetch_add<Scope::gpu>(&a.tally->free_pages, 0u - n);
    return true;
}

// The highest n consecutive free pages that are seen and then got; `nothing` if there are none.
DENIZEN_HD inline uint32_t search_run(const Map& a, uint32_t n)
{
    uint32_t run = 0; // free pages seen from here upwards
    for (uint32_t i = a.shape.leaves; i-- > 0;) {
        const uint64_t here = a.free_set().leaf(i);
        if (here == 0) {
            run = 0;
            continue;
        }
        for (uint32_t b = 64; b-- > 0;) {
            run = (here >> b & 1) != 0 ? run + 1 : 0;
            if (run == n) {
                if (take_exactly(a, i * 64 + b, n)) {
                    return i * 64 + b;
                }
                run = 0;
            }
        }
    }
    return nothing;
}

} // namespace detail

// The first of n > 1 pages, or `nothing`.
DENIZEN_COLD inline uint32_t take_run(const Map& a, uint64_t n)
{
    if (n > a.pages) {
        return nothing;
    }
    constexpr uint32_t searches = 3; // others may take what was seen, or hold what is empty
    for (uint32_t i = 0; i < searches; ++i) {
        const uint32_t first = detail::search_run(a, static_cast<uint32_t>(n));
        if (first != nothing) {
            store<Scope::gpu>(&a.kinds[first], run_kind | static_cast<uint32_t>(n));
            return first;
        }
        for (uint32_t k = 0; k < a.pages && reclaim(a, k); ++k) { // ends: each turn frees a page
        }
    }
    return nothing;
}

// False if no run begins at this page.
DENIZEN_COLD inline bool give_run(const Map& a, uint32_t first)
{
    uint32_t kind = load<Scope::gpu>(&a.kinds[first]);
    publish(); // what its user did to it comes before what the next ones do
    // Of two that free the same run one fails here.
    if ((kind & run_kind) == 0 ||
        !compare_exchange<Scope::gpu, deciding>(&a.kinds[first], kind, 0u)) {
        return false;
    }
    detail::give_pages(a, first, kind & ~run_kind);
    return true;
}

} // namespace denizen::arena
