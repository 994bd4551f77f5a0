// SPDX-License-Identifier: Apache-2.0
// The monitor: one warp on the GPU; on the CPU, whoever asks. It alone looks at host memory for the
// program. It passes the host's commands on to the workers. It mirrors what the workers report to
// host memory. It notices when nothing is under way. It takes the program off the GPU when the
// program is idle, when the host says so, or when the host has died.
#pragma once

#include <denizen/actor/detail/arrival.hpp>
#include <denizen/actor/detail/quiet.hpp>
#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/device/detail/resident.hpp>

#if DENIZEN_HOSTED
#include <cstdlib>
#include <ctime>
#endif

namespace denizen {

struct ScanResult {
    bool all_left;
    bool quiet;
    bool armed;         // a timer is to fire
    uint32_t positions; // as detail::Checked
};

namespace detail {

DENIZEN_COLD inline void mirror(FirstError& to, const FirstError& from)
{
    // Acquire: partner of the worker's release in keep_first().
    if (load<Scope::gpu>(&from.set) == 2 && load<Scope::system>(&to.set) == 0 &&
        load<Scope::gpu, Order::acquire>(&from.set) == 2) {
        to.record = from.record;
        // Release: partner of the host's acquire.
        store<Scope::system, Order::release>(&to.set, 2u);
    }
}

// A word of a report, if it has changed. Rewriting everything would put a burst of small writes on
// the bus at every scan, and replies would queue behind it.
template <class T>
DENIZEN_HD inline void tell_word(T& host, T& watched, T told, T now)
{
    if (now != told) {
        store<Scope::system>(&host, now);
        watched = now;
    }
}

DENIZEN_HD inline void tell(Report& host, Report& watched, const Report& now, const Status& status)
{
    const Report told = watched; // read at once: between two writes each word is waited for
    tell_word(host.handled, watched.handled, told.handled, now.handled);
    tell_word(host.dead_letters, watched.dead_letters, told.dead_letters, now.dead_letters);
    tell_word(host.running, watched.running, told.running, now.running);
    tell_word(host.busy_ns, watched.busy_ns, told.busy_ns, now.busy_ns);
    for (uint32_t i = 0; i < 2; ++i) {
        tell_word(host.host_ring_done[i], watched.host_ring_done[i], told.host_ring_done[i],
                  now.host_ring_done[i]);
    }
    tell_word(host.mode, watched.mode, told.mode, now.mode);
    tell_word(host.outbox, watched.outbox, told.outbox, now.outbox);
    tell_word(host.stashed, watched.stashed, told.stashed, now.stashed);
    tell_word(host.timers, watched.timers, told.timers, now.timers);
    uint64_t reasons = 0;
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 7; ++i) {
        reasons += told.dead_by_reason[i];
    }
    if (reasons != now.dead_letters) { // seldom
        DENIZEN_ROLLED
        for (uint32_t i = 0; i < 7; ++i) {
            tell_word(host.dead_by_reason[i], watched.dead_by_reason[i], watched.dead_by_reason[i],
                      load<Scope::gpu>(&status.dead_by_reason[i]));
        }
    }
}

} // namespace detail

// Copies every worker's status to the host's reports, checks whether the program is quiet, and
// returns in every lane what the two found. `asked` becomes Control::scan, `check` Control::check.
DENIZEN_COLD inline ScanResult scan(const Shared& s, uint32_t asked, uint32_t check)
{
    ScanResult result{true, false, false, 0};
    const uint64_t now = now_ns();
    DENIZEN_ROLLED
    for (uint32_t w = lanes::id(); w < s.workers; w += lanes::size) {
        Status& status = s.status[w];
        Watch& watch = s.watch[w];
        // All of these are asked for before any is looked at.
        const uint32_t turn = load<Scope::gpu>(&status.turn);
        const uint32_t mode = load<Scope::gpu, detail::host_acquire>(&status.mode);
        const uint32_t chores = load<Scope::gpu, detail::host_acquire>(&s.worker_states[w].chores) +
                                load<Scope::gpu, detail::host_acquire>(&s.worker_states[w].moving);
        Report r;
        r.handled = load<Scope::gpu>(&status.handled);
        r.dead_letters = load<Scope::gpu>(&status.dead_letters);
        r.host_ring_done[0] = load<Scope::gpu>(&status.done[source_host_urgent]);
        r.host_ring_done[1] = load<Scope::gpu>(&status.done[source_host]);
        r.outbox = load<Scope::gpu>(&status.outbox) + chores;
        r.stashed = load<Scope::gpu>(&status.stashed);
        r.timers = load<Scope::gpu>(&s.worker_states[w].armed);
        if (turn != watch.turn) {
            watch.turn = turn;
            watch.since = now;
        } else if ((turn & 1) != 0) { // the same handlers as at the last scan
            r.busy_ns = now - watch.since;
            DENIZEN_ROLLED
            for (uint32_t i = 0; i < 32 && r.running == 0; ++i) {
                r.running = load<Scope::gpu>(&status.running[i]);
            }
        }
        r.mode = mode;
        result.armed |= r.timers != 0;
        detail::tell(s.reports[w], watch.told, r, status);
        result.all_left &= mode == static_cast<uint32_t>(Mode::left);
    }
    lanes::sync();
    result.all_left = lanes::ballot(!result.all_left) == 0;
    result.armed = lanes::ballot(result.armed) != 0;
    // Behind the reports: its fence stands before the number of this scan, too.
    const detail::Checked found = detail::check_quiet(s, check);
    result.quiet = found.quiet;
    result.positions = found.positions;
    if (lanes::id() == 0) {
        Control& c = *s.control;
        detail::mirror(c.first, s.board->first);
        detail::mirror(c.fatal, s.board->fatal);
        store<Scope::system>(&c.errors, load<Scope::gpu>(&s.board->errors));
        // Release: partner of the host's acquire of the scan number.
        store<Scope::system, Order::release>(&c.scan, asked);
    }
    lanes::sync();
    return result;
}

namespace detail {

// While tracing, the host compares clocks: it is told ours at every turn, and the workers begin
// when it has told how far the two are apart.
DENIZEN_HD inline void pass_on_observe(Control& c, Board& board, uint32_t observe)
{
    if ((observe & observe_messages) != 0) {
        const uint64_t shift = load<Scope::system>(&c.clock_shift);
        store<Scope::gpu>(&board.clock_shift, shift);
        store<Scope::system>(&c.device_ns, now_ns());
        observe = shift == 0 ? observe & ~observe_messages : observe;
    }
    if (observe != load<Scope::gpu>(&board.observe)) {
        store<Scope::gpu>(&board.observe, observe);
    }
}

// Between two scans that nobody asks for. Workers are slower while the monitor scans: those of a
// program of 528 handled a tenth less when it did so all the time.
inline constexpr uint64_t scan_ns = 2'000'000;
// Failures alone make it scan no more often than this: where they are many it would do nothing
// else, in the way of all workers.
inline constexpr uint64_t failures_ns = 500'000;

// Between two scans.
DENIZEN_HD inline void nap([[maybe_unused]] uint32_t ns)
{
#if DENIZEN_ON_DEVICE
    __nanosleep(ns);
#elif DENIZEN_HOSTED
    const timespec time{0, static_cast<long>(ns)};
    nanosleep(&time, nullptr);
#endif
}

// The only way out of a handler that never returns; it ends the context, too.
DENIZEN_HD inline void trap()
{
#if DENIZEN_ON_DEVICE
    __trap();
#elif DENIZEN_HOSTED
    std::abort();
#endif
}

} // namespace detail

// Runs on its own warp until the program leaves the GPU or its breath ends. Out of line: the
// workers have the registers to themselves. Compiled for the host, it runs on a GPU that is not
// there (tests/simulation).
DENIZEN_COLD inline void run_monitor(const Shared& s)
{
    Control& c = *s.control;
    Board& board = *s.board;
    const bool leader = lanes::id() == 0;
    const uint64_t began = now_ns();
    if (s.successor != 0 && load<Scope::gpu>(&board.left_for_good) != 0) {
        // The program has left while this incarnation was queued: the workers see the command that
        // told them so. It stays, whatever the host wants by now: it launches anew.
        if (leader) {
            store<Scope::system>(&c.ended, s.incarnation);
        }
        return;
    }
    uint32_t answered = load<Scope::system>(&c.scan);
    uint32_t checked = load<Scope::system>(&c.check);
    uint64_t errors = load<Scope::gpu>(&board.errors);
    uint32_t heartbeat = load<Scope::system>(&c.heartbeat);
    uint64_t beat_at = began;
    uint32_t positions = s.successor != 0 ? board.positions : 0;
    uint64_t worked_at = s.successor != 0 ? board.worked_at : began;
    Leave reason = Leave::none;
    ScanResult r{};
    uint64_t scanned_at = s.successor != 0 ? board.scanned_at : 0;
    uint64_t scan_took = s.successor != 0 ? board.scan_took : 0;
    // Or a program that is to leave sooner would be found idle long after it is.
    const uint64_t half_idle = s.idle_ns / 2;
    const uint64_t scan_every =
        half_idle != 0 && half_idle < detail::scan_ns ? half_idle : detail::scan_ns;
    uint32_t ending = 0; // bits of a breath that ends
    detail::BreathEnd end(s.breath, began, s.successor != 0);
    if (leader && s.successor == 0) {
        store<Scope::gpu>(&board.left_for_good, 0u);
        store<Scope::system>(&c.mode, static_cast<uint32_t>(Mode::running));
    }
    for (;;) { // ends when all workers have left, which a command, silence, the end of the breath
               // or a dead host asks for
        const uint64_t now = now_ns();
        const uint32_t beat = load<Scope::system>(&c.heartbeat);
        const uint32_t launching = load<Scope::system>(&c.launching);
        const auto command =
            static_cast<Command>(lanes::shuffle(load<Scope::system>(&c.command), 0));
        const uint32_t asked = lanes::shuffle(load<Scope::system>(&c.asked), 0);
        const uint32_t check = lanes::shuffle(load<Scope::system>(&c.check_asked), 0);
        end.see(now, launching == s.incarnation + 1);
        if (beat != heartbeat) {
            heartbeat = beat;
            beat_at = now;
        }
        if (const uint32_t observe = load<Scope::system>(&c.observe); leader) {
            detail::pass_on_observe(c, board, observe);
        }
        // While a scan of many workers lasts nobody sees that the breath is over, and none is told
        // to go: it begins where the breath lasts longer, or when the host has waited for one.
        const uint64_t failed = load<Scope::gpu>(&board.errors);
        const bool failures = failed != errors && now - scanned_at > detail::failures_ns;
        const bool due = asked != answered || failures || reason != Leave::none;
        const bool fits = ending == 0 && (reason != Leave::none || end.left(now) > scan_took);
        const bool late = now - scanned_at > scan_every;
        const bool checks = check != checked && fits;
        const uint32_t looks = lanes::shuffle((due && fits) || late ? 2u : checks ? 1u : 0u, 0);
        const bool scans = looks == 2;
        if (scans) {
            errors = failed;
            answered = asked;
            checked = check;
            r = scan(s, asked, check);
            scanned_at = now_ns();
            scan_took = scanned_at - now;
            // With timers a program is never idle: nobody would bring it back when one is due.
            if (r.positions != positions || !r.quiet || r.armed) {
                positions = r.positions;
                worked_at = now;
            }
        } else if (looks == 1) {
            checked = check;
            detail::check_quiet(s, check);
        }
        // Before anybody was told to leave this is what the workers said when they left the last
        // time: those that still fetch their boxes have not said anything since.
        if (r.all_left && reason != Leave::none) {
            break;
        }
        if (command == Command::kill) {
            detail::trap();
        }
        if (reason == Leave::none) {
            // A program that breathes needs no heart: when the host is dead, nobody comes after it.
            if (s.breath.ns == 0 &&
                lanes::shuffle(now - beat_at > s.host_timeout_ns ? 1u : 0u, 0) != 0) {
                reason = Leave::host_lost;
            } else if (command == Command::stop) {
                reason = Leave::stopped;
            } else if (command == Command::leave ||
                       (scans && s.idle_ns != 0 && // else what it found is old
                        lanes::shuffle(now - worked_at > s.idle_ns ? 1u : 0u, 0) != 0)) {
                reason = Leave::idle;
            }
        }
        ending = reason == Leave::none ? end.bits(now, c.handovers) : 0;
        uint32_t wanted = static_cast<uint32_t>(
            reason == Leave::none   ? (command == Command::pause ? Command::pause : Command::run)
            : reason == Leave::idle ? Command::leave
                                    : Command::stop);
        wanted |= ending;
        if (leader) {
            // A worker that gave up on a full outbox has set stop itself: leave that standing.
            uint32_t before = load<Scope::gpu>(&board.command);
            if (before != wanted && before != static_cast<uint32_t>(Command::stop)) {
                compare_exchange<Scope::gpu, Order::release>(&board.command, before, wanted);
            }
            if (before == static_cast<uint32_t>(Command::stop) && reason == Leave::none) {
                reason = Leave::failed;
            }
        }
        reason = static_cast<Leave>(lanes::shuffle(static_cast<uint32_t>(reason), 0));
        if (ending != 0 && reason == Leave::none) {
            if (end.over(wanted)) {
                if (leader) {
                    board.positions = positions;
                    board.worked_at = worked_at;
                    board.scanned_at = scanned_at;
                    board.scan_took = scan_took;
                    store<Scope::system>(&c.ended, s.incarnation); // the keeper counts by it
                }
                return;
            }
            continue;
        }
        // A worker idle for long is looked at less often; the host's patience is milliseconds.
        detail::nap(now - worked_at > 10'000'000 ? 50'000 : 5'000);
    }
    scan(s, answered, checked); // the workers' last words
    if (leader) {
        board.breath.went_ns = 0;
        store<Scope::gpu>(&board.left_for_good, 1u); // before the next one in the stream
        store<Scope::system>(&c.leave, static_cast<uint32_t>(reason));
        store<Scope::system>(&c.ended, s.incarnation);
        // Release: partner of the keeper's acquire; all reports are out before the mode is.
        store<Scope::system, Order::release>(&c.mode, static_cast<uint32_t>(Mode::left));
    }
}

} // namespace denizen
