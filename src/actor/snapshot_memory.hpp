// SPDX-License-Identifier: Apache-2.0
// The nodes' memory in a snapshot: region by region, as node_memory.cpp lays it out, and of each
// only what is in use. The workers are off.
#pragma once

#include "core.hpp"
#include "snapshot_image.hpp"

#include <vector>

namespace denizen {

void read_memory(const Node& node, void* to, const void* from, size_t bytes);
void write_memory(const Node& node, void* to, const void* from, size_t bytes);

template <class T>
std::vector<T> read_all(const Node& node, const T* from, size_t count)
{
    std::vector<T> values(count);
    read_memory(node, values.data(), from, sizeof(T) * count);
    return values;
}

void save_memory(const AnyRuntime::Core& core, std::vector<SnapshotSection>& sections);
// Into fresh memory, before the program is launched. What has been put there, by node.
std::vector<MemoryImage> restore_memory(const SnapshotFile& file, const AnyRuntime::Core& core);

} // namespace denizen
