// SPDX-License-Identifier: Apache-2.0
#include "program_table.hpp"

#include "device/cubin.hpp"

#include <denizen/base/error.hpp>

namespace denizen::task {

Table table_of(const std::vector<char>& cubin)
{
    const auto table = gpu::global_of<Table>(cubin, "denizen_tasks_table");
    if (!table) {
        throw Error(Errc::compile, "the cubin holds no program of tasks: its text must end with "
                                   "DENIZEN_TASKS(...)");
    }
    return *table;
}

} // namespace denizen::task
