// SPDX-License-Identifier: Apache-2.0
// A ring of blocks of I/Q, scanned by resident workers: blocks of GPU threads, or threads of the
// CPU, by one text. The host says in a slot where a block lies and publishes it, a worker takes the
// next number, scans and publishes what it found; the host takes that, in the order of the stream,
// and uses the slot again. Nothing is launched for a block.
//
// A worker takes a number only when its block is published, so it may leave between any two blocks
// and owes nobody anything. Workers leave when the host says so, or when nothing was published for
// `limit`; and with each breath of a GPU (device/detail/term.hpp). A block takes a worker a fifth
// of a breath: if the successor came when all have left, they would wait for each other for as long
// as that. So each worker says before the block that will be its last that the successor may begin:
// by the time the first leaves all have said so, and one of the successor's takes its place.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/device/detail/term.hpp>
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
};

inline constexpr uint32_t slot_room = 1024; // candidates of a slot; more are the CPU's work

// What the workers keep among themselves, 0 at first.
struct ScanTickets {
    uint64_t next;     // the first block that no worker has taken
    uint64_t seen;     // how many the leading worker has seen published,
    uint64_t since_ns; // and when it had seen as many
};

// All memory but `tickets` and `term.state` is the host's, and workers reach it, as they do the
// blocks. A slot is number modulo `slots`.
struct ScanRing {
    const ScanSlot* slot;
    Candidate* out;      // slot_room for each slot
    uint32_t* counts;    // of each slot: 0, then one more than scan_block() says
    uint64_t* published; // how many blocks the host has published
    uint64_t* taken;     // and how many have been taken, when the workers have left
    ScanTickets* tickets;
    uint32_t slots;
    uint64_t limit; // ns
    TermRef term;   // of this incarnation
};

// Which block a team scans, shared by its members.
struct ScanTurn {
    enum Go : uint32_t { leave, scan };
    uint64_t block;
    Go go;
    bool last; // of this team in this incarnation
    // Its first member's:
    uint64_t until_ns; // the incarnation's
    uint64_t began_ns; // when it took the block; 0: it has had none
    uint64_t took_ns;  // the block before
};

// The leading worker, when it finds nothing: whether all leave.
DENIZEN_HD inline bool has_had_no_work(const ScanRing& ring, uint64_t published, uint64_t now)
{
    ScanTickets& tickets = *ring.tickets;
    if (published != load<Scope::gpu>(&tickets.seen)) {
        store<Scope::gpu>(&tickets.seen, published);
        store<Scope::gpu>(&tickets.since_ns, now);
        return false;
    }
    return now - load<Scope::gpu>(&tickets.since_ns) > ring.limit;
}

// Waits for a block that nobody has taken, and takes it.
DENIZEN_HD inline ScanTurn::Go take_turn(const ScanRing& ring, bool leads, ScanTurn& turn)
{
    uint64_t now = now_ns();
    if (turn.began_ns != 0) turn.took_ns = now - turn.began_ns;
    // Ends by publish(), by the host's command, at the end of the breath, or `limit` after the last
    // publish().
    while (!turn.last) {
        // Acquire: with the slot's contents; its partner is the release in
        // ResidentReceiver::publish().
        const uint64_t published = load<Scope::system, Order::acquire>(ring.published);
        if (leads) denizen::detail::leave_if_asked(ring.term);
        turn.block = load<Scope::gpu>(&ring.tickets->next);
        // In each incarnation at least once, also where it begins late and is over at once.
        if (leads && turn.block >= published && has_had_no_work(ring, published, now)) {
            denizen::detail::leave_gpu(ring.term, Leave::idle);
            break;
        }
        if (now > turn.until_ns || denizen::detail::leaves_gpu(ring.term)) break;
        while (turn.block < published) { // ends: a failure means that another has taken it
            if (!compare_exchange<Scope::gpu>(&ring.tickets->next, turn.block, turn.block + 1))
                continue;
            turn.began_ns = now;
            turn.last = turn.until_ns - now < turn.took_ns;
            return ScanTurn::scan;
        }
#if DENIZEN_ON_DEVICE
        __nanosleep(500);
#elif DENIZEN_HOSTED
        struct timespec nap = {0, 50'000};
        nanosleep(&nap, nullptr);
#endif
        now = now_ns();
    }
    return ScanTurn::leave;
}

// A team's first member, as an incarnation begins.
DENIZEN_HD inline void begin_turns(const ScanRing& ring, bool leads, ScanTurn& turn)
{
    turn = {};
    turn.until_ns = denizen::detail::begin_term(ring.term, leads);
    if (leads && ring.term.successor == 0) store<Scope::gpu>(&ring.tickets->since_ns, now_ns());
}

// And as it ends. `team` waits for the incarnation before, of which a worker may still be here.
template <class Team>
DENIZEN_HD inline void end_turns(const Team& team, const ScanRing& ring, bool leads)
{
    if (!denizen::detail::is_last_to_leave(ring.term, leads)) return;
    team.await_predecessor();
    if (denizen::detail::leaves_gpu(ring.term))
        store<Scope::system>(ring.taken, load<Scope::gpu>(&ring.tickets->next));
    denizen::detail::tell_end(ring.term);
}

// What a worker does in an incarnation; number 0 leads. `team` as scan_block() wants it; `memory`
// and `turn` are the team's.
template <class Team>
DENIZEN_HD void scan_ring(Team& team, const ScanRing& ring, uint32_t number, ScanMemory& memory,
                          ScanTurn& turn)
{
    const bool leads = number == 0;
    if (denizen::detail::came_too_late(ring.term)) {
        if (leads && team.rank() == 0) {
            team.await_predecessor();
            denizen::detail::tell_too_late(ring.term);
        }
        return;
    }
    if (team.rank() == 0) begin_turns(ring, leads, turn);
    while (true) { // ends by take_turn()
        if (team.rank() == 0) turn.go = take_turn(ring, leads, turn);
        team.sync();
        if (turn.go == ScanTurn::leave) break;
        if (turn.last) team.let_successor_begin();
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
    if (team.rank() == 0) end_turns(team, ring, leads);
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
    // Of programmatic dependent launch, and nothing in a kernel that was not launched so.
    __device__ void await_predecessor() const
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    }
    // Not before the predecessor has ended: there is state for two.
    __device__ void let_successor_begin() const
    {
        await_predecessor();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    }
};

} // namespace denizen::radio

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_RADIO_KERNEL extern "C" __global__ void
#else
#define DENIZEN_RADIO_KERNEL static __global__ void
#endif
// clang-format on

// An incarnation of the workers. Launched with ring_threads, one block for each SM, and
// sizeof(ScanMemory) of shared memory.
DENIZEN_RADIO_KERNEL __launch_bounds__(denizen::radio::ring_threads, 1)
    denizen_radio_scan_ring(const __grid_constant__ denizen::radio::ScanRing ring)
{
    if (ring.slots == 0) return; // the first launch, which only has the driver make ready
    extern __shared__ uint4 ring_memory[];
    __shared__ denizen::radio::ScanTurn turn;
    denizen::radio::RingTeam team;
    denizen::radio::scan_ring(team, ring, blockIdx.x,
                              *reinterpret_cast<denizen::radio::ScanMemory*>(ring_memory), turn);
}
#endif
