// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

// Adds the radio to denizen._core; called by module.cpp.
void bind_radio(nanobind::module_& m);
