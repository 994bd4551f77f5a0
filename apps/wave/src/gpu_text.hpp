// SPDX-License-Identifier: Apache-2.0
// The methods of the GPU on threads of the host: the same text, for tests and the host's tools.
// What is fast on a host is in cpu_march.hpp; this is compiled in a third of the time
// (CMakeLists.txt).
#pragma once

#include "cpu_field.hpp"
#include "mailbox.hpp"

namespace denizen::wave {

// By passes of `depth` steps (2 or 4). `traces`: for each receiver `steps`. As March::run().
template <class T>
uint32_t run_passes(State& state, CpuField<T>& field, const Kinds& kinds, uint32_t depth,
                    uint32_t steps, const std::function<bool(uint32_t)>& serve, T* traces);

// By resident tiles, a thread for each; Errc::bad_argument if the grid has no tiling.
template <class T>
void run_by_tiles(State& state, CpuField<T>& field, bool deep, uint32_t steps, Mailbox& box,
                  uint32_t ahead, T* traces, Ran& ran);

} // namespace denizen::wave
