// SPDX-License-Identifier: Apache-2.0
// What a host of a cluster knows of the others, in its snapshot: what it has been sent and not
// handled, what its workers are about to send them, who watches and who subscribes to what.
#pragma once

#include "core.hpp"
#include <denizen/actor/detail/snapshot_file.hpp>

namespace denizen {

// The workers are off, and nothing is on its way to this host or from it.
SnapshotSection far_section(const AnyRuntime::Core& core);
// Refuses the file of another host, and one that is of no cluster.
void compare_far(const SnapshotFile& file, const AnyRuntime::Core& core);
void restore_far(const SnapshotFile& file, AnyRuntime::Core& core);

} // namespace denizen
