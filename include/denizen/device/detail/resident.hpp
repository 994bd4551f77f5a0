// SPDX-License-Identifier: Apache-2.0
// What a resident program's host side, its keeper (device/keeper.hpp), and its kernel tell each
// other. All resident programs have these words; what else they tell is their own.
#pragma once

#include <denizen/device/detail/breath.hpp>

#if DENIZEN_HOSTED
#include <denizen/base/error.hpp>

#include <chrono>
#include <optional>
#include <string>
#endif

namespace denizen {

#if DENIZEN_HOSTED
// How long an incarnation lasts on a GPU unless it is said: so long, or with long handlers up to
// the second (detail::lasting_ns()).
inline constexpr std::chrono::microseconds default_breath{2000};
inline constexpr std::chrono::microseconds longest_breath{16'000};

// What an option says. Errc::bad_argument.
inline uint64_t breath_ns_of(std::optional<std::chrono::microseconds> option)
{
    const auto breath = option.value_or(default_breath);
    if (breath.count() < 0 || breath.count() > 1'000'000) {
        throw Error(Errc::bad_argument, "breath = " + std::to_string(breath.count()) +
                                            " us; use 1 to 1,000,000, or 0 for one kernel for "
                                            "ever");
    }
    return static_cast<uint64_t>(breath.count()) * 1000;
}

// Of a program on a GPU.
inline void set_breath(BreathRef& ref, std::optional<std::chrono::microseconds> option)
{
    ref.ns = breath_ns_of(option);
    ref.longest_ns = option ? ref.ns : breath_ns_of(longest_breath);
}
#endif

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
    alignas(line) uint32_t mode = 0;    // leader -> host, as the next; of the whole program
    uint32_t leave = 0;                 // why it left
    alignas(line) uint32_t ended = 0;   // number of the last incarnation that has ended
    Handovers handovers;                // numbers of a whole breath ago
};

} // namespace denizen
