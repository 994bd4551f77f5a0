// SPDX-License-Identifier: Apache-2.0
// Which circuits pass which ports, worked out when a graph is validated; refuses what cannot work.
#pragma once

#include <denizen/flow/graph.hpp>

#include <map>
#include <set>

namespace denizen::flow {

class detail::Engine::Plan {
public:
    // Throws bad_argument that names the port and the reason.
    Plan(const std::deque<Circuit>& circuits, const std::vector<std::unique_ptr<Block>>& blocks);

    // The circuits whose quanta pass a port.
    const std::set<const Circuit*>& at(const Port& port) const { return passing_.at(&port); }
    // How many quanta can be at a port at once.
    uint32_t quanta_at(const Port& port) const;

private:
    void refuse_unconnected(const Block& block) const;
    void refuse_loops(const std::vector<std::unique_ptr<Block>>& blocks) const;
    void trace(const Circuit& circuit);
    void refuse_small(const Circuit& circuit) const;

    std::map<const Port*, std::set<const Circuit*>> passing_;
    std::map<const Circuit*, std::vector<const Port*>> ports_;
};

} // namespace denizen::flow
