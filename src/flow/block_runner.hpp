// SPDX-License-Identifier: Apache-2.0
// What runs a sequence of blocks until all are over: a thread, or a coroutine of a pool.
#pragma once

#include <denizen/flow/graph.hpp>
#include <denizen/flow/scheduler.hpp>

namespace denizen::flow {

class detail::Engine::BlockRunner {
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
    // Of one block (step.cpp).
    static bool step(Block& block);       // false: nothing could be done
    static bool can_step(Block& block);   // step() would do something
    static bool over(const Block& block); // finished, and nothing can arrive any more
    static void close(Block& block);
    static bool unwanted(const Block& block);
    static bool cannot_go_on(const Block& block);
    static const Port* waits_for(const Block& block); // null: for none, work() can be called
    static bool ready(const Block& block) { return waits_for(block) == nullptr; }
    // Nobody wants its output, or it makes samples and is told to stop.
    static bool may_end(const Block& block)
    {
        return (block.reader_left_.load(std::memory_order_acquire) && unwanted(block)) ||
               (block.inputs_.empty() && block.run_->stopping.load(std::memory_order_relaxed));
    }

    // Of all its blocks.
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
