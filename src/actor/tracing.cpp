// SPDX-License-Identifier: Apache-2.0
// Tracing from the host's side: switches it on and off in the running program, compares the clocks
// of its nodes with the host's, and reads the workers' trace rings while they write.
#include "core.hpp"

#include <denizen/actor/detail/telemetry.hpp>
#include <denizen/actor/telemetry.hpp>

#include <algorithm>

namespace denizen {

void AnyRuntime::Core::tell_observing(uint32_t word) // with observe_mutex held
{
    observing.word = word;
    for (const Node& node : nodes) {
        store<Scope::system>(on_gpu ? &node.control->observe : &node.shared.board->observe, word);
    }
}

// Most workers agree within 0.2 ms; one that is in a long handler does so after it.
void AnyRuntime::Core::wait_for_observers()
{
    const uint64_t begin = now_ns();
    for (const Node& node : nodes) {
        for (uint32_t w = 0; w < workers && now_ns() - begin < 100'000'000;) { // ends: the time
            uint64_t found = 0; // `tick_ns` and `seen` share an aligned word
            if (!node.backend->read(&found, &node.shared.counters[w].tick_ns, sizeof found) ||
                node.backend->parked()) {
                break; // they agree when the program is back
            }
            if (found >> 32 == observing.word) {
                ++w;
                continue;
            }
            if (!on_gpu) {
                node.backend->wake(w);
            }
            const timespec nap{0, 20'000};
            nanosleep(&nap, nullptr);
        }
    }
}

// How far a node's now_ns() is behind ours. Its monitor tells the time some 0.2 million times a
// second; what we read is late by the way over the bus and by our own polling, so the smallest of
// many differences is the best. False if it told none: it is not on its GPU.
bool AnyRuntime::Core::compare_clocks(const Node& node, uint64_t& shift) const
{
    if (!on_gpu) {
        shift = 0;
        return true;
    }
    constexpr uint32_t wanted = 64;
    const uint64_t begin = now_ns();
    uint64_t last = load<Scope::system>(&node.control->device_ns);
    uint32_t found = 0;
    while (found < wanted && now_ns() - begin < 20'000'000) { // ends by count or by time
        const uint64_t theirs = load<Scope::system>(&node.control->device_ns);
        if (theirs != last) {
            last = theirs;
            const uint64_t difference = now_ns() - theirs;
            shift = found == 0 || static_cast<int64_t>(difference - shift) < 0 ? difference : shift;
            ++found;
        }
        relax();
    }
    return found != 0;
}

// Tells the nodes how far their clocks are from the time that stamps count. A clock of a CPU drifts
// against a GPU's by some microseconds a second, so this is done again by every take_trace().
void AnyRuntime::Core::set_clocks()
{
    for (Node& node : nodes) {
        if (compare_clocks(node, node.clock_shift)) {
            const uint64_t since_2026 = hlc::now_us() * 1000 - now_ns() + node.clock_shift;
            store<Scope::system>(
                on_gpu ? &node.control->clock_shift : &node.shared.board->clock_shift, since_2026);
        }
    }
}

// A host's message, stamped. As send_header().
void Sending::send_traced(Port& port, Header h, const void* payload, uint64_t deadline_ns)
{
    const uint64_t stamp = host_trace.draw();
    const uint64_t begin = now_ns(); // behind it: by time, the host's stamps are in order
    std::vector<unsigned char> bytes;
    bytes.reserve(h.length + stamp_bytes);
    bytes.assign(static_cast<const unsigned char*>(payload),
                 static_cast<const unsigned char*>(payload) + h.length);
    const Header plain = h;
    put_stamp(h, bytes, stamp);
    send_header(port, h, bytes.data(), deadline_ns);
    host_trace.sent(plain, stamp, begin);
}

void AnyRuntime::Core::trace(bool on)
{
    check_alive();
    if (options.trace_slots == 0) {
        throw Error(Errc::bad_argument,
                    "this program cannot be traced: it was started with trace_slots = 0; start it "
                    "with trace_slots = 4096 (Python: Runtime(..., trace=True))");
    }
    const std::lock_guard guard(observing.mutex);
    const uint32_t word =
        on ? observing.word | observe_messages : observing.word & ~observe_messages;
    if (!on_gpu) { // a GPU's monitor tells its time only from now on
        set_clocks();
    }
    tell_observing(word);
    if (on_gpu && on) {
        set_clocks();
    }
    wait_for_observers();
    host_trace.set(on);
}

Trace AnyRuntime::Core::take_trace()
{
    check_alive();
    const std::lock_guard guard(observing.mutex);
    Trace t;
    if (options.trace_slots == 0) {
        return t;
    }
    if ((observing.word & observe_messages) != 0) {
        set_clocks();
    }
    for (Node& node : nodes) {
        const Shared& s = node.shared;
        const size_t first = t.records.size();
        const uint64_t before = node.trace.overwritten();
        if (on_gpu) {
            const size_t bytes = s.workers * trace_ring_bytes(s.trace_slots);
            observing.trace_copy.resize(bytes / sizeof(Slot) + 2);
            auto* copy = reinterpret_cast<std::byte*>(observing.trace_copy.data());
            copy += -reinterpret_cast<uintptr_t>(copy) % line; // the rings' alignment
            if (!node.backend->read(copy, s.trace, bytes)) {
                check_alive();
                throw Error(Errc::peer_dead, "the program's memory cannot be read any more");
            }
            node.trace.drain(copy, t.records, false);
        } else {
            node.trace.drain(s.trace, t.records, false);
        }
        t.overwritten += node.trace.overwritten() - before;
        for (size_t i = first; i < t.records.size(); ++i) {
            TraceRecord& r = t.records[i];
            r.start_ns += node.clock_shift;
            const Address a{r.actor};
            if (r.actor_type == no_type && inside(a)) {
                r.actor_type = type_at(index(a)) - 1u;
            }
        }
    }
    t.overwritten += host_trace.take(t.records);
    return t;
}

void AnyRuntime::trace(bool on) { core().trace(on); }

Trace AnyRuntime::take_trace() { return core().take_trace(); }

} // namespace denizen
