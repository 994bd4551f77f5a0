// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <denizen/actor/any_runtime.hpp>

#include <nanobind/nanobind.h>

namespace denizen::bind {

// Errc::bad_argument for a name that no option has.
Options options_from(const nanobind::dict& given);

} // namespace denizen::bind
