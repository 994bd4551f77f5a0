// SPDX-License-Identifier: Apache-2.0
// A resident block whose function is given at run time, such as one that Numba compiles
// (python/denizen/flow/kind.py). Its parameters are the stage's values, behind the two that are the
// function's address where it has one: on the CPU.
#pragma once

#include <denizen/flow/resident/piece.hpp>

namespace denizen::flow::resident {

// Makes outputs begin, begin + step ... below end: y[j] of x[base + j * down] and what is before,
// and of a second input `by` in the same places, if there is one. A second output's are y[end + j],
// and so on.
using GivenFunction = void (*)(const void* parameters, const void* x, const void* by, void* y,
                               int64_t begin, int64_t end, int64_t step, int64_t base,
                               int64_t down);

inline constexpr uint32_t given_words = sizeof(uint64_t) / sizeof(float);

struct Given {
    static constexpr const char* name = "given";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
#if !DENIZEN_ON_DEVICE
        GivenFunction function = nullptr;
        copy_bytes(&function, p.values, sizeof function);
        function(p.values + given_words, p.from, p.with, p.to, p.begin + p.team.lane(), p.end,
                 p.team.lanes(), p.base, p.stage.down);
#endif
    }
};

} // namespace denizen::flow::resident
