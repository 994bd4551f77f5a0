// SPDX-License-Identifier: Apache-2.0
// For the rare call of something large from code that needs its registers itself. ptxas knows which
// registers a function and all that it calls may use, and lets the caller keep nothing in them, not
// even where the call is not made: what lives across it lies in local memory for good. A function
// called by a pointer that ptxas cannot see through saves sixteen registers for its caller: it pays
// where at most that many values live across the call. The tasks' workers call the arena's code so.
// The stack is sufficient: ptxas counts all functions whose address is taken.
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
