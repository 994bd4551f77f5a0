// SPDX-License-Identifier: Apache-2.0
#include "program_table.hpp"

#include "device/cubin.hpp"

#include <denizen/base/error.hpp>

#include <string>

namespace denizen {

ProgramTable table_of(const std::vector<char>& cubin)
{
    const auto table = gpu::global_of<ProgramTable>(cubin, "denizen_table");
    if (!table) {
        throw Error(Errc::compile, "the cubin holds no denizen program: its text must end with "
                                   "DENIZEN_PROGRAM(...)");
    }
    if (table->abi != layout_abi) {
        throw Error(Errc::compile, "the cubin was compiled for layout " +
                                       std::to_string(table->abi) + ", this runtime has " +
                                       std::to_string(layout_abi) + "; compile it again");
    }
    return *table;
}

} // namespace denizen
