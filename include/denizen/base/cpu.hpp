// SPDX-License-Identifier: Apache-2.0
// Whether this CPU keeps packets whole, as base/packet.hpp needs it. Host only.
#pragma once

namespace denizen {

// Whether it reads and writes 16 aligned bytes in one access, in the way the core was compiled for:
// x86 with AVX; aarch64 with FEAT_LSE2, or any if compiled with DENIZEN_WITHOUT_LSE2.
bool cpu_keeps_packets_whole();

// Throws no_device if it does not.
void check_cpu(bool whole = cpu_keeps_packets_whole());

} // namespace denizen
