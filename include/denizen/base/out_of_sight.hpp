// SPDX-License-Identifier: Apache-2.0
// For the rare call of something large from code that needs its registers itself. nvcc knows which
// ones a function and all that it calls may use, and lets the caller keep nothing in them, not even
// where the call is not made: what lives across it lies in local memory for good. Called by a
// pointer that it cannot see through, the function saves what it uses. (Workers of tasks had 250 to
// 420 loads from local memory after the arena's code had come to them, 41 to 75 by this, and 14 to
// 26 without the arena.)
//
// Hazard: nvcc reserves 1 KiB of stack for such calls, and does not check that it is enough.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

template <class F>
DENIZEN_HD inline F* out_of_sight(F* function)
{
#if DENIZEN_ON_DEVICE
    asm volatile("" : "+l"(function));
#endif
    return function;
}

} // namespace denizen
