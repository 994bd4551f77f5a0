// SPDX-License-Identifier: Apache-2.0
// What the tests of steered runs share: their cases, and commands.
#pragma once

#include "reference.hpp"

namespace denizen::wave {

struct Case {
    Place place;
    Method method;
};

// Every method that each of these places has.
inline std::vector<Case> cases_at(const std::vector<Place>& places)
{
    std::vector<Case> all;
    for (const Place& place : places) {
        for (const Method method : methods_of(place)) all.push_back({place, method});
    }
    return all;
}

inline Request with(Act act)
{
    Request command;
    command.act = act;
    return command;
}

inline Request cells(const Box& box, uint32_t cell)
{
    Request command = with(Act::cells);
    command.edit = {box, cell};
    return command;
}

} // namespace denizen::wave
