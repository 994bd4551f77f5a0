// SPDX-License-Identifier: Apache-2.0
// Which program a snapshot is of, and how that was laid out: what snapshot.cpp writes of it, and
// compares before it believes anything else.
#pragma once

#include "core.hpp"
#include <denizen/actor/detail/snapshot_file.hpp>

namespace denizen {

SnapshotSection program_section(const Image& image);
SnapshotSection geometry_section(const AnyRuntime::Core& core);

// Throw Errc::bad_snapshot that names the first type, or number, that differs.
void compare_program(const SnapshotFile& file, const Image& image);
void compare_geometry(const SnapshotFile& file, const AnyRuntime::Core& core);

} // namespace denizen
