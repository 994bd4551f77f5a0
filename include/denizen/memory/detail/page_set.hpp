// SPDX-License-Identifier: Apache-2.0
// A set of pages that any thread may change and search: a bit for each page, and two levels above
// that say where there are any, 64 to one. Called by the arena for its free pages and, of each size
// class, for the pages with free blocks.
//
// A bit above stands for a word below that is not zero. Whoever makes a word not zero sets the bit
// above; whoever makes it zero clears the bit above, looks at the word again, and sets the bit if
// it is not zero any more. Both are read-modify-writes of the word above, so they have an order: if
// the setter came first, the clearer's second look sees what it set, and if it came last the bit is
// set. Between clearing and the second look a search may miss the pages of that word: whoever finds
// nothing and must be sure searches again.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/bits.hpp>

namespace denizen::arena {

inline constexpr uint32_t nothing = ~0u;

// The order of the arena's read-modify-writes whose result decides what the thread does next. On
// the device that decision is what orders them: a thread issues nothing beyond a branch before it
// has what the branch depends on, and all these words live in the L2. A fence there would cost more
// than the access. What a thread has merely stored needs publish() before another may find it.
inline constexpr Order deciding = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acq_rel;

DENIZEN_HD inline void publish()
{
    // On the host the read-modify-write that follows is a release.
#if DENIZEN_ON_DEVICE
    denizen::detail::fence_if<Scope::gpu>(true);
#endif
}

// Pages of one leaf, which is 64 pages.
struct Leaf {
    uint32_t index = nothing;
    uint64_t pages = 0;
};

struct PageSetShape {
    uint32_t leaves = 0;
    uint32_t mids = 0;
    uint32_t tops = 0;

    DENIZEN_HD static constexpr PageSetShape of(uint32_t pages)
    {
        const uint32_t leaves = (pages + 63) / 64;
        const uint32_t mids = (leaves + 63) / 64;
        return {leaves, mids, (mids + 63) / 64};
    }
    DENIZEN_HD constexpr uint32_t words() const { return leaves + mids + tops; }
};

class PageSet {
public:
    DENIZEN_HD PageSet(uint64_t* words, const PageSetShape& shape)
        : leaves_(words), mids_(words + shape.leaves), tops_(mids_ + shape.mids), shape_(shape)
    {
    }

    DENIZEN_HD uint64_t leaf(uint32_t i) const { return load<Scope::gpu>(&leaves_[i]); }
    DENIZEN_HD bool has(uint32_t page) const { return (leaf(page / 64) >> page % 64 & 1) != 0; }

    DENIZEN_HD void insert(uint32_t i, uint64_t pages) const
    {
        if (fetch_or<Scope::gpu, deciding>(&leaves_[i], pages) == 0) {
            raise(i);
        }
    }

    // Returns those of `pages` that were in the set: they are the caller's alone now.
    DENIZEN_HD uint64_t remove(uint32_t i, uint64_t pages) const
    {
        return change(i, ~pages) & pages;
    }

    // A leaf that has pages, near `hint` where that is possible; `nothing` if none was seen.
    DENIZEN_HD uint32_t find(uint32_t hint) const
    {
        if (leaf(hint) != 0) {
            return hint;
        }
        for (uint32_t n = 0; n < shape_.tops; ++n) {
            const uint32_t t = (hint / 4096 + n) % shape_.tops;
            for (uint64_t top = load<Scope::gpu>(&tops_[t]); top != 0;) { // each turn clears a bit
                const uint32_t b = bits::first_from(top, hint / 64 % 64);
                const uint64_t mid = load<Scope::gpu>(&mids_[t * 64 + b]);
                if (mid != 0) {
                    return (t * 64 + b) * 64 + bits::first_from(mid, hint % 64);
                }
                top &= ~(uint64_t{1} << b);
            }
        }
        return nothing;
    }

    // Takes up to `want` pages of one leaf, those from bit `start` on if they are there: callers at
    // the same leaf should not all want the same. None if the set is empty, or others were always
    // first.
    DENIZEN_HD Leaf take(uint32_t hint, uint32_t want, uint32_t start) const
    {
        constexpr uint32_t tries = 64;
        uint32_t n = 0;
        while (n < tries) {
            const uint32_t i = find(hint);
            if (i == nothing) {
                return {};
            }
            // What a failure has seen is newer than another load would be.
            for (uint64_t here = leaf(i); here != 0 && n < tries; ++n) {
                const uint64_t wanted = bits::lowest_from(here, want, start);
                const uint64_t before = change(i, ~wanted);
                if ((before & wanted) != 0) {
                    return {i, before & wanted};
                }
                here = before & ~wanted;
            }
            ++n;
            hint = i + 1 < shape_.leaves ? i + 1 : 0;
        }
        return {};
    }

private:
    DENIZEN_HD uint64_t change(uint32_t i, uint64_t keep) const
    {
        const uint64_t before = fetch_and<Scope::gpu, deciding>(&leaves_[i], keep);
        if (before != 0 && (before & keep) == 0) {
            lower(i);
        }
        return before;
    }

    // Leaf i is not empty.
    DENIZEN_HD void raise(uint32_t i) const
    {
        const uint32_t m = i / 64;
        if (fetch_or<Scope::gpu, deciding>(&mids_[m], uint64_t{1} << i % 64) == 0) {
            fetch_or<Scope::gpu, deciding>(&tops_[m / 64], uint64_t{1} << m % 64);
        }
    }

    // Leaf i has become empty.
    DENIZEN_HD void lower(uint32_t i) const
    {
        const uint32_t m = i / 64;
        const uint64_t bit = uint64_t{1} << i % 64;
        const uint64_t mid = fetch_and<Scope::gpu, deciding>(&mids_[m], ~bit);
        if ((mid & ~bit) == 0) {
            const uint64_t above = uint64_t{1} << m % 64;
            fetch_and<Scope::gpu, deciding>(&tops_[m / 64], ~above);
            if (load<Scope::gpu>(&mids_[m]) != 0) {
                fetch_or<Scope::gpu, deciding>(&tops_[m / 64], above);
            }
        }
        if (leaf(i) != 0) {
            raise(i);
        }
    }

    uint64_t* leaves_;
    uint64_t* mids_;
    uint64_t* tops_;
    const PageSetShape& shape_;
};

} // namespace denizen::arena
