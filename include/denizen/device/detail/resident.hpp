// SPDX-License-Identifier: Apache-2.0
// What a resident program's host side, its keeper (device/keeper.hpp), and its kernel tell each
// other. All resident programs have these words; what else they tell is their own.
#pragma once

#include <denizen/device/detail/breath.hpp>

namespace denizen {

// Beside it the workers' copy has the bits of a breath that ends.
enum class Command : uint32_t { run = 0, pause, leave, stop, kill };
DENIZEN_HD constexpr Command command_of(uint32_t word)
{
    return static_cast<Command>(word & command_bits);
}
DENIZEN_HD constexpr bool leaves(Command c)
{
    return c == Command::leave || c == Command::stop || c == Command::kill;
}

// How far a worker, or the whole program, is.
enum class Mode : uint32_t { starting = 0, running, paused, left };

DENIZEN_HD inline const char* to_string(Mode mode)
{
    switch (mode) {
    case Mode::starting: return "starting";
    case Mode::running: return "running";
    case Mode::paused: return "paused";
    case Mode::left: return "left";
    }
    return "unknown";
}

// Why it left.
enum class Leave : uint32_t { none = 0, idle, stopped, host_lost, failed };

// Host memory. A line for each writer, and one for what a sender looks at after every message.
struct ResidentWords {
    alignas(line) uint32_t command = 0; // host -> leader
    uint32_t heartbeat = 0;             // host -> leader, of a program without a breath
    uint32_t launching = 0;             // host -> leader: incarnation being launched now; 0: none
    alignas(line) uint32_t mode = 0;    // leader -> host, as the next; of the whole program
    uint32_t leave = 0;                 // why it left
    alignas(line) uint32_t ended = 0;   // number of the last incarnation that has ended
    Handovers handovers;                // numbers of a whole breath ago
};

} // namespace denizen
