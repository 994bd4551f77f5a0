// SPDX-License-Identifier: Apache-2.0
// A thread that runs a sequence of blocks until all are over.
#pragma once

#include <denizen/flow/graph.hpp>

namespace denizen::flow {

class Seat {
public:
    Seat(Flowgraph& graph, std::vector<Block*> blocks, int core)
        : graph_(graph), blocks_(std::move(blocks)), core_(core)
    {
    }

    Bell& bell() { return bell_; }
    const std::vector<Block*>& blocks() const { return blocks_; }
    void start()
    {
        thread_ = std::thread([this] { run(); });
    }
    void join()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }

private:
    void run();
    bool step();
    bool over() const;
    void rest();
    void woken();

    Flowgraph& graph_;
    std::vector<Block*> blocks_;
    int core_;
    Bell bell_;
    std::thread thread_;
    const Block* at_ = nullptr; // whose step() runs
};

} // namespace denizen::flow
