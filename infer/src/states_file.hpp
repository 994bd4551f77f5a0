// SPDX-License-Identifier: Apache-2.0
// The states of all streams in a snapshot file.
#pragma once

#include "plan.hpp"

#include <string>
#include <vector>

namespace denizen::infer {

// `all`: plan.kept_floats of each stream.
void write_states(const std::string& path, const Plan& plan, uint32_t streams,
                  const std::vector<float>& all, uint64_t deadline_ns);

// Throws bad_snapshot for a file that is not whole, of another model or of another number of
// streams.
std::vector<float> read_states(const std::string& path, const Plan& plan, uint32_t streams);

} // namespace denizen::infer
