// SPDX-License-Identifier: Apache-2.0
// From a length that is known at run time to one that the compiler knows.
#pragma once

#include <cstdint>

namespace denizen {

// Runs `use.template operator()<L>()` for the length if it is one of the common ones.
template <class Use>
bool with_length(uint32_t length, Use&& use)
{
    switch (length) {
    case 0: use.template operator()<0>(); return true;
    case 4: use.template operator()<4>(); return true;
    case 8: use.template operator()<8>(); return true;
    case 12: use.template operator()<12>(); return true;
    case 16: use.template operator()<16>(); return true;
    case 20: use.template operator()<20>(); return true;
    case 24: use.template operator()<24>(); return true;
    case 28: use.template operator()<28>(); return true;
    case 32: use.template operator()<32>(); return true;
    case 36: use.template operator()<36>(); return true;
    default: return false;
    }
}

} // namespace denizen
