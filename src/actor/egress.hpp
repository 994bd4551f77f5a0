// SPDX-License-Identifier: Apache-2.0
// Messages from actors to the host: out of the nodes' egress rings, to whoever receives, or, of the
// types that a service of the host takes (io/service.hpp), to that service.
#pragma once

#include "buffer_table.hpp"
#include "directory.hpp"
#include "host_trace.hpp"
#include "port.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace denizen {

struct Receiving : Directory {
    using Directory::Directory;

    // A message has come to the host, which owns the buffers that it refers to from now on.
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
    bool serves(uint32_t type) const { return type < served_types.size() && served_types[type]; }
    void set_aside(Message m)
    {
        (serves(m.header.type) ? for_service : backlog).push_back(std::move(m));
    }

    bool try_receive(Message& m);
    // The next message for the service, and the memory that it refers to.
    bool try_serve(Message& m, std::vector<std::shared_ptr<Storage>>& memory);
    void serve(const std::vector<uint32_t>& which);

    std::shared_ptr<BufferTable> buffers;
    HostTrace host_trace;
    SpinLock egress_lock;
    size_t next_egress = 0; // the node whose ring is looked at next
    std::deque<Message> backlog;
    std::vector<bool> served_types; // by message type; empty without a service
    std::deque<Message> for_service;
};

} // namespace denizen
