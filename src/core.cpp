// SPDX-License-Identifier: Apache-2.0
// The host's half of a resident program: memory plan, sending, asking, receiving, life cycle.
#include "backend.hpp"
#include "cells.hpp"
#include "port.hpp"

#include <denizen/wire/spsc.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>

namespace denizen {
namespace {

constexpr uint32_t max_egress_slots = 1u << 20;

uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

std::string seconds(uint64_t ns)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) * 1e-9);
    return text;
}

void require_power_of_two(const char* name, uint32_t n, uint32_t most)
{
    if (n < 2 || n > most || !std::has_single_bit(n)) {
        throw Error(Errc::bad_argument, std::string(name) + " = " + std::to_string(n) +
                                            "; use a power of two from 2 to " +
                                            std::to_string(most));
    }
}

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

} // namespace

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
                   " found no room; a handler may send its own worker at most inbox_slots + "
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
            if (load<Scope::system>(&reports[w].lane_done) != port.lanes.tail(w)) {
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

AnyRuntime::Core::Core(Image program, const Options& wanted)
    : image(std::move(program)), options(wanted)
{
    const uint64_t begin = now_ns();
    if (image.table.abi != layout_abi) {
        throw Error(Errc::compile, "the program was compiled for layout " +
                                       std::to_string(image.table.abi) + ", this runtime has " +
                                       std::to_string(layout_abi) + "; compile it again");
    }
    require_power_of_two("lane_slots", options.lane_slots, 1u << 16);
    require_power_of_two("inbox_slots", options.inbox_slots, 1u << 16);
    require_power_of_two("egress_slots", options.egress_slots, max_egress_slots);
    if (options.asks < 1 || options.asks > max_cells) {
        throw Error(Errc::bad_argument,
                    "asks = " + std::to_string(options.asks) + "; use 1 to 65,536");
    }
    if (options.idle.count() < 0 || options.host_timeout.count() < 1) {
        throw Error(Errc::bad_argument,
                    "idle = " + std::to_string(options.idle.count()) +
                        " ms, host_timeout = " + std::to_string(options.host_timeout.count()) +
                        " ms; use 0 or more, and 1 or more");
    }
    const uint32_t message_slots = slots_for(image.table.max_message);
    const bool use_gpu =
        options.device.kind == Device::Kind::gpu ||
        (options.device.kind == Device::Kind::automatic && gpu_present() && image.runs_on_gpu());
    if (use_gpu) {
        backend = make_gpu_backend(image, options, workers, [this] { return pending(); });
    } else {
        backend = make_cpu_backend(image, options, workers);
    }
    if (workers < 1 || workers > max_workers) {
        throw Error(Errc::bad_argument, "workers = " + std::to_string(workers) + "; use 1 to 2048");
    }
    on_gpu = use_gpu;

    shared.workers = workers;
    shared.actors_per_worker = (options.max_actors + workers - 1) / workers;
    if (shared.actors_per_worker < 1 || shared.actors_per_worker > max_actors_per_worker) {
        throw Error(Errc::bad_argument, "max_actors = " + std::to_string(options.max_actors) +
                                            " on " + std::to_string(workers) +
                                            " workers; use 1 to 262,144 per worker");
    }
    // Twice the longest message fits in every ring.
    const uint32_t least = std::bit_ceil(2 * message_slots);
    shared.lane_mask = std::max(options.lane_slots, least) - 1;
    shared.inbox_mask = std::max(options.inbox_slots, least) - 1;
    shared.egress_mask = std::max(options.egress_slots, least) - 1;
    shared.outbox_capacity = std::max(options.outbox_slots, least);
    shared.cell_count = options.asks;
    shared.cell_slots = std::bit_ceil(message_slots);
    shared.scratch_bytes =
        message_slots > 1 ? static_cast<uint32_t>(round_up(message_slots * 48, 128)) : 0;
    shared.idle_ns = static_cast<uint64_t>(options.idle.count()) * 1'000'000;
    shared.host_timeout_ns = static_cast<uint64_t>(options.host_timeout.count()) * 1'000'000;

    // Two passes over one plan: the first counts, the second hands out.
    Regions base;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    RingWords* egress_words = nullptr;
    Slot* egress_slots = nullptr;
    const auto plan = [&] {
        host_bytes = device_bytes = 0;
        const auto place = [](std::byte* region, size_t& used, auto*& p, size_t count) {
            using T = std::remove_reference_t<decltype(*p)>;
            used = round_up(used, 256);
            p = reinterpret_cast<T*>(region + used);
            used += sizeof(T) * count;
        };
        const auto in_host = [&](auto*& p, size_t n) { place(base.host, host_bytes, p, n); };
        const auto in_device = [&](auto*& p, size_t n) { place(base.device, device_bytes, p, n); };
        in_host(control, 1);
        in_host(reports, workers);
        in_host(shared.lane_credit, static_cast<size_t>(workers) * credit_stride);
        in_host(egress_words, 1);
        in_host(egress_slots, shared.egress_mask + 1u);
        in_host(shared.cells, static_cast<size_t>(options.asks) * shared.cell_slots);
        in_device(shared.board, 1);
        in_device(shared.status, workers);
        in_device(shared.watch, workers);
        in_device(shared.inbox, workers);
        in_device(shared.bells, workers);
        in_device(shared.inboxes, static_cast<size_t>(workers) * (shared.inbox_mask + 1));
        in_device(shared.outboxes, static_cast<size_t>(workers) * shared.outbox_capacity);
        in_device(shared.actors, static_cast<size_t>(workers) * shared.actors_per_worker);
        in_device(shared.scratch, static_cast<size_t>(workers) * shared.scratch_bytes);
        in_device(shared.heap, options.state_bytes);
    };
    plan();
    const size_t lane_bytes = static_cast<size_t>(workers) * (shared.lane_mask + 1) * sizeof(Slot);
    base = backend->allocate(round_up(host_bytes, 4096), round_up(device_bytes, 4096), lane_bytes);
    plan();
    shared.control = control;
    shared.reports = reports;
    shared.egress = egress_slots;
    shared.egress_credit = &egress_words->credit;
    shared.lanes = reinterpret_cast<Slot*>(base.lanes_device);
    write_combined = backend->write_combined();
    port.open(workers, shared.lane_mask, reinterpret_cast<Slot*>(base.lanes_host),
              shared.lane_credit);
    cells.open(shared.cells, shared.cell_slots, options.asks);
    egress = SpscReceiver<Scope::system>({egress_slots, shared.egress_mask, 0, egress_words});
    next_local.assign(workers, 0);
    types.assign(static_cast<size_t>(workers) * shared.actors_per_worker, 0);
    backend->launch(shared);
    // The program is up when every worker has said so.
    if (!wait_until(10'000'000'000, [&] {
            for (uint32_t w = 0; w < workers; ++w) {
                if (load<Scope::system>(&reports[w].mode) != static_cast<uint32_t>(Mode::running)) {
                    return false;
                }
            }
            return true;
        })) {
        throw Error(Errc::timeout, "the program did not start within 10 s on " +
                                       std::to_string(workers) +
                                       " workers; is the processor taken by another program?");
    }
    description.workers = workers;
    backend->describe(description);
    description.start_ms = static_cast<double>(now_ns() - begin) * 1e-6;
}

namespace {

uint64_t ns(nanoseconds deadline)
{
    return deadline.count() < 0 ? 0 : static_cast<uint64_t>(deadline.count());
}

} // namespace

AnyRuntime::AnyRuntime(Image image, const Options& options)
    : core_(std::make_unique<Core>(std::move(image), options))
{
}

AnyRuntime::~AnyRuntime()
{
    try {
        close(std::chrono::seconds(1));
    } catch (const Error& e) {
        std::fprintf(stderr, "denizen: %s\n", e.what());
    }
}

const Image& AnyRuntime::image() const { return core_->image; }
const Description& AnyRuntime::description() const { return core_->description; }

std::vector<Address> AnyRuntime::spawn(uint32_t actor_type, uint32_t count, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (actor_type >= c.image.table.actors) {
        throw Error(Errc::bad_argument, "actor type " + std::to_string(actor_type) +
                                            " is not one of the program's " +
                                            std::to_string(c.image.table.actors));
    }
    const ActorInfo& info = c.image.table.actor[actor_type];
    const uint64_t stride = round_up(info.size, std::max(info.align, 16u));
    const std::lock_guard guard(c.spawn_mutex);
    uint64_t heap = round_up(c.heap_used, 256);
    if (heap + stride * count > c.options.state_bytes) {
        throw Error(
            Errc::exhausted,
            std::to_string(count) + " actors " + c.actor_name(actor_type) + " need " +
                std::to_string(stride * count) + " bytes of state, " +
                std::to_string(c.options.state_bytes - std::min(heap, c.options.state_bytes)) +
                " are left; raise state_bytes");
    }
    std::vector<uint32_t> share(c.workers, count / c.workers);
    for (uint32_t i = 0; i < count % c.workers; ++i) {
        ++share[(c.next_worker + i) % c.workers];
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        if (c.next_local[w] + share[w] > c.shared.actors_per_worker) {
            throw Error(Errc::exhausted, std::to_string(count) + " actors " +
                                             c.actor_name(actor_type) + " exceed max_actors = " +
                                             std::to_string(c.options.max_actors) + "; raise it");
        }
    }
    std::vector<Address> addresses(count);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t w = (c.next_worker + i) % c.workers;
        addresses[i] = Address::actor(w, c.next_local[w] + i / c.workers);
    }
    std::vector<Address> tickets;
    for (uint32_t w = 0; w < c.workers; ++w) {
        if (share[w] == 0) {
            continue;
        }
        const SpawnRequest r{actor_type, share[w], c.next_local[w], static_cast<uint32_t>(stride),
                             heap};
        heap += stride * share[w];
        // A program with few reply cells collects answers as it goes.
        Address ticket;
        while (!c.cells.take(ticket)) { // ends: each answer frees a cell
            if (tickets.empty()) {
                ticket = c.take_cell(ns(deadline));
                break;
            }
            c.wait_reply(tickets.back(), nullptr, 0, ns(deadline),
                         [] { return std::string("spawn"); });
            tickets.pop_back();
        }
        tickets.push_back(ticket);
        c.send_header(w,
                      {Address::actor(w, 0).value, ticket.value,
                       static_cast<uint32_t>(SystemOp::spawn), flag_system, sizeof r},
                      &r, ns(deadline));
    }
    for (const Address ticket : tickets) {
        c.wait_reply(ticket, nullptr, 0, ns(deadline), [&] {
            return "spawning " + std::to_string(count) + " actors " + c.actor_name(actor_type);
        });
    }
    for (const Address a : addresses) {
        c.set_type(c.index(a), actor_type + 1);
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        c.next_local[w] += share[w];
    }
    c.heap_used = heap;
    c.next_worker = (c.next_worker + count) % c.workers;
    return addresses;
}

void AnyRuntime::stop(Address actor, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (actor.node() != 0 || actor.worker() >= c.workers ||
        actor.local() >= c.shared.actors_per_worker || c.type_at(c.index(actor)) == 0) {
        c.refuse(actor, 0);
    }
    const Address ticket = c.take_cell(ns(deadline));
    const StopRequest r{actor.local()};
    c.send_header(
        actor.worker(),
        {actor.value, ticket.value, static_cast<uint32_t>(SystemOp::stop), flag_system, sizeof r},
        &r, ns(deadline));
    c.wait_reply(ticket, nullptr, 0, ns(deadline), [&] { return "stopping " + c.describe(actor); });
    c.set_type(c.index(actor), 0);
}

void AnyRuntime::send(Address to, uint32_t type, const void* payload, uint32_t length,
                      nanoseconds deadline)
{
    core_->send_checked(to, type, host.value, payload, length, ns(deadline));
}

void AnyRuntime::send_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                           uint32_t length, size_t stride, size_t count, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_message(type, length);
    c.check_alive();
    const auto* bytes = static_cast<const unsigned char*>(payloads);
    if (!with_length(length, [&]<uint32_t L>() {
            c.send_batch<L>(to, to_one, type, length, bytes, stride, count, ns(deadline));
        })) {
        c.send_batch<first_payload + 1>(to, to_one, type, length, bytes, stride, count,
                                        ns(deadline));
    }
}

void AnyRuntime::broadcast(uint32_t actor_type, uint32_t type, const void* payload, uint32_t length,
                           nanoseconds deadline)
{
    Core& c = *core_;
    c.check_message(type, length);
    c.check_alive();
    if (actor_type >= c.image.table.actors || !c.image.table.can_handle(actor_type, type)) {
        throw Error(Errc::wrong_type, (actor_type < c.image.table.actors
                                           ? "actor " + c.actor_name(actor_type)
                                           : "actor type " + std::to_string(actor_type)) +
                                          " has no handler for " + c.message_name(type));
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        c.send_header(
            w, {Address::actor(w, actor_type).value, host.value, type, flag_broadcast, length},
            payload, ns(deadline));
    }
}

Address AnyRuntime::ask_begin(Address to, uint32_t type, const void* payload, uint32_t length,
                              nanoseconds deadline)
{
    const Address ticket = core_->take_cell(ns(deadline));
    try {
        core_->send_checked(to, type, ticket.value, payload, length, ns(deadline));
    } catch (...) {
        core_->cells.give_back(ticket);
        throw;
    }
    return ticket;
}

bool AnyRuntime::ask_ready(Address ticket) const
{
    Header h;
    return core_->cells.arrived(ticket, h);
}

Header AnyRuntime::ask_end(Address ticket, void* reply, uint32_t room, nanoseconds deadline)
{
    return core_->wait_reply(ticket, reply, room, ns(deadline),
                             [] { return std::string("an ask"); });
}

void AnyRuntime::ask_abandon(Address ticket) { core_->cells.abandon(ticket); }

Header AnyRuntime::ask(Address to, uint32_t type, const void* payload, uint32_t length, void* reply,
                       uint32_t room, nanoseconds deadline)
{
    Core& c = *core_;
    const Address ticket = ask_begin(to, type, payload, length, deadline);
    return c.wait_reply(ticket, reply, room, ns(deadline),
                        [&] { return "ask " + c.message_name(type) + " to " + c.describe(to); });
}

void AnyRuntime::ask_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                          uint32_t length, size_t stride, size_t count, uint32_t reply_type,
                          void* replies, uint32_t reply_length, size_t reply_stride,
                          nanoseconds deadline)
{
    Core& c = *core_;
    c.check_message(reply_type, reply_length);
    const auto* bytes = static_cast<const unsigned char*>(payloads);
    auto* out = static_cast<unsigned char*>(replies);
    std::deque<Address> open;
    size_t sent = 0;
    size_t answered = 0;
    // Half of the cells at the most: other threads ask too.
    const size_t most = std::max<size_t>(1, c.cells.count() / 2);
    try {
        while (answered < count) {
            while (sent < count && open.size() < most) {
                open.push_back(ask_begin(to_one ? *to : to[sent], type, bytes + sent * stride,
                                         length, deadline));
                ++sent;
            }
            const Address asked = to_one ? *to : to[answered];
            const Address ticket = open.front();
            open.pop_front();
            const Header h = c.wait_reply(
                ticket, out + answered * reply_stride, reply_length, ns(deadline),
                [&] { return "ask " + c.message_name(type) + " to " + c.describe(asked); });
            if (h.type != reply_type) {
                throw Error(Errc::wrong_type, c.describe(asked) + " answered with " +
                                                  c.message_name(h.type) + ", not " +
                                                  c.message_name(reply_type));
            }
            ++answered;
        }
    } catch (...) {
        for (const Address ticket : open) {
            c.cells.abandon(ticket);
        }
        throw;
    }
}

Message AnyRuntime::receive(nanoseconds deadline)
{
    Core& c = *core_;
    Message m;
    const uint64_t begin = now_ns();
    Backoff wait;
    while (!c.try_receive(m)) { // ends by a message, failure or the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            throw Error(Errc::timeout,
                        "no actor sent a message to the host within " + seconds(ns(deadline)));
        }
        wait.pause();
    }
    return m;
}

size_t AnyRuntime::receive_many(uint32_t type, void* payloads, uint32_t length, size_t stride,
                                size_t count, Address* senders)
{
    Core& c = *core_;
    c.check_message(type, length);
    auto* out = static_cast<unsigned char*>(payloads);
    const std::lock_guard guard(c.egress_lock);
    size_t n = 0;
    for (; n < count && !c.backlog.empty() && c.backlog.front().header.type == type; ++n) {
        std::memcpy(out + n * stride, c.backlog.front().payload.data(), length);
        if (senders != nullptr) {
            senders[n] = {c.backlog.front().header.sender};
        }
        c.backlog.pop_front();
    }
    if (!c.backlog.empty()) {
        return n;
    }
    const auto take = [&](auto&& next) {
        Header h;
        while (n < count && next(h, out + n * stride)) {
            if (senders != nullptr) {
                senders[n] = {h.sender};
            }
            ++n;
        }
    };
    if (!with_length(length, [&]<uint32_t L>() {
            take([&](Header& h, void* to) {
                return c.egress.try_receive_short<L>(type, h, to) == Errc::ok;
            });
        })) {
        take([&](Header& h, void* to) {
            return c.egress.peek(h) && h.type == type &&
                   c.egress.try_receive(h, to, length) == Errc::ok;
        });
    }
    return n;
}

void AnyRuntime::drain(nanoseconds deadline)
{
    Core& c = *core_;
    if (!c.drained(ns(deadline))) {
        const std::string who = c.stuck(ns(deadline) / 2);
        throw Error(Errc::timeout, "messages are still being handled after " +
                                       seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
}

void AnyRuntime::pause(nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    c.backend->command(Command::pause);
    if (c.backend->parked()) {
        return;
    }
    if (!c.wait_until(ns(deadline), [&] {
            for (uint32_t w = 0; w < c.workers; ++w) {
                if (load<Scope::system>(&c.reports[w].mode) !=
                    static_cast<uint32_t>(Mode::paused)) {
                    return false;
                }
            }
            return true;
        })) {
        const std::string who = c.stuck(0);
        throw Error(Errc::timeout,
                    "not paused after " + seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
}

void AnyRuntime::resume()
{
    core_->check_alive();
    core_->backend->command(Command::run);
}

void AnyRuntime::park(nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (!c.on_gpu) {
        return;
    }
    c.backend->command(Command::leave);
    const uint64_t begin = now_ns();
    while (!c.backend->parked()) { // ends when the program has left, or by the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            c.backend->command(c.backend->commanded());
            throw Error(Errc::timeout, "the program did not leave the GPU within " +
                                           seconds(ns(deadline)) + "; it still has work");
        }
        relax();
    }
}

bool AnyRuntime::parked() const { return !core_->closed && core_->backend->parked(); }

Stats AnyRuntime::stats()
{
    Core& c = *core_;
    if (!c.closed) {
        c.backend->refresh(100'000'000);
    }
    Stats s;
    s.mode = static_cast<Mode>(load<Scope::system>(&c.control->mode));
    s.errors = load<Scope::system>(&c.control->errors);
    s.first_error = c.text_of(c.control->first);
    s.launches = c.backend->launches();
    for (uint32_t w = 0; w < c.workers; ++w) {
        s.handled_by_worker.push_back(load<Scope::system>(&c.reports[w].handled));
        s.handled += s.handled_by_worker.back();
        s.dead_letters += load<Scope::system>(&c.reports[w].dead_letters);
    }
    return s;
}

std::string AnyRuntime::stuck(nanoseconds at_least) { return core_->stuck(ns(at_least)); }

void AnyRuntime::close(nanoseconds timeout) { core_->close(ns(timeout)); }

} // namespace denizen
