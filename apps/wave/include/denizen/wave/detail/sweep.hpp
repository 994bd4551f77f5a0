// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernel that makes one step of a slab, for host and device.
#pragma once

#include <denizen/wave/detail/layout.hpp>
#include <denizen/wave/source.hpp>

namespace denizen::wave {

// What a step by a launch needs beside its slab.
template <class T>
struct Sweep {
    Slab<T> slab;
    const uint64_t*
        clock;            // the step, counted from the start of the simulation, of the first launch
    uint32_t after;       // launches since then
    uint32_t planes;      // that a thread marches through
    uint32_t first_plane; // of the slab, in the grid
    const Source* sources;
    uint32_t source_count;
    const float* pool;
    const int32_t (*receivers)[3];
    uint32_t receiver_count;
    T* traces; // for each receiver `trace_steps`
    uint32_t trace_steps;
    const uint64_t* begun; // the step that traces begin with
};

} // namespace denizen::wave
