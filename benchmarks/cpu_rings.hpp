// SPDX-License-Identifier: Apache-2.0
// CPU thread to CPU thread: denizen's rings against the queues that people use. A plain C++ file,
// so that every queue is compiled by the host compiler alone.
#pragma once

namespace denizen::bench {

// Prints one case per queue that this build knows.
void measure_cpu_rings(bool quick);

} // namespace denizen::bench
