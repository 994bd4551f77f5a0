// SPDX-License-Identifier: Apache-2.0
// Reads the table of a program of actors or tasks out of a cubin (an ELF file) without a GPU.
#pragma once

#include <denizen/resident/layout.hpp>
#include <denizen/task/layout.hpp>

#include <vector>

namespace denizen::gpu {

// The initial value of the global `denizen_table`. Throws Error(Errc::compile) if the file is not a
// cubin of a program (DENIZEN_PROGRAM is missing) or was compiled for another layout.
ProgramTable table_of(const std::vector<char>& cubin);

// The initial value of the global `denizen_tasks_table`; the same for tasks (DENIZEN_TASKS).
task::Table tasks_table_of(const std::vector<char>& cubin);

} // namespace denizen::gpu
