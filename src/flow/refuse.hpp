// SPDX-License-Identifier: Apache-2.0
// The error of a graph that cannot be built.
#pragma once

#include <denizen/base/error.hpp>

#include <string>

namespace denizen::flow {

[[noreturn]] inline void refuse(const std::string& why) { throw Error(Errc::bad_argument, why); }

} // namespace denizen::flow
