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
// What the options leave open about where workers lie and how long inboxes are becomes what the
// snapshot has: the choice depends on the machine and on other programs.
void adopt_geometry(const SnapshotFile& file, Options& options, bool on_gpu);
void compare_geometry(const SnapshotFile& file, const AnyRuntime::Core& core);

} // namespace denizen
