// SPDX-License-Identifier: Apache-2.0
// Sizes and offsets of memory that is laid out in multiples.
#pragma once

#include <cstdint>

namespace denizen {

inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

} // namespace denizen
