// SPDX-License-Identifier: Apache-2.0
// One cell of the grid: what it is made of, and what its pressure is one step later. Every method,
// on CPU and GPU, computes a cell with next() and nothing else.
//
// The scheme is the standard second-order leapfrog on a cubic grid. Walls follow C. Webb and
// S. Bilbao, "Computing room acoustics with CUDA" (ICASSP 2011): a cell has K neighbours that are
// not rigid, a missing neighbour counts as zero in the sum, and losses enter once, so that
//
//   p' = ((2 - L2 K) p + L2 sum - (1 - s) p_before) / (1 + s)
//
// with L2 the square of the Courant number c dt / dx, and s = damping + m L / 2 where the medium is
// damped (p_tt + 2 g p_t = c2 lap p, damping = g dt) or m of the missing neighbours are walls of
// the impedance of the medium, which absorb what comes at right angles: the first-order condition
// of Engquist and Majda (1977), as Mur's (1981). All of it is one class of cell, and a class is
// three coefficients.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::wave {

// What a user says of a cell; the values are those of mask files.
enum class Cell : uint8_t {
    normal = 0,
    absorber = 1,  // the medium, damped more
    reflector = 2, // rigid: what comes returns with its sign
    obstacle = 3,  // pressure-release: p = 0, what comes returns with the other sign
};

// On both sides of an axis.
enum class Boundary : uint8_t { reflecting = 0, absorbing = 1, periodic = 2 };

// The classes that cells fall into. Cells of the first two have no pressure.
inline constexpr uint8_t rigid = 0;
inline constexpr uint8_t soft = 1;
inline constexpr uint32_t classes = 64; // 58 are in use

// open: neighbours that are not rigid. walls: absorbing ones among the missing.
DENIZEN_HD constexpr uint8_t class_of(bool absorber, uint32_t walls, uint32_t open)
{
    return static_cast<uint8_t>(2 + ((absorber ? 4 : 0) + walls) * 7 + open);
}

// In the open, with nothing special about it: nearly all cells.
inline constexpr uint8_t plain = class_of(false, 0, 6);

// What a cell of a class is made of; rigid: a reflector.
DENIZEN_HD constexpr Cell cell_of(uint8_t of_class)
{
    return of_class == rigid       ? Cell::reflector
           : of_class == soft      ? Cell::obstacle
           : of_class >= 2 + 4 * 7 ? Cell::absorber
                                   : Cell::normal;
}

struct Medium {
    double courant = 0;  // c dt / dx
    double damping = 0;  // g dt of all cells
    double absorber = 0; // and g dt of absorbers on top
};

template <class T>
struct alignas(4 * sizeof(T)) Coefficients {
    T now, sum, before, unused;
};

template <class T>
DENIZEN_HD inline Coefficients<T> coefficients(uint32_t cell_class, const Medium& medium)
{
    if (cell_class < 2 || cell_class >= 58) return {0, 0, 0, 0};
    const uint32_t open = (cell_class - 2) % 7;
    const uint32_t walls = (cell_class - 2) / 7 % 4;
    const double squared = medium.courant * medium.courant;
    const double loss = medium.damping + 0.5 * medium.courant * walls +
                        (cell_class >= 2 + 4 * 7 ? medium.absorber : 0.0);
    const double scale = 1 / (1 + loss);
    return {static_cast<T>((2 - squared * open) * scale), static_cast<T>(squared * scale),
            static_cast<T>((1 - loss) * scale), 0};
}

// The pressure one step later. `sum`: of the six neighbours, the missing ones counting as zero.
template <class T>
DENIZEN_HD inline T next(const Coefficients<T>& c, T now, T sum, T before)
{
    return c.now * now + (c.sum * sum - c.before * before);
}

} // namespace denizen::wave
