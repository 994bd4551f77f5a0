// SPDX-License-Identifier: Apache-2.0
// The table of a program of tasks, read out of its cubin without a GPU.
#pragma once

#include <denizen/task/detail/layout.hpp>

#include <vector>

namespace denizen::task {

// The initial value of the global `denizen_tasks_table`. Throws Error(Errc::compile) if the file is
// not a cubin of a program of tasks (DENIZEN_TASKS is missing).
Table table_of(const std::vector<char>& cubin);

} // namespace denizen::task
