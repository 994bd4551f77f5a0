// SPDX-License-Identifier: Apache-2.0
#include "egress.hpp"

#include <algorithm>
#include <iterator>

namespace denizen {

bool Receiving::take_egress(Node& node, Header& h, std::vector<unsigned char>& payload,
                            uint32_t room)
{
    payload.resize(room + stamp_bytes);
    const Errc found = node.egress.try_receive(h, payload.data(), room + stamp_bytes);
    if (found != Errc::ok) {
        return false;
    }
    host_trace.take_stamp(h, payload.data());
    return true;
}

void Receiving::take_into_backlog()
{
    Message m;
    for (Node& node : nodes) {
        while (take_egress(node, m.header, m.payload, image.table.max_message)) {
            set_aside({m.header, {m.payload.begin(), m.payload.begin() + m.header.length}});
        }
    }
}

bool Receiving::try_receive(Message& m)
{
    const std::lock_guard guard(egress_lock);
    if (!backlog.empty()) {
        m = std::move(backlog.front());
        backlog.pop_front();
        arrived(m.header.type, m.payload.data());
        return true;
    }
    for (size_t i = 0; i < nodes.size(); ++i) { // each node's in turn
        next_egress = (next_egress + 1) % nodes.size();
        while (take_egress(nodes[next_egress], m.header, m.payload, image.table.max_message)) {
            m.payload.resize(
                m.header.length); // ends with the ring's first other message, or its last
            if (serves(m.header.type)) {
                for_service.push_back(std::move(m));
                continue;
            }
            arrived(m.header.type, m.payload.data());
            return true;
        }
    }
    return false;
}

bool Receiving::try_serve(Message& m, std::vector<std::shared_ptr<Storage>>& memory)
{
    const std::lock_guard guard(egress_lock);
    for (size_t i = 0; i < nodes.size() && for_service.empty(); ++i) { // each node's in turn
        next_egress = (next_egress + 1) % nodes.size();
        Header next;
        // Ends with a message for the service, or an empty ring, or so many for a host that does
        // not receive them: then this ring fills, and its senders wait.
        while (for_service.empty() && nodes[next_egress].egress.peek(next) &&
               (serves(next.type) || backlog.size() < options.egress_slots) &&
               take_egress(nodes[next_egress], m.header, m.payload, image.table.max_message)) {
            m.payload.resize(m.header.length);
            set_aside(std::move(m));
        }
    }
    if (for_service.empty()) {
        return false;
    }
    m = std::move(for_service.front());
    for_service.pop_front();
    memory.clear();
    if (!refs(m.header.type).empty()) {
        memory = buffers->storage(refs(m.header.type), m.payload.data());
        arrived(m.header.type, m.payload.data());
    }
    return true;
}

void Receiving::serve(const std::vector<uint32_t>& which)
{
    const std::lock_guard guard(egress_lock);
    if (!which.empty() && !served_types.empty()) {
        throw Error(Errc::bad_argument,
                    "the program has a service of the host already; close it first");
    }
    std::vector<bool> chosen(which.empty() ? 0 : image.table.messages);
    for (const uint32_t type : which) {
        if (type >= image.table.messages) {
            check_message(type, 0);
        }
        chosen[type] = true;
    }
    served_types = std::move(chosen);
    std::deque<Message> waiting;
    waiting.swap(for_service);
    std::move(backlog.begin(), backlog.end(), std::back_inserter(waiting));
    backlog.clear();
    for (Message& m : waiting) {
        set_aside(std::move(m));
    }
}

} // namespace denizen
