// SPDX-License-Identifier: Apache-2.0
#include <denizen/flow/block.hpp>

namespace denizen::flow {

MessagePort::MessagePort(Block& block, std::string name) : block_(block), name_(std::move(name))
{
    block.messages_.push_back(this);
}

std::string MessagePort::label() const { return block_.name() + '.' + name_; }

void MessagePort::ring() const { block_.ring(); }

void MessagePort::refuse(Errc why) const
{
    if (why == Errc::closed) {
        throw Error(why, "message port \"" + label() + "\" is closed: its block has finished");
    }
    throw Error(why, "message port \"" + label() + "\" is full (" + std::to_string(limit) +
                         " messages): its block is at work for long; post less often");
}

const Port* Block::waits_for() const
{
    const InputPort* empty = nullptr;
    bool some = false;
    for (const InputPort* port : inputs_) {
        some |= port->current_ != nullptr;
        if (port->current_ == nullptr && empty == nullptr) {
            empty = port;
        }
    }
    if (empty != nullptr && !(any_input_ && some)) {
        return empty;
    }
    for (const SourcePort* port : sources_) {
        if (port->current_ == nullptr) {
            return port;
        }
    }
    return nullptr;
}

bool Block::unwanted() const
{
    return std::none_of(outputs_.begin(), outputs_.end(),
                        [](const OutputPort* port) { return port->wanted(); });
}

// Nobody wants its output, it makes samples and is told to stop, or an input has ended.
bool Block::cannot_go_on() const
{
    if (may_end()) {
        return true;
    }
    if (inputs_.empty()) {
        return false;
    }
    const auto exhausted = [](const InputPort* port) { return port->exhausted(); };
    return any_input_ ? std::all_of(inputs_.begin(), inputs_.end(), exhausted)
                      : std::any_of(inputs_.begin(), inputs_.end(), exhausted);
}

bool Block::step()
{
    moved_ = false;
    if (run_->aborting.load(std::memory_order_relaxed)) {
        return false;
    }
    if (finished_) {
        for (InputPort* port : inputs_) {
            while (port->load()) { // ends: a circuit's quanta are few, and none comes back here
                port->give_back(port->detach());
                moved_ = true;
            }
        }
        return moved_;
    }
    for (MessagePort* port : messages_) {
        if (port->pending()) {
            port->handle();
            moved_ = true;
        }
    }
    moved_ |= poll();
    bool all = true;
    bool some = false;
    for (InputPort* port : inputs_) {
        const bool there = port->load();
        all &= there;
        some |= there;
    }
    bool room = true;
    for (SourcePort* port : sources_) {
        room &= port->load();
    }
    const bool can_work = (all || (any_input_ && some)) && room; // ready(), without another look
    // What has a quantum has not ended.
    if (can_work ? may_end() : cannot_go_on()) {
        if (busy()) {
            return moved_;
        }
        close();
        return true;
    }
    if (can_work) {
        work();
        if (finishing_) {
            close();
            return true;
        }
    }
    return moved_;
}

bool Block::can_step()
{
    if (run_->aborting.load(std::memory_order_relaxed)) {
        return true;
    }
    for (InputPort* port : inputs_) {
        if (port->arrivals_.ready() && (finished_ || port->current_ == nullptr)) {
            return true;
        }
    }
    if (finished_) {
        return over();
    }
    for (const SourcePort* port : sources_) {
        if (port->current_ == nullptr && port->circuit_->returned_.ready()) {
            return true;
        }
    }
    return std::any_of(messages_.begin(), messages_.end(),
                       [](const MessagePort* port) { return port->pending(); }) ||
           ready() || busy() || cannot_go_on();
}

bool Block::over() const
{
    return run_->aborting.load(std::memory_order_relaxed) ||
           (finished_ && std::all_of(inputs_.begin(), inputs_.end(),
                                     [](InputPort* port) { return port->exhausted(); }));
}

void Block::close()
{
    finished_ = true;
    idle_since_.store(0, std::memory_order_relaxed);
    for (MessagePort* port : messages_) {
        port->close();
    }
    for (SourcePort* port : sources_) {
        port->finish();
    }
    for (OutputPort* port : outputs_) {
        port->close();
    }
    for (InputPort* port : inputs_) {
        port->leave();
    }
}

} // namespace denizen::flow
