// SPDX-License-Identifier: Apache-2.0
// Mode S frames as I/Q at 2 Msps: what a receiver would deliver, with all that makes it hard.
// Called by tests, benchmarks and `denizen run adsb --generate`.
#pragma once

#include <denizen/radio/detail/frame.hpp>

#include <vector>

namespace denizen::radio {

// One transmission.
struct Burst {
    Frame frame;
    double start = 0;     // samples, with a fraction, from the begin of the signal
    double amplitude = 0; // of its pulses, in steps of the converter
    double carrier = 0;   // Hz beside the receiver's
    double clock = 0;     // parts per million by which its pulses are too long
    double phase = 0;     // radians
};

// Bursts, which may overlap, in complex Gaussian noise of root mean square magnitude `noise` steps,
// rounded to unsigned bytes around 127.5: I and Q in turn, `samples` of each. What of a burst lies
// outside is cut off. Pulses are rectangles of half a microsecond; a sample is the mean over its
// half microsecond, as of a receiver whose filter just fits its rate.
std::vector<uint8_t> modulate(const std::vector<Burst>& bursts, size_t samples, double noise,
                              uint64_t seed);

} // namespace denizen::radio
