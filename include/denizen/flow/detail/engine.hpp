// SPDX-License-Identifier: Apache-2.0
// The runtime's side of flow: who alone, with the graph, sees the inside of blocks, ports and
// circuits. Users of flow see none of it.
#pragma once

#include <string>

namespace denizen::flow {

class Block;
class InputPort;
class OutputPort;
class SourcePort;
class MessagePort;

namespace detail {

class Engine {
public:
    class BlockRunner; // src/flow/block_runner.hpp: runs blocks, step by step
    class Plan;        // src/flow/plan.hpp: checks a graph
    // src/flow/: blocks on the resident GPU
    class ResidentChain;    // chain.hpp: those that follow each other
    class ResidentCrossing; // crossing.hpp: those that fill other circuits
    class ResidentWorkers;  // workers.hpp: of one of either

    // Throws bad_argument if the block's graph has started: `what` comes too late.
    static void refuse_late(const Block& block, const std::string& what);
    // What ports tell the block that they are of.
    static void enlist(Block& block, InputPort& port);
    static void enlist(Block& block, OutputPort& port);
    static void enlist(Block& block, SourcePort& port);
    static void enlist(Block& block, MessagePort& port);
    static void moved(Block& block);       // something, in this step
    static void reader_left(Block& block); // of an output: nobody may want the rest
    static void ring(Block& block);        // there is something to do
};

} // namespace detail

using detail::Engine;

} // namespace denizen::flow
