// SPDX-License-Identifier: Apache-2.0
#include "egress.hpp"

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
            backlog.push_back({m.header, {m.payload.begin(), m.payload.begin() + m.header.length}});
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
        if (take_egress(nodes[next_egress], m.header, m.payload, image.table.max_message)) {
            m.payload.resize(m.header.length);
            arrived(m.header.type, m.payload.data());
            return true;
        }
    }
    return false;
}

} // namespace denizen
