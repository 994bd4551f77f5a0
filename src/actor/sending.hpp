// SPDX-License-Identifier: Apache-2.0
// Messages from the host to actors: into the host rings of their workers, one copy, and no thread
// in between. A sender holds a port's lock for the length of a copy; where a ring is full it waits
// without the lock, so only those wait whose worker does not keep up.
#pragma once

#include "egress.hpp"
#include "far_lanes.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/wire/lengths.hpp>

#include <mutex>

namespace denizen {

struct Sending : Receiving {
    using Receiving::Receiving;

    static constexpr size_t urgent = static_cast<size_t>(Priority::urgent);

    // The buffers of `count` messages, counted before they are sent.
    HeldBuffers hold(uint32_t type, const void* messages, size_t stride, size_t count)
    {
        return {*buffers, refs(type), messages, stride, count, image.messages[type]};
    }

    void flush_stores() const
    {
#if defined(__SSE2__)
        if (write_combined) {
            _mm_sfence();
        }
#endif
    }

    Port& port_of(uint32_t type) { return ports[image.table.message[type].priority]; }

    // Waits, without the lock, until the host ring of a worker may have room for n slots.
    template <class Held>
    void wait_for_room(Held& held, Port& port, Address to, uint32_t n, uint64_t begin,
                       uint64_t deadline_ns, size_t sent, size_t count)
    {
        Backoff wait;
        flush_stores();
        while (!port.rings.room(worker_index(to), n)) { // ends by credit, failure or deadline
            held.unlock();
            wake(to);
            drain_egress_if_full(); // a worker may be waiting for us to take its messages
            check_alive();
            check_interrupt();
            if (now_ns() - begin > deadline_ns) {
                const std::string who = stuck(500'000'000);
                throw Error(Errc::full,
                            std::string(&port == &ports[urgent] ? "urgent " : "") +
                                "host ring of " + worker_name(to) + " (" +
                                std::to_string(port.rings.capacity()) + " slots) is full: " +
                                (who.empty()
                                     ? "its worker has not kept up for " + seconds(now_ns() - begin)
                                     : who) +
                                accepted(sent, count));
            }
            wait.pause();
            held.lock();
        }
    }

    // To the worker that the header's destination names.
    void send_header(Port& port, const Header& h, const void* payload, uint64_t deadline_ns)
    {
        if (host_trace.on() && (h.flags & (flag_system | flag_traced)) == 0) {
            send_traced(port, h, payload, deadline_ns);
            return;
        }
        const Address to{h.destination};
        const size_t w = worker_index(to);
        std::unique_lock held(port.lock);
        const uint32_t n = slots_for(h.length);
        if (!port.rings.room(w, n)) {
            wait_for_room(held, port, to, n, now_ns(), deadline_ns, 0, 1);
        }
        if (!with_length(h.length,
                         [&]<uint32_t L>() { port.rings.write_short<L>(w, h, payload); })) {
            port.rings.write(w, h, payload);
        }
        held.unlock();
        flush_stores();
        wake(to);
    }

    // A message of the runtime's own. By default behind the data that was sent before it.
    void send_system(SystemOp op, Address to, Address ticket, const void* payload, uint32_t length,
                     uint64_t deadline_ns, Priority priority = Priority::data)
    {
        send_header(ports[static_cast<uint32_t>(priority)],
                    {to.value, ticket.value, static_cast<uint32_t>(op), flag_system, length},
                    payload, deadline_ns);
    }

    void send_checked(Address to, uint32_t type, uint32_t sender, const void* payload,
                      uint32_t length, uint64_t deadline_ns)
    {
        check_message(type, length);
        to = far.format.to_short(to);
        if (to.is_far()) {
            send_far(to, type, sender, payload, length, deadline_ns);
            return;
        }
        const uint8_t actor = inside(to) ? type_at(index(to)) : uint8_t{0};
        if (actor == 0 || !image.table.can_handle(actor - 1u, type)) {
            refuse(to, type);
        }
        if (closed) {
            check_alive();
        }
        HeldBuffers held = hold(type, payload, length, 1);
        send_header(port_of(type), {to.value, sender, type, 0, length}, payload, deadline_ns);
        held.sent();
    }

    template <uint32_t L>
    void send_batch(const Address* to, bool to_one, uint32_t type, uint32_t length,
                    const unsigned char* payload, size_t stride, size_t count, uint64_t deadline_ns)
    {
        // The lock is given up between chunks, so that asks of other threads get through.
        constexpr size_t chunk = 512;
        const uint32_t n = slots_for(length);
        const uint64_t begin = now_ns();
        Port& port = port_of(type);
        const Takers takers(*this, type);
        const size_t to_step = to_one ? 0 : 1;
        for (size_t i = 0; i < count;) {
            const size_t end = i + chunk < count ? i + chunk : count;
            HeldBuffers refs = [&] {
                try {
                    return hold(type, payload + i * stride, stride, end - i);
                } catch (const Error& e) {
                    throw Error(e.code(), std::string(e.what()) + accepted(i, count));
                }
            }();
            std::unique_lock held(port.lock);
            for (;;) { // ends with the chunk, an address that takes none, or a full ring's deadline
                const size_t sent =
                    write_batch<L>(port.rings, takers, to + i * to_step, to_step, type, length,
                                   payload + i * stride, stride, end - i);
                refs.sent(sent);
                i += sent;
                if (i == end) {
                    break;
                }
                const Address next = to[i * to_step];
                if (!takers.have(next)) {
                    held.unlock();
                    flush_stores();
                    wake_all();
                    try {
                        refuse(next, type);
                    } catch (const Error& e) {
                        throw Error(e.code(), std::string(e.what()) + accepted(i, count));
                    }
                }
                wait_for_room(held, port, next, n, begin, deadline_ns, i, count);
            }
            held.unlock();
            flush_stores();
            wake_all();
        }
    }

    // Writes messages until one has no room or its address does not take it; returns how many. All
    // that is rare is the caller's, so that what a message needs stays in registers. With the
    // port's lock held.
    template <uint32_t L>
    static size_t write_batch(HostRings rings, const Takers& takers, const Address* to,
                              size_t to_step, uint32_t type, uint32_t length,
                              const unsigned char* payload, size_t stride, size_t count)
    {
        constexpr bool fixed = L <= first_payload;
        const uint32_t n = fixed ? 1 : slots_for(length);
        Header h{0, host.value, type, 0, fixed ? L : length};
        size_t sent = 0;
        for (; sent < count; ++sent, to += to_step, payload += stride) {
            size_t w = 0;
            if (!takers.have(*to, w) || !rings.room(w, n)) {
                break;
            }
            h.destination = to->value;
            if constexpr (fixed) {
                rings.write_short<L>(w, h, payload);
            } else {
                rings.write(w, h, payload);
            }
        }
        return sent;
    }

    static std::string accepted(size_t sent, size_t count)
    {
        return count == 1 ? std::string()
                          : " (" + std::to_string(sent) + " of " + std::to_string(count) +
                                " messages were accepted before it)";
    }

    // To another host of the cluster (far.cpp): Errc::host_lost, Errc::full.
    void send_far(Address to, uint32_t type, uint32_t sender, const void* payload, uint32_t length,
                  uint64_t deadline_ns);

    // As send_header(), with a stamp (tracing.cpp).
    void send_traced(Port& port, Header h, const void* payload, uint64_t deadline_ns);

    Port ports[2];               // by Priority
    bool write_combined = false; // some node's rings: stores must be flushed
    FarLanes far;                // the other hosts, if the program is of a cluster
};

} // namespace denizen
