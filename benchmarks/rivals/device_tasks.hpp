// SPDX-License-Identifier: Apache-2.0
// Many small tasks (results[i] = 2 i) that the device itself launches: a graph of one kernel for
// each task, or a child kernel for each task (dynamic parallelism). Device-side launches need
// relocatable device code, so these rivals are in a library of their own.
//
// CUDA's limits shape both. A graph may launch 120 others by fire-and-forget before it is launched
// again, and none that still runs: a hundred instances, each launched once in every round. A kernel
// may have 2,048 children that have not begun: a parent launches a thousand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace denizen::bench {

class DeviceTasks {
public:
    static constexpr uint32_t round = 100;
    static constexpr uint32_t children = 1000;

    // For `results` of `count` words, a multiple of `round` and `children`, in device memory. Where
    // the driver refuses, problem() says why and nothing else may be called.
    DeviceTasks(uint32_t* results, uint32_t count);
    ~DeviceTasks();
    DeviceTasks(const DeviceTasks&) = delete;
    DeviceTasks& operator=(const DeviceTasks&) = delete;

    const std::string& problem() const { return problem_; }

    // Each does all tasks once and returns when the host knows it. Throws if the device reports an
    // error.
    void by_graphs();
    void by_children();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
    std::string problem_;
};

} // namespace denizen::bench
