// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix times a vector: where nearly all of a step's time goes.
//
// Rows come in groups of four, whose weights are interleaved in blocks of 16 columns, so that they
// are read from front to back:
//
// clang-format off
//   group 0: | row 0, columns 0-15 | row 1 | row 2 | row 3 | row 0, columns 16-31 | row 1 | ...
// clang-format on
//
// Each row is summed in sixteen lanes from its first column to its last, and then across the lanes,
// so its sum does not depend on which rows stand beside it.
#pragma once

#include <denizen/infer/engine.hpp>

#include <cstddef>

namespace denizen::infer {

inline constexpr size_t lanes = 16;
inline constexpr size_t rows_together = 4;

constexpr size_t padded(size_t floats) { return (floats + lanes - 1) / lanes * lanes; }

// A piece of the vector: 16 * blocks floats, aligned to 64 bytes.
struct Segment {
    const float* x;
    size_t blocks;
};

// out[row * row_stride + group * group_stride] = row `row` of group `group` times the segments, one
// behind the other. `weights` are of `format`, aligned to 64 bytes.
void multiply_rows(Format format, const void* weights, size_t groups, const Segment* segments,
                   size_t count, float* out, size_t row_stride, size_t group_stride);

// The same without the instructions of one machine: what multiply_rows() is where there are none.
void multiply_rows_portably(Format format, const void* weights, size_t groups,
                            const Segment* segments, size_t count, float* out, size_t row_stride,
                            size_t group_stride);

} // namespace denizen::infer
