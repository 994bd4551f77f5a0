// SPDX-License-Identifier: Apache-2.0
// Blocks of signal processing that fill other circuits, and gain control: millions of samples a
// second through one of them on the resident runtime, beside its twin on a thread of the graph.
#pragma once

#include <denizen/flow/resident.hpp>

namespace denizen::bench {

void flow_twins(flow::Resident& resident, uint64_t quanta, uint32_t rounds);

} // namespace denizen::bench
