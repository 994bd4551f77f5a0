// SPDX-License-Identifier: Apache-2.0
// Matrices of bf16 on tensor cores. A tile is 16 rows; its weights lie as the operand A of
// mma.m16n8k16 has them in registers: for each 16 columns 16 bytes a lane, one load.
//
// A float is the sum of three bf16 (8 bits of it each, cut off), so operand B has a request's values
// in three columns of its eight, the fourth is zero: products are exact and summed in fp32, as if
// the values had been multiplied themselves. Two requests fill an operand.
//
//   of a request, for each 32 columns: part 0 | part 1 | part 2 | -     64 bytes each
//   of a part, for t = 0 to 3: columns 2t, 2t + 1 | 2t + 8, 2t + 9 | 2t + 16, 2t + 17 | 2t + 24, 2t + 25
#pragma once

#include <denizen/infer/detail/team.hpp>

namespace denizen::infer::detail {

inline constexpr uint32_t split_parts = 3;
inline constexpr uint32_t step_columns = 16; // of one mma
inline constexpr uint32_t step_bytes = 16 * step_columns * 2;
inline constexpr uint32_t tile_steps = tile_columns / step_columns;

// Of a request with so many columns, a multiple of 32.
DENIZEN_HD constexpr uint32_t split_bytes(uint32_t columns) { return columns * 8; }

// Where the weight of a row (0 to 15) and column lies in its tile, in bytes.
DENIZEN_HD constexpr uint32_t place_in_tile(uint32_t row, uint32_t column)
{
    const uint32_t k = column % step_columns;
    const uint32_t lane = row % 8 * 4 + k % 8 / 2;
    return column / step_columns * step_bytes + lane * 16 + (row / 8 + k / 8 * 2) * 4 + k % 2 * 2;
}

// Where part 0 of columns 2p and 2p + 1 lies; the others behind it, 64 bytes apart.
DENIZEN_HD constexpr uint32_t place_of_pair(uint32_t pair)
{
    return pair / 16 * 256 + pair % 4 * 16 + pair % 16 / 4 * 4;
}

DENIZEN_HD inline uint32_t bits_of(float x)
{
    uint32_t bits = 0;
    copy_bytes(&bits, &x, 4);
    return bits;
}

DENIZEN_HD inline float float_of(uint32_t bits)
{
    float x = 0;
    copy_bytes(&x, &bits, 4);
    return x;
}

// The upper half of its bits: x cut off to bf16. A NaN stays one.
DENIZEN_HD inline uint32_t upper_of(float x)
{
    return (bits_of(x) | (x != x ? 1u << 22 : 0u)) & 0xffff0000u;
}

// Two values that stand beside each other, in three parts.
DENIZEN_HD inline void split_pair(unsigned char* to, uint32_t pair, float a, float b)
{
    unsigned char* const at = to + place_of_pair(pair);
    DENIZEN_UNROLL
    for (uint32_t part = 0; part < split_parts; ++part) {
        const uint32_t upper_a = upper_of(a);
        const uint32_t upper_b = upper_of(b);
        *reinterpret_cast<uint32_t*>(at + 64 * part) = upper_a >> 16 | upper_b;
        a -= float_of(upper_a);
        b -= float_of(upper_b);
        if (part == 0) { // nothing is left of an infinity, and a NaN needs no second
            a = a != a ? 0.0F : a;
            b = b != b ? 0.0F : b;
        }
    }
}

#if DENIZEN_ON_DEVICE
__device__ inline void multiply_add(float (&sum)[4], const uint4& a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
#endif

// 16 rows times 64 columns: `w` is their place in the tile, `split` that of the columns in the first
// of `live` <= n requests, `apart` bytes from the next. sums[row / 4 * stride + c].v[row % 4].
template <uint32_t n>
DENIZEN_HD inline void sum_tile(const unsigned char* w, const unsigned char* split, uint32_t apart,
                                uint32_t live, Quad* sums, uint32_t stride)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t operands = (n + 1) / 2;
    const uint32_t lane = lanes::id();
    const uint32_t of_b = lane / 4; // column of operand B
    uint4 a[tile_steps];
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < tile_steps; ++k) {
        a[k] = *reinterpret_cast<const uint4*>(w + k * step_bytes + lane * 16);
    }
    float sum[operands][2][4] = {}; // two, that do not wait for each other
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < operands; ++i) {
        if (i != 0 && 2 * i >= live) break;
        const uint32_t c = 2 * i + of_b / 4;
        uint4 b[tile_steps / 2] = {};
        if (of_b % 4 < split_parts && c < live) {
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < tile_steps / 2; ++k) {
                b[k] = *reinterpret_cast<const uint4*>(split + c * apart + k * 256 +
                                                       of_b % 4 * 64 + lane % 4 * 16);
            }
        }
        __syncwarp();
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < tile_steps / 2; ++k) {
            multiply_add(sum[i][0], a[2 * k], b[k].x, b[k].y);
            multiply_add(sum[i][1], a[2 * k + 1], b[k].z, b[k].w);
        }
    }
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < operands; ++i) {
        if (i != 0 && 2 * i >= live) break;
        // A pair of lanes has the parts of one request, of rows lane / 4 and 8 more.
        float low = (sum[i][0][0] + sum[i][1][0]) + (sum[i][0][1] + sum[i][1][1]);
        float high = (sum[i][0][2] + sum[i][1][2]) + (sum[i][0][3] + sum[i][1][3]);
        low += __shfl_xor_sync(~0u, low, 1);
        high += __shfl_xor_sync(~0u, high, 1);
        const uint32_t c = 2 * i + lane % 4 / 2;
        const uint32_t row = lane / 4 + (lane & 1) * 8;
        if (c < live) sums[row / 4 * stride + c].v[row % 4] = (lane & 1) != 0 ? high : low;
    }
#else
    for (uint32_t c = 0; c < live; ++c) {
        for (uint32_t row = 0; row < 16; ++row) {
            float of_part[4] = {};
            for (uint32_t k = 0; k < tile_columns; ++k) {
                uint16_t weight = 0;
                copy_bytes(&weight, w + place_in_tile(row, k), 2);
                for (uint32_t part = 0; part < split_parts; ++part) {
                    uint16_t x = 0;
                    copy_bytes(&x, split + c * apart + place_of_pair(k / 2) + 64 * part + k % 2 * 2,
                               2);
                    of_part[part] = fma_of(float_of(uint32_t{weight} << 16),
                                           float_of(uint32_t{x} << 16), of_part[part]);
                }
            }
            sums[row / 4 * stride + c].v[row % 4] =
                (of_part[0] + of_part[1]) + (of_part[2] + of_part[3]);
        }
    }
#endif
}

} // namespace denizen::infer::detail
