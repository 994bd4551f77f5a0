// SPDX-License-Identifier: Apache-2.0
// What a snapshot holds beside the nodes' memory: where actors are and how many, and what is
// between the host and the workers: messages that no worker has taken, messages that the host has
// not received, dead letters that nobody has read, and asks without an answer.
#pragma once

#include "core.hpp"
#include <denizen/actor/detail/snapshot_file.hpp>

namespace denizen {

// The workers are off; other threads may go on sending and receiving.
void save_host(AnyRuntime::Core& core, std::vector<SnapshotSection>& sections,
               uint64_t deadline_ns);
void restore_host(const SnapshotFile& file, AnyRuntime::Core& core);

} // namespace denizen
