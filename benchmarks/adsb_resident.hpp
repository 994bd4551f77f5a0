// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace denizen::bench {

// Measures the resident scan of the I/Q in `iq`, repeated, on GPU number `gpu`: from pinned host
// memory to believed messages, compared with the receiver's. Prints nothing where there is no GPU
// or the program was not compiled by nvcc.
void resident_scan(const std::vector<uint8_t>& iq, int gpu, bool quick);

} // namespace denizen::bench
