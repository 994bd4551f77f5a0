// SPDX-License-Identifier: Apache-2.0
// Streams of bytes between two hosts, in place of sockets: how many bytes one side gives away, how
// many come, and what of them is lost with a stream that breaks, is drawn.
#pragma once

namespace simulation {

// Two ends of a stream, as socketpair() makes them.
void connect(int (&sockets)[2]);

} // namespace simulation
