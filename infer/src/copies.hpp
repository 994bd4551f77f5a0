// SPDX-License-Identifier: Apache-2.0
// Copies of a resident model beside each other on a GPU, each with a share of the streams: stream s
// is stream s / copies of copy s % copies, and so are cells. What is done to all streams is done to
// one copy after the other.
#pragma once

#include "gpu_serve.hpp"

namespace denizen::infer {

// As serve_on(), options.copies times. Throws bad_argument also if there are too few SMs.
std::unique_ptr<Serving> copies_on(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model,
                                   const Options& options);

} // namespace denizen::infer
