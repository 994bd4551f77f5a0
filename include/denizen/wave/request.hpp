// SPDX-License-Identifier: Apache-2.0
// What is told to a running simulation and what it answers. Commands and answers cross in rings
// (wire/spsc.hpp); a command is applied between two steps, by everybody at the same one, and that
// step is in the answer: whoever repeats the commands at those steps gets the same field.
#pragma once

#include <denizen/wave/geometry.hpp>
#include <denizen/wave/source.hpp>

namespace denizen::wave {

enum class Act : uint32_t {
    source,  // add a source, which begins at that step
    cells,   // make the cells of a box of another kind; what becomes solid loses its pressure
    damping, // of the whole medium
    read,    // the pressure in a box
    pause,
    resume,
    end, // leave after that step
};

struct Request {
    Act act = Act::end;
    uint32_t step =
        0;     // at which it is applied, from the start of the run: filled in by who takes it
    Edit edit; // cells; read: the box
    uint32_t joined = 0; // more commands follow that belong to the same step
    double value = 0;    // damping: g dt
    Source source;
};

struct Answer {
    uint32_t step = 0;    // from the start of the run
    uint32_t refused = 0; // the run was over
};

inline constexpr uint32_t most_commands = 1024; // in one run
inline constexpr uint32_t most_sources = 64;
inline constexpr uint32_t most_receivers = 256;

} // namespace denizen::wave
