// SPDX-License-Identifier: Apache-2.0
// Ports for messages, which any thread posts to and the block's own thread handles between two
// steps.
#include <denizen/flow/block.hpp>

namespace denizen::flow {

MessagePort::MessagePort(Block& block, std::string name) : block_(block), name_(std::move(name))
{
    Engine::enlist(block, *this);
}

std::string MessagePort::label() const { return block_.name() + '.' + name_; }

void MessagePort::ring() const { Engine::ring(block_); }

void MessagePort::refuse(Errc why) const
{
    if (why == Errc::closed) {
        throw Error(why, "message port \"" + label() + "\" is closed: its block has finished");
    }
    throw Error(why, "message port \"" + label() + "\" is full (" + std::to_string(limit) +
                         " messages): its block is at work for long; post less often");
}

} // namespace denizen::flow
