// SPDX-License-Identifier: Apache-2.0
// Puts the fake driver (fake_driver.cpp) in the place of CUDA's.
#pragma once

#include "fake_driver.hpp"

#include <dlfcn.h>

// Before anybody asks for a driver. Null: it is not in `library`.
inline FakeDriver* load_fake_driver(const char* library)
{
    void* const opened = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    const auto told = reinterpret_cast<decltype(&fake_driver)>(
        opened == nullptr ? nullptr : dlsym(opened, "fake_driver"));
    return told == nullptr ? nullptr : told();
}
