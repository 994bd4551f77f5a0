// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace denizen::bench {

// Measures the resident receiver over the I/Q in `iq`, repeated, from memory that its workers
// reach to believed messages: read in place, and copied by feed(). The messages are compared with
// the receiver's. `device`: "auto", "gpu", "gpu:N", "cpu" or "cpu:THREADS"; prints nothing for a
// GPU that is not there, or if the program was not compiled by nvcc.
void resident_receiver(const std::vector<uint8_t>& iq, const std::string& device, bool quick);

} // namespace denizen::bench
