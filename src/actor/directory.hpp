// SPDX-License-Identifier: Apache-2.0
// Which nodes, workers and actors a program has, and whether it lives: what every call of the host
// looks at first. It has the names for errors too: who an address is, who is stuck.
#pragma once

#include "node.hpp"

#include <denizen/actor/any_runtime.hpp>

#include <atomic>
#include <string>
#include <vector>

namespace denizen {

using detail::seconds;

struct Directory {
    Directory(Image program, const Options& wanted) : image(std::move(program)), options(wanted) {}

    const std::string& actor_name(uint32_t type) const { return image.actors[type]; }

    // Of a task: its type behind those of messages, as in Status::running.
    std::string message_name(uint32_t type) const
    {
        if (type >= max_message_types && type - max_message_types < image.tasks.size()) {
            return "task " + image.tasks[type - max_message_types];
        }
        return type < image.messages.size() ? image.messages[type]
                                            : "message type " + std::to_string(type);
    }

    // `worker 3`, or `worker 3 on node 1` where there are several nodes.
    std::string worker_name(Address a) const;
    // `actor Counter #17 of worker 3`
    std::string describe(Address a) const;
    // `address 0xe8000011 of host 1`
    std::string describe_far(Address a) const;

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
        Takers(const Directory& core, uint32_t type)
            : nodes_(core.nodes.size()), workers_(core.workers),
              per_worker_(core.actors_per_worker), types_(core.types)
        {
            for (uint32_t a = 0; a < core.image.table.actors; ++a) {
                mask_ |= static_cast<uint64_t>(core.image.table.can_handle(a, type)) << a;
            }
        }

        bool have(Address to) const
        {
            size_t w = 0;
            return have(to, w);
        }
        // And the address's worker_index().
        bool have(Address to, size_t& w) const
        {
            if (to.node() >= nodes_ || to.worker() >= workers_ || to.local() >= per_worker_) {
                return false;
            }
            w = to.node() * workers_ + to.worker();
            const uint8_t actor = load<Scope::system>(&types_[w * per_worker_ + to.local()]);
            return actor != 0 && (mask_ >> (actor - 1u) & 1) != 0;
        }

    private:
        size_t nodes_;
        size_t workers_;
        size_t per_worker_;
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

    // Of each worker: places for actors that handlers spawn.
    uint32_t spawn_room() const { return nodes[0].shared.spawn_room; }
    bool spawned_by_handler(Address a) const { return a.local() < spawn_room(); }

    // Throws if the program is closed, has failed, or was stopped by an error.
    void check_alive();
    // Empty if there was no such error.
    std::string text_of(const Node& node, const FirstError& first) const;

    // Makes every node tell a state not older than this call, all of it or whether it is quiet;
    // false if that took too long.
    bool refresh(uint64_t patience_ns) { return every_node(&Backend::refresh, patience_ns); }
    bool check_quiet(uint64_t patience_ns)
    {
        return every_node(&Backend::check_quiet, patience_ns);
    }
    bool every_node(bool (Backend::*tells)(uint64_t), uint64_t patience_ns);
    // As AnyRuntime's.
    std::string stuck(uint64_t at_least_ns);
    // Empty if breaths end within `at_least_ns`, or there are none. Where one is ending it takes so
    // long, between a tenth of a second and one.
    std::string unfinished_breath(uint64_t at_least_ns);

    const std::vector<uint32_t>& refs(uint32_t type) const { return image.buffers[type]; }

    void wake(Address worker) { nodes[worker.node()].backend->wake(worker.worker()); }
    void wake_all()
    {
        for (const Node& node : nodes) {
            for (uint32_t w = 0; w < (on_gpu ? 1 : workers); ++w) { // a GPU has one bell
                node.backend->wake(w);
            }
        }
    }

    Image image;
    Options options;
    std::vector<Node> nodes;
    uint32_t workers = 0; // of each node
    uint32_t actors_per_worker = 0;
    bool on_gpu = false;
    std::atomic<bool> closed{false};
    uint8_t* types = nullptr;     // by index(): actor type + 1, 0: none. Workers write there too
    std::vector<uint8_t> stopped; // of those that were there before, for an error's text
};

} // namespace denizen
