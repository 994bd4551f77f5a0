// SPDX-License-Identifier: Apache-2.0
// How an incarnation of a resident program ends, so that whoever waits for the whole device gets
// its turn, and the next one goes on from device memory. Decided on the device: nobody waits for
// the host. Called by workers (run_worker) and by who leads them: the monitor on a GPU, the
// backend's breather on the CPU. All other traffic goes on meanwhile.
//
//  1. The leader puts `soon` and the attempt's number beside the command.
//  2. Each worker acknowledges at its next look, between two messages, and goes on working; it
//     looks after every round now. A worker in a long handler keeps nobody else waiting. One that
//     acknowledges late (it has long handlers) waits here: it would be in the next handler by then.
//  3. When all have acknowledged, the leader opens the gate and puts `go` beside the command.
//  4. At its next look each worker puts in order what others read of it, adds itself to the gate,
//     and waits there. The one that completes the number lets all leave: nobody has to be asked.
//  5. If they have not all come within `gate_ns` (a long handler has begun since step 2), the gate
//     is shut, unless the last has come meanwhile: all go on, and step 1 is next.
//  6. When all have left, the leader takes `go` away. The next incarnation begins.
//
// Hazards. The gate is shut by compare-exchange: shut after the last worker had come, some would
// leave and others stay, and these would wait for the first for ever. It is opened only when every
// worker has acknowledged, so that none is still at it from the attempt before. A handler may wait
// for room in the inbox of a worker that waits in step 2, and one may never return: so none waits
// there for long. (tests/model/breath.pml)
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

// Board::command: a Command, and above it, while a breath ends:
inline constexpr uint32_t command_bits = 0xff;
inline constexpr uint32_t breath_soon = 1u << 8;
inline constexpr uint32_t breath_go = 1u << 9;
inline constexpr uint32_t urge_shift = 10;    // how long whoever is late waits: see urge_of()
inline constexpr uint32_t attempt_shift = 14; // and the attempt's number

inline constexpr uint32_t gate_shut = 1u << 31; // Breath::gate

DENIZEN_HD constexpr Command command_of(uint32_t word)
{
    return static_cast<Command>(word & command_bits);
}
DENIZEN_HD constexpr bool leaves(Command c)
{
    return c == Command::leave || c == Command::stop || c == Command::kill;
}

namespace detail {

// An acknowledgement after that waits. Under full load a worker takes some hundred microseconds for
// the rounds between two looks: those that waited then cost a third of the throughput.
inline constexpr uint64_t late_ns = 1'000'000;
inline constexpr uint64_t wait_ns = 1'000'000; // at most, times two for each attempt that failed
// CPU threads may be off their cores.
inline constexpr uint64_t gate_ns = DENIZEN_ON_DEVICE ? 50'000 : 5'000'000;
inline constexpr uint32_t all_wait = 4; // from this urge on every acknowledgement waits
inline constexpr uint32_t most_urge = 10;

DENIZEN_HD constexpr uint32_t attempt_of(uint32_t word) { return word >> attempt_shift; }
// Attempts that have failed; what the last breath needed counts for the next.
DENIZEN_HD constexpr uint32_t urge_of(uint32_t word) { return word >> urge_shift & 15; }

DENIZEN_HD inline void doze()
{
#if DENIZEN_ON_DEVICE
    __nanosleep(100);
#elif DENIZEN_HOSTED
    sched_yield();
#endif
}

// Step 2, all lanes: `told` is Board::command as the worker has seen it, with `soon`.
DENIZEN_COLD inline void acknowledge(const Shared& s, uint32_t id, uint32_t told)
{
    const Board& board = *s.board;
    uint32_t* acked = &s.status[id].acked;
    if (lanes::id() == 0 && load<Scope::gpu>(acked) != attempt_of(told)) {
        const uint64_t now = now_ns();
        // Release: partner of the acquire in all_acknowledged(). The worker has left the gate.
        store<Scope::gpu, Order::release>(acked, attempt_of(told));
        const bool waits =
            urge_of(told) >= all_wait || now - load<Scope::gpu>(&board.breath.soon_ns) > late_ns;
        // Ends when the leader says go or another command, or after a time.
        while (waits && load<Scope::gpu>(&board.command) == told) {
            const bool parked = load<Scope::gpu>(&board.jammed) != 0;
            if (now_ns() - now > (parked ? wait_ns : wait_ns << urge_of(told))) {
                break;
            }
            doze();
        }
    }
    lanes::rejoin();
}

// Step 4, all lanes: whether the worker is to leave. What it has to tell has been told.
DENIZEN_COLD inline bool pass_gate(const Shared& s, uint32_t told)
{
    uint32_t passed = 0;
    // Acquire: partner of the release in open_gate(). The gate that is found is not an older one.
    if (lanes::id() == 0 && load<Scope::gpu, Order::acquire>(&s.board->command) == told) {
        uint32_t* gate = &s.board->breath.gate;
        // Release and acquire: partners of each other's. What one worker has written to another's
        // memory before it came is seen by that one when it leaves.
        uint32_t n = fetch_add<Scope::gpu, Order::acq_rel>(gate, 1u) + 1;
        while (n < s.workers) { // ends: the leader shuts a gate to which not all come
            doze();
            n = load<Scope::gpu, Order::acquire>(gate);
        }
        passed = n == s.workers ? 1 : 0;
    }
    return lanes::shuffle(passed, 0) != 0;
}

// All lanes of the leader: whether step 2 is done.
DENIZEN_HD inline bool all_acknowledged(const Shared& s, uint32_t word)
{
    bool all = true;
    for (uint32_t w = lanes::id(); w < s.workers; w += lanes::size) {
        // Acquire, by the fence below: partner of the release in acknowledge().
        all &= load<Scope::gpu, host_acquire>(&s.status[w].acked) == attempt_of(word);
    }
    all = lanes::ballot(!all) == 0;
#if DENIZEN_ON_DEVICE
    if (all) {
        __threadfence();
    }
    lanes::sync();
#endif
    return all;
}

// Step 3, one lane. False if the command has changed: a worker has stopped the program.
DENIZEN_HD inline bool open_gate(const Shared& s, uint32_t word)
{
    store<Scope::gpu>(&s.board->breath.gate, 0u);
    // Release: partner of the acquire in pass_gate().
    return compare_exchange<Scope::gpu, Order::release>(&s.board->command, word, word | breath_go);
}

// Steps 4 and 5, one lane: whether all have come. Else the gate is shut.
DENIZEN_HD inline bool await_gate(const Shared& s)
{
    uint32_t* gate = &s.board->breath.gate;
    const uint64_t begin = now_ns();
    // Acquire, as below: partner of the workers' releases in pass_gate().
    uint32_t n = load<Scope::gpu, Order::acquire>(gate);
    while (n != s.workers) { // ends: by the last worker, or after gate_ns
        if (now_ns() - begin > gate_ns) {
            if (compare_exchange<Scope::gpu, Order::acq_rel>(gate, n, n | gate_shut)) {
                return false;
            }
        } else {
            doze();
            n = load<Scope::gpu, Order::acquire>(gate);
        }
    }
    return true;
}

// Steps 3 to 6, one lane: whether this incarnation is over. `soon` is the command with the attempt
// that all have acknowledged.
DENIZEN_HD inline bool hand_over(const Shared& s, uint32_t soon)
{
    Breath& breath = s.board->breath;
    const uint64_t now = now_ns();
    if (!open_gate(s, soon) || !await_gate(s)) {
        return false;
    }
    // A command that has come meanwhile (CPU backend) stands.
    uint32_t go = soon | breath_go;
    compare_exchange<Scope::gpu>(&s.board->command, go, soon & command_bits);
    breath.urge = urge_of(soon) == 0 ? 0 : urge_of(soon) - 1;
    breath.went_ns = now;
    store<Scope::gpu>(&breath.looked_ns, uint64_t{0});
    return true;
}

// One lane, when all workers of this incarnation have begun: how long nobody was there before it.
DENIZEN_HD inline void tell_handover(Handovers& host, Breath& breath)
{
    const uint64_t looked = load<Scope::gpu>(&breath.looked_ns);
    const uint64_t silent = looked > breath.went_ns ? looked - breath.went_ns : 0;
    Handovers& h = breath.handovers;
    h.min_ns = h.count == 0 || silent < h.min_ns ? silent : h.min_ns;
    h.max_ns = silent > h.max_ns ? silent : h.max_ns;
    h.sum_ns += silent;
    ++h.count;
    store<Scope::system>(&host.min_ns, h.min_ns);
    store<Scope::system>(&host.max_ns, h.max_ns);
    store<Scope::system>(&host.sum_ns, h.sum_ns);
    store<Scope::system>(&host.count, h.count);
}

// One lane: what is beside the command in the next attempt; `failed` are those that have failed
// since the breath was over.
DENIZEN_HD inline uint32_t next_attempt(Breath& breath, uint32_t failed)
{
    const uint32_t urge = breath.urge + failed;
    store<Scope::gpu>(&breath.soon_ns, now_ns());
    return ++breath.attempt << attempt_shift | (urge < most_urge ? urge : most_urge) << urge_shift |
           breath_soon;
}

} // namespace detail

} // namespace denizen
