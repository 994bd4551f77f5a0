// SPDX-License-Identifier: Apache-2.0
// A ring of blocks of I/Q, scanned by resident workers: blocks of GPU threads, or threads of the
// CPU, by one text. The host says in a slot where a block lies and publishes it, a worker takes the
// next number, scans and publishes what it found; the host takes that, in the order of the stream,
// and uses the slot again. Nothing is launched for a block. Workers leave when they are told to
// stop, or when nothing was published for `limit`: then one of them closes the ring, all leave, and
// the host launches again before it goes on.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/radio/detail/scan_block.hpp>

#if DENIZEN_HOSTED
#include <time.h>
#endif

namespace denizen::radio {

// What the host says of a slot's block; see scan_block().
struct ScanSlot {
    const uint8_t* iq; // its first sample, aligned to 16 bytes
    uint32_t before;
    uint32_t count;
    uint32_t available;
    uint32_t block; // its number's low half
};

inline constexpr uint32_t slot_room = 1024; // candidates of a slot; more are the CPU's work

// What the workers keep among themselves, all 0 but `next` when they begin.
struct ScanTickets {
    uint64_t next;   // the first block that no worker has taken
    uint32_t closed; // not 0: all leave, so that no block is left to one that has gone
};

// All memory but `tickets` is the host's, and workers reach it, as they do the blocks. A slot is
// number modulo `slots`.
struct ScanRing {
    const ScanSlot* slot;
    Candidate* out;      // slot_room for each slot
    uint32_t* counts;    // of each slot: 0, then one more than scan_block() says
    uint64_t* published; // how many blocks the host has published
    ScanTickets* tickets;
    uint32_t* stop; // not 0: leave
    uint32_t slots;
    uint64_t limit; // ns
};

// Which block a team scans, shared by its members.
struct ScanTurn {
    enum Go : uint32_t { leave, skip, scan };
    uint64_t block;
    Go go;
};

// Whether published block number `block` is still to be scanned. It is not if it was before the
// workers left and came back: then the host may be reading what was found, or have filled the slot
// with a later block.
DENIZEN_HD inline bool to_scan(const ScanRing& ring, uint64_t block)
{
    const auto at = static_cast<uint32_t>(block % ring.slots);
    // Acquire: a 0 comes with the number of the block it stands for; its partner is the release in
    // ResidentReceiver::publish().
    return load<Scope::system, Order::acquire>(ring.counts + at) == 0 &&
           load<Scope::system>(&ring.slot[at].block) == static_cast<uint32_t>(block);
}

// Takes the next number and waits for its block.
DENIZEN_HD inline ScanTurn::Go take_turn(const ScanRing& ring, ScanTurn& turn)
{
    turn.block = fetch_add<Scope::gpu>(&ring.tickets->next, uint64_t{1});
    uint64_t since = now_ns();
    uint64_t seen = 0;
    while (true) { // ends by publish(), by stop, or `limit` after the last publish()
        // Acquire: with the slot's contents; its partner is the release in
        // ResidentReceiver::publish().
        const uint64_t published = load<Scope::system, Order::acquire>(ring.published);
        if (load<Scope::gpu>(&ring.tickets->closed) != 0) return ScanTurn::leave;
        if (published > turn.block)
            return to_scan(ring, turn.block) ? ScanTurn::scan : ScanTurn::skip;
        if (load<Scope::system>(ring.stop) != 0) return ScanTurn::leave;
        if (published != seen) {
            seen = published;
            since = now_ns();
        }
        if (now_ns() - since > ring.limit) {
            store<Scope::gpu>(&ring.tickets->closed, 1u);
            return ScanTurn::leave;
        }
#if DENIZEN_ON_DEVICE
        __nanosleep(500);
#elif DENIZEN_HOSTED
        struct timespec nap = {0, 50'000};
        nanosleep(&nap, nullptr);
#endif
    }
}

// What a worker does until it leaves. `team` as scan_block() wants it; `memory` and `turn` are the
// team's.
template <class Team>
DENIZEN_HD void scan_ring(Team& team, const ScanRing& ring, ScanMemory& memory, ScanTurn& turn)
{
    while (true) { // ends by take_turn()
        if (team.rank() == 0) turn.go = take_turn(ring, turn);
        team.sync();
        if (turn.go == ScanTurn::leave) return;
        if (turn.go == ScanTurn::skip) {
            team.sync(); // all have read `turn`
            continue;
        }
        const auto at = static_cast<uint32_t>(turn.block % ring.slots);
        const ScanSlot slot = ring.slot[at];
        const uint32_t found = scan_block(team, slot.iq, slot.before, slot.count, slot.available,
                                          memory, ring.out + uint64_t{at} * slot_room, slot_room);
#if DENIZEN_ON_DEVICE
        __threadfence_system(); // every member's candidates are seen by the host before the count
#endif
        team.sync(); // also: all have read `turn`
        // Its partner is the acquire in ResidentReceiver::collect().
        if (team.rank() == 0)
            store<Scope::system, Order::release>(ring.counts + at,
                                                 found == ~0u ? found : found + 1);
    }
}

} // namespace denizen::radio

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
namespace denizen::radio {

inline constexpr uint32_t ring_threads = 512; // of a block, which is a team; one fits on an SM

struct RingTeam {
    __device__ uint32_t rank() const { return threadIdx.x; }
    __device__ uint32_t size() const { return blockDim.x; }
    __device__ void sync() const { __syncthreads(); }
    __device__ uint32_t count(bool member) const
    {
        return static_cast<uint32_t>(__syncthreads_count(member));
    }
    __device__ uint32_t take(uint32_t& counter) const { return atomicAdd(&counter, 1u); }
};

} // namespace denizen::radio

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_RADIO_KERNEL extern "C" __global__ void
#else
#define DENIZEN_RADIO_KERNEL static __global__ void
#endif
// clang-format on

// Launched with ring_threads, one block for each SM, and sizeof(ScanMemory) of shared memory.
DENIZEN_RADIO_KERNEL __launch_bounds__(denizen::radio::ring_threads, 1)
    denizen_radio_scan_ring(denizen::radio::ScanRing ring)
{
    extern __shared__ uint4 ring_memory[];
    __shared__ denizen::radio::ScanTurn turn;
    denizen::radio::RingTeam team;
    denizen::radio::scan_ring(team, ring,
                              *reinterpret_cast<denizen::radio::ScanMemory*>(ring_memory), turn);
}
#endif
