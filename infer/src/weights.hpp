// SPDX-License-Identifier: Apache-2.0
// A version of a model's weights, packed for the parts.
#pragma once

#include "aligned.hpp"
#include "plan.hpp"

#include <cstdint>
#include <vector>

namespace denizen::infer {

// A part's rows of all matrices, one op behind the other: what it reads in each step.
struct Packed {
    Aligned<unsigned char> bytes;
    std::vector<size_t> at; // of each op
};

struct Weights {
    uint64_t version = 1;
    std::vector<Packed> parts;
    // Of each op, as all parts read them: biases (lstm and gru: of four sums, padded(out) apart),
    // g and b, scale and shift, tables with rows of padded(out).
    std::vector<Aligned<float>> vectors;

    size_t bytes() const;
};

// Throws bad_argument for a weight beyond the format's range, exhausted without memory.
Weights pack(const Plan& plan, const Model& model, Format format);

// Bytes of the packed matrices, before they are dealt to parts.
size_t packed_bytes(const Plan& plan, Format format);

} // namespace denizen::infer
