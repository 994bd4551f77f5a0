// SPDX-License-Identifier: Apache-2.0
// Copies that an engine makes without the driver: many of them with a timestamp before and behind,
// submitted as one segment in place of one small call of the driver's (lens/substitute.hpp). After
// Table 2 of "Revealing NVIDIA Closed-Source Driver Command Streams for CPU-GPU Runtime Behavior
// Insight". Only in a process of its own under the lens: a wrong word ends the CUDA context.
#pragma once

namespace denizen::bench {

// Prints the cases "raw copy". std::runtime_error says what was refused.
void engine_copies(bool quick);

} // namespace denizen::bench
