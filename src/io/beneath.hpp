// SPDX-License-Identifier: Apache-2.0
// Opens a regular file below a folder, by a path that cannot lead out of it.
#pragma once

#include <denizen/io/messages.hpp>

#include <string>

namespace denizen::io {

struct Opened {
    int fd = -1;
    Error error = Error::none;
    int number = 0; // errno
    uint64_t bytes = 0;
};

// `mode`: of Mode. `walk`: component by component instead of by openat2, which not every kernel
// has; both refuse the same.
Opened open_beneath(int root, const std::string& path, uint32_t mode, bool walk);

// What an errno is called.
Error error_of(int number);

} // namespace denizen::io
