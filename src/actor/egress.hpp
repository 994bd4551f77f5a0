// SPDX-License-Identifier: Apache-2.0
// Messages from actors to the host: out of the nodes' egress rings, to whoever receives.
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
    bool try_receive(Message& m);

    std::shared_ptr<BufferTable> buffers;
    HostTrace host_trace;
    SpinLock egress_lock;
    size_t next_egress = 0; // the node whose ring is looked at next
    std::deque<Message> backlog;
};

} // namespace denizen
