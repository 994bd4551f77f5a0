// SPDX-License-Identifier: Apache-2.0
// What fake_kernel.cpp, fake_cuda.cpp and the program play agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake {

inline constexpr size_t memory_bytes = 8 << 20;
inline constexpr uint32_t doorbell_memory = 0x7001, timer_memory = 0x7002, ring_memory = 0x7003,
                          pushbuffer_memory = 0x7004;

constexpr uint32_t token_of(uint32_t channel) { return (channel % 3) << 16 | (channel + 1); }

inline constexpr uint32_t client = 0xc1d00001; // of fake_cuda.cpp

// From now on the arguments of ioctls are those of a recording: they hold the answers.
void replay();

// The memory object as the device sees it, beside the mappings that the program has.
void* view(uint32_t handle);

} // namespace fake
