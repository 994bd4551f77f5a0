// SPDX-License-Identifier: Apache-2.0
// Plain loops over next(), made into vectors by the compiler, once for each level of x86-64; the
// loader picks the one for the machine.
#include "sweep.hpp"
#include "../levels.hpp"

#include <algorithm>

namespace denizen::wave {
namespace {

template <class T>
[[gnu::always_inline]] inline void sweep_slab(const Slab<T>& s, uint32_t first, uint32_t last)
{
    const uint32_t n = s.layout.n[0];
    const uint32_t per_row = segments_in(n);
    for (uint32_t z = first; z < last; ++z) {
        for (uint32_t y = 0; y < s.layout.n[1]; ++y) {
            const auto row = static_cast<int32_t>(y);
            const auto plane = static_cast<int32_t>(z);
            const T* const here = s.row(row, plane);
            const T* const south = s.row(row - 1, plane);
            const T* const north = s.row(row + 1, plane);
            const T* const below = s.row(row, plane - 1);
            const T* const above = s.row(row, plane + 1);
            T* __restrict const out = s.before + s.layout.row(y, z);
            const uint64_t number = uint64_t{z} * s.layout.n[1] + y;
            const uint8_t* const kinds = s.kinds + number * n;
            const auto sum = [&](uint32_t x) {
                return ((below[x] + above[x]) + (south[x] + north[x])) +
                       (here[static_cast<int64_t>(x) - 1] + here[x + 1]);
            };
            for (uint32_t k = 0; k < per_row;) {
                const uint8_t kind = s.segments[number * per_row + k];
                uint32_t end = k + 1;
                while (end < per_row && s.segments[number * per_row + end] == kind) ++end;
                const uint32_t stop = std::min(n, end * segment);
                if (kind == mixed) {
                    for (uint32_t x = k * segment; x < stop; ++x) {
                        out[x] = next(s.table[kinds[x]], here[x], sum(x), out[x]);
                    }
                } else {
                    const Coefficients<T> c = s.table[kind];
                    for (uint32_t x = k * segment; x < stop; ++x) {
                        out[x] = next(c, here[x], sum(x), out[x]);
                    }
                }
                k = end;
            }
        }
    }
}

DENIZEN_LEVELS void sweep_single(const Slab<float>& s, uint32_t first, uint32_t last)
{
    sweep_slab(s, first, last);
}

DENIZEN_LEVELS void sweep_twofold(const Slab<double>& s, uint32_t first, uint32_t last)
{
    sweep_slab(s, first, last);
}

DENIZEN_LEVELS void stream_single(float* __restrict a, const float* __restrict b, float s, size_t n)
{
    for (size_t i = 0; i < n; ++i) a[i] = b[i] + s * a[i];
}

} // namespace

void sweep(const Slab<float>& slab, uint32_t first, uint32_t last)
{
    sweep_single(slab, first, last);
}

void sweep(const Slab<double>& slab, uint32_t first, uint32_t last)
{
    sweep_twofold(slab, first, last);
}

void stream(float* a, const float* b, float s, size_t n) { stream_single(a, b, s, n); }

} // namespace denizen::wave
