// SPDX-License-Identifier: Apache-2.0
// A worker's box: the words and slots of its near rings. On the GPU it lies in shared memory while
// the worker is there, and in device memory between two breaths; on the CPU it is ordinary memory.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/cluster.hpp>
#include <denizen/base/lanes.hpp>

namespace denizen {

namespace detail {

#if DENIZEN_ON_DEVICE
extern __shared__ __align__(128) unsigned char near_memory[];
#endif

// The box of worker `id`, which is calling.
DENIZEN_HD inline cluster::Address own_box(const Shared& s, [[maybe_unused]] uint32_t id)
{
#if DENIZEN_ON_DEVICE
    return cluster::address(near_memory) + threadIdx.x / 32 * s.box_bytes;
#else
    return cluster::address(s.boxes + static_cast<uint64_t>(id) * s.box_bytes);
#endif
}

// A worker's box comes from device memory, all of it asked for before any has come: a breath begins
// with this. await_box() waits until it is there.
DENIZEN_HD inline void fetch_box([[maybe_unused]] const Shared& s, [[maybe_unused]] uint32_t id)
{
#if DENIZEN_ON_DEVICE
    const uint32_t here = cluster::address(near_memory) + threadIdx.x / 32 * s.box_bytes;
    const unsigned char* kept = s.boxes + static_cast<uint64_t>(id) * s.box_bytes;
    DENIZEN_ROLLED
    for (uint32_t i = 16 * lanes::id(); i < s.box_bytes; i += 16 * lanes::size) {
        cluster::copy_packet(here + i, reinterpret_cast<const Packet*>(kept + i));
    }
#endif
}
DENIZEN_HD inline void await_box()
{
#if DENIZEN_ON_DEVICE
    cluster::await_copies();
    lanes::sync();
#endif
}

// The box of near worker `index` of worker `id`'s cluster.
DENIZEN_HD inline cluster::Address box_of(const Shared& s, uint32_t id, uint32_t index)
{
#if DENIZEN_ON_DEVICE
    (void)id;
    return cluster::in_block(cluster::address(near_memory) + index % s.per_sm * s.box_bytes,
                             index / s.per_sm);
#else
    return own_box(s, id - id % s.near + index);
#endif
}

// The words of a NearBox, by their offsets (NVRTC has no offsetof).
namespace box {
DENIZEN_HD inline cluster::Address tail(cluster::Address b, uint32_t to) { return b + 4 * to; }
DENIZEN_HD inline cluster::Address credit(cluster::Address b, uint32_t to)
{
    return b + 4 * (max_near + to);
}
DENIZEN_HD inline cluster::Address head(cluster::Address b, uint32_t from)
{
    return b + 4 * (2 * max_near + from);
}
DENIZEN_HD inline cluster::Address sent(cluster::Address b, Route route)
{
    return b + 4 * (3 * max_near + static_cast<uint32_t>(route));
}
DENIZEN_HD inline cluster::Address ring(cluster::Address b, uint32_t to)
{
    return b + 4 * (3 * max_near + 8 + to);
}
inline constexpr uint32_t after_rings = 4 * (4 * max_near + 8);
DENIZEN_HD inline cluster::Address first(cluster::Address b) { return b + after_rings; }
DENIZEN_HD inline cluster::Address count(cluster::Address b) { return b + after_rings + 4; }
DENIZEN_HD inline cluster::Address workers(cluster::Address b) { return b + after_rings + 8; }
DENIZEN_HD inline cluster::Address own(cluster::Address b) { return b + after_rings + 12; }
DENIZEN_HD inline cluster::Address rings(cluster::Address b) { return b + after_rings + 16; }
DENIZEN_HD inline cluster::Address sm(cluster::Address b) { return b + after_rings + 20; }
DENIZEN_HD inline cluster::Address parked(cluster::Address b) { return b + after_rings + 24; }
DENIZEN_HD inline cluster::Address stamps(cluster::Address b) { return b + after_rings + 28; }
DENIZEN_HD inline cluster::Address idle(cluster::Address b) { return b + after_rings + 32; }

// The first four of them in one access.
struct Ways {
    uint32_t first;
    uint32_t count;
    uint32_t workers;
    uint32_t own;
};
DENIZEN_HD inline Ways ways(cluster::Address b)
{
    const Packet p = cluster::load_packet(first(b));
    return {p.word[0], p.word[1], p.word[2], p.sequence};
}
static_assert(after_rings % sizeof(Packet) == 0);
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
static_assert(__builtin_offsetof(NearBox, stamps) == after_rings + 28);
static_assert(__builtin_offsetof(NearBox, idle) == after_rings + 32);
static_assert(__builtin_offsetof(NearBox, ring) == 4 * (3 * max_near + 8));
#endif
} // namespace box

// NearBox::stamps: which sends get a stamp, see traced.hpp. More than `next`: that one has been
// sent, and none does.
enum class Stamps : uint32_t { none = 0, all, next };

DENIZEN_HD inline Stamps stamps_wanted(cluster::Address b)
{
    return static_cast<Stamps>(cluster::load(box::stamps(b)));
}

// Opens the short ways of post_bytes(), or closes them, so that every send comes by post_any(): it
// leads to the same rings, and the order of messages does not change. By one lane.
DENIZEN_HD inline void open_short_ways(const Shared& s, cluster::Address b, bool open)
{
    cluster::store_own(box::count(b), open ? cluster::load(box::rings(b)) : 0);
    cluster::store_own(box::workers(b), open ? s.workers : 0);
}

// The slots of the ring to near worker `to` from `from`, in `to`'s box.
DENIZEN_HD inline cluster::Address near_slots(const Shared& s, cluster::Address b, uint32_t to,
                                              uint32_t from)
{
    const cluster::Address slots = b + sizeof(NearBox);
    return to == from ? slots : slots + (s.local_mask + 1) * sizeof(Slot) + from * s.near_bytes;
}

// Behind all rings of a box on the GPU: where the first slots of the rings that lie in global
// memory are copied to, landing_slots() of them.
DENIZEN_HD inline cluster::Address landing(const Shared& s, cluster::Address b)
{
    return b + sizeof(NearBox) + (s.local_mask + 1) * sizeof(Slot) + s.near * s.near_bytes;
}

// In a slot: of its last packet, which is written last.
inline constexpr uint32_t last_sequence = 3 * sizeof(Packet) + packet_payload;

// Where the slots of worker `id`'s ring to near worker `to` are, for its sends.
DENIZEN_HD inline cluster::Address ring_to(const Shared& s, uint32_t id, cluster::Address b,
                                           uint32_t to)
{
#if DENIZEN_ON_DEVICE
    (void)s, (void)id;
    return cluster::load(box::ring(b, to));
#else
    (void)b;
    return near_slots(s, box_of(s, id, to), to, id % s.near);
#endif
}

DENIZEN_HD inline uint32_t near_ring_mask(const Shared& s, uint32_t to, uint32_t from)
{
    return to == from ? s.local_mask : s.near_mask;
}

} // namespace detail

} // namespace denizen
