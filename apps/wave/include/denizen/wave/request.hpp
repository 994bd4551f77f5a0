// SPDX-License-Identifier: Apache-2.0
// What is told to a running simulation and what it answers. Commands and answers cross in rings
// (wire/spsc.hpp); a command is applied between two steps, by everybody at the same one, and that
// step is in the answer: whoever repeats the commands at those steps gets the same field.
#pragma once

#include <denizen/wave/detail/geometry.hpp>
#include <denizen/wave/source.hpp>

namespace denizen::wave {

enum class Act : uint32_t {
    source,  // add a source, which begins at that step
    cells,   // make the cells of a box of another kind; what becomes solid loses its pressure
    damping, // of the whole medium
    read,    // the pressure in a box
    pause,
    resume, // at once, or up to a step
    end,    // leave after that step
};

// Whether the run keeps it, for the runs after it.
DENIZEN_HD constexpr bool changes_something(Act act)
{
    return act == Act::source || act == Act::cells || act == Act::damping;
}

struct Request {
    Act act = Act::end;
    uint32_t step =
        0;     // at which it is applied, from the start of the run: filled in by who takes it
    Edit edit; // cells; read: the box
    uint32_t joined = 0; // more commands follow that belong to the same step
    uint32_t until = 0;  // resume: pauses again in front of that step of the run; 0: never
    double value = 0;    // damping: g dt
    Source source;
};

// A request on its way: it fits into one slot of a ring, so that a device has it after one look
// into the host's memory.
struct Command {
    // act, cell or shape, joined, low x; low y, z; then high x, y, z, or a source's numbers
    uint32_t word[9] = {};
};

DENIZEN_HD inline Command command_of(const Request& r)
{
    const bool source = r.act == Act::source;
    const int32_t* const low = source ? r.source.at : r.edit.box.low;
    const int32_t* const high = r.edit.box.high;
    const auto pair = [](int32_t a, int32_t b) {
        return static_cast<uint32_t>(a) | static_cast<uint32_t>(b) << 16;
    };
    Command o;
    const uint32_t kind = source ? static_cast<uint32_t>(r.source.shape) : r.edit.cell;
    o.word[0] = static_cast<uint32_t>(r.act) | kind << 4 | r.joined << 8 |
                static_cast<uint32_t>(low[0]) << 16;
    o.word[1] = pair(low[1], low[2]);
    if (source) {
        const double numbers[3] = {r.source.amplitude, r.source.frequency, r.source.delay};
        copy_bytes(o.word + 3, numbers, sizeof numbers);
    } else if (r.act == Act::damping) {
        copy_bytes(o.word + 3, &r.value, sizeof r.value);
    } else if (r.act == Act::resume) {
        o.word[3] = r.until;
    } else {
        o.word[2] = pair(high[0], high[1]);
        o.word[3] = static_cast<uint32_t>(high[2]);
    }
    return o;
}

DENIZEN_HD inline Request request_of(const Command& o)
{
    Request r;
    r.act = static_cast<Act>(o.word[0] & 15);
    r.joined = o.word[0] >> 8 & 1;
    const uint32_t kind = o.word[0] >> 4 & 15;
    const int32_t low[3] = {static_cast<int32_t>(o.word[0] >> 16),
                            static_cast<int32_t>(o.word[1] & 0xffff),
                            static_cast<int32_t>(o.word[1] >> 16)};
    const int32_t high[3] = {static_cast<int32_t>(o.word[2] & 0xffff),
                             static_cast<int32_t>(o.word[2] >> 16),
                             static_cast<int32_t>(o.word[3])};
    if (r.act == Act::source) {
        r.source.shape = static_cast<Shape>(kind);
        double numbers[3];
        copy_bytes(numbers, o.word + 3, sizeof numbers);
        r.source.amplitude = numbers[0];
        r.source.frequency = numbers[1];
        r.source.delay = numbers[2];
    } else if (r.act == Act::damping) {
        copy_bytes(&r.value, o.word + 3, sizeof r.value);
    } else if (r.act == Act::resume) {
        r.until = o.word[3];
    }
    r.edit.cell = r.act == Act::cells ? kind : 0;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (r.act == Act::source) r.source.at[axis] = low[axis];
        if (r.act == Act::cells || r.act == Act::read) {
            r.edit.box.low[axis] = low[axis];
            r.edit.box.high[axis] = high[axis];
        }
    }
    return r;
}

// What is read of so few cells comes with the answer, of more in the window.
inline constexpr uint32_t few_cells = 3;

// To commands that belong together, by the id of the last.
struct Answer {
    uint32_t step = 0; // from the start of the run
    bool over = false; // it came too late: the run had ended
    double value[few_cells] = {};
};
static_assert(sizeof(Answer) == 32); // of one slot

inline constexpr uint32_t most_changes = 1024;   // of cells, damping and sources, in one run
inline constexpr uint32_t most_under_way = 4096; // commands that not all tiles have served
inline constexpr uint32_t most_sources = 64;
inline constexpr uint32_t most_receivers = 256;

} // namespace denizen::wave
