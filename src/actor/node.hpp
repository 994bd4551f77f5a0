// SPDX-License-Identifier: Apache-2.0
// One processor of a program as the host has it: its backend, its memory, and what is read of it.
#pragma once

#include "backend.hpp"

#include "base/round_up.hpp"

#include <denizen/actor/detail/trace_reader.hpp>
#include <denizen/memory/arena.hpp>
#include <denizen/wire/spsc.hpp>

#include <memory>
#include <string>
#include <vector>

namespace denizen {

inline uint64_t ns(nanoseconds deadline)
{
    return deadline.count() < 0 ? 0 : static_cast<uint64_t>(deadline.count());
}

// A part of a node's memory near its workers, as node_memory.cpp lays it out.
struct Region {
    std::string name;
    std::byte* memory;
    uint64_t bytes;
};

// One processor of the program: a GPU, or a group of CPU threads.
struct Node {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Arena> arena; // if handlers allocate
    Shared shared;                // as its workers see it
    Control* control = nullptr;
    Report* reports = nullptr;
    SpscReceiver<Scope::system> egress;
    uint64_t heap_used = 0;
    RingWords* egress_words = nullptr;
    Gate* gate = nullptr;
    std::vector<Region> regions;
    uint32_t dead_head = 0; // the next dead letter to read
    uint64_t dead_lost = 0;
    TraceReader trace{0, 0};
    uint64_t clock_shift = 0; // from its now_ns() to the host's, as last measured
};

} // namespace denizen
