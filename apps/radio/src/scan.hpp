// SPDX-License-Identifier: Apache-2.0
// The loops over every sample, compiled for several instruction sets. Called by the receiver.
#pragma once

#include <denizen/radio/detail/demodulate.hpp>

#include <cstddef>

namespace denizen::radio::scan {

// Magnitudes of `count` samples of interleaved I and Q, as bytes or with a full scale of 1.
void magnitudes(const uint8_t* iq, uint16_t* m, size_t count);
void magnitudes(const float* iq, uint16_t* m, size_t count);

// The floor of a block of `count` samples, at least floor_samples. `sums` has room for floor_means.
uint32_t floor(const uint16_t* m, size_t count, uint32_t* sums);

// The positions below `count` (at most block_samples) where a preamble may begin and bits may
// follow, ascending; how many. `marks` and `found` have room for block_samples.
size_t positions(const uint16_t* m, size_t count, const Thresholds& t, uint8_t* marks,
                 uint32_t* found);

// read_first() and read_again(), for this machine's instructions.
bool first(const uint16_t* m, uint32_t floor, Reading& out);
bool again(const uint16_t* m, uint32_t floor, const Reading& before, Reading& out);

} // namespace denizen::radio::scan
