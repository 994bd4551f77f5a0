// SPDX-License-Identifier: Apache-2.0
// Plain loops over next(), made into vectors by the compiler, once for each level of x86-64; the
// loader picks the one for the machine.
#include "sweep.hpp"
#include <denizen/base/levels.hpp>

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace denizen::wave {
namespace {

// Rows of which a cell is computed.
template <class T>
struct Around {
    const T* here;
    const T* south;
    const T* north;
    const T* below;
    const T* above;

    [[gnu::always_inline]] T sum(uint32_t x) const
    {
        return ((below[x] + above[x]) + (south[x] + north[x])) +
               (here[static_cast<int64_t>(x) - 1] + here[x + 1]);
    }
};

// Cells of one class.
template <class T>
[[gnu::always_inline]] inline void alike(const Around<T>& r, const Coefficients<T>& c,
                                         uint32_t begin, uint32_t end, T* __restrict out)
{
    for (uint32_t x = begin; x < end; ++x) out[x] = next(c, r.here[x], r.sum(x), out[x]);
}

// A segment of several: those that are not like the one in the middle are computed first, one by
// one, and put in their places when all have been computed like it, as vectors. In a room without
// furniture these are the ends of the row.
template <class T>
[[gnu::always_inline]] inline void several(const Around<T>& r, const Coefficients<T>* table,
                                           const uint8_t* kinds, uint32_t begin, uint32_t end,
                                           T* __restrict out)
{
    T made[segment];
    uint32_t where[segment];
    uint32_t others = 0;
    const uint8_t usual = kinds[begin + (end - begin) / 2];
    const auto alone = [&](uint32_t x) {
        where[others] = x;
        made[others++] = next(table[kinds[x]], r.here[x], r.sum(x), out[x]);
    };
    uint32_t x = begin;
    for (; x + 8 <= end; x += 8) {
        uint64_t unlike;
        std::memcpy(&unlike, kinds + x, 8);
        for (unlike ^= usual * 0x0101010101010101; unlike != 0;) { // ends: a byte less each turn
            const auto byte = static_cast<uint32_t>(std::countr_zero(unlike)) / 8;
            alone(x + byte);
            unlike &= ~(uint64_t{0xff} << 8 * byte);
        }
    }
    for (; x < end; ++x) {
        if (kinds[x] != usual) alone(x);
    }
    alike(r, table[usual], begin, end, out);
    for (uint32_t k = 0; k < others; ++k) out[where[k]] = made[k];
}

// Far: the rows over it and its own before come out of memory, else out of a cache.
template <bool Far, class T>
[[gnu::always_inline]] inline void sweep_row(const Slab<T>& s, int32_t y, int32_t z)
{
    const uint32_t n = s.layout.n[0];
    const uint32_t per_row = segments_in(n);
    const Around<T> around{s.row(y, z), s.row(y - 1, z), s.row(y + 1, z), s.row(y, z - 1),
                           s.row(y, z + 1)};
    const auto row = static_cast<uint32_t>(y);
    const auto plane = static_cast<uint32_t>(z);
    T* const out = s.before + s.layout.row(row, plane);
    // The processor's own prefetching does not follow rows of so many planes at a time.
    const size_t ahead = 2 * size_t{s.layout.pitch};
    for (uint32_t x = 0; Far && x < n; x += 64 / sizeof(T)) {
        __builtin_prefetch(out + ahead + x, 1, 2);
        __builtin_prefetch(around.above + ahead + x, 0, 2);
    }
    const uint64_t number = uint64_t{plane} * s.layout.n[1] + row;
    const uint8_t* const kinds = s.kinds + number * n;
    const uint8_t* const segments = s.segments + number * per_row;
    for (uint32_t k = 0; k < per_row;) {
        uint32_t end = k + 1;
        if (segments[k] == mixed) {
            several(around, s.table, kinds, k * segment, std::min(n, end * segment), out);
        } else {
            while (end < per_row && segments[end] == segments[k]) ++end;
            alike(around, s.table[segments[k]], k * segment, std::min(n, end * segment), out);
        }
        k = end;
    }
}

template <class T>
[[gnu::always_inline]] inline void sweep_plane(const Slab<T>& s, uint32_t z, uint32_t low,
                                               uint32_t high, bool far)
{
    for (uint32_t y = low; y < high; ++y) {
        if (far) {
            sweep_row<true>(s, static_cast<int32_t>(y), static_cast<int32_t>(z));
        } else {
            sweep_row<false>(s, static_cast<int32_t>(y), static_cast<int32_t>(z));
        }
    }
}

DENIZEN_LEVELS void plane_single(const Slab<float>& s, uint32_t z, uint32_t low, uint32_t high,
                                 bool far)
{
    sweep_plane(s, z, low, high, far);
}

DENIZEN_LEVELS void plane_twofold(const Slab<double>& s, uint32_t z, uint32_t low, uint32_t high,
                                  bool far)
{
    sweep_plane(s, z, low, high, far);
}

DENIZEN_LEVELS void stream_single(float* __restrict a, const float* __restrict b, float s, size_t n)
{
    for (size_t i = 0; i < n; ++i) a[i] = b[i] + s * a[i];
}

} // namespace

void sweep(const Slab<float>& slab, uint32_t plane, uint32_t low, uint32_t high, bool far)
{
    plane_single(slab, plane, low, high, far);
}

void sweep(const Slab<double>& slab, uint32_t plane, uint32_t low, uint32_t high, bool far)
{
    plane_twofold(slab, plane, low, high, far);
}

void stream(float* a, const float* b, float s, size_t n) { stream_single(a, b, s, n); }

std::shared_ptr<void> on_huge_pages(size_t bytes)
{
    constexpr size_t page = size_t{2} << 20;
    const size_t unit = bytes < page ? 64 : page;
    const size_t whole = (bytes + unit - 1) / unit * unit;
    std::shared_ptr<void> memory(std::aligned_alloc(unit, whole), std::free);
    if (!memory) {
        throw Error(Errc::exhausted,
                    "no " + std::to_string(bytes >> 20) + " MiB left for a field of cells");
    }
    if (unit == page) madvise(memory.get(), whole, MADV_HUGEPAGE); // a wish
    constexpr size_t piece = size_t{16} << 20;
    for (size_t at = 0; at < whole; at += piece) {
        check_interrupt();
        std::memset(static_cast<char*>(memory.get()) + at, 0, std::min(piece, whole - at));
    }
    return memory;
}

} // namespace denizen::wave
