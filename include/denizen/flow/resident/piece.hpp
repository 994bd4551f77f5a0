// SPDX-License-Identifier: Apache-2.0
// What a block that runs on the resident runtime gets to work on: a piece of a quantum.
//
// A kind of one's own is a struct with a name and
//     template <class T> static DENIZEN_HD void make(const Piece<T>& p);
// which writes p.out[j] for each j of p.each(), reading p.in[base + j * down] and up to `before`
// samples in front of that. One of two streams reads p.beside[base + j * down] as well, and is the
// first of its chain. It keeps no state, as quanta of one stream are at several workers at once;
// unless its block says so (ResidentBlock::keeps_state()): then it may write to `values`.
#pragma once

#include <denizen/flow/resident/stage.hpp>

namespace denizen::flow::resident {

// A worker's share of the work on a quantum.
template <class Context>
struct Piece {
    const Context& team;
    const Stage& stage;
    float* values;
    const void* from; // the quantum's first sample; its predecessors lie in front of it
    const void* with; // those of the second stream beside them; null: there is none
    void* to;         // the quantum's first output
    void* scratch;    // memory of the worker's own, for the last block of a chain; else null
    uint64_t first;   // the number of that output in its stream
    uint32_t base; // of output 0, in inputs, or parts of them where there is an `up`: below `down`
    int64_t begin; // outputs begin ... end - 1; negative ones are of the quantum before
    int64_t end;

    template <class T>
    DENIZEN_HD const T* in() const
    {
        return static_cast<const T*>(from);
    }
    template <class T>
    DENIZEN_HD const T* beside() const
    {
        return static_cast<const T*>(with);
    }
    template <class T>
    DENIZEN_HD T* out() const
    {
        return static_cast<T*>(to);
    }
    // Calls `use` for the outputs of this lane.
    template <class Use>
    DENIZEN_HD void each(Use&& use) const
    {
        for (int64_t j = begin + team.lane(); j < end; j += team.lanes()) {
            use(j);
        }
    }
};

} // namespace denizen::flow::resident
