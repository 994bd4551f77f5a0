// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)

// The same with the instructions of AVX2, FMA and F16C. Vectors of GNU C are cut into those of the
// lowest level before a function is compiled for a higher one.
#define DENIZEN_AVX2 __attribute__((target("avx2,fma,f16c"), always_inline))

struct Sixteen {
    __m256 low;
    __m256 high;
};

DENIZEN_AVX2 inline Sixteen load_sixteen(const float* w)
{
    return {_mm256_loadu_ps(w), _mm256_loadu_ps(w + 8)};
}

DENIZEN_AVX2 inline Sixteen load_sixteen(const Bf16* w)
{
    const auto* halves = reinterpret_cast<const __m128i*>(w);
    const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(halves));
    const __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128(halves + 1));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}

DENIZEN_AVX2 inline Sixteen load_sixteen(const Fp16* w)
{
    const auto* halves = reinterpret_cast<const __m128i*>(w);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

DENIZEN_AVX2 inline void add_product(Sixteen& sum, const Sixteen& w, const Sixteen& x)
{
    sum.low = _mm256_fmadd_ps(w.low, x.low, sum.low);
    sum.high = _mm256_fmadd_ps(w.high, x.high, sum.high);
}

DENIZEN_AVX2 inline float across(const Sixteen& sum) // in the order of the other
{
    const __m256 eight = _mm256_add_ps(sum.low, sum.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

template <class Weight>
__attribute__((target("avx2,fma,f16c"))) void
multiply_avx2(const Weight* w, size_t groups, const Segment* segments, size_t count, float* out,
              size_t row_stride, size_t group_stride)
{
    for (size_t group = 0; group < groups; ++group) {
        Sixteen a = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        Sixteen b = a;
        Sixteen c = a;
        Sixteen d = a;
        for (size_t s = 0; s < count; ++s) {
            const float* x = segments[s].x;
            for (size_t block = 0; block < segments[s].blocks; ++block) {
                const Sixteen in = load_sixteen(x);
                add_product(a, load_sixteen(w), in);
                add_product(b, load_sixteen(w + lanes), in);
                add_product(c, load_sixteen(w + 2 * lanes), in);
                add_product(d, load_sixteen(w + 3 * lanes), in);
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

// Clang before 19 does not know f16c by its name.
bool has_f16c()
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();

#endif

// `use(weights)`, as what they are.
template <class Use>
void as_stored(Format format, const void* weights, Use&& use)
{
    switch (format) {
    case Format::fp32: use(static_cast<const float*>(weights)); return;
    case Format::bf16: use(static_cast<const Bf16*>(weights)); return;
    case Format::fp16: use(static_cast<const Fp16*>(weights)); return;
    }
}

} // namespace

void multiply_rows_portably(Format format, const void* weights, size_t groups,
                            const Segment* segments, size_t count, float* out, size_t row_stride,
                            size_t group_stride)
{
    as_stored(format, weights, [&](const auto* w) {
        multiply(w, groups, segments, count, out, row_stride, group_stride);
    });
}

void multiply_rows(Format format, const void* weights, size_t groups, const Segment* segments,
                   size_t count, float* out, size_t row_stride, size_t group_stride)
{
#if defined(__x86_64__)
    if (has_avx2) {
        as_stored(format, weights, [&](const auto* w) {
            multiply_avx2(w, groups, segments, count, out, row_stride, group_stride);
        });
        return;
    }
#endif
    multiply_rows_portably(format, weights, groups, segments, count, out, row_stride, group_stride);
}

} // namespace denizen::infer
