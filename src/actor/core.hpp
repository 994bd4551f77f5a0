// SPDX-License-Identifier: Apache-2.0
// The host's half of a resident program: what AnyRuntime is made of. Sending and asking are here;
// start.cpp builds it, spawn.cpp places actors, egress.cpp takes what they send to the host,
// nodes.cpp looks after all nodes together, checks.cpp says what went wrong, any_runtime.cpp is its
// public face.
#pragma once

#include "backend.hpp"
#include "buffer_table.hpp"
#include "cells.hpp"
#include "host_trace.hpp"
#include "port.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/base/process.hpp>
#include <denizen/wire/spsc.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace denizen {

inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

inline uint64_t ns(nanoseconds deadline)
{
    return deadline.count() < 0 ? 0 : static_cast<uint64_t>(deadline.count());
}

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

// A part of a node's memory near its workers, as start.cpp lays it out.
struct Region {
    std::string name;
    std::byte* memory;
    uint64_t bytes;
};

// One processor of the program: a GPU, or a group of CPU threads.
struct Node {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Arena> arena; // if handlers allocate
    Shared shared;                // as its workers see it
    Control* control = nullptr;
    Report* reports = nullptr;
    SpscReceiver<Scope::system> egress;
    uint64_t heap_used = 0;
    RingWords* egress_words = nullptr;
    Gate* gate = nullptr;
    std::vector<Region> regions;
    uint32_t dead_head = 0; // the next dead letter to read
    uint64_t dead_lost = 0;
    TraceReader trace{0, 0};
    uint64_t clock_shift = 0; // from its now_ns() to the host's, as last measured
};

inline constexpr size_t max_name = 255; // bytes of an actor's name

// A place for an actor that was born elsewhere.
struct Guest {
    Address at;
    uint32_t bytes = 0;  // of its state
    uint64_t offset = 0; // of that, in the node's heap
};

struct AnyRuntime::Core {
    Core(Image program, const Options& wanted);

    // ---- start (start.cpp)

    void check_options() const;
    void make_nodes();
    void make_room_to_spawn();
    void lay_out(Node& node, uint32_t number);
    void make_arenas();
    void wire_peers();
    void make_buffers();
    void launch();

    // ---- snapshots (snapshot.cpp)

    void save(const std::string& path, uint64_t deadline_ns);
    void restore(const std::string& path); // before launch()
    void save_actor(Address actor, const std::string& path, uint64_t deadline_ns);
    void load_actor(Address actor, const std::string& path, uint64_t deadline_ns);

    // ---- checks (checks.cpp)

    const std::string& actor_name(uint32_t type) const { return image.actors[type]; }

    std::string message_name(uint32_t type) const
    {
        return type < image.messages.size() ? image.messages[type]
                                            : "message type " + std::to_string(type);
    }

    // `worker 3`, or `worker 3 on node 1` where there are several nodes.
    std::string worker_name(Address a) const;
    // `actor Counter #17 of worker 3`
    std::string describe(Address a) const;

    // Whether an actor could have this address.
    bool inside(Address a) const
    {
        return a.node() < nodes.size() && a.worker() < workers && a.local() < actors_per_worker;
    }

    size_t all_workers() const { return nodes.size() * workers; }

    // The number of the address's worker among those of all nodes.
    size_t worker_index(Address a) const
    {
        return a.node() * static_cast<size_t>(workers) + a.worker();
    }

    // The worker that worker_index() numbers.
    Address address_of_worker(size_t i) const
    {
        return Address::actor(static_cast<uint32_t>(i % workers), 0,
                              static_cast<uint32_t>(i / workers));
    }

    size_t index(Address a) const { return worker_index(a) * actors_per_worker + a.local(); }

    // Type + 1 of the actor at an index, 0: none. Threads may send to an actor while another stops
    // it: whoever comes too late sends a dead letter.
    uint8_t type_at(size_t i) const { return load<Scope::system>(&types[i]); }
    void set_type(size_t i, uint32_t type)
    {
        if (i % actors_per_worker < spawn_room()) {
            return; // the worker's, whose handlers spawn there
        }
        if (const uint8_t before = type_at(i); type == 0 && before != 0) {
            store<Scope::system>(&stopped[i], before);
        }
        store<Scope::system>(&types[i], static_cast<uint8_t>(type));
    }
    // Type + 1 of the actor that has stopped at an index, as far as the host knows; 0: none.
    uint8_t stopped_type_at(size_t i) const { return load<Scope::system>(&stopped[i]); }

    // Which addresses take a message type: one load and two shifts each.
    class Takers {
    public:
        Takers(const Core& core, uint32_t type)
            : nodes_(static_cast<uint32_t>(core.nodes.size())), workers_(core.workers),
              per_worker_(core.actors_per_worker), types_(core.types)
        {
            for (uint32_t a = 0; a < core.image.table.actors; ++a) {
                mask_ |= static_cast<uint64_t>(core.image.table.can_handle(a, type)) << a;
            }
        }

        bool have(Address to) const
        {
            if (to.node() >= nodes_ || to.worker() >= workers_ || to.local() >= per_worker_) {
                return false;
            }
            const size_t w = to.node() * static_cast<size_t>(workers_) + to.worker();
            const uint8_t actor = load<Scope::system>(&types_[w * per_worker_ + to.local()]);
            return actor != 0 && (mask_ >> (actor - 1u) & 1) != 0;
        }

    private:
        uint32_t nodes_;
        uint32_t workers_;
        uint32_t per_worker_;
        const uint8_t* types_;
        uint64_t mask_ = 0;
    };

    [[noreturn]] void refuse(Address to, uint32_t type) const;
    // Throws unless the host knows of an actor there.
    void check_actor(Address a) const
    {
        if (!inside(a) || type_at(index(a)) == 0) {
            refuse(a, 0);
        }
    }

    void check_node(uint32_t node) const
    {
        if (node >= nodes.size()) {
            throw Error(Errc::bad_argument, "there is no node " + std::to_string(node) +
                                                "; the program has " +
                                                std::to_string(nodes.size()));
        }
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

    void check_alive();
    // Empty if there was no such error.
    std::string text_of(const Node& node, const FirstError& first) const;

    // ---- sending

    const std::vector<uint32_t>& refs(uint32_t type) const { return image.buffers[type]; }

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

    void wake(Address worker) { nodes[worker.node()].backend->wake(worker.worker()); }

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
        constexpr bool fixed = L <= first_payload;
        const uint32_t n = fixed ? 1 : slots_for(length);
        const uint64_t begin = now_ns();
        Port& port = port_of(type);
        HostRings rings = port.rings;
        const Takers takers(*this, type);
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
                const size_t w = worker_index(a);
                if (!rings.room(w, n)) {
                    wait_for_room(held, port, a, n, begin, deadline_ns, i, count);
                }
                const Header h{a.value, host.value, type, 0, fixed ? L : length};
                if constexpr (fixed) {
                    rings.write_short<L>(w, h, payload + i * stride);
                } else {
                    rings.write(w, h, payload + i * stride);
                }
                refs.sent();
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
        for (const Node& node : nodes) {
            for (uint32_t w = 0; w < (on_gpu ? 1 : workers); ++w) { // a GPU has one bell
                node.backend->wake(w);
            }
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
        if ((h.flags & flag_system) == 0 && h.length <= room) {
            arrived(h.type, reply);
        }
        return h;
    }

    // ---- spawning (spawn.cpp)

    std::vector<Address> spawn(uint32_t actor_type, uint32_t count,
                               const std::vector<Address>& among, size_t& next,
                               uint64_t deadline_ns, Life life = Life::running);

    uint64_t stride_of(uint32_t actor_type) const;

    // Of each worker: places for actors that handlers spawn.
    uint32_t spawn_room() const { return nodes[0].shared.spawn_room; }
    bool spawned_by_handler(Address a) const { return a.local() < spawn_room(); }

    // ---- names (names.cpp)

    bool lives(Address actor, uint64_t deadline_ns);

    // ---- actors that move (migrate.cpp)

    void migrate(Address actor, Address to, uint64_t deadline_ns);
    bool try_move(Address actor, const Guest& next, uint64_t deadline_ns, uint64_t patience_ns,
                  std::string& why);
    void send_move_in(Address actor, const Guest& to, uint64_t deadline_ns);
    bool hear_out(uint32_t node, uint64_t deadline_ns);
    Guest make_place(Address worker, uint32_t actor_type);

    // Where an actor is: its address, unless it has moved. With move_mutex held.
    Address place_of(Address actor) const
    {
        const auto found = guests.find(actor.value);
        return found == guests.end() ? actor : found->second.at;
    }

    // ---- messages to the host (egress.cpp)

    void arrived(uint32_t type, const void* payload)
    {
        if (!refs(type).empty()) {
            buffers->received(refs(type), payload);
        }
    }

    // Moves what is in the egress ring to host memory when a quarter of the ring is filled: a host
    // that only sends must not stall workers that only answer.
    void drain_egress_if_full()
    {
        const std::lock_guard guard(egress_lock);
        take_into_backlog();
    }

    // The next message of a node's egress ring, of at most `room` bytes without its stamp. With
    // egress_lock held, as the next.
    bool take_egress(Node& node, Header& h, std::vector<unsigned char>& payload, uint32_t room);
    void take_into_backlog();
    bool try_receive(Message& m);

    // ---- observing (tracing.cpp)

    void trace(bool on);
    Trace take_trace();
    void tell_observing(uint32_t word);
    void wait_for_observers();
    bool compare_clocks(const Node& node, uint64_t& shift) const;
    void set_clocks();
    void send_traced(Port& port, Header h, const void* payload, uint64_t deadline_ns);

    // ---- life (nodes.cpp)

    // Whether any host ring has a message that has not been handled.
    bool pending();
    // Makes every node tell a state not older than this call; false if that took too long.
    bool refresh(uint64_t patience_ns);

    // Waits until a fresh report makes `done()` true.
    template <class Done>
    bool wait_until(uint64_t deadline_ns, Done&& done)
    {
        const uint64_t begin = now_ns();
        for (uint32_t tries = 0;; ++tries) { // ends by done() or the deadline
            const uint64_t waited = now_ns() - begin;
            check_alive();
            if (refresh(deadline_ns > waited ? deadline_ns - waited : 0) && done()) {
                return true;
            }
            if (now_ns() - begin > deadline_ns) {
                return false;
            }
            drain_egress_if_full();
            check_interrupt();
            if (tries > 16) {
                const timespec nap{0, tries < 200 ? 20'000 : 500'000};
                nanosleep(&nap, nullptr);
            }
        }
    }

    // What the nodes have done, as their last scans tell.
    struct Totals {
        bool quiet = true;
        uint64_t handled = 0;
        uint32_t sent[max_nodes][max_nodes] = {}; // slots from node to node
        uint32_t done[max_nodes][max_nodes] = {};

        bool operator==(const Totals&) const = default;
        bool all_arrived() const { return std::memcmp(sent, done, sizeof sent) == 0; }
    };

    Totals totals() const;
    Handovers handovers() const; // of the first node
    // Whether nothing is under way, after a refresh().
    bool settled(uint64_t patience_ns);
    bool drained(uint64_t deadline_ns);
    // Whether a node that has left its GPU has a reason to go back.
    bool return_needed();
    // Whether every worker says so, but for those of nodes that have left.
    bool in_mode(Mode mode, bool or_parked = false) const;
    // What the program does, for people: `paused` once every worker is, which the monitor does not
    // tell.
    Mode mode() const;
    bool parked() const
    {
        return std::all_of(nodes.begin(), nodes.end(),
                           [](const Node& node) { return node.backend->parked(); });
    }

    void command(Command c)
    {
        for (const Node& node : nodes) {
            node.backend->command(c);
        }
    }

    // Takes all nodes off; false if a handler did not return, and then they are given up.
    // The first that has not left is named in `who_stays`.
    bool join(uint64_t patience_ns, std::string* who_stays = nullptr);
    // As AnyRuntime's.
    std::string stuck(uint64_t at_least_ns);
    // For an error's text: who keeps the program from being in this mode, and what it was doing.
    // Empty if that is nobody by now.
    std::string who_is_not(Mode mode);
    void close(uint64_t timeout_ns);

    static constexpr size_t urgent = static_cast<size_t>(Priority::urgent);

    Process process; // that the workers are of
    Image image;
    Options options;
    std::vector<Node> nodes;
    Description description;
    uint32_t workers = 0; // of each node
    uint32_t actors_per_worker = 0;
    std::shared_ptr<BufferTable> buffers;
    bool on_gpu = false;
    bool write_combined = false;
    std::atomic<bool> closed{false};
    std::mutex close_mutex;
    Port ports[2]; // by Priority
    Cells cells;
    SpinLock egress_lock;
    size_t next_egress = 0;
    std::deque<Message> backlog;
    std::mutex save_mutex;
    std::mutex observe_mutex;
    uint32_t observing = 0;       // Board::observe, as last asked for
    std::vector<Slot> trace_copy; // of one node's trace rings, and room to align it
    HostTrace host_trace;
    std::mutex spawn_mutex;
    std::vector<Address> everywhere; // by worker_index(): each worker, as its first actor's address
    std::vector<uint32_t> next_local; // by worker_index()
    size_t next_worker = 0;           // who gets the next actor that is spawned anywhere
    size_t next_near = 0;             // and near another
    std::mutex move_mutex;
    std::shared_mutex orders; // shared: an order to an actor is under way; alone: an actor moves
    std::unordered_map<uint32_t, Guest> guests; // by the address of who is there
    std::vector<Guest> vacancies;
    uint32_t moves = 0;
    std::mutex dead_mutex;
    std::mutex names_mutex;
    std::map<std::string, uint32_t, std::less<>> names; // to addresses; some may have stopped
    uint8_t* types = nullptr;     // by index(): actor type + 1, 0: none. Workers write there too
    std::vector<uint8_t> stopped; // of those that were there before, for an error's text
};

inline AnyRuntime::Core& AnyRuntime::core() const
{
    core_->process.check("the runtime");
    return *core_;
}

} // namespace denizen
