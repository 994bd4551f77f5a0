// SPDX-License-Identifier: Apache-2.0
// The host's half of a resident model on a GPU. Who asks writes the request into the next slot
// itself, and looks for the answer in its cell: no thread of the host is between.
//
// clang-format off
//   slots (device memory, if it can be had):  | what it says of itself | 3 floats | 3 floats | ...   each packet with the request's number
//   cells (host memory):                      | answer[0] | answer[1] | ...                          each word with the request's number
// clang-format on
//
// Requests are answered in the order of their slots, and there are at least as many slots as cells:
// the request that had a slot before has been answered when the slot is written again. Whatever
// else is done to the model stands still at the gate of the slots: it waits until all that was sent
// is answered, and has the blocks leave the GPU meanwhile.
#pragma once

#include "serving.hpp"

#include <denizen/infer/chip.hpp>

#include <memory>

namespace denizen::infer {

// Throws bad_argument with the bytes that are missing if it does not fit; exhausted.
std::unique_ptr<Serving> serve_on(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model,
                                  const Options& options);

} // namespace denizen::infer
