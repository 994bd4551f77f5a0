// SPDX-License-Identifier: Apache-2.0
// For a library that stands in for the driver: what it does not define itself is there too, since
// the loader asks for all of it, and says CUDA_ERROR_NOT_SUPPORTED.
#include "device/driver_entries.hpp"

#define STUB(member, symbol)                                                                       \
    extern "C" __attribute__((weak, visibility("default"))) int symbol() { return 801; }
DENIZEN_DRIVER_ENTRIES(STUB)
