// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

// Adds buffers to denizen._core; called by module.cpp.
void bind_buffers(nanobind::module_& m);
