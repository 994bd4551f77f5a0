// SPDX-License-Identifier: Apache-2.0
// FIR and FM demodulation of quanta of I/Q, as a receiver does it: what bench_flow measures on the
// resident runtime and, where there is a GPU, by launches.
#pragma once

#include "common.hpp"

#include <complex>
#include <cstdint>
#include <vector>

namespace denizen::bench {

inline constexpr uint32_t radio_down = 8;
inline constexpr uint32_t radio_taps = 64;
inline constexpr size_t radio_quantum = 2048; // samples: 16 KiB

// A stream that repeats itself, and what comes out of it: demodulated values from the second period
// on (the first has the filter's beginning in it).
struct RadioSignal {
    std::vector<std::complex<float>> iq; // one period: a whole number of quanta
    std::vector<float> taps;
    std::vector<float> expected; // one period
};
RadioSignal radio_signal();

// Whether `got`, the outputs from number `first` on, are those of the signal.
bool radio_right(const RadioSignal& signal, uint64_t first, const float* got, size_t count);

struct RadioFigures {
    std::vector<double> latency_us; // of each quantum, one at a time under way
    std::vector<double> msps;       // of input, `in_flight` quanta at a time
    uint64_t quanta = 0;
    bool right = false;
};

// By a copy, a launch per block and a copy back for each quantum, on four streams. Nothing where
// the program was not compiled by nvcc.
RadioFigures radio_by_launches(const RadioSignal& signal, uint32_t in_flight, uint64_t quanta,
                               uint32_t rounds);

} // namespace denizen::bench
