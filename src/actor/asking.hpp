// SPDX-License-Identifier: Apache-2.0
// Asks of the host: a reply cell for each, on which the asking thread itself waits.
#pragma once

#include "cells.hpp"
#include "sending.hpp"

namespace denizen {

struct Asking : Sending {
    using Sending::Sending;

    Address take_cell(uint64_t deadline_ns)
    {
        Address ticket;
        const uint64_t begin = now_ns();
        Backoff wait;
        while (!cells.take(ticket)) { // ends when a reply is taken, or by the deadline
            if (now_ns() - begin > deadline_ns) {
                throw Error(Errc::exhausted, "all " + std::to_string(cells.count()) +
                                                 " reply cells are taken by unanswered asks; raise "
                                                 "asks or answer them");
            }
            check_interrupt();
            wait.pause();
        }
        return ticket;
    }

    // `what()` names the ask in an error.
    template <class What>
    Header wait_reply(Address ticket, void* reply, uint32_t room, uint64_t deadline_ns, What&& what)
    {
        Header h;
        const uint64_t begin = now_ns();
        for (uint32_t tries = 0; !cells.arrived(ticket, h); ++tries) { // ends by reply or deadline
            if (tries < 512) {
                continue; // a pause instruction is 50 ns on some CPUs: too long for a reply in 2 us
            }
            relax();
            if (tries % 64 != 0) {
                continue;
            }
            const uint64_t waited = now_ns() - begin;
            if (waited > deadline_ns) {
                cells.abandon(ticket);
                const std::string who =
                    stuck(deadline_ns / 2 < 500'000'000 ? deadline_ns / 2 : 500'000'000);
                throw Error(Errc::timeout, what() + " was not answered within " +
                                               seconds(deadline_ns) +
                                               (who.empty() ? "" : ": " + who));
            }
            // A core that waits for the GPU is well spent for some microseconds; on the CPU backend
            // the worker may need this very core.
            if (!on_gpu || waited > 200'000) {
                sched_yield();
            }
            if (waited > 2'000'000) {
                drain_egress_if_full();
                try {
                    check_alive();
                    check_interrupt();
                } catch (...) {
                    cells.abandon(ticket);
                    throw;
                }
                const timespec nap{0, 20'000};
                nanosleep(&nap, nullptr);
            }
        }
        if ((h.flags & flag_traced) != 0) {
            host_trace.received(h, cells.stamp(ticket, h));
        }
        cells.finish(ticket, h, reply, room);
        h = without_stamp(h);
        if ((h.flags & flag_system) != 0 && h.type == far_refusal) {
            refused_far(h, what());
        }
        if ((h.flags & flag_system) == 0 && h.length <= room) {
            arrived(h.type, reply);
        }
        return h;
    }

    // The answer of another host that cannot answer.
    [[noreturn]] void refused_far(const Header& h, const std::string& what)
    {
        const uint32_t who = h.sender >> 8;
        const auto code = static_cast<Errc>(h.sender & 0xff);
        if (code == Errc::host_lost) {
            const std::lock_guard guard(far.lane[who]->lock);
            throw Error(code, what + " was not answered: " + far.lane[who]->why);
        }
        throw Error(code, what + ": host " + std::to_string(who) +
                              " has no such actor, or it has no handler for it; see that host's "
                              "dead letters");
    }

    Cells cells;
};

} // namespace denizen
