// SPDX-License-Identifier: Apache-2.0
// The host's half of a resident program: what AnyRuntime is made of. Sending, asking, taking what
// actors send to the host, and waiting for the program's states. start.cpp builds it,
// any_runtime.cpp is its public face.
#pragma once

#include "backend.hpp"
#include "cells.hpp"
#include "port.hpp"

#include <denizen/wire/spsc.hpp>

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>

namespace denizen {

inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

using detail::seconds;

// Runs `use.template operator()<L>()` for the length if it is one of the common ones.
template <class Use>
bool with_length(uint32_t length, Use&& use)
{
    switch (length) {
    case 0: use.template operator()<0>(); return true;
    case 4: use.template operator()<4>(); return true;
    case 8: use.template operator()<8>(); return true;
    case 12: use.template operator()<12>(); return true;
    case 16: use.template operator()<16>(); return true;
    case 20: use.template operator()<20>(); return true;
    case 24: use.template operator()<24>(); return true;
    case 28: use.template operator()<28>(); return true;
    case 32: use.template operator()<32>(); return true;
    case 36: use.template operator()<36>(); return true;
    default: return false;
    }
}

struct AnyRuntime::Core {
    Core(Image program, const Options& wanted);

    // ---- checks

    const std::string& actor_name(uint32_t type) const { return image.actors[type]; }

    std::string message_name(uint32_t type) const
    {
        return type < image.messages.size() ? image.messages[type]
                                            : "message type " + std::to_string(type);
    }

    // `actor Counter #17 (worker 3)`
    std::string describe(Address a) const
    {
        if (a.is_host()) {
            return "the host";
        }
        std::string name = "actor";
        if (a.worker() < workers && a.local() < shared.actors_per_worker) {
            const uint8_t type = type_at(index(a));
            if (type != 0) {
                name += ' ' + actor_name(type - 1u);
            }
        }
        return name + " #" + std::to_string(a.local()) + " of worker " + std::to_string(a.worker());
    }

    size_t index(Address a) const
    {
        return static_cast<size_t>(a.worker()) * shared.actors_per_worker + a.local();
    }

    // Type + 1 of the actor at an index, 0: none. Threads may send to an actor while another stops
    // it: whoever comes too late sends a dead letter.
    uint8_t type_at(size_t i) const { return load<Scope::system>(&types[i]); }
    void set_type(size_t i, uint32_t type)
    {
        store<Scope::system>(&types[i], static_cast<uint8_t>(type));
    }

    // Which addresses take a message type: one load and two shifts each.
    class Takers {
    public:
        Takers(const Core& core, uint32_t type)
            : workers_(core.workers), per_worker_(core.shared.actors_per_worker),
              types_(core.types.data())
        {
            for (uint32_t a = 0; a < core.image.table.actors; ++a) {
                mask_ |= static_cast<uint64_t>(core.image.table.can_handle(a, type)) << a;
            }
        }

        bool have(Address to) const
        {
            if (to.value >> 18 >= workers_ || to.local() >= per_worker_) { // node 0 included
                return false;
            }
            const uint8_t actor = load<Scope::system>(
                &types_[static_cast<size_t>(to.worker()) * per_worker_ + to.local()]);
            return actor != 0 && (mask_ >> (actor - 1u) & 1) != 0;
        }

    private:
        uint32_t workers_;
        uint32_t per_worker_;
        const uint8_t* types_;
        uint64_t mask_ = 0;
    };

    [[noreturn]] void refuse(Address to, uint32_t type) const
    {
        if (to.node() != 0 || to.worker() >= workers || to.local() >= shared.actors_per_worker ||
            type_at(index(to)) == 0) {
            char text[64];
            std::snprintf(text, sizeof text, "address 0x%08x names no actor", to.value);
            throw Error(Errc::no_actor, std::string(text) + "; spawn it first and use its address");
        }
        throw Error(Errc::wrong_type, describe(to) + " has no handler for " + message_name(type));
    }

    void check_message(uint32_t type, uint32_t length) const
    {
        if (type >= image.table.messages) {
            throw Error(Errc::wrong_type, "message type " + std::to_string(type) +
                                              " is not one of the program's " +
                                              std::to_string(image.table.messages));
        }
        if (length != image.table.message[type].size) {
            throw Error(Errc::oversize, message_name(type) + " has " +
                                            std::to_string(image.table.message[type].size) +
                                            " bytes, not " + std::to_string(length));
        }
    }

    void check_alive()
    {
        if (closed) {
            throw Error(Errc::closed, "the runtime is closed");
        }
        std::string text;
        if (const Errc code = backend->failure(text); code != Errc::ok) {
            throw Error(code, text);
        }
        // On the CPU straight from the workers: nobody mirrors it between two scans.
        const FirstError& fatal = on_gpu ? control->fatal : shared.board->fatal;
        if (const std::string why = text_of(fatal); !why.empty()) {
            throw Error(static_cast<Errc>(fatal.record.code), "the program has stopped: " + why);
        }
    }

    // Empty if there was no such error.
    std::string text_of(const FirstError& first) const
    {
        // Acquire: partner of the release in mirror(), or in keep_first().
        if (load<Scope::system, Order::acquire>(&first.set) != 2) {
            return {};
        }
        const ErrorRecord& e = first.record;
        const std::string what = message_name(e.message);
        const std::string worker = " (worker " + std::to_string(e.worker) + ")";
        switch (static_cast<Errc>(e.code)) {
        case Errc::no_actor:
            return what + " to " + describe({e.actor}) + ": no such actor" + worker;
        case Errc::wrong_type:
            return what + " to " + describe({e.actor}) + ": it has no handler for it" + worker;
        case Errc::exhausted:
            return "outbox of worker " + std::to_string(e.worker) + " (" +
                   std::to_string(shared.outbox_capacity) + " parked messages) is full and " +
                   what + " from " + describe({e.actor}) + " to " + describe({e.sender}) +
                   " found no room; a handler may send its own worker at most local_slots + "
                   "outbox_slots messages, and actors that flood each other need larger ones";
        default: return what + ": " + to_string(static_cast<Errc>(e.code)) + worker;
        }
    }

    // ---- sending

    void flush_stores() const
    {
#if defined(__SSE2__)
        if (write_combined) {
            _mm_sfence();
        }
#endif
    }

    // Waits, without the lock, until lane w may have room for n slots.
    template <class Held>
    void wait_for_room(Held& held, uint32_t w, uint32_t n, uint64_t begin, uint64_t deadline_ns,
                       size_t sent, size_t count)
    {
        Backoff wait;
        flush_stores();
        while (!port.lanes.room(w, n)) { // ends by credit, failure or deadline
            held.unlock();
            backend->wake(w);
            drain_egress_if_full(); // a worker may be waiting for us to take its messages
            check_alive();
            if (now_ns() - begin > deadline_ns) {
                const std::string who = stuck(500'000'000);
                throw Error(Errc::full,
                            "host lane of worker " + std::to_string(w) + " (" +
                                std::to_string(port.lanes.capacity()) + " slots) is full: " +
                                (who.empty()
                                     ? "its worker has not kept up for " + seconds(now_ns() - begin)
                                     : who) +
                                accepted(sent, count));
            }
            wait.pause();
            held.lock();
        }
    }

    void send_header(uint32_t w, const Header& h, const void* payload, uint64_t deadline_ns)
    {
        std::unique_lock held(port.lock);
        const uint32_t n = slots_for(h.length);
        if (!port.lanes.room(w, n)) {
            wait_for_room(held, w, n, now_ns(), deadline_ns, 0, 1);
        }
        if (!with_length(h.length,
                         [&]<uint32_t L>() { port.lanes.write_short<L>(w, h, payload); })) {
            port.lanes.write(w, h, payload);
        }
        held.unlock();
        flush_stores();
        backend->wake(w);
    }

    void send_checked(Address to, uint32_t type, uint32_t sender, const void* payload,
                      uint32_t length, uint64_t deadline_ns)
    {
        check_message(type, length);
        const bool inside = to.value >> 18 < workers && to.local() < shared.actors_per_worker;
        const uint8_t actor = inside ? type_at(index(to)) : uint8_t{0};
        if (actor == 0 || !image.table.can_handle(actor - 1u, type)) {
            refuse(to, type);
        }
        if (closed) {
            check_alive();
        }
        send_header(to.worker(), {to.value, sender, type, 0, length}, payload, deadline_ns);
    }

    template <uint32_t L>
    void send_batch(const Address* to, bool to_one, uint32_t type, uint32_t length,
                    const unsigned char* payload, size_t stride, size_t count, uint64_t deadline_ns)
    {
        // The lock is given up between chunks, so that asks of other threads get through.
        constexpr size_t chunk = 512;
        constexpr bool fixed = L <= first_payload;
        const uint32_t n = fixed ? 1 : slots_for(length);
        const uint64_t begin = now_ns();
        Lanes lanes = port.lanes;
        const Takers takers(*this, type);
        for (size_t i = 0; i < count;) {
            const size_t end = i + chunk < count ? i + chunk : count;
            std::unique_lock held(port.lock);
            for (; i < end; ++i) {
                const Address a = to_one ? *to : to[i];
                if (!takers.have(a)) {
                    held.unlock();
                    flush_stores();
                    wake_all();
                    try {
                        refuse(a, type);
                    } catch (const Error& e) {
                        throw Error(e.code(), std::string(e.what()) + accepted(i, count));
                    }
                }
                const uint32_t w = a.worker();
                if (!lanes.room(w, n)) {
                    wait_for_room(held, w, n, begin, deadline_ns, i, count);
                }
                const Header h{a.value, host.value, type, 0, fixed ? L : length};
                if constexpr (fixed) {
                    lanes.write_short<L>(w, h, payload + i * stride);
                } else {
                    lanes.write(w, h, payload + i * stride);
                }
            }
            held.unlock();
            flush_stores();
            wake_all();
        }
    }

    static std::string accepted(size_t sent, size_t count)
    {
        return count == 1 ? std::string()
                          : " (" + std::to_string(sent) + " of " + std::to_string(count) +
                                " messages were accepted before it)";
    }

    void wake_all()
    {
        if (on_gpu) {
            backend->wake(0);
            return;
        }
        for (uint32_t w = 0; w < workers; ++w) {
            backend->wake(w);
        }
    }

    // ---- asking

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
                } catch (...) {
                    cells.abandon(ticket);
                    throw;
                }
                const timespec nap{0, 20'000};
                nanosleep(&nap, nullptr);
            }
        }
        cells.finish(ticket, h, reply, room);
        return h;
    }

    // ---- messages to the host

    // Moves what is in the egress ring to host memory when a quarter of the ring is filled: a host
    // that only sends must not stall workers that only answer.
    void drain_egress_if_full()
    {
        const std::lock_guard guard(egress_lock);
        take_into_backlog();
    }

    void take_into_backlog() // with egress_lock held
    {
        Message m;
        m.payload.resize(image.table.max_message);
        while (egress.try_receive(m.header, m.payload.data(), image.table.max_message) ==
               Errc::ok) {
            backlog.push_back({m.header, {m.payload.begin(), m.payload.begin() + m.header.length}});
        }
    }

    bool try_receive(Message& m)
    {
        const std::lock_guard guard(egress_lock);
        if (!backlog.empty()) {
            m = std::move(backlog.front());
            backlog.pop_front();
            return true;
        }
        m.payload.resize(image.table.max_message);
        if (egress.try_receive(m.header, m.payload.data(), image.table.max_message) != Errc::ok) {
            return false;
        }
        m.payload.resize(m.header.length);
        return true;
    }

    // ---- life

    bool pending() // any lane with a message that has not been handled
    {
        const std::lock_guard guard(port.lock);
        for (uint32_t w = 0; w < workers; ++w) {
            if (load<Scope::system>(&reports[w].lane_done[1]) != port.lanes.tail(w)) {
                return true;
            }
        }
        return false;
    }

    // Waits until a fresh report makes `done()` true.
    template <class Done>
    bool wait_until(uint64_t deadline_ns, Done&& done)
    {
        const uint64_t begin = now_ns();
        for (uint32_t tries = 0;; ++tries) { // ends by done() or the deadline
            const uint64_t waited = now_ns() - begin;
            check_alive();
            if (backend->refresh(deadline_ns > waited ? deadline_ns - waited : 0) && done()) {
                return true;
            }
            if (now_ns() - begin > deadline_ns) {
                return false;
            }
            drain_egress_if_full();
            if (tries > 16) {
                const timespec nap{0, tries < 200 ? 20'000 : 500'000};
                nanosleep(&nap, nullptr);
            }
        }
    }

    bool drained(uint64_t deadline_ns)
    {
        return wait_until(deadline_ns,
                          [&] { return !pending() && load<Scope::system>(&control->quiet) != 0; });
    }

    std::string stuck(uint64_t at_least_ns)
    {
        backend->refresh(50'000'000);
        uint64_t longest = 0;
        uint32_t who = 0;
        for (uint32_t w = 0; w < workers; ++w) {
            const uint64_t busy = load<Scope::system>(&reports[w].busy_ns);
            if (busy > longest) {
                longest = busy;
                who = w;
            }
        }
        const uint64_t running = longest == 0 ? 0 : load<Scope::system>(&reports[who].running);
        if (longest < at_least_ns || running == 0) {
            return {};
        }
        return "worker " + std::to_string(who) +
               " is stuck: " + describe({static_cast<uint32_t>(running)}) + " has been handling " +
               message_name(static_cast<uint32_t>(running >> 32) - 1) + " for " + seconds(longest);
    }

    void close(uint64_t timeout_ns)
    {
        const std::lock_guard guard(close_mutex); // a second closer returns when the first is done
        if (closed) {
            return;
        }
        const uint64_t begin = now_ns();
        std::string problem;
        if (backend->commanded() == Command::pause) {
            backend->command(Command::run);
        }
        bool quiet = false;
        try {
            quiet = drained(timeout_ns);
        } catch (const Error&) { // a dead program is quiet; whoever waits on it has been told
        }
        closed = true;
        if (!quiet) {
            problem = stuck(0);
        }
        backend->command(Command::stop);
        const uint64_t used = now_ns() - begin;
        const uint64_t left = timeout_ns > used ? timeout_ns - used : 0;
        // A worker between two messages leaves within microseconds: even a spent deadline leaves it
        // a moment.
        if (!backend->join(left > 100'000'000 ? left : 100'000'000)) {
            backend->abandon();
            throw Error(
                Errc::stuck,
                (problem.empty()
                     ? std::string("the program did not stop within ") + seconds(timeout_ns)
                     : problem) +
                    (on_gpu ? "; its GPU context has been torn down, start a new process to use "
                              "the GPU again"
                            : "; its thread has been left behind"));
        }
    }

    Image image;
    Options options;
    std::unique_ptr<Backend> backend;
    Description description;
    uint32_t workers = 0;
    bool on_gpu = false;
    bool write_combined = false;
    std::atomic<bool> closed{false};
    std::mutex close_mutex;
    Shared shared;
    Control* control = nullptr;
    Report* reports = nullptr;
    Port port;
    Cells cells;
    SpinLock egress_lock;
    SpscReceiver<Scope::system> egress;
    std::deque<Message> backlog;
    std::mutex spawn_mutex;
    std::vector<uint32_t> next_local; // per worker
    uint32_t next_worker = 0;
    uint64_t heap_used = 0;
    std::vector<uint8_t> types; // by index(): actor type + 1, 0: none
};

} // namespace denizen
