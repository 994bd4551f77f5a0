// SPDX-License-Identifier: Apache-2.0
// A round trip through a device graph launch: a scheduler graph of one thread stays on the GPU,
// polls a mailbox in pinned memory and launches, from the device, a graph of one kernel that
// computes the answer and stores it to pinned memory, where the host polls for it.
//
// Two limits of CUDA shape it. A graph may launch at most 120 others by fire-and-forget before it
// is itself launched again: the scheduler re-launches itself (tail launch) after 100, so one round
// trip in a hundred is longer. And a graph that is still running cannot be launched again, which
// may hold for a moment after its answer has been seen: eight instances take turns.
//
// Device-side launches need relocatable device code, so this rival is a library of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace denizen::bench {

class DeviceGraph {
public:
    // Builds and uploads the graphs. Where the driver refuses, problem() says at which call and
    // why, and nothing else may be called.
    DeviceGraph();
    ~DeviceGraph();
    DeviceGraph(const DeviceGraph&) = delete;
    DeviceGraph& operator=(const DeviceGraph&) = delete;

    const std::string& problem() const;

    // Launches the scheduler, which stays for at most 20 s; call stop() before that.
    void start();

    // One round trip; the answer must equal expected(). Throws if the device reports an error or
    // does not answer for two seconds.
    uint32_t call();
    uint32_t expected() const;

    // Ends the scheduler; whether the device launched exactly as many graphs as there were calls.
    bool stop();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
    std::string problem_;
};

} // namespace denizen::bench
