// SPDX-License-Identifier: Apache-2.0
// The table of a program of actors, read out of its cubin without a GPU.
#pragma once

#include <denizen/actor/detail/layout.hpp>

#include <vector>

namespace denizen {

// The initial value of the global `denizen_table`. Throws Error(Errc::compile) if the file is not a
// cubin of a program (DENIZEN_PROGRAM is missing) or was compiled for another layout.
ProgramTable table_of(const std::vector<char>& cubin);

} // namespace denizen
