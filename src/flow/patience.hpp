// SPDX-License-Identifier: Apache-2.0
// How long the host waits for the resident runtime before it takes it for stuck.
#pragma once

#include <chrono>
#include <cstdint>

namespace denizen::flow {

// For room in a worker's ring, and for a quantum to come back.
inline constexpr std::chrono::seconds patience{5};

inline uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

} // namespace denizen::flow
