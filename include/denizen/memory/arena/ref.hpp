// SPDX-License-Identifier: Apache-2.0
// The arena as the threads that use it see it: any kernel, any handler, any thread of the host. A
// copy is the same arena; it is a pointer. Its owner is Arena
// (memory/arena.hpp).
//
// Why it is fast. The lanes of a warp that allocate together and want the same class share one
// atomic: a word of a page's bitmap has 32 blocks, so a full warp takes a whole word. Which word:
// the one that the SM's magazine holds for this warp, so warps of different SMs, and mostly those
// of one, never touch the same word. Freeing is one atomic for all lanes whose blocks lie in the
// same word. What it costs on an H100, before measuring: an atomic whose result is used is about
// 0.4 us away, and one address takes about 2.4 G of them a second. Nothing on the way is one
// address for all, so the time is that of latencies: three accesses for allocate (slot, word,
// atomic), and two and a fence for deallocate: below 3 us for a pair. 2,048 warps in 3 us are 22 G
// pairs a second; 8,448 resident warps with four atomics each at a first use, 40 G blocks.
#pragma once

#include <denizen/memory/detail/guard.hpp>

namespace denizen {

class ArenaRef {
public:
    ArenaRef() = default;
    // `map` lies where the arena's users are.
    DENIZEN_HD explicit ArenaRef(const arena::Map* map) : map_(map) {}

    // At least `bytes` (0 counts as 1), aligned to 16 and, unless the arena is guarded, to the size
    // they are rounded up to (at most 32 KiB). Null if there is no room, which is counted. What was
    // there is undefined. The tag is for the report of leaks, where the arena is guarded.
    DENIZEN_HD void* allocate(uint64_t bytes, uint32_t tag = 0) const
    {
        return map_->guarded != 0 ? allocate_guarded(bytes, sizeof(arena::GuardHeader), tag)
                                  : take(bytes);
    }

    // For whoever needs an alignment, a power of two up to 32 KiB.
    DENIZEN_HD void* allocate_aligned(uint64_t bytes, uint32_t align, uint32_t tag = 0) const
    {
        if (map_->guarded != 0) {
            const uint32_t header = sizeof(arena::GuardHeader);
            return allocate_guarded(bytes, align > header ? align : header, tag);
        }
        return take(bytes > align ? bytes : align);
    }

    // Of what allocate() returned; null is allowed. What this thread did to it comes before what
    // its next owner does. Anything else than a live block is refused and counted (a block that was
    // freed before only as long as nobody has it again).
    DENIZEN_HD void deallocate(void* p) const
    {
        if (p == nullptr) {
            return;
        }
        if (map_->guarded != 0) {
            deallocate_guarded(p);
        } else if (!give(p)) {
            refuse(1);
        }
    }

    // Whether p lies in the arena's memory.
    DENIZEN_HD bool owns(const void* p) const { return offset_of(p) < map_->bytes(); }
    DENIZEN_HD uint64_t bytes() const { return map_->bytes(); }
    DENIZEN_HD const arena::Map* map() const { return map_; }

private:
    DENIZEN_HD uint64_t offset_of(const void* p) const
    {
        return reinterpret_cast<uint64_t>(p) - reinterpret_cast<uint64_t>(map_->base);
    }

    DENIZEN_HD void refuse(uint32_t n) const
    {
        fetch_add<Scope::gpu>(&map_->tally->refused, uint64_t{n});
    }

    DENIZEN_HD void* take(uint64_t bytes) const
    {
        if (bytes > arena::page_bytes) {
            const uint32_t page = arena::take_run(*map_, arena::pages_for(bytes));
            if (page == arena::nothing) {
                fetch_add<Scope::gpu>(&map_->tally->failed, uint64_t{1});
                return nullptr;
            }
            return map_->base + page * arena::page_bytes;
        }
        return take_block(arena::class_of(bytes));
    }

    // One lane of those that want the same class gets blocks for all of them. Lanes that want
    // different classes do so side by side: all shuffles are among all coalesced lanes.
    DENIZEN_HD void* take_block(uint32_t c) const
    {
        const arena::Coalesced coalesced = arena::Coalesced::here();
        const uint32_t group = coalesced.same(c);
        const uint32_t leader = bits::first(group);
        const uint32_t blocks = arena::blocks_shift(c);
        uint32_t left = bits::count(group); // lanes of the group that have none yet
        uint32_t turn =
            bits::count(group & ((1u << coalesced.lane()) - 1)); // this one's among them
        unsigned char* mine = nullptr;
        while (coalesced.any(left != 0)) { // ends: a lane gets a block in each turn, or all give up
            arena::Grant g;
            if (left != 0 && coalesced.lane() == leader) {
                g = arena::grant(*map_, c, left);
                if (g.bits == 0) {
                    fetch_add<Scope::gpu>(&map_->tally->failed, uint64_t{left});
                }
            }
            g.at = coalesced.get(g.at, leader);
            g.whole = coalesced.get(g.whole, leader);
            g.bits = uint64_t{coalesced.get(static_cast<uint32_t>(g.bits >> 32), leader)} << 32 |
                     coalesced.get(static_cast<uint32_t>(g.bits), leader);
            if (left == 0) {
                continue;
            }
            const uint32_t count = bits::count(g.bits) << (g.whole != 0 ? blocks : 0);
            if (turn < count && mine == nullptr) {
                const uint32_t unit = bits::select(g.bits, g.whole != 0 ? turn >> blocks : turn);
                const uint32_t page = g.whole != 0 ? g.at * 64 + unit : g.at / arena::page_words;
                const uint32_t block = g.whole != 0
                                           ? turn & ((1u << blocks) - 1)
                                           : g.at % arena::page_words * arena::word_blocks + unit;
                mine = map_->base + page * arena::page_bytes + block * arena::class_bytes(c);
            }
            turn -= count; // of those that have one it is not asked any more
            left = count != 0 ? left - count : 0;
        }
        coalesced
            .sync(); // the leader may have opened the page: what it wrote comes before any free
        return mine;
    }

    // Where the block that contains p begins, in a page that is in use; null otherwise. `room`: its
    // size.
    DENIZEN_HD unsigned char* block_of(const void* p, uint64_t& room) const
    {
        const uint64_t offset = offset_of(p);
        if (offset >= map_->bytes()) {
            return nullptr;
        }
        const uint64_t page = offset >> arena::page_shift;
        const uint32_t kind = load<Scope::gpu>(&map_->kinds[page]);
        const uint64_t within = offset & (arena::page_bytes - 1);
        if (kind == 0) {
            return nullptr;
        }
        const bool run = (kind & arena::run_kind) != 0;
        room = run ? (kind & ~arena::run_kind) * arena::page_bytes : arena::class_bytes(kind - 1);
        return map_->base + page * arena::page_bytes + (run ? 0 : within & ~(room - 1));
    }

    // False if p is no live block.
    DENIZEN_HD bool give(void* p) const
    {
        const uint64_t offset = offset_of(p);
        if (offset >= map_->bytes()) {
            return false;
        }
        const uint32_t page = static_cast<uint32_t>(offset >> arena::page_shift);
        const uint32_t within = static_cast<uint32_t>(offset & (arena::page_bytes - 1));
        const uint32_t kind = load<Scope::gpu>(&map_->kinds[page]);
        if ((kind & arena::run_kind) != 0) {
            return within == 0 && arena::give_run(*map_, page);
        }
        if (kind == 0 || (within & (arena::class_bytes(kind - 1) - 1)) != 0) {
            return false;
        }
        give_block(page, within >> (kind - 1 + arena::least_shift));
        return true;
    }

    // One lane of those whose blocks lie in the same word frees all of them.
    DENIZEN_HD void give_block(uint32_t page, uint32_t block) const
    {
        const uint32_t x = page * arena::page_words + block / arena::word_blocks;
        const arena::Coalesced coalesced = arena::Coalesced::here();
        coalesced.sync(); // what each lane did to its block comes before the leader's fence
        const uint32_t group = coalesced.same(x);
        const uint32_t blocks = arena::Coalesced::or_of(group, 1u << block % arena::word_blocks);
        if (coalesced.lane() == bits::first(group)) {
            const uint32_t twice = bits::count(group) - bits::count(blocks);
            const uint32_t again = bits::count(arena::release(*map_, x, blocks));
            if (twice + again != 0) {
                refuse(twice + again);
            }
        }
        coalesced.sync(); // together they go on: lanes that ran ahead would share nothing any more
    }

    DENIZEN_COLD void* allocate_guarded(uint64_t bytes, uint32_t offset, uint32_t tag) const
    {
        if (bytes > map_->bytes()) {
            bytes = map_->bytes(); // no room in any case: offset + bytes must not wrap around
        }
        void* const block = take(offset + bytes + arena::guard_tail);
        return block == nullptr
                   ? nullptr
                   : arena::put_guards(static_cast<unsigned char*>(block), bytes, tag, offset);
    }

    DENIZEN_COLD void deallocate_guarded(void* p) const
    {
        uint64_t room = 0;
        unsigned char* const block = block_of(p, room);
        if (block == nullptr) {
            // Its page is in no use. A block of it that was freed still says so.
            const bool was = owns(p) && offset_of(p) % 16 == 0 && freed_before(p);
            arena::report(*map_, was ? arena::FaultKind::double_free : arena::FaultKind::foreign, 0,
                          p);
            refuse(1);
        } else if (!arena::check_guards(*map_, block, room, p) || !give(block)) {
            refuse(1);
        }
    }

    DENIZEN_HD bool freed_before(const void* p) const
    {
        const unsigned char* at = static_cast<const unsigned char*>(p) - sizeof(arena::GuardHeader);
        if (!owns(at)) {
            return false;
        }
        arena::GuardHeader header;
        copy_bytes(&header, at, sizeof header);
        return header.canary == (arena::freed ^ reinterpret_cast<uint64_t>(at));
    }

    const arena::Map* map_ = nullptr;
};

} // namespace denizen
