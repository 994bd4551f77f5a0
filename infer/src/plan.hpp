// SPDX-License-Identifier: Apache-2.0
// A checked model, laid out: where each value and each state lies, which rows of a layer are whose,
// and where parts have to wait for each other.
//
// The elements of a value are dealt to the parts in blocks of 16, so the owner of an element
// depends on the value's width alone. An op that maps element to element therefore reads what its
// own part wrote; any other reads whole values, and waits first if one of them has been written
// since the parts last met.
#pragma once

#include "rows.hpp"
#include <denizen/infer/engine.hpp>
#include <denizen/infer/model.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace denizen::infer {

struct Step {
    OpKind kind;
    Settings settings;
    std::vector<uint32_t> inputs;
    uint32_t value;      // that it makes
    size_t in = 0;       // floats of its first input
    size_t out = 0;      // floats of its value
    uint32_t taps = 0;   // conv1d
    bool meet = false;   // the parts wait for each other before it
    size_t state_at = 0; // in a stream's state: h twice and c, or the window of inputs
    size_t value_at = 0; // in the room for values; unused if the value is the state's h
    size_t window = 0;   // conv1d: inputs in the window, the step's own among them
    uint32_t rows = 0;   // of weights for each unit: 4, or 1 of four units at a time; 0 without
    size_t columns = 0;  // of the packed weights, padded
};

// The units of a value that are a part's: multiples of 16, but for the value's end.
struct Range {
    size_t begin;
    size_t end;
    size_t padded() const { return infer::padded(end - begin); }
};

struct Plan {
    std::vector<uint32_t> widths;
    std::vector<Step> steps;
    uint32_t output = 0;
    bool tokens = false;
    size_t tokens_below = 0; // rows of the smallest table
    uint32_t parts = 1;
    size_t value_floats = 0;
    size_t state_floats = 0;     // of a stream, as it lies here
    size_t kept_floats = 0;      // of a stream, as users see it
    std::vector<StatePart> kept; // its pieces

    Range range(size_t width, uint32_t part) const
    {
        const size_t blocks = padded(width) / lanes;
        return {std::min(width, blocks * part / parts * lanes),
                std::min(width, blocks * (part + 1) / parts * lanes)};
    }
};

// `model` has been checked. Throws bad_argument if a state is beyond 2^40 floats or two layers with
// states have one name.
Plan plan_of(const Model& model);

// Copies between a stream's state as it lies here, after `position` steps, and as users see it.
// What is read back is as of position 0.
void read_state(const Plan& plan, const float* state, uint64_t position, float* kept);
void write_state(const Plan& plan, const float* kept, float* state);

// Throws bad_argument if the other has other ops, widths or settings: "the new model".
void check_same(const Plan& plan, const Plan& other, const Model& names, const std::string& what);

} // namespace denizen::infer
