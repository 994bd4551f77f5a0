// SPDX-License-Identifier: Apache-2.0
// What is true of a program only if it is true of all its nodes: that nothing is under way, that it
// is paused or parked, that it has left.
#include "core.hpp"
#include "fingerprint.hpp"

namespace denizen {

// No ring has more handled than was sent, and what is told is older than the tails that are read
// here: all has been handled if the sums are equal.
bool AnyRuntime::Core::pending(const Totals& told)
{
    const auto sent_by = [&](const Port& port, uint32_t n) {
        uint32_t sent = 0;
        for (uint32_t w = 0; w < workers; ++w) {
            sent += port.rings.tail(worker_index(Address::actor(w, 0, n)));
        }
        return sent;
    };
    if (options.hosts != 0) {
        const std::lock_guard guard(far.port.lock);
        for (uint32_t n = 0; n < nodes.size(); ++n) {
            if (told.of_hosts[n] != sent_by(far.port, n)) {
                return true;
            }
        }
    }
    uint32_t sent[max_nodes] = {};
    for (Port& port : ports) {
        const std::lock_guard guard(port.lock);
        for (uint32_t n = 0; n < nodes.size(); ++n) {
            sent[n] += sent_by(port, n);
        }
    }
    return std::memcmp(sent, told.of_host, sizeof sent) != 0;
}

Totals AnyRuntime::Core::totals() const
{
    Totals t;
    const auto count = static_cast<uint32_t>(nodes.size());
    for (uint32_t n = 0; n < count; ++n) {
        const Control& c = *nodes[n].control;
        const uint64_t told = load<Scope::system>(&c.quiet);
        t.quiet &= (told & 1) != 0;
        t.of_host[n] = static_cast<uint32_t>(told >> 32);
        t.of_hosts[n] = options.hosts != 0 ? load<Scope::system>(&c.peer_done[n]) : 0;
        t.positions[n] = load<Scope::system>(&c.positions);
        for (uint32_t other = 0; other < count; ++other) {
            if (other != n) {
                t.sent[n][other] = load<Scope::system>(&c.peer_sent[other]);
                t.done[other][n] = load<Scope::system>(&c.peer_done[other]);
            }
        }
    }
    return t;
}

Handovers AnyRuntime::Core::handovers() const
{
    return denizen::detail::read(nodes[0].control->handovers);
}

// Nothing is under way. Of one node one check says it: whether it was quiet, and what of the host's
// it had handled by then, are told in one word.
//
// Of several nodes, or of a host of a cluster, a check is looked at that began when all that came
// from outside had been handled. If no node has handled anything between its two checks, no node
// did so at the moment between the two rounds either. Each was quiet then, and what they had sent
// each other, which nobody changed, had been handled.
bool AnyRuntime::Core::settled(uint64_t patience_ns)
{
    const Totals first = totals();
    if (pending(first)) {
        return false;
    }
    if (nodes.size() == 1 && options.hosts == 0) {
        return first.quiet;
    }
    if (!check_quiet(patience_ns)) {
        return false;
    }
    const Totals second = totals();
    return second.quiet && (nodes.size() == 1 || (first == second && second.all_arrived()));
}

bool AnyRuntime::Core::drained(uint64_t deadline_ns)
{
    const uint64_t begin = now_ns();
    const auto done = [&] {
        const uint64_t waited = now_ns() - begin;
        return settled(deadline_ns > waited ? deadline_ns - waited : 0);
    };
    return wait_until(deadline_ns, done, &Backend::check_quiet);
}

// Whether a node that has left its GPU has a reason to go back: something to do on any node, or
// another node that stays, whose workers would wait for it for ever.
bool AnyRuntime::Core::return_needed()
{
    const Totals t = totals();
    if (pending(t) || !t.quiet || !t.all_arrived()) {
        return true;
    }
    for (const Node& node : nodes) { // the one that asks is parked
        if (!node.backend->parked() &&
            load<Scope::system>(&node.control->command) < static_cast<uint32_t>(Command::leave)) {
            return true;
        }
    }
    return false;
}

bool AnyRuntime::Core::in_mode(Mode mode, bool or_parked) const
{
    for (const Node& node : nodes) {
        if (or_parked && node.backend->parked()) {
            continue;
        }
        for (uint32_t w = 0; w < workers; ++w) {
            if (load<Scope::system>(&node.reports[w].mode) != static_cast<uint32_t>(mode)) {
                return false;
            }
        }
    }
    return true;
}

Mode AnyRuntime::Core::mode() const
{
    const Mode told = static_cast<Mode>(load<Scope::system>(&nodes[0].control->mode));
    const bool paused = told == Mode::running && nodes[0].backend->commanded() == Command::pause &&
                        in_mode(Mode::paused, true);
    return paused ? Mode::paused : told;
}

// As join() of every node. All of them have left before any memory is freed: they write into
// each other's.
bool AnyRuntime::Core::join(uint64_t patience_ns, std::string* who_stays)
{
    const uint64_t begin = now_ns();
    bool all = true;
    std::exception_ptr interrupt;
    for (const Node& node : nodes) {
        const uint64_t used = now_ns() - begin;
        try {
            all &= node.backend->join(patience_ns > used ? patience_ns - used : 0);
        } catch (...) { // interrupted: no more patience
            interrupt = std::current_exception();
            all = false;
            patience_ns = 0;
        }
    }
    if (!all) {
        if (!interrupt && who_stays != nullptr) {
            *who_stays = who_is_not(Mode::left);
        }
        for (Node& node : nodes) {
            node.backend->abandon();
            (void)node.arena.release(); // a handler that does not return may still use it
        }
    }
    if (interrupt) {
        buffers->abandon();
        std::rethrow_exception(interrupt);
    }
    return all;
}

std::string AnyRuntime::Core::who_is_not(Mode mode)
{
    std::string who = stuck(0);
    if (!who.empty()) {
        return who;
    }
    constexpr uint64_t patience_ns = 50'000'000;
    uint32_t others = 0;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
        const Node& node = nodes[n];
        if (node.backend->parked()) {
            continue;
        }
        const std::string name = nodes.size() > 1 ? "node " + std::to_string(n) : "the program";
        if (!node.backend->refresh(patience_ns)) {
            return name + " has told nothing for " + seconds(patience_ns);
        }
        if (load<Scope::system>(&node.control->mode) == static_cast<uint32_t>(Mode::left)) {
            return name + "'s monitor has left and some of its workers have not";
        }
        for (uint32_t w = 0; w < workers; ++w) {
            const Report& report = node.reports[w];
            const uint32_t told = load<Scope::system>(&report.mode);
            if (told == static_cast<uint32_t>(mode)) {
                continue;
            }
            if (!who.empty()) {
                ++others;
                continue;
            }
            const uint64_t busy = load<Scope::system>(&report.busy_ns);
            const uint32_t parked = load<Scope::system>(&report.outbox);
            who = worker_name(Address::actor(w, 0, n)) + " is " + to_string(Mode{told}) + ", " +
                  (busy != 0 ? "has been at the runtime's own work for " + seconds(busy)
                             : std::string("between two messages")) +
                  (parked != 0 ? ", with " + std::to_string(parked) + " sends or orders waiting"
                               : "");
        }
    }
    return who + (others != 0 ? " (and " + std::to_string(others) + " more)" : "");
}

void AnyRuntime::Core::exchange(const Image& next)
{
    const std::lock_guard guard(exchange_mutex);
    if (program_section(next).bytes() != program_section(image).bytes()) {
        throw Error(Errc::bad_argument, "this is another program: its actors or messages differ "
                                        "from those of the one that runs");
    }
    for (const Node& node : nodes) { // nodes with different code understand each other
        if (closed) {
            return;
        }
        node.backend->exchange(next);
    }
}

void AnyRuntime::Core::close(uint64_t timeout_ns)
{
    // A second closer returns when the first is done; a snapshot is finished first.
    const std::scoped_lock guards(close_mutex, save_mutex);
    if (closed) {
        return;
    }
    held = nullptr;
    const uint64_t begin = now_ns();
    std::string problem;
    if (nodes[0].backend->commanded() == Command::pause) {
        command(Command::run);
    }
    bool quiet = options.hosts != 0; // the links to the other hosts are closed: the cluster drains
    try {
        quiet = quiet || drained(timeout_ns);
    } catch (const Error&) { // a dead program is quiet; whoever waits on it has been told
    }
    closed = true;
    if (!quiet) {
        problem = stuck(0);
    }
    command(Command::stop);
    const uint64_t used = now_ns() - begin;
    const uint64_t left = timeout_ns > used ? timeout_ns - used : 0;
    // A worker between two messages leaves within microseconds: even a spent deadline leaves it
    // a moment.
    std::string who;
    if (!join(left > 100'000'000 ? left : 100'000'000, &who)) {
        buffers->abandon();
        if (problem.empty()) {
            problem = "the program did not stop within " + seconds(timeout_ns) +
                      (who.empty() ? "" : ": " + who);
        }
        throw Error(
            Errc::stuck,
            problem + (on_gpu ? "; its GPU context has been torn down, start a new process to use "
                                "the GPU again"
                              : "; its thread has been left behind"));
    }
    buffers->stop();
}

} // namespace denizen
