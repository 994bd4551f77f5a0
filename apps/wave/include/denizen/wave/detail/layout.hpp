// SPDX-License-Identifier: Apache-2.0
// A field in memory, and the slab of it that one worker sweeps. A row of x has a ghost cell at each
// end, the cell of the other end if x is periodic, else zero; rows and planes that are not there
// are a row of zeros.
//
// A slab reaches the planes below and above it by pointers: they may lie in another worker's
// memory, on another GPU as well.
#pragma once

#include <denizen/wave/detail/geometry.hpp>

namespace denizen::wave {

struct Layout {
    uint32_t n[3] = {0, 0, 0};
    uint32_t lead = 0;  // elements in front of x = 0; a multiple of 64 bytes
    uint32_t pitch = 0; // elements from row to row; a multiple of 64 bytes

    DENIZEN_HD uint64_t row(uint32_t y, uint32_t z) const // of x = 0
    {
        return (uint64_t{z} * n[1] + y) * pitch + lead;
    }
    DENIZEN_HD uint64_t index(uint32_t x, uint32_t y, uint32_t z) const { return row(y, z) + x; }
    DENIZEN_HD uint64_t plane() const { return uint64_t{n[1]} * pitch; }
    // The ghost at the end of a row may be the first element in front of the next: there is a front
    // after the last row, too.
    DENIZEN_HD uint64_t elements() const { return uint64_t{n[2]} * plane() + lead; }
};

template <class T>
DENIZEN_HD inline Layout layout_of(const Geometry& geometry)
{
    constexpr uint32_t unit = 64 / sizeof(T);
    const uint32_t pitch = (unit + geometry.n[0] + unit - 1) / unit * unit;
    return {{geometry.n[0], geometry.n[1], geometry.n[2]}, unit, pitch};
}

// Four cells side by side, which a thread of a GPU loads at once.
template <class T>
struct alignas(16) Four {
    T v[4];
};

// Their pressures one step later, `left` and `right` being beside them; `of(i)`: the coefficients
// of the i-th. All methods add in this order.
template <class T, class Of>
DENIZEN_HD inline Four<T> next_four(const Of& of, const Four<T>& here, const Four<T>& below,
                                    const Four<T>& above, const Four<T>& south,
                                    const Four<T>& north, T left, T right, const Four<T>& before)
{
    Four<T> result;
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
        const T west = i == 0 ? left : here.v[i == 0 ? 0 : i - 1];
        const T east = i == 3 ? right : here.v[i == 3 ? 3 : i + 1];
        const T sum = ((below.v[i] + above.v[i]) + (south.v[i] + north.v[i])) + (west + east);
        result.v[i] = next(of(i), here.v[i], sum, before.v[i]);
    }
    return result;
}

// Cells of one row that are told apart as one: see Slab::segments.
inline constexpr uint32_t segment = 64;
inline constexpr uint8_t mixed = 255;

DENIZEN_HD inline uint32_t segments_in(uint32_t cells) { return (cells + segment - 1) / segment; }

template <class T>
struct Slab {
    Layout layout;           // n[2]: planes of this slab
    const T* now;            // first plane
    T* before;               // first plane; becomes the next
    const T* below;          // the plane under the first; null: zeros
    const T* above;          // the plane over the last; null: zeros
    const T* zeros;          // a row, `lead` elements in front of it included
    const uint8_t* kinds;    // class of each cell, n[0] a row
    const uint8_t* segments; // class of each segment's cells, or mixed
    const Coefficients<T>* table;
    bool periodic_x;
    bool periodic_y;

    // Row y of plane z, x = 0; y and z may be one outside.
    DENIZEN_HD const T* row(int32_t y, int32_t z) const
    {
        const auto rows = static_cast<int32_t>(layout.n[1]);
        if (y < 0 || y >= rows) {
            if (!periodic_y) return zeros + layout.lead;
            y += y < 0 ? rows : -rows;
        }
        const T* plane = now;
        uint32_t in = 0;
        if (z < 0) {
            plane = below;
        } else if (z >= static_cast<int32_t>(layout.n[2])) {
            plane = above;
        } else {
            in = static_cast<uint32_t>(z);
        }
        return plane == nullptr ? zeros + layout.lead
                                : plane + layout.row(static_cast<uint32_t>(y), in);
    }
};

} // namespace denizen::wave
