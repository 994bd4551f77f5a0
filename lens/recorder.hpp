// SPDX-License-Identifier: Apache-2.0
// Writes into the log what the process asks of the kernel driver, so far as the lens looks at it:
// device files opened, duplicated and closed, the resource manager's ioctls with the bytes that are
// read of them, mappings of device memory. With the doorbells in the same log that is a recording
// from which tests/lens/replay.cpp plays the process again without a GPU. Only with
// DENIZEN_LENS_RECORD=1. mremap is not recorded: the driver calls none for what is its own. Called
// by the hooks, under objects_mutex.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen::lens {

// `name`: what follows the prefix of device files, "ctl" or "0".
void record_open(int fd, const char* name);
void record_close(int fd);
void record_duplicate(int from, int to);
// After it has succeeded. `params`: what its argument points to, `used` bytes of which are read.
void record_ioctl(uint32_t number, const void* argument, size_t bytes, const void* params,
                  size_t used);
void record_map(int fd, const void* address, size_t bytes, int protection, int flags);
void record_unmap(uint64_t address, size_t bytes);

} // namespace denizen::lens
