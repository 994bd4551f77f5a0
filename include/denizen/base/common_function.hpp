// SPDX-License-Identifier: Apache-2.0
// Marks a DENIZEN_COLD function that programs call and that can be compiled once for all of them.
// It is a template, so that text can say that it is compiled elsewhere: actor/detail/common.hpp.
#pragma once

#include <denizen/base/target.hpp>

#define DENIZEN_COMMON_FUNCTION                                                                    \
    template <class = void>                                                                        \
    DENIZEN_COLD
