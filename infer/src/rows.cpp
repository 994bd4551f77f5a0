// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <denizen/base/levels.hpp>

#include <cstring>

namespace denizen::infer {
namespace {

typedef float Lanes __attribute__((vector_size(lanes * sizeof(float))));
typedef uint32_t Words __attribute__((vector_size(lanes * sizeof(uint32_t))));
typedef int32_t Numbers __attribute__((vector_size(lanes * sizeof(int32_t))));
typedef uint16_t Halves __attribute__((vector_size(lanes * sizeof(uint16_t))));

struct Bf16 {
    uint16_t bits;
};
struct Fp16 {
    uint16_t bits;
};

// Sixteen weights as fp32.
[[gnu::always_inline]] inline Lanes widen(const float* w)
{
    Lanes value;
    std::memcpy(&value, w, sizeof value);
    return value;
}

[[gnu::always_inline]] inline Lanes widen(const Bf16* w)
{
    Halves bits;
    std::memcpy(&bits, w, sizeof bits);
    const Words words = __builtin_convertvector(bits, Words) << 16;
    Lanes value;
    std::memcpy(&value, &words, sizeof value);
    return value;
}

// Weights are finite. The exponent is moved from bias 15 to 127; a subnormal, whose exponent is 0,
// has no hidden one, which is added and subtracted again.
[[gnu::always_inline]] inline Lanes widen(const Fp16* w)
{
    Halves bits;
    std::memcpy(&bits, w, sizeof bits);
    const Words words = __builtin_convertvector(bits, Words);
    const Words sign = (words & 0x8000U) << 16;
    const Words rest = (words & 0x7fffU) << 13;
    const Words normal = rest + (112U << 23);
    const Words raised = rest + (113U << 23);
    Lanes lifted;
    std::memcpy(&lifted, &raised, sizeof lifted);
    lifted -= 0x1p-14F;
    Words small;
    std::memcpy(&small, &lifted, sizeof small);
    const Numbers subnormal = rest < (1U << 23);
    const Words mask = (Words)subnormal;
    const Words chosen = ((small & mask) | (normal & ~mask)) | sign;
    Lanes value;
    std::memcpy(&value, &chosen, sizeof value);
    return value;
}

[[gnu::always_inline]] inline float across(const Lanes& sum)
{
    float half[8];
    for (size_t i = 0; i < 8; ++i) half[i] = sum[i] + sum[i + 8];
    for (size_t i = 0; i < 4; ++i) half[i] += half[i + 4];
    return (half[0] + half[2]) + (half[1] + half[3]);
}

template <class Weight>
[[gnu::always_inline]] inline void multiply(const Weight* w, size_t groups, const Segment* segments,
                                            size_t count, float* out, size_t row_stride,
                                            size_t group_stride)
{
    for (size_t group = 0; group < groups; ++group) {
        Lanes a = {};
        Lanes b = {};
        Lanes c = {};
        Lanes d = {};
        for (size_t s = 0; s < count; ++s) {
            const float* x = segments[s].x;
            for (size_t block = 0; block < segments[s].blocks; ++block) {
                const Lanes in = widen(x);
                a += widen(w) * in;
                b += widen(w + lanes) * in;
                c += widen(w + 2 * lanes) * in;
                d += widen(w + 3 * lanes) * in;
                x += lanes;
                w += rows_together * lanes;
            }
        }
        float* const to = out + group * group_stride;
        to[0] = across(a);
        to[row_stride] = across(b);
        to[2 * row_stride] = across(c);
        to[3 * row_stride] = across(d);
    }
}

DENIZEN_LEVELS void multiply_fp32(const float* w, size_t groups, const Segment* segments,
                                  size_t count, float* out, size_t row_stride, size_t group_stride)
{
    multiply(w, groups, segments, count, out, row_stride, group_stride);
}

DENIZEN_LEVELS void multiply_bf16(const Bf16* w, size_t groups, const Segment* segments,
                                  size_t count, float* out, size_t row_stride, size_t group_stride)
{
    multiply(w, groups, segments, count, out, row_stride, group_stride);
}

DENIZEN_LEVELS void multiply_fp16(const Fp16* w, size_t groups, const Segment* segments,
                                  size_t count, float* out, size_t row_stride, size_t group_stride)
{
    multiply(w, groups, segments, count, out, row_stride, group_stride);
}

} // namespace

void multiply_rows(Format format, const void* weights, size_t groups, const Segment* segments,
                   size_t count, float* out, size_t row_stride, size_t group_stride)
{
    switch (format) {
    case Format::fp32:
        multiply_fp32(static_cast<const float*>(weights), groups, segments, count, out, row_stride,
                      group_stride);
        return;
    case Format::bf16:
        multiply_bf16(static_cast<const Bf16*>(weights), groups, segments, count, out, row_stride,
                      group_stride);
        return;
    case Format::fp16:
        multiply_fp16(static_cast<const Fp16*>(weights), groups, segments, count, out, row_stride,
                      group_stride);
        return;
    }
}

} // namespace denizen::infer
