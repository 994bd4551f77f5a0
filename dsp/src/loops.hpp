// SPDX-License-Identifier: Apache-2.0
// The loops under fir.cpp. Every output is computed by the same operations in the same order
// wherever it stands in a block, so that results do not depend on how a stream was cut.
#pragma once

#include <cstddef>

namespace denizen::dsp::loops {

inline constexpr size_t lanes = 16;  // correlate() takes whole multiples of so many taps
inline constexpr size_t across = 64; // neighbouring outputs that it computes together

// out[i] = the sum of h[j] * x[i * step + j] over j < taps, for i < count. `x` is readable and
// `out` writable as if count were the next multiple of `across`.
void correlate(const float* h, size_t taps, const float* x, size_t step, size_t count, float* out);

} // namespace denizen::dsp::loops
