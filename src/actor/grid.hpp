// SPDX-License-Identifier: Apache-2.0
// How a node's workers are laid out on a GPU: in how many blocks of how many warps, in clusters of
// how many blocks, with how much shared memory. Chosen once, by the GPU backend; launched again
// whenever the program comes back.
#pragma once

#include "geometry.hpp"
#include <denizen/device/chip.hpp>

#include <string>

namespace denizen::gpu {

struct Grid {
    // Throws Error(Errc::bad_argument) if the workers find no room. Needs the function's context.
    // `taken`: SMs that other programs of this process have, at most. `mapped`: the host rings lie
    // in the GPU's memory; else workers look at them across the bus, and fewer are chosen.
    // `to_exchange`: another kernel of the program will be launched on this grid, which may take
    // as many registers as a thread can have.
    static Grid choose(const Chip& chip, Function function, const Options& options,
                       const ProgramTable& table, uint32_t taken, bool mapped, bool to_exchange);

    // Makes another kernel of the program ready to be launched on this grid. Throws
    // Error(Errc::bad_argument) if it finds no room there.
    void admit(const Chip& chip, Function function, const Options& options) const;

    Shape shape() const;

    // For `why`, of a geometry that was not given.
    std::string why_chosen(const DeviceInfo& info, const Options& options, uint32_t taken,
                           bool mapped, int registers) const;

    std::string why_blocks() const; // if a worker has several warps

    std::string text() const; // "33 blocks of 2 warps in clusters of 8"

    // Warps of a block: its workers with their crews, and one more if the monitor, the last block's
    // last, finds no other that is no worker's.
    unsigned warps() const
    {
        return geometry.per_sm * geometry.warps +
               (blocks * geometry.per_sm > geometry.workers ? 0 : 1);
    }

    Geometry geometry;
    std::string why;     // it is this one
    unsigned blocks = 0; // a multiple of the cluster; the last may have no worker
};

} // namespace denizen::gpu
