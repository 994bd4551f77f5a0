// SPDX-License-Identifier: Apache-2.0
// The dispatch benchmark's loops, a launch or a graph and a synchronisation, with a kernel that
// counts on the device: under the lens the doorbells of a loop must be as many as it counted, and
// the time of its round trips, beside that of a run without the lens, is what a doorbell costs
// there.
#pragma once

namespace denizen::bench {

// Prints a line for each loop: how many calls it made, how many the device counted, the moments
// around it, and each round trip in microseconds.
void doorbell_loops(bool quick);

} // namespace denizen::bench
