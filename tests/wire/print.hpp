// SPDX-License-Identifier: Apache-2.0
// How GoogleTest prints an Errc.
#pragma once

#include <denizen/base/error.hpp>

#include <ostream>

namespace denizen {

inline void PrintTo(Errc code, std::ostream* out) { *out << to_string(code); }

} // namespace denizen
