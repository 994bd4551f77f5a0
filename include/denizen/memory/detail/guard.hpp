// SPDX-License-Identifier: Apache-2.0
// Guarded arenas: a header before each block and a canary behind it, by which deallocate() finds
// blocks that are freed twice, addresses that are no block's, and writes past the end, and the
// owner finds what was never freed. Called by ArenaRef where the arena was made with `guarded`.
#pragma once

#include <denizen/memory/detail/run.hpp>

namespace denizen::arena {

struct GuardHeader { // at the beginning of the block
    uint64_t canary;
    uint64_t bytes; // that were asked for
    uint32_t tag;
    uint32_t offset; // of what the user got
    uint64_t sum;    // of the above: the header is whole
};
static_assert(sizeof(GuardHeader) == 32);

inline constexpr uint32_t guard_tail = 8;
inline constexpr uint64_t alive = 0xA11E'B10C'600D'F00Dull;
inline constexpr uint64_t freed = 0xF4EE'DB10'CDEA'DBEFull;

DENIZEN_HD inline uint64_t sum_of(const GuardHeader& h)
{
    return h.canary ^ h.bytes * 0x9E37'79B9'7F4A'7C15ull ^ (uint64_t{h.tag} << 32 | h.offset);
}

DENIZEN_HD inline void report(const Map& a, FaultKind kind, uint32_t tag, const void* p)
{
    Tally& tally = *a.tally;
    const uint32_t i = fetch_add<Scope::gpu>(&tally.faults, 1u);
    if (i < faults_kept) {
        tally.fault[i] = {kind, tag, reinterpret_cast<uint64_t>(p)}; // read when all is quiet
    }
}

// `block` has room for offset + bytes + guard_tail.
DENIZEN_HD inline void* put_guards(unsigned char* block, uint64_t bytes, uint32_t tag,
                                   uint32_t offset)
{
    GuardHeader header{alive ^ reinterpret_cast<uint64_t>(block), bytes, tag, offset, 0};
    header.sum = sum_of(header);
    copy_bytes(block, &header, sizeof header);
    for (uint32_t i = 0; i < guard_tail; ++i) { // the end of the block may be at any address
        block[offset + bytes + i] = static_cast<unsigned char>(alive >> 8 * i);
    }
    return block + offset;
}

// Whether `block`, which lies in an open page, may be freed as p. Reports what is wrong with it; an
// overrun block is freed none the less.
DENIZEN_HD inline bool check_guards(const Map& a, unsigned char* block, uint64_t room,
                                    const void* p)
{
    GuardHeader header;
    copy_bytes(&header, block, sizeof header);
    const uint64_t at = reinterpret_cast<uint64_t>(block);
    if (header.sum != sum_of(header) || header.bytes > room) {
        // A canary alone, without the rest, was a block once: something has written over it.
        const bool known = header.canary == (alive ^ at);
        report(a, known ? FaultKind::overrun : FaultKind::foreign, known ? header.tag : 0, p);
        return known;
    }
    if (header.canary == (freed ^ at)) {
        report(a, FaultKind::double_free, header.tag, p);
        return false;
    }
    if (header.canary != (alive ^ at) || block + header.offset != p) {
        report(a, FaultKind::foreign, 0, p);
        return false;
    }
    for (uint32_t i = 0; i < guard_tail; ++i) {
        if (block[header.offset + header.bytes + i] != static_cast<unsigned char>(alive >> 8 * i)) {
            report(a, FaultKind::overrun, header.tag, p);
            break;
        }
    }
    header.canary = freed ^ at;
    header.sum = sum_of(header);
    copy_bytes(block, &header, sizeof header);
    return true;
}

} // namespace denizen::arena
