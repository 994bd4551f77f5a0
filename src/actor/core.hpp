// SPDX-License-Identifier: Apache-2.0
// The host's half of a resident program: what AnyRuntime is made of. It stands on four layers, each
// of which needs only those before it:
//   Directory  directory.hpp  which nodes, workers and actors there are, and whether they live
//   Receiving  egress.hpp     messages from actors
//   Sending    sending.hpp    messages to actors
//   Asking     asking.hpp     and their replies
// and does the rest: start.cpp builds the program, node_memory.cpp lays out its memory, spawn.cpp
// and names.cpp place actors, migrate.cpp moves them, snapshot.cpp saves them, tracing.cpp looks
// on, nodes.cpp looks after all nodes together. any_runtime.cpp and life.cpp are its public face.
#pragma once

#include "asking.hpp"

#include <denizen/base/process.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace denizen {

inline constexpr size_t max_name = 255; // bytes of an actor's name

class SnapshotFile;

// Which places are taken.
struct Placing {
    std::mutex mutex;
    std::vector<Address> everywhere; // by worker_index(): each worker, as its first actor's address
    std::vector<uint32_t> next_local; // by worker_index()
    size_t next_worker = 0;           // who gets the next actor that is spawned anywhere
    size_t next_near = 0;             // and near another
};

struct Names {
    std::mutex mutex;
    std::map<std::string, uint32_t, std::less<>> addresses; // of some that may have stopped
};

// A place for an actor that was born elsewhere.
struct Guest {
    Address at;
    uint32_t bytes = 0;  // of its state
    uint64_t offset = 0; // of that, in the node's heap
};

// Which actors live elsewhere than they were born.
struct Moving {
    std::mutex mutex;
    std::shared_mutex orders; // shared: an order to an actor is under way; alone: an actor moves
    std::unordered_map<uint32_t, Guest> guests; // by the address of who is there
    std::vector<Guest> vacancies;
    uint32_t moves = 0;

    // Where an actor is: its address, unless it has moved. With the mutex held.
    Address place_of(Address actor) const
    {
        const auto found = guests.find(actor.value);
        return found == guests.end() ? actor : found->second.at;
    }
};

struct Observing {
    std::mutex mutex;
    uint32_t word = 0;            // Board::observe, as last asked for
    std::vector<Slot> trace_copy; // of one node's trace rings, and room to align it
};

// What the nodes have done, as their last checks tell.
struct Totals {
    bool quiet = true;
    uint32_t positions[max_nodes] = {};       // as detail::Checked
    uint32_t of_host[max_nodes] = {};         // slots of the host's rings that have been handled,
    uint32_t of_hosts[max_nodes] = {};        // and of those from other hosts
    uint32_t sent[max_nodes][max_nodes] = {}; // slots from node to node
    uint32_t done[max_nodes][max_nodes] = {};

    bool operator==(const Totals&) const = default;
    bool all_arrived() const { return std::memcmp(sent, done, sizeof sent) == 0; }
};

class ReservedCell; // migrate.cpp

struct AnyRuntime::Core : Asking {
    Core(Image program, const Options& wanted);

    // ---- start (start.cpp, node_memory.cpp)

    void check_options() const;
    void make_nodes();
    void share_out_room();
    void make_room_to_spawn();
    void lay_out(Node& node, uint32_t number);
    void make_arenas();
    void wire_peers();
    void make_buffers();
    FarFormat far_format() const; // far.cpp, as the next
    void open_far();
    bool watch_far(SystemOp op, Address watcher, Address watched);
    void launch();

    // ---- snapshots (snapshot.cpp)

    void save(const std::string& path, uint64_t deadline_ns);
    void hold_workers(uint64_t deadline_ns);
    void let_workers_go();
    void restore(const SnapshotFile& file); // before launch()
    void save_actor(Address actor, const std::string& path, uint64_t deadline_ns);
    void load_actor(Address actor, const std::string& path, uint64_t deadline_ns);

    // ---- places for actors (spawn.cpp), and their names (names.cpp)

    std::vector<Address> spawn(uint32_t actor_type, uint32_t count,
                               const std::vector<Address>& among, size_t& next,
                               uint64_t deadline_ns, Life life = Life::running);
    std::vector<Address> spawn_anywhere(uint32_t actor_type, uint32_t count, uint64_t deadline_ns,
                                        Life life = Life::running)
    {
        return spawn(actor_type, count, placing.everywhere, placing.next_worker, deadline_ns, life);
    }
    uint64_t stride_of(uint32_t actor_type) const;
    bool lives(Address actor, uint64_t deadline_ns);

    // ---- actors that move (migrate.cpp)

    void migrate(Address actor, Address to, uint64_t deadline_ns);
    bool try_move(Address actor, const Guest& next, ReservedCell& move_in, uint64_t deadline_ns,
                  uint64_t patience_ns, std::string& why);
    void send_move_in(Address actor, const Guest& to, ReservedCell& cell, uint64_t deadline_ns);
    bool hear_out(uint32_t node, uint64_t deadline_ns);
    Guest make_place(Address worker, uint32_t actor_type, uint64_t deadline_ns);

    // ---- observing (tracing.cpp)

    void trace(bool on);
    Trace take_trace();
    void tell_observing(uint32_t word);
    void wait_for_observers();
    bool compare_clocks(const Node& node, uint64_t& shift) const;
    void set_clocks();

    // ---- other hosts (far.cpp)

    // A dead letter of the host's side.
    void bury(Reason reason, const Header& h, const void* payload, std::string text);

    // ---- all nodes together (nodes.cpp)

    // Whether any host ring has a message that had not been handled by what the nodes have told.
    bool pending(const Totals& told);

    // Waits until what every node has told anew makes `done()` true.
    template <class Done>
    bool wait_until(uint64_t deadline_ns, Done&& done,
                    bool (Backend::*tells)(uint64_t) = &Backend::refresh)
    {
        const uint64_t begin = now_ns();
        for (;;) { // ends by done() or the deadline
            const uint64_t waited = now_ns() - begin;
            check_alive();
            // Who waits that long may want to know who keeps it: the reports say since when.
            const auto asked = waited > 10'000'000 ? &Backend::refresh : tells;
            if (every_node(asked, deadline_ns > waited ? deadline_ns - waited : 0) && done()) {
                return true;
            }
            if (now_ns() - begin > deadline_ns) {
                return false;
            }
            drain_egress_if_full();
            check_interrupt();
            // A fresh report costs the workers some of their time: it is asked for more seldom the
            // longer this takes.
            if (waited > 100'000) {
                const timespec nap{0, static_cast<long>(std::min<uint64_t>(waited / 8, 500'000))};
                nanosleep(&nap, nullptr);
            }
        }
    }

    // Locks all of these as soon as nobody else has one. A spawn keeps `placing` until its workers
    // have answered.
    template <class... Lock>
    void lock_within(uint64_t deadline_ns, Lock&... lock)
    {
        const auto taken = [&] {
            if constexpr (sizeof...(lock) == 1) {
                return (lock.try_lock() && ...);
            } else {
                return std::try_lock(lock...) == -1;
            }
        };
        const uint64_t begin = now_ns();
        Backoff wait;
        while (!taken()) { // ends with the other calls, or by the deadline
            check_alive();
            check_interrupt();
            if (now_ns() - begin > deadline_ns) {
                const std::string who = stuck(500'000'000);
                throw Error(Errc::timeout,
                            "another thread's spawn, save or migrate has not ended within " +
                                seconds(deadline_ns) + (who.empty() ? "" : ": " + who));
            }
            wait.pause();
        }
    }
    std::unique_lock<std::mutex> lock_places(uint64_t deadline_ns)
    {
        lock_within(deadline_ns, placing.mutex);
        return std::unique_lock(placing.mutex, std::adopt_lock);
    }

    Totals totals() const;
    Handovers handovers() const; // of the first node
    // Whether nothing is under way, after a check_quiet().
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
    // For an error's text: who keeps the program from being in this mode, and what it was doing.
    // Empty if that is nobody by now.
    std::string who_is_not(Mode mode);
    void exchange(const Image& next);
    void close(uint64_t timeout_ns);

    Process process; // that the workers are of
    Description description;
    std::mutex close_mutex;
    std::mutex exchange_mutex; // not the above: a handler that is stuck holds an exchange up
    std::mutex save_mutex;
    std::shared_ptr<void> held; // while the workers are off for a snapshot of the cluster
    std::mutex dead_mutex;      // the rings of dead letters have one reader
    Placing placing;
    Names names;
    Moving moving;
    Observing observing;
    Bell* far_bells = nullptr; // [hosts]
    FarDoor door{*this};
};

inline AnyRuntime::Core& AnyRuntime::core() const
{
    core_->process.check("the runtime");
    return *core_;
}

} // namespace denizen
