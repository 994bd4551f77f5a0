// SPDX-License-Identifier: Apache-2.0
// What runs a sequence of blocks until all are over: a thread, or a coroutine of a pool.
#pragma once

#include <denizen/flow/graph.hpp>
#include <denizen/flow/scheduler.hpp>

namespace denizen::flow {

class BlockRunner {
public:
    BlockRunner(Flowgraph& graph, std::vector<Block*> blocks, int core)
        : graph_(graph), blocks_(std::move(blocks)), core_(core)
    {
    }

    Doorbell& bell() { return bell_; }
    const std::vector<Block*>& blocks() const { return blocks_; }
    void start(Scheduler& pool) { pool.spawn(drive()); }
    void will_be_pooled() { bell_.pooled = true; } // before anybody rings
    bool pooled() const { return bell_.pooled; }
    void run(); // on a thread of its own

private:
    Coroutine drive();
    bool step();
    bool can_step() const;
    bool over() const;
    bool tell_idle();
    void failed(const std::exception& error);
    void rest();
    void woken();

    Flowgraph& graph_;
    std::vector<Block*> blocks_;
    int core_;
    Doorbell bell_;
    const Block* at_ = nullptr; // whose step() runs
};

} // namespace denizen::flow
