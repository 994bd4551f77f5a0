// SPDX-License-Identifier: Apache-2.0
// One step of a block: messages first, then work() if every port has what it needs, and the block's
// end when nothing more can come or nobody wants it. On the thread that runs the block.
#include "block_runner.hpp"

namespace denizen::flow {

const Port* Engine::BlockRunner::waits_for(const Block& block)
{
    const InputPort* empty = nullptr;
    bool some = false;
    for (const InputPort* port : block.inputs_) {
        some |= port->current_ != nullptr;
        if (port->current_ == nullptr && empty == nullptr) {
            empty = port;
        }
    }
    if (empty != nullptr && !(block.any_input_ && some)) {
        return empty;
    }
    for (const SourcePort* port : block.sources_) {
        if (port->current_ == nullptr) {
            return port;
        }
    }
    return nullptr;
}

bool Engine::BlockRunner::unwanted(const Block& block)
{
    return std::none_of(block.outputs_.begin(), block.outputs_.end(),
                        [](const OutputPort* port) { return port->wanted(); });
}

// Nobody wants its output, it makes samples and is told to stop, or an input has ended.
bool Engine::BlockRunner::cannot_go_on(const Block& block)
{
    if (may_end(block)) {
        return true;
    }
    if (block.inputs_.empty()) {
        return false;
    }
    const auto exhausted = [](const InputPort* port) { return port->exhausted(); };
    return block.any_input_ ? std::all_of(block.inputs_.begin(), block.inputs_.end(), exhausted)
                            : std::any_of(block.inputs_.begin(), block.inputs_.end(), exhausted);
}

bool Engine::BlockRunner::step(Block& block)
{
    block.moved_ = false;
    if (block.run_->aborting.load(std::memory_order_relaxed)) {
        return false;
    }
    if (block.finished_) {
        for (InputPort* port : block.inputs_) {
            while (port->load()) { // ends: a circuit's quanta are few, and none comes back here
                port->give_back(port->detach());
                block.moved_ = true;
            }
        }
        return block.moved_;
    }
    for (MessagePort* port : block.messages_) {
        if (port->pending()) {
            port->handle();
            block.moved_ = true;
        }
    }
    block.moved_ |= block.poll();
    bool all = true;
    bool some = false;
    for (InputPort* port : block.inputs_) {
        const bool there = port->load();
        all &= there;
        some |= there;
    }
    bool room = true;
    for (SourcePort* port : block.sources_) {
        room &= port->load();
    }
    const bool can_work =
        (all || (block.any_input_ && some)) && room; // ready(), without another look
    // What has a quantum has not ended.
    if (can_work ? may_end(block) : cannot_go_on(block)) {
        if (block.busy()) {
            return block.moved_;
        }
        close(block);
        return true;
    }
    if (can_work) {
        block.work();
        if (block.finishing_) {
            close(block);
            return true;
        }
    }
    return block.moved_;
}

bool Engine::BlockRunner::can_step(Block& block)
{
    if (block.run_->aborting.load(std::memory_order_relaxed)) {
        return true;
    }
    for (InputPort* port : block.inputs_) {
        if (port->arrivals_.ready() && (block.finished_ || port->current_ == nullptr)) {
            return true;
        }
    }
    if (block.finished_) {
        return over(block);
    }
    for (const SourcePort* port : block.sources_) {
        if (port->current_ == nullptr && port->circuit_->returned_.ready()) {
            return true;
        }
    }
    return std::any_of(block.messages_.begin(), block.messages_.end(),
                       [](const MessagePort* port) { return port->pending(); }) ||
           ready(block) || block.busy() || cannot_go_on(block);
}

bool Engine::BlockRunner::over(const Block& block)
{
    return block.run_->aborting.load(std::memory_order_relaxed) ||
           (block.finished_ && std::all_of(block.inputs_.begin(), block.inputs_.end(),
                                           [](InputPort* port) { return port->exhausted(); }));
}

void Engine::BlockRunner::close(Block& block)
{
    block.finished_ = true;
    block.idle_since_.store(0, std::memory_order_relaxed);
    for (MessagePort* port : block.messages_) {
        port->close();
    }
    for (SourcePort* port : block.sources_) {
        port->finish();
    }
    for (OutputPort* port : block.outputs_) {
        port->close();
    }
    for (InputPort* port : block.inputs_) {
        port->leave();
    }
}

} // namespace denizen::flow
