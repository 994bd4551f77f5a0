// SPDX-License-Identifier: Apache-2.0
// What is simulated: a body of a few threads that checks what came out.
#pragma once

#include "simulator.hpp"

#include <string>
#include <vector>

namespace simulation {

struct Scenario {
    const char* name;
    void (*body)();
    Faults faults;
    // If the process dies: what the next one does, with the files that are left.
    void (*after)() = nullptr;
    uint64_t most_accesses = 400'000; // a run that takes more does not end
    uint32_t cost = 1;                // beside others: it gets as many seeds less
};

struct Litmus {
    const char* name;
    void (*body)();
    uint32_t outcome;
    bool allowed; // and then it must be seen
};

std::vector<Litmus> litmus_tests();
void clear_litmus();
std::vector<Scenario> wire_scenarios();
std::vector<Scenario> actor_scenarios();
std::vector<Scenario> gpu_scenarios();
std::vector<Scenario> task_scenarios();
std::vector<Scenario> flow_scenarios();
std::vector<Scenario> group_scenarios();
std::vector<Scenario> host_scenarios();
std::vector<Scenario> restart_scenarios();
std::vector<Scenario> watch_scenarios();
std::vector<Scenario> topic_scenarios();

// A folder of this process's own in memory, empty when a run begins.
const std::string& folder();
// Words that outlive a process that dies: what it had come to.
struct Progress {
    uint32_t drawn[8];
    uint32_t actor[4];
    uint32_t actors;
    uint32_t saves;
    uint64_t outcomes; // of a litmus test, a bit each
    struct Sum {
        uint32_t letters;
        uint32_t received;
        uint32_t ids;
    } sums[4]; // of all letters, when each save began
};
Progress& progress();

} // namespace simulation
