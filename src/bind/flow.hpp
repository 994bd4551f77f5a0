// SPDX-License-Identifier: Apache-2.0
// Ports and blocks of flow graphs as Python holds them: those that are written in Python
// (flow_blocks.cpp) and those of the library (dsp/src/bind_signal.cpp).
#pragma once

#include "bind.hpp"

#include <denizen/flow/graph.hpp>

#include <memory>
#include <string>

namespace denizen::bind {

// A port, which Python may keep for longer than its block lives.
class PyPort {
public:
    virtual ~PyPort() = default;

    virtual flow::Port& port() = 0;
    virtual flow::InputPort* input() { return nullptr; }
    virtual flow::SourcePort* source() { return nullptr; }
    virtual flow::InPlacePort* in_place() { return nullptr; }

    virtual void need_block() const = 0; // throws if it is gone with its graph
    virtual void need_quantum() = 0;     // and outside of the block's work()
    virtual bool loaded() { return false; }
    // After need_quantum().
    virtual nanobind::object array() { return nanobind::none(); }
    virtual void consume(size_t samples) { (void)samples; }
    virtual std::vector<flow::Tag> tags() { return {}; }
};

// What a port is for a use that not every port has: not null, or bad_argument "that is for WHAT".
template <class P>
P& need(P* port, const char* what)
{
    if (port == nullptr) {
        throw Error(Errc::bad_argument, std::string("that is for ") + what);
    }
    return *port;
}

// A block before and after it has been added to a graph.
struct BlockHandle {
    explicit BlockHandle(std::unique_ptr<flow::Block> made)
        : owned(std::move(made)), block(std::make_shared<flow::Block*>(owned.get()))
    {
    }
    BlockHandle(const BlockHandle&) = delete;
    BlockHandle& operator=(const BlockHandle&) = delete;
    virtual ~BlockHandle()
    {
        if (owned) {
            *block = nullptr;
        }
    }
    flow::Block& get() const
    {
        if (*block == nullptr) {
            throw Error(Errc::closed, "the block's graph is gone");
        }
        return **block;
    }
    std::shared_ptr<void> needs; // what must outlive the block
    std::unique_ptr<flow::Block> owned;
    std::shared_ptr<flow::Block*> block; // null when the graph is gone
};

// Blocks in Python (flow_blocks.cpp), and of the library (dsp/src/bind_signal.cpp).
void flow_blocks(nanobind::module_& m);
void flow_signals(nanobind::module_& m);

} // namespace denizen::bind
