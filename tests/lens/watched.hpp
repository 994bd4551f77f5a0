// SPDX-License-Identifier: Apache-2.0
// What a fault handler must not call: allocation and stdio. The executable's definitions come
// before the C library's, for the lens too, and count the calls of a thread that is watched.
#pragma once

#include <cstdint>

// While it lives, calls of this thread are counted.
class Watched {
public:
    Watched();
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

    static uint32_t calls(); // since the start
};
