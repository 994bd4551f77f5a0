// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace denizen {

// One of many copies between a device's memory and the host's.
struct Copy {
    void* device;
    void* host;
    size_t bytes;
};

} // namespace denizen
