// SPDX-License-Identifier: Apache-2.0
// A program's own words in front of what the driver submits: how an engine is measured without the
// driver (bench_driver --raw).
//
// The driver's GPFIFO entry for one small call is replaced by one for a segment of the program,
// which ends with the driver's own words, its semaphore release among them. Neither the ring nor
// the driver's counts notice. What the words make an engine do is the program's risk: a wrong one
// ends its context with an error.
//
// Two functions are exported, to be found by dlsym in a program that runs under the lens. They
// work for the calling thread. Nothing here runs in a program that does not call them.
#pragma once

#include <cstdint>

extern "C" {

// What became of a substitution, and why one was refused.
enum DenizenLensSubstitution : int32_t {
    denizen_lens_pending = 0, // the thread has rung no doorbell since
    denizen_lens_done = 1,
    denizen_lens_not_capturing = -1,
    denizen_lens_bad_buffer = -2,  // not aligned to 4 bytes, or not all below 2^40
    denizen_lens_no_channel = -3,  // the doorbell's channel is not known
    denizen_lens_not_alone = -4,   // the doorbell announced other than one segment
    denizen_lens_no_room = -5,     // for the driver's words behind the program's
    denizen_lens_unreadable = -6,  // ring or segment
    denizen_lens_not_writable = -7 // the ring
};

// At the next doorbell of this thread, the first `count` words of `words` and after them the
// driver's go out in place of the driver's alone. The driver's are copied behind `count`, where
// `capacity` words have room in all. The GPU must have the buffer at the same address (pinned
// memory at an address of the program's choice), and it must stay as it is until the stream is
// idle. Returns denizen_lens_pending or why not; nothing is replaced then.
__attribute__((visibility("default"))) int32_t denizen_lens_substitute(uint32_t* words,
                                                                       uint32_t count,
                                                                       uint32_t capacity);

// What became of it. `total`: how many words went out, the driver's among them, if it is done.
__attribute__((visibility("default"))) int32_t denizen_lens_substituted(uint32_t* total);

} // extern "C"

namespace denizen::lens {

struct Channel;

// In the fault handler, under the channel's lock and before the doorbell is logged. Nothing without
// a substitution of this thread; `c` is null if the channel is not known.
void substitute(const Channel* c);

} // namespace denizen::lens
