// SPDX-License-Identifier: Apache-2.0
// How an incarnation of a resident program ends, so that whoever waits for the whole device gets
// its turn, and the next one goes on from device memory. Decided on the device: nobody waits for
// the host. Called by workers and by who leads them: the monitor on a GPU, the backend's breather
// on the CPU. All other traffic goes on meanwhile.
//
//  1. The leader puts `soon` and the attempt's number beside the command.
//  2. Each worker acknowledges at its next look, between two messages or tasks, and goes on
//     working; it looks after every round now. A worker in a long handler keeps nobody else
//     waiting. One that acknowledges late (it has long handlers) waits here: it would be in the
//     next handler by then.
//  3. When all have acknowledged, the leader puts `go` beside the command.
//  4. At its next look each worker adds itself to the attempt's gate and waits there. The one that
//     completes the number lets all leave: nobody has to be asked. Then each puts in order what
//     its successor reads.
//  5. If they have not all come within `gate_ns`, times two for each attempt that failed (a long
//     handler has begun since step 2), the gate is shut, unless the last has come meanwhile: all go
//     on, and step 1 is next.
//  6. When all have come, the leader takes `go` away. The next incarnation begins.
//
// Hazards. The gate is shut by compare-exchange: shut after the last worker had come, some would
// leave and others stay, and these would wait for the first for ever. There are two gates, for odd
// and even attempts. A gate is emptied before its attempt begins: all have acknowledged the attempt
// between, so none is still at it. An attempt whose gate was never opened keeps its number. A
// handler may wait for room in the inbox of a worker that waits in step 2, and one may never
// return: so none waits there for long. Who has waited there looks before it handles anything: the
// gate would be shut before each of its rounds is over, at every attempt. (tests/model/breath.pml)
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

// Beside a program's own command, which takes the lowest bits of a word that all workers look at:
inline constexpr uint32_t command_bits = 0xff;
inline constexpr uint32_t breath_soon = 1u << 8;
inline constexpr uint32_t breath_go = 1u << 9;
inline constexpr uint32_t urge_shift = 10;    // how long whoever is late waits: see urge_of()
inline constexpr uint32_t attempt_shift = 14; // and the attempt's number

inline constexpr uint32_t gate_shut = 1u << 31; // Breath::gate

// Silences between two incarnations: from the leader's "go" to the last worker's beginning.
struct Handovers {
    uint64_t count = 0;
    uint64_t sum_ns = 0;
    uint64_t min_ns = 0;
    uint64_t max_ns = 0;
    uint64_t attempts = 0;   // to hand over; those that succeeded among them
    uint64_t asking_ns = 0;  // sum over attempts: from "soon" until all had acknowledged
    uint64_t leaving_ns = 0; // sum: from "go" until all had come to the gate
    // Sum: until the last has put down what its successor needs, and from the first worker's
    // entrance until the last has taken it up. The rest of the silence is between two kernels.
    uint64_t carrying_ns = 0;
};

// Device memory. The leader writes all but the gates, where workers add themselves, and the last
// three words.
struct Breath {
    struct alignas(line) Gate {
        uint32_t come = 0; // workers that have come to leave | gate_shut
    };
    Gate gate[2];                       // of even and of odd attempts
    alignas(line) uint64_t soon_ns = 0; // when the workers were asked for an acknowledgement
    uint32_t attempt = 0;               // number of the last attempt to hand over,
    uint32_t pending = 0;               // and whether its gate has not been opened yet
    uint32_t urge = 0;                  // that the next breath begins with
    uint32_t asking_ns = 0;             // from "soon" until all had acknowledged, the last time
    uint64_t lost_ns = 0;               // that workers may have waited at this end of a breath
    uint64_t lasts_ns = 0;              // how long the next breath is; 0: BreathRef::ns
    uint64_t went_ns = 0;               // when the last incarnation said go; 0: it did not
    Handovers handovers;
    uint64_t left_ns = 0;                 // from the last "go" until all had come
    alignas(line) uint64_t looked_ns = 0; // when the last worker of this incarnation began,
    uint64_t entered_before = 0;          // ~ of when the first one entered,
    uint64_t put_ns = 0;                  // and when the last one of any before it had put all down
};

// What all who take part know.
struct BreathRef {
    uint64_t ns = 0;                  // an incarnation hands over after this long; 0: never
    uint64_t longest_ns = 0;          // or after as long as this: see lasting_ns(); 0: `ns` it is
    uint32_t* command = nullptr;      //
    Breath* state = nullptr;          //
    uint32_t* acked = nullptr;        // [workers]: the last attempt that each has acknowledged
    const uint32_t* jammed = nullptr; // if not 0, nobody waits long in step 2; may be null
    uint32_t workers = 0;
    uint32_t reserved = 0;
};

namespace detail {

// An acknowledgement after that waits. Under full load a worker takes some hundred microseconds for
// the rounds between two looks: those that waited then cost a third of the throughput.
inline constexpr uint64_t late_ns = 1'000'000;
inline constexpr uint64_t round_ns = 16'000;   // a worker's round under full load, 32 messages
inline constexpr uint64_t wait_ns = 1'000'000; // at most, times two for each attempt that failed
// CPU threads may be off their cores.
inline constexpr uint64_t gate_ns = DENIZEN_ON_DEVICE ? 100'000 : 5'000'000;
inline constexpr uint32_t all_wait = 4;     // from this urge on every acknowledgement waits
inline constexpr uint32_t most_doubled = 3; // so often does gate_ns double
inline constexpr uint32_t most_urge = 10;
inline constexpr uint64_t worth = 64;           // a breath lasts this many times what its end cost
inline constexpr uint64_t held_up_ns = 100'000; // for so long the successor's launch may last
// What workers wrote before the gate is read after it: on a GPU by the next kernel, for which the
// end of this one orders it, on the CPU by other threads.
inline constexpr Order gate_order = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acq_rel;
inline constexpr Order gate_look = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;

DENIZEN_HD constexpr uint32_t attempt_of(uint32_t word) { return word >> attempt_shift; }
// Attempts that have failed; what the last breath needed counts for the next.
DENIZEN_HD constexpr uint32_t urge_of(uint32_t word) { return word >> urge_shift & 15; }

DENIZEN_HD inline uint32_t* gate_of(const BreathRef& b, uint32_t word)
{
    return &b.state->gate[attempt_of(word) & 1].come;
}

DENIZEN_HD inline void doze()
{
#if DENIZEN_ON_DEVICE
    __nanosleep(100);
#elif DENIZEN_HOSTED
    sched_yield();
#endif
}

// Step 2, all lanes: `told` is the command as the worker has seen it, with `soon`. Returns after
// how many rounds the next look is due: until all have acknowledged there is nothing new to see,
// and that takes about as long as the last time. 0 after a wait, which ends when there is.
DENIZEN_COLD inline uint32_t acknowledge(const BreathRef& b, uint32_t id, uint32_t told)
{
    constexpr uint64_t most_rounds = 8;
    uint32_t rounds = 1;
    uint32_t* acked = &b.acked[id];
    // Acquire: partner of the leader's release with which it put `soon` there. The attempt's gate
    // has been emptied.
    if (lanes::id() == 0 && load<Scope::gpu>(acked) != attempt_of(told) &&
        load<Scope::gpu, Order::acquire>(b.command) == told) {
        const uint64_t now = now_ns();
        // Release: partner of the acquire in all_acknowledged(). The worker has left the gate of
        // the attempt before.
        store<Scope::gpu, Order::release>(acked, attempt_of(told));
        const uint64_t asked = load<Scope::gpu>(&b.state->soon_ns);
        const uint64_t expected = load<Scope::gpu>(&b.state->asking_ns);
        const uint64_t so_far = now > asked ? now - asked : 0;
        const bool waits = urge_of(told) >= all_wait || so_far > late_ns;
        if (waits) {
            rounds = 0;
        } else if (so_far < expected) {
            const uint64_t fit = (expected - so_far) / round_ns;
            rounds = static_cast<uint32_t>(fit + 1 < most_rounds ? fit + 1 : most_rounds);
        }
        // Ends when the leader says go or another command, or after a time.
        while (waits && load<Scope::gpu>(b.command) == told) {
            const bool parked = b.jammed != nullptr && load<Scope::gpu>(b.jammed) != 0;
            if (now_ns() - now > (parked ? wait_ns : wait_ns << urge_of(told))) {
                break;
            }
            doze();
        }
    }
    return lanes::shuffle(rounds, 0);
}

// Step 4, all lanes: whether the worker is to leave. `told` has `go`.
DENIZEN_COLD inline bool pass_gate(const BreathRef& b, uint32_t told)
{
    uint32_t passed = 0;
    if (lanes::id() == 0) {
        uint32_t* gate = gate_of(b, told);
        // Release and acquire on the CPU: partners of each other's.
        uint32_t n = fetch_add<Scope::gpu, gate_order>(gate, 1u) + 1;
        while (n < b.workers) { // ends: the leader shuts a gate to which not all come
#if DENIZEN_ON_DEVICE
            // All look at one word, which L2 serves some two thousand times in a microsecond.
            __nanosleep(b.workers / 2 + 20);
#else
            doze();
#endif
            n = load<Scope::gpu, gate_look>(gate);
        }
        passed = n == b.workers ? 1 : 0;
    }
    return lanes::shuffle(passed, 0) != 0;
}

// One lane of a worker that has taken up what its predecessor put down. It entered at `entered`.
DENIZEN_HD inline void begin_breath(const BreathRef& b, uint64_t entered)
{
    fetch_max<Scope::gpu>(&b.state->entered_before, ~entered);
    fetch_max<Scope::gpu>(&b.state->looked_ns, now_ns());
}

// The same, as the last thing that a worker does which has passed the gate.
DENIZEN_HD inline void end_breath(const BreathRef& b)
{
    fetch_max<Scope::gpu>(&b.state->put_ns, now_ns());
}

// All lanes of the leader: whether step 2 is done.
DENIZEN_HD inline bool all_acknowledged(const BreathRef& b, uint32_t word)
{
    bool all = true;
    for (uint32_t w = lanes::id(); w < b.workers; w += lanes::size) {
        // Acquire, by the fence below: partner of the release in acknowledge().
        all &= load<Scope::gpu, host_acquire>(&b.acked[w]) == attempt_of(word);
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

// Steps 4 and 5, one lane: whether all have come. Else the gate is shut.
DENIZEN_HD inline bool await_gate(const BreathRef& b, uint32_t word)
{
    uint32_t* gate = gate_of(b, word);
    const uint32_t urge = urge_of(word);
    const uint64_t patience = gate_ns << (urge < most_doubled ? urge : most_doubled);
    const uint64_t begin = now_ns();
    uint32_t n = load<Scope::gpu, gate_look>(gate); // partner, as below: pass_gate()
    while (n != b.workers) {                        // ends: by the last worker, or with patience
        if (now_ns() - begin > patience) {
            if (compare_exchange<Scope::gpu, gate_order>(gate, n, n | gate_shut)) {
                return false;
            }
        } else {
            doze();
            n = load<Scope::gpu, gate_look>(gate);
        }
    }
    return true;
}

// Step 1, one lane: what to put beside the command, by a release. `failed` are the attempts that
// have failed since the breath was over.
DENIZEN_HD inline uint32_t next_attempt(const BreathRef& b, uint32_t failed)
{
    Breath& breath = *b.state;
    const uint32_t urge = breath.urge + failed;
    store<Scope::gpu>(&breath.soon_ns, now_ns());
    if (breath.pending == 0) {
        breath.pending = 1;
        ++breath.attempt;
        store<Scope::gpu>(&breath.gate[breath.attempt & 1].come, 0u);
    }
    return breath.attempt << attempt_shift | (urge < most_urge ? urge : most_urge) << urge_shift |
           breath_soon;
}

// Steps 3 to 6, one lane: whether this incarnation is over. `soon` is the command with the attempt
// that all have acknowledged.
DENIZEN_HD inline bool hand_over(const BreathRef& b, uint32_t soon)
{
    Breath& breath = *b.state;
    const uint64_t now = now_ns();
    uint32_t word = soon;
    // Fails if the command has changed: a worker has stopped the program.
    if (!compare_exchange<Scope::gpu>(b.command, word, soon | breath_go)) {
        return false;
    }
    breath.pending = 0;
    ++breath.handovers.attempts;
    const uint64_t asking = now - load<Scope::gpu>(&breath.soon_ns);
    breath.handovers.asking_ns += asking;
    store<Scope::gpu>(&breath.asking_ns,
                      static_cast<uint32_t>(asking < late_ns ? asking : late_ns));
    const bool all = await_gate(b, soon);
    const uint64_t leaving = now_ns() - now;
    breath.lost_ns += leaving + (urge_of(soon) >= all_wait ? asking : 0);
    if (!all) {
        return false;
    }
    breath.left_ns = leaving; // told with the silence it is a part of
    const uint64_t wanted = breath.lost_ns * worth;
    store<Scope::gpu>(&breath.lasts_ns, wanted < b.longest_ns ? wanted : b.longest_ns);
    breath.lost_ns = 0;
    // A command that has come meanwhile (CPU backend) stands.
    uint32_t go = soon | breath_go;
    compare_exchange<Scope::gpu>(b.command, go, soon & command_bits);
    // One less, unless that would fail: its gate waits for less than the last handler took.
    const uint32_t urge = urge_of(soon);
    const bool needed = urge == all_wait && asking > gate_ns << most_doubled;
    breath.urge = urge == 0 || needed ? urge : urge - 1;
    breath.went_ns = now;
    store<Scope::gpu>(&breath.looked_ns, uint64_t{0});
    store<Scope::gpu>(&breath.entered_before, uint64_t{0});
    return true;
}

// How long an incarnation that begins now is to last. Where handlers are long, workers wait for the
// last of them at each end, and fewer ends cost less.
DENIZEN_HD inline uint64_t lasting_ns(const BreathRef& b)
{
    const uint64_t told = load<Scope::gpu>(&b.state->lasts_ns);
    return told > b.ns ? told : b.ns;
}

// The host: what was told last, word by word.
inline Handovers read(const Handovers& told)
{
    return {load<Scope::system>(&told.count),      load<Scope::system>(&told.sum_ns),
            load<Scope::system>(&told.min_ns),     load<Scope::system>(&told.max_ns),
            load<Scope::system>(&told.attempts),   load<Scope::system>(&told.asking_ns),
            load<Scope::system>(&told.leaving_ns), load<Scope::system>(&told.carrying_ns)};
}

// One lane, when all workers of this incarnation have begun: how long nobody was there before it.
DENIZEN_HD inline void tell_handover(Handovers& host, Breath& breath)
{
    const uint64_t looked = load<Scope::gpu>(&breath.looked_ns);
    const uint64_t silent = looked > breath.went_ns ? looked - breath.went_ns : 0;
    const uint64_t all_come = breath.went_ns + breath.left_ns;
    const uint64_t put = load<Scope::gpu>(&breath.put_ns);
    const uint64_t entered = ~load<Scope::gpu>(&breath.entered_before);
    Handovers& h = breath.handovers;
    h.min_ns = h.count == 0 || silent < h.min_ns ? silent : h.min_ns;
    h.max_ns = silent > h.max_ns ? silent : h.max_ns;
    h.sum_ns += silent;
    h.leaving_ns += breath.left_ns;
    h.carrying_ns +=
        (put > all_come ? put - all_come : 0) + (looked > entered ? looked - entered : 0);
    ++h.count;
    store<Scope::system>(&host.min_ns, h.min_ns);
    store<Scope::system>(&host.max_ns, h.max_ns);
    store<Scope::system>(&host.sum_ns, h.sum_ns);
    store<Scope::system>(&host.attempts, h.attempts);
    store<Scope::system>(&host.asking_ns, h.asking_ns);
    store<Scope::system>(&host.leaving_ns, h.leaving_ns);
    store<Scope::system>(&host.carrying_ns, h.carrying_ns);
    store<Scope::system>(&host.count, h.count);
}

// The leader of one incarnation on a GPU, all lanes.
class BreathEnd {
public:
    DENIZEN_HD BreathEnd(const BreathRef& b, uint64_t began, bool successor)
        : b_(b), began_(began), free_at_(began), lasts_(b.ns == 0 ? 0 : lasting_ns(b)),
          successor_(successor)
    {
    }

    // What the host says of its launches. One that lasts waits for the driver's lock, which is held
    // by somebody who frees or takes memory and waits until this incarnation has ended: it does.
    DENIZEN_HD void see(uint64_t now, bool launching_successor)
    {
        if (!launching_successor) {
            free_at_ = now;
        } else if (now - free_at_ > held_up_ns) {
            lasts_ = 0;
        }
    }

    // How long this breath lasts yet, in nanoseconds.
    DENIZEN_HD uint64_t left(uint64_t now) const
    {
        const uint64_t past = now - began_;
        return b_.ns == 0 ? ~uint64_t{0} : past < lasts_ ? lasts_ - past : 0;
    }

    // What belongs beside the command now: 0 as long as the breath lasts. `host`: to tell what the
    // last hand-over cost.
    DENIZEN_HD uint32_t bits(uint64_t now, Handovers& host)
    {
        if (b_.ns == 0 || lanes::shuffle(now - began_ > lasts_ ? 1u : 0u, 0) == 0) {
            return 0;
        }
        if (lanes::id() == 0 && attempt_ == 0) {
            if (failed_ == 0 && successor_ && b_.state->went_ns != 0) {
                tell_handover(host, *b_.state);
            }
            attempt_ = next_attempt(b_, failed_);
        }
        attempt_ = lanes::shuffle(attempt_, 0);
        return attempt_;
    }

    // `word`: the command with these bits, which the workers see. Whether this incarnation is over.
    // Takes no longer than a look at the host's command can wait.
    DENIZEN_HD bool over(uint32_t word)
    {
        bool all = false;
        DENIZEN_ROLLED
        for (uint32_t i = 0; i < 32 && !all; ++i) {
            all = all_acknowledged(b_, word);
            doze();
        }
        if (!all) {
            return false;
        }
        const bool over = lanes::id() == 0 && hand_over(b_, word);
        attempt_ = 0;
        ++failed_;
        return lanes::shuffle(over ? 1u : 0u, 0) != 0;
    }

private:
    const BreathRef& b_;
    uint64_t began_;
    uint64_t free_at_; // when its successor was last seen not to be in the middle of its launch
    uint64_t lasts_;
    bool successor_;
    uint32_t attempt_ = 0; // bits beside the command; 0: none is under way
    uint32_t failed_ = 0;
};

} // namespace detail

} // namespace denizen
